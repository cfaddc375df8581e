"""Declarations of fitted attributes: their kind, dtype and shape, and checks by them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl.predictor import SeenRows

# -------------------------------------------------------------------------------- declared

# Declarations of values: what a fitted attribute is, its dtype, and its shape in symbols.


Sizes = dict[str, Any]  # symbols and what they stand for; "precision" is a dtype
Shape = tuple[str | int, ...]
Rule = Callable[[Any], bool]  # of a fitted estimator, whose arrays are read

FLOAT, DOUBLE = "precision", "f"  # of the model, or float64


class MisfitError(ValueError):
    """A value that is not as declared; the message follows "got ..., "."""


@dataclass(frozen=True)
class Declared(ABC):
    """A declaration of a value."""

    optional: bool = field(default=False, kw_only=True)  # None is as good

    def check(self, name: str, value: Any, sizes: Sizes, /) -> None:
        """Raise MisfitError unless `value` is as declared; record the values of new symbols."""
        if value is None and self.optional:
            return
        if not self._fits(value, sizes):
            msg = f"whose {name} is {_describe_value(value)}: expected {self._words(sizes)}"
            raise MisfitError(msg)
        for inner, declared, item in self._inside(value):
            declared.check(f"{name}[{inner!r}]", item, sizes)

    @abstractmethod
    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        """Whether the value itself is as declared."""

    @abstractmethod
    def _words(self, sizes: Sizes, /) -> str:
        """Return the declaration in words."""

    def _inside(self, value: Any, /) -> Iterator[tuple[Any, Declared, Any]]:  # noqa: ARG002
        """Yield the parts of a value: name, declaration and value."""
        yield from ()


@dataclass(frozen=True)
class Numbers(Declared):
    """An array; `kinds` are NumPy's, or "precision": the one of the model."""

    kinds: str
    shape: Shape
    or_shape: Shape | None = field(default=None, kw_only=True)  # that is as good

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        dtype = getattr(value, "dtype", None)
        if dtype is None or not hasattr(value, "shape"):
            return False
        if self.kinds == "precision":
            allowed = dtype.name in ("float32", "float64")
            same = allowed and sizes.setdefault("precision", dtype.name) == dtype.name
        else:
            same = dtype.kind in self.kinds and (dtype.kind in "bUSO" or dtype.itemsize == 8)
        shape = tuple(value.shape)
        if self.or_shape is not None and len(shape) == len(self.or_shape):
            return same and match_shape(self.or_shape, shape, sizes)
        return same and match_shape(self.shape, shape, sizes)

    def _words(self, sizes: Sizes, /) -> str:
        kinds = sizes.get("precision", "floats") if self.kinds == "precision" else self.kinds
        shapes = [one for one in (self.shape, self.or_shape) if one is not None]
        text = " or ".join(_shape_text(shape, sizes) for shape in shapes)
        return f"an array ({kinds}) of shape {text}"


@dataclass(frozen=True)
class Labels(Declared):
    """Class labels (n_classes,): numbers, text, or objects that are one of these."""

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        dtype = getattr(value, "dtype", None)
        if dtype is None or dtype.kind not in "biufUSO":
            return False
        if dtype.kind == "O" and not all(isinstance(v, (str, bool, int, float)) for v in value):
            return False
        return match_shape(("n_classes",), tuple(value.shape), sizes)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return "labels of shape (n_classes,)"


@dataclass(frozen=True)
class FeatureNames(Declared):
    """Names of the features: an array of objects, or a list."""

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        if not isinstance(value, list) and getattr(value, "dtype", np.dtype(bool)).kind != "O":
            return False
        return match_shape(("n_features",), (len(value),), sizes) and all(
            isinstance(name, str) for name in value
        )

    def _words(self, sizes: Sizes, /) -> str:
        return f"{sizes.get('n_features', 'as many')} names"


