"""The command line: ``gpukfl fit``, ``predict``, ``leaderboard``, ``describe`` and ``info``."""

from gpukfl.cli._main import main

__all__ = ["main"]
