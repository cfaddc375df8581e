"""Annotations of dataclass fields, by which model files are written and checked.

`Annotated[Array, Doubles("q", "t")]` is a finite float64 array. The same symbol stands for the same
size in all arrays of a dataclass.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

NOT_STORED: Mapping[str, bool] = {"stored": False}  # of fields that files leave out


@dataclass(frozen=True)
class Numbers:
    """An annotation of an array: its dtype and shape.

    Attributes
    ----------
    kinds : str
        Letters of NumPy's kinds, of eight bytes each. "precision" is float32 or float64, the same
        for all such arrays of a dataclass; "any" is float32 or float64.
    shape : tuple of str and int
        Sizes, and symbols for sizes.
    or_shape : tuple of str and int, optional
        Another valid shape.
    any_value : bool
        Whether numbers may be infinite or NaN.
    """

    kinds: str
    shape: tuple[str | int, ...]
    or_shape: tuple[str | int, ...] | None = None
    any_value: bool = False


def Floats(*shape: str | int, or_shape: Any = None, any_value: bool = False) -> Numbers:  # noqa: N802
    """Return the annotation of an array in the precision of a model."""
    return Numbers("precision", shape, or_shape, any_value)


def Rounded(*shape: str | int) -> Numbers:  # noqa: N802
    """Return the annotation of an array that files may hold in float32."""
    return Numbers("any", shape)


def Doubles(*shape: str | int, any_value: bool = False) -> Numbers:  # noqa: N802
    """Return the annotation of a float64 array."""
    return Numbers("f", shape, None, any_value)


def Integers(*shape: str | int) -> Numbers:  # noqa: N802
    """Return the annotation of an int64 array."""
    return Numbers("i", shape)


def Booleans(*shape: str | int) -> Numbers:  # noqa: N802
    """Return the annotation of a boolean array."""
    return Numbers("b", shape)


@dataclass(frozen=True)
class Labels:
    """An annotation of class labels: numbers or text, also as objects."""

    symbol: str


@dataclass(frozen=True)
class Texts:
    """An annotation of names: an array of text objects."""

    symbol: str


@dataclass(frozen=True)
class Count:
    """An annotation of an integer of at least 0, or of the size of a symbol."""

    symbol: str | None = None


@dataclass(frozen=True)
class Length:
    """An annotation of a list: its length, or the symbol for its length."""

    size: str | int


@dataclass(frozen=True)
class Choice:
    """An annotation of text: the words that it may be."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class AnyValue:
    """An annotation of numbers that may be infinite or NaN."""


@dataclass(frozen=True)
class Recorded:
    """An annotation of a private attribute that files store."""


@dataclass(frozen=True)
class Sometimes:
    """An annotation of an attribute that only some fits set."""


@functools.cache
def field_hints(kind: type, /) -> dict[str, Any]:
    """Return the annotations of the stored fields of a dataclass."""
    hints = typing.get_type_hints(kind, include_extras=True)
    stored = [f.name for f in dataclasses.fields(kind) if f.metadata.get("stored", True)]
    return {name: hints[name] for name in stored}


def split_hint(hint: Any, /) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without its annotations, and the annotations."""
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        return base, tuple(marks)
    return hint, ()


def array_numbers(hint: Any, /) -> Numbers | None:
    """Return the annotation of an array, or None for other types."""
    return find_mark(Numbers, split_hint(hint)[1])


def find_mark(kind: type, marks: Iterable[Any], /) -> Any:
    """Return the first annotation of a kind, or None."""
    return next((mark for mark in marks if isinstance(mark, kind)), None)
