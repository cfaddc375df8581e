"""Pictures inside a page: vectors whose text is text, and whose colours follow the page's."""

from __future__ import annotations

import colorsys
import io
import re
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from gpukfl.inspection._description import Description
from gpukfl.inspection._figures import draw_apart
from gpukfl.inspection._markup import clean, escaped, named
from gpukfl.inspection._panels import Panel

_SIZE = (4.8, 3.5)  # inches, of which a phone is about as wide
_SMALLEST = 8.5  # points of letters
_TICKS = 6  # of numbers, that have room below a picture
_ON_IMAGE = "on-image"  # name of texts whose colour goes with an image's
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # of a panel of one's own
_LOCK = threading.Lock()  # settings of matplotlib are those of all threads
# The random salt of names is fixed, so that a page is the same each time
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "gpukfl", "font.size": 9.5}
_LIGHTEST, _DARKEST = 0.93, 0.10  # of colours on dark pages


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes
    ----------
    markup : str
        HTML with the vectors inside.
    colors : frozenset of str
        That it has, as "#rrggbb".
    """

    markup: str
    colors: frozenset[str]


def pictures(d: Description, panels: Iterable[Panel], /, *, prefix: str) -> list[Picture]:
    """Draw panels that have something to draw, each small picture by itself.

    `prefix` begins the names inside, which differ on a page.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    found: list[Picture] = []
    for panel in panels:
        if not panel.empty:
            for of, part in panel.apart():
                found.append(_picture(d, part, of, f"{prefix}{len(found)}-"))
    return found


def _picture(d: Description, panel: Panel, of: str, prefix: str) -> Picture:
    title, text = _drawn(d, panel)
    root = ElementTree.fromstring(_CONTROL.sub(b" ", text))
    colors = _for_page(root, prefix)
    root.set("role", "img")
    root.set("aria-label", clean(f"{of}: {panel.words}" if of else panel.words))
    vectors = ElementTree.tostring(root, encoding="unicode")
    said = f"{escaped(title)}{f': {named(of)}' if of else ''}"
    caption = f"<figcaption>{said}</figcaption>" if said else ""
    return Picture(f"<figure>{caption}{vectors}</figure>\n", frozenset(colors))


def _drawn(d: Description, panel: Panel) -> tuple[str, bytes]:
    """Draw a panel; its title is for the page, where it can have several lines."""
    from matplotlib import style

    buffer = io.BytesIO()
    # Not in the user's style: colours of dark ones would be turned round twice
    with _LOCK, style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # The font that measures lacks letters that the reader's fonts have
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure = draw_apart(d, panel, size=_SIZE)
        title = _title_of(figure)
        _made_legible(figure)
        options = {"metadata": {"Date": None}, "transparent": True}
        figure.savefig(buffer, format="svg", **options)
    return title, buffer.getvalue()


def _title_of(figure: Any) -> str:
    """Take the title of a figure's only picture out of it."""
    titled = [ax for ax in figure.axes if ax.get_title()]
    if len(titled) != 1:
        return ""
    title = str(titled[0].get_title()).replace(r"\$", "$")
    titled[0].set_title("")
    return title


def _made_legible(figure: Any) -> None:
    """Enlarge small letters, thin out ticks, and mark what is written on images."""
    from matplotlib.text import Text
    from matplotlib.ticker import AutoLocator

    for text in figure.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), _SMALLEST))
    for ax in figure.axes:
        if isinstance(ax.xaxis.get_major_locator(), AutoLocator):
            ax.xaxis.get_major_locator().set_params(nbins=_TICKS)
        for text in ax.texts if ax.images else []:
            text.set_gid(_ON_IMAGE)


def _for_page(root: ElementTree.Element, prefix: str) -> set[str]:
    """Make an SVG file a part of a page: no names of its own, colours of the page."""
    colors: set[str] = set()
    fixed = [text for group in root.iter() if group.get("id") == _ON_IMAGE for text in group.iter()]
    used = set(re.findall(r"#([\w.-]+)", " ".join(_references(root))))
    for parent in root.iter():
        parent.tag = _local(parent.tag)
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
        for key, value in list(parent.attrib.items()):
            del parent.attrib[key]
            if _local(key) == "id" and value not in used:
                continue
            parent.set(_local(key), _changed(_local(key), value, prefix, colors))
    for text in fixed:
        _with_own_color(text)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    return colors


def _with_own_color(text: ElementTree.Element) -> None:
    """Leave a text on an image, which is the same on dark pages, in its own colour."""
    if text.tag == "text":
        style = re.sub(r"var\(--c(\w+)\)", r"#\1", text.get("style", ""))
        text.set("style", style if "fill:" in style else f"{style}; fill: #000000")


def _references(root: ElementTree.Element) -> list[str]:
    return [v for one in root.iter() for v in one.attrib.values() if v.startswith(("#", "url(#"))]


def _local(name: str) -> str:
    """Name without its namespace, which a page does not need."""
    return name.rpartition("}")[2]


def _changed(key: str, value: str, prefix: str, colors: set[str]) -> str:
    if key == "id":
        return prefix + value
    if value.startswith(("#", "url(#")) and key not in ("fill", "stroke"):
        return value.replace("#", f"#{prefix}", 1)
    if key in ("d", "x", "y", "points"):
        return _LONG.sub(lambda found: f"{float(found[0]):.2f}", value)
    if key in ("style", "fill", "stroke"):
        value = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", value)
        colors.update(_COLOR.findall(value))
        return _COLOR.sub(lambda found: f"var(--c{found[0][1:]})", value)
    return value


def sheet(colors: Iterable[str], /, *, dark: bool) -> str:
    """Say what the colours of pictures are, on light pages or on dark ones."""
    return ";".join(f"--c{one[1:]}:{on_dark(one) if dark else one}" for one in sorted(colors))


def on_dark(color: str, /) -> str:
    """Give the colour "#rrggbb" for a dark page: its lightness turned round."""
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = _LIGHTEST - (_LIGHTEST - _DARKEST) * lightness
    shown = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(255 * one):02x}" for one in shown)
