"""Pictures of the gallery with alt texts that say what is seen."""

from __future__ import annotations

import ast
import re
from typing import Any

from sphinx_gallery.scrapers import matplotlib_scraper

_GIVEN = re.compile(r"^# sphinx_gallery_alt = (.+)$", re.MULTILINE)


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save a block's pictures, each with the text of its ``# sphinx_gallery_alt = "..."``.

    Raises
    ------
    ValueError
        If there are not as many texts as pictures.
    """
    texts = [ast.literal_eval(given) for given in _GIVEN.findall(block.content)]
    pictures = matplotlib_scraper(block, block_vars, gallery_conf)
    if pictures.count(":alt:") != len(texts):
        msg = (
            f"expected an alt text for every picture of the block at line {block.lineno} of "
            f"{block_vars['src_file']}, got {len(texts)} for {pictures.count(':alt:')}"
        )
        raise ValueError(msg)
    return re.sub(":alt: .*", lambda _: f":alt: {texts.pop(0)}", pictures)
