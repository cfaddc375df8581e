"""The stand-in's own tests run where it is in CuPy's place; its packages hold no tests."""

import sys

collect_ignore = ["packages", "regenerate.py"]
if "placing" not in sys.modules:
    collect_ignore_glob = ["test_*.py"]
