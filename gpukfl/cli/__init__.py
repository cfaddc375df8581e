"""The command line: ``gpukfl fit``, ``predict``, ``leaderboard``, ``refit``, ``drift`` and more."""

from gpukfl.cli._main import main

__all__ = ["main"]
