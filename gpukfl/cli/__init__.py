"""The command line: ``gpukfl fit``, ``gpukfl predict`` and ``gpukfl info``."""

from gpukfl.cli._main import main

__all__ = ["main"]