@dataclass(frozen=True)
class Number(Declared):
    """A number; not NaN unless `any_value`."""

    any_value: bool = False

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return abs(value) < 2**53 if isinstance(value, int) else self._is_allowed(value)

    def _is_allowed(self, value: float) -> bool:
        return self.any_value or math.isfinite(value)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return "a number" if self.any_value else "a finite number"


@dataclass(frozen=True)
class Int(Declared):
    """An integer of at least 0, which may be what a symbol stands for."""

    symbol: str | None = None

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
            return False
        return self.symbol is None or match_shape((self.symbol,), (value,), sizes)

    def _words(self, sizes: Sizes, /) -> str:
        known = sizes.get(self.symbol) if self.symbol else None
        return "an integer" if known is None else f"{known}"


@dataclass(frozen=True)
class Bool(Declared):
    """True or False."""

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        return isinstance(value, bool)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return "True or False"


@dataclass(frozen=True)
class Text(Declared):
    """Text, or one of some words."""

    choices: tuple[str, ...] = ()

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        return isinstance(value, str) and (not self.choices or value in self.choices)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return f"one of {', '.join(self.choices)}" if self.choices else "text"


@dataclass(frozen=True)
class NoneValue(Declared):
    """None."""

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        return value is None

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return "None"


@dataclass(frozen=True)
class Union(Declared):
    """One of two kinds of values without parts."""

    first: Declared
    second: Declared

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        return self.first._fits(value, sizes) or self.second._fits(value, sizes)

    def _words(self, sizes: Sizes, /) -> str:
        return f"{self.first._words(sizes)} or {self.second._words(sizes)}"


@dataclass(frozen=True)
class Record(Declared):
    """A dataclass whose fields are checked by its own declaration."""

    kind: type
    inside: Mapping[str, Declared] = field(default_factory=dict)

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        return isinstance(value, self.kind)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return f"a {self.kind.__name__}"

    def _inside(self, value: Any, /) -> Iterator[tuple[Any, Declared, Any]]:
        for name, declared in self.inside.items():
            yield name, declared, getattr(value, name)


@dataclass(frozen=True)
class Fields(Declared):
    """A frozen value whose class declares its `fields`."""

    kind: type

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        return isinstance(value, self.kind)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return f"a {self.kind.__name__}"

    def _inside(self, value: Any, /) -> Iterator[tuple[Any, Declared, Any]]:
        for name, declared in value.fields.items():
            yield name, declared, getattr(value, name)


@dataclass(frozen=True)
class Items(Declared):
    """A list of values of one kind; `length` is a number or a symbol."""

    inside: Declared
    length: str | int | None = None

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:
        if not isinstance(value, list):
            return False
        return self.length is None or match_shape((self.length,), (len(value),), sizes)

    def _words(self, sizes: Sizes, /) -> str:
        return f"a list{'' if self.length is None else f' of {_size_text(self.length, sizes)}'}"

    def _inside(self, value: Any, /) -> Iterator[tuple[Any, Declared, Any]]:
        for k, item in enumerate(value):
            yield k, self.inside, item


@dataclass(frozen=True)
class Entries(Declared):
    """A dict with exactly these keys."""

    inside: Mapping[str, Declared]

    def _fits(self, value: Any, sizes: Sizes, /) -> bool:  # noqa: ARG002
        return isinstance(value, dict) and set(value) == set(self.inside)

    def _words(self, sizes: Sizes, /) -> str:  # noqa: ARG002
        return f"a dict of {', '.join(self.inside)}"

    def _inside(self, value: Any, /) -> Iterator[tuple[Any, Declared, Any]]:
        for name, declared in self.inside.items():
            yield name, declared, value[name]


SCORE = Number(any_value=True)
STEPS = Items(SCORE, "n_steps")  # a number for each step of a fit


def all_or_none(*names: str) -> Rule:
    """Return the rule that some attributes are all None or all set."""
    return lambda e: len({getattr(e, name) is None for name in names}) == 1


