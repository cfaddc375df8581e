"""The command line: ``gpukfl fit``, ``predict``, ``refit``, ``drift``, ``describe``, ``info``."""

from gpukfl.cli._main import main

__all__ = ["main"]
