"""The command line as ``python -m gpukfl``."""

import sys

from gpukfl.cli import main

sys.exit(main())
