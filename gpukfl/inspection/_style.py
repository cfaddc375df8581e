"""How all pictures look."""

from __future__ import annotations

from typing import Any


def plain(ax: Any, /) -> None:
    """Take away the frame and draw a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="both", lw=0.4, alpha=0.5)
