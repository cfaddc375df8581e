"""Numbers as people write them: decimal commas, groups of digits, currencies, missing values."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gpukfl.core._frames import GAPS, WHOLE, reads_as_date

# What stands for a missing value in any column: what pandas takes for one, but for the word None
MISSING = frozenset(
    {
        *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "?"),
    }
)
_TRUTH = {"true": True, "false": False}
_PADDED = re.compile(r"[-+]?0\d+", re.ASCII)
_UNIT = "[$€£¥₹%]"
_SPACE = "[ '\u2019\u00a0\u202f]"  # what else may stand between groups of three digits
_WHOLE = rf"\d+|[1-9]\d{{0,2}}(?:{_SPACE}\d{{3}})+"
_POINTS = rf"(?:{_WHOLE}|[1-9]\d{{0,2}}(?:,\d{{2,3}})*,\d{{3}})(?:\.\d*)?|\.\d+"
_COMMAS = rf"(?:{_WHOLE}|[1-9]\d{{0,2}}(?:\.\d{{3}})+)(?:,\d*)?|,\d+"
_NUMBER = {
    mark: re.compile(
        rf"(?P<sign>[-+\u2212]?)\s*(?P<before>{_UNIT}?)\s*(?P<minus>[-\u2212]?)"
        rf"(?P<digits>{digits})(?P<power>(?:[eE][-+]?\d+)?)\s*(?P<after>{_UNIT}?)"
    )
    for mark, digits in ((".", _POINTS), (",", _COMMAS))
}
_INTEGER, _LONGEST = re.compile(r"[-+]?\d+", re.ASCII), 2**63
_GROUPS = {mark: re.compile(rf"{_SPACE}|[{other}]") for mark, other in ((".", ","), (",", "."))}


@dataclass(frozen=True, eq=False)
class Words:
    """A column of text: its different values, and which of them each row has.

    Attributes
    ----------
    codes : array (n,)
        Positions in `words`, -1 for a gap.
    words : list of str
        Values, without blanks at their ends.
    gaps : frozenset of str
        Those of them that stand for a gap.
    """

    codes: Any
    words: list[str]
    gaps: frozenset[str] = frozenset()

    @classmethod
    def of(cls, column: Any, missing: Collection[str] = MISSING, /) -> Words | None:
        """Take a pandas column apart; None where it holds anything but text.

        Words in `missing` are gaps. Other words, such as "-" and "None", are gaps where all else
        is numbers, dates, or true and false.
        """
        import pandas as pd

        codes, different = pd.factorize(column)
        words = different.tolist()
        if not all(isinstance(word, str) for word in words):
            return None
        found = cls(codes, [word.strip() for word in words])
        gaps = frozenset(word for word in found.words if word in missing)
        likely = {word for word in found.words if word.casefold() in GAPS or word in MISSING}
        clear = replace(found, gaps=gaps | likely)
        dates = clear.values and all(map(reads_as_date, clear.values))
        return clear if clear.decimals or clear.are_truth or dates else replace(found, gaps=gaps)

    @cached_property
    def values(self) -> list[str]:
        """Words that do not stand for missing values."""
        return [word for word in self.words if word and word not in self.gaps]

    @cached_property
    def decimals(self) -> str:
        """Decimal marks with which all values are numbers, of one unit: "", ".", "," or ".,"."""
        values = self.values
        return "".join(mark for mark in ".," if values and _are_numbers(values, mark))

    @cached_property
    def are_truth(self) -> bool:
        """Whether all values are true or false."""
        return bool(self.values) and all(value.casefold() in _TRUTH for value in self.values)

    @cached_property
    def padded(self) -> str:
        """A value of digits that begin with a zero, as codes do; "" where there is none."""
        return next(filter(_PADDED.fullmatch, self.values), "")

    def as_truth(self, column: Any) -> Any:
        """Make true and false of the column."""
        values = [_TRUTH.get(word.casefold()) for word in self.words]
        return self._spread(column, values, object)

    def as_text(self, column: Any, /) -> Any:
        """Make the final column: its missing values, and no blanks at the ends."""
        values = [word if word and word not in self.gaps else None for word in self.words]
        return self._spread(column, values, column.dtype)

    def as_numbers(self, column: Any, mark: str, /) -> Any:
        """Make numbers of the column, by a decimal mark with which all are."""
        import pandas as pd

        plain = [
            _normalize_number(word, mark) if word and word not in self.gaps else None
            for word in self.words
        ]
        whole = [None if text is None else _parse_integer(text) for text in plain]
        if all(number is not None for number, text in zip(whole, plain, strict=True) if text):
            sizes = [abs(number) for number in whole if number is not None]
            if max(sizes, default=0) >= WHOLE:  # which would be rounded beside missing values
                dtype = "Int64" if max(sizes) < _LONGEST else object
                return self._spread(column, whole, dtype)
        return self._spread(column, pd.to_numeric(pd.Series(plain, dtype=object)), None)

    def _spread(self, column: Any, values: Any, dtype: Any) -> Any:
        """Make a column of what stands for each of the words."""
        import pandas as pd

        return pd.Series(values, dtype=dtype).reindex(self.codes).set_axis(column.index)


def _parse_integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _are_numbers(values: list[str], mark: str) -> bool:
    units = set()
    for value in values:
        match = _NUMBER[mark].fullmatch(value)
        if match is None or (match["sign"] and match["minus"]):
            return False
        units.add(match["before"] or match["after"])
    return len(units - {""}) < 2


def _normalize_number(value: str, mark: str) -> str:
    """Write a number as Python does."""
    match = _NUMBER[mark].fullmatch(value)
    assert match is not None
    digits = _GROUPS[mark].sub("", match["digits"]).replace(mark, ".")
    minus = "-" if {match["sign"], match["minus"]} & {"-", "\u2212"} else ""
    return minus + digits + match["power"]
