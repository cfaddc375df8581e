"""Measure how easily README and the documentation are read: words a sentence, and banned words.

Prints a line for each page, and ends with status 1 where a page is over its limits. Code, tables,
formulas, figures, references and front matter are left out. A list's entries and headings are
sentences of their own.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/guide/*.md",
    "docs/methods/bkernn.md",
    "docs/methods/hkrr.md",
    "docs/methods/inference.md",
    "docs/methods/kernel_ridge.md",
    "docs/methods/portfolio.md",
    "docs/methods/regfeal.md",
    "docs/methods/rkhs_weighting.md",
    "docs/methods/selection.md",
    "docs/benchmarks/index.md",
    "docs/benchmarks/protocol.md",
)
LONGEST = 25  # words of a sentence
README_WORDS = 700
# Words of a translation, or of ours alone, which readers stumble over
BANNED = (
    "is said",
    "is told",
    "says so",
    "came to",
    "stands for",
    "stand for",
    "shall",
    "of which",
    "gaps",
    "held in",
)
OPENINGS = ("of", "nor", "so", "but for")

_FENCE = re.compile(r"^(```|~~~|:::).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MATHS = re.compile(r"\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
_ROLE = re.compile(r"\{[\w:-]+\}(?=`)")
_CODE = re.compile(r"`[^`]*`")
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)|\n(?=#)")
_LEFT_OUT = re.compile(r"^\s*(\||#|\(\w[\w-]*\)=|>>>|\[\d+\]:)")
_END = re.compile(r"(?<=[.!?])\*{0,2}\s+(?=[A-Z0-9\"'(`])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|vs|no|fig|eq|cf)\.", re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """A page's sentences, and which of them are hard to read.

    Attributes
    ----------
    path : str
        Beside the repository's root.
    sentences : tuple of str
        In their order.
    """

    path: str
    sentences: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, /) -> Page:
        """Read a Markdown file."""
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        return cls.of(name, path.read_text(encoding="utf-8"))

    @classmethod
    def of(cls, name: str, text: str, /) -> Page:
        """Divide a text into its sentences."""
        return cls(name, tuple(sentences(text)))

    @property
    def lengths(self) -> list[int]:
        """Words of each sentence."""
        return [len(one.split()) for one in self.sentences]

    @property
    def long(self) -> list[str]:
        """Sentences of more words than are read at once."""
        return [one for one in self.sentences if len(one.split()) > LONGEST]

    @property
    def banned(self) -> list[str]:
        """Sentences with a banned word, or a banned opening."""
        return [one for one in self.sentences if _is_banned(one)]


def _is_banned(sentence: str) -> bool:
    text = sentence.lower()
    opens = any(text.startswith(f"{word} ") for word in OPENINGS)
    return opens or any(re.search(rf"\b{re.escape(word)}\b", text) for word in BANNED)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown text, each in one line."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    for pattern in (_COMMENT, _FENCE):
        text = pattern.sub("\n\n", text)
    text = _LINK.sub(r"\1", _MATHS.sub("X", text))
    text = _CODE.sub("X", _ROLE.sub("", text))
    for block in _BLOCK.split(text):
        if _LEFT_OUT.match(block):
            continue
        line = " ".join(block.split())
        line = _ABBREVIATION.sub(lambda found: found[1], re.sub(r"^([-*+]|\d+\.)\s+", "", line))
        yield from (one for one in _END.split(line) if re.search(r"[a-z]{2}", one))


def main() -> int:
    """Print a line for each page; return 1 where one is over its limits."""
    line = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    line.add_argument("pages", nargs="*", type=Path, help="Markdown files (default: README, docs)")
    line.add_argument("--show", action="store_true", help="the sentences that are hard to read")
    line.add_argument("--most", type=float, default=0.0, help="share of long sentences (default 0)")
    args = line.parse_args()
    given = [path.resolve() for path in args.pages]
    paths = given or [path for one in PAGES for path in sorted(ROOT.glob(one))]
    failed = False
    for page in map(Page.read, paths):
        count = max(len(page.lengths), 1)
        share, middle = len(page.long) / count, statistics.median(page.lengths or [0])
        words = sum(page.lengths)
        over = page.path == "README.md" and words > README_WORDS
        bad = share > args.most or bool(page.banned) or over
        failed |= bad
        print(
            f"{page.path:32s} {words:5d} words, {count:3d} sentences, median {middle:4.1f}, "
            f"{len(page.long):3d} long ({share:4.0%}), {len(page.banned):3d} with banned words"
        )
        if args.show:
            for one in page.long:
                print(f"    {len(one.split())}: {one}")
            for one in page.banned:
                print(f"    banned: {one}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