def match_shape(shape: Shape, actual: tuple[int, ...], sizes: Sizes, /) -> bool:
    """Whether a shape is as declared; a new symbol takes the size that it meets."""
    if len(shape) != len(actual):
        return False
    for symbol, extent in zip(shape, actual, strict=True):
        expected = symbol if isinstance(symbol, int) else sizes.setdefault(symbol, extent)
        if expected != extent:
            return False
    return True


def _size_text(symbol: str | int, sizes: Sizes) -> str:
    return str(sizes.get(symbol, symbol)) if isinstance(symbol, str) else str(symbol)


def _shape_text(shape: Shape, sizes: Sizes) -> str:
    return f"({', '.join(_size_text(symbol, sizes) for symbol in shape)})"


def _describe_value(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and not isinstance(value, np.generic):
        return f"an array ({dtype}) of shape {shape}"
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


# ------------------------------------------------------------------------------ attributes

# What every fitted attribute is, as the classes that set them declare it.
#
# Model files are checked against it, before arrays are read. A fit that sets another attribute
# cannot be saved, which a test notices. A class names in `_attributes` what its fit sets each
# time, in `_tried` what names a setting that was tried, and in `_rules` what must hold of the
# values.


# Of some fits only
SOMETIMES: dict[str, Declared] = {
    "feature_names_in_": FeatureNames(),
    "feature_importances_error_": Numbers(DOUBLE, ("n_features",)),
    "warnings_": Items(Text()),
    "seen_rows_": Record(
        SeenRows,
        {
            "rows": Numbers(DOUBLE, ("n_seen", "n_columns")),
            "values": Numbers(DOUBLE, ("n_seen", "n_outputs")),
            "pulls": Numbers(DOUBLE, ("n_seen", "n_outputs")),
            "spreads": Numbers(DOUBLE, ("n_seen", "n_outputs")),
            "repeatability": Numbers(DOUBLE, ("n_outputs",)),
            "n_copies": Int(),
            "score": Number(any_value=True),
        },
    ),
    "_sklearn_output_config": Entries({"transform": Text(("default", "pandas", "polars"))}),
}
# Of every setting that was tried, beside what names it
_TRIED: dict[str, Declared] = {
    "score": Number(any_value=True, optional=True),
    "standard_error": SCORE,
    "seconds": Number(),
    "chosen": Bool(),
}


def declared_attributes(kind: type, /) -> dict[str, Declared]:
    """Return the declared fitted attributes of an estimator class."""
    return _collect_from_bases(kind, "_attributes") | {"tuning_": declared_trials(kind)}


def declared_trials(kind: type, /) -> Declared:
    """Return the declaration of the list of trials."""
    return Items(Entries(_collect_from_bases(kind, "_tried") | _TRIED))


def _collect_from_bases(kind: type, name: str) -> dict[str, Any]:
    """Merge the dicts that a class and its bases have under a name."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= vars(base).get(name, {})
    return found


def check_attributes(kind: type, attributes: dict[str, Any], /) -> Sizes:
    """Raise MisfitError unless the attributes are those of a fitted estimator.

    Looks at dtypes and shapes of arrays, not at their values: what only knows these will do.

    Returns
    -------
    dict
        What the symbols of the shapes stand for.
    """
    known = declared_attributes(kind)
    missing = [name for name in known if name not in attributes]
    if missing:
        msg = f"which has no {', '.join(missing)} of a fitted {kind.__name__}"
        raise MisfitError(msg)
    unknown = [name for name in attributes if name not in known | SOMETIMES]
    if unknown:
        msg = f"which has {', '.join(map(str, unknown))}, unknown to {kind.__name__}"
        raise MisfitError(msg)
    sizes: Sizes = {}
    for name, what in (known | SOMETIMES).items():
        if name in attributes:
            what.check(name, attributes[name], sizes)
    return sizes


def check_values(estimator: Any, /) -> None:
    """Raise MisfitError unless the attributes are consistent."""
    for what, holds in _collect_from_bases(type(estimator), "_rules").items():
        if not holds(estimator):
            msg = f"whose {type(estimator).__name__} does not have {what}"
            raise MisfitError(msg)
