"""The command line as ``python -m gpukfl``."""

import sys

from gpukfl.cli import main

if __name__ == "__main__":
    sys.exit(main())
