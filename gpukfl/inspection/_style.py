"""How all pictures look."""

from __future__ import annotations

from typing import Any

from gpukfl.inspection._markup import clean

BLUE, ORANGE, GREEN, PURPLE, RED, GREY = (
    "#31688e",
    "#b5651d",
    "#3c8d5a",
    "#7a4f9e",
    "#a33b3b",
    "#777777",
)
COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
PALE = "#bbbbbb"  # of what does not count
_LONGEST = 24  # letters of a name


def plain(ax: Any, /) -> None:
    """Take away the frame and draw a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="both", lw=0.4, alpha=0.5)


def legend(ax: Any, where: Any = None, /, **options: Any) -> None:
    """Name the curves of an axes in it, or elsewhere, if there are any with a name."""
    handles, names = ax.get_legend_handles_labels()
    if handles:
        options = {"fontsize": 7, "frameon": False, **options}
        (where or ax).legend(handles, [short(name, 2 * _LONGEST) for name in names], **options)


def whole_steps(axis: Any, /) -> None:
    """Put ticks at whole numbers only."""
    axis.get_major_locator().set_params(integer=True)


def short(name: str, longest: int = _LONGEST, /) -> str:
    """Leave out the middle of a long name; no letter has a meaning to matplotlib."""
    return short_text(name, longest).replace("$", r"\$")


def short_text(name: str, longest: int = _LONGEST, /) -> str:
    """Leave out the middle of a long name, and line breaks, for tables of plain text."""
    name, half = clean(name), (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"


def viridis(rank: int, count: int, /) -> Any:
    """Colour of one of so many, of which the first is the darkest."""
    from matplotlib import colormaps

    return colormaps["viridis"](0.12 + 0.75 * rank / max(count - 1, 1))


def level_color(level: int, /) -> str:
    """Colour of the variables that a round found, grey for round 0."""
    return COLORS[min(level, len(COLORS) - 1) - 1] if level else PALE
