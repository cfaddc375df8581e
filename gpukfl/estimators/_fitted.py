"""Fitted attributes: parts of `predictor_`, and the record beside it.

Classes annotate the attributes that they set. The record of a fit has those that end with an
underscore, and private ones with metadata. Model files hold it, checked by the annotations.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Annotated, Any, ClassVar, TypedDict, get_origin

from gpukfl.core._annotations import AnyValue


class Held:
    """A fitted attribute that is a part of `predictor_`; setting it replaces the predictor.

    See `held` for its attributes; `path` is a list of field names.
    """

    def __init__(self, path: str, of: str, *, or_none: bool) -> None:
        self.path, self.of, self.or_none = path.split("."), of, or_none

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        value = getattr(estimator, self.of, None)
        if value is not None:
            try:
                return functools.reduce(getattr, self.path, value)
            except AttributeError:
                if self.or_none:
                    return None
        msg = f"{type(estimator).__name__!r} object has no attribute {self.name!r}"
        raise AttributeError(msg)

    def __set__(self, estimator: Any, value: Any) -> None:
        setattr(estimator, self.of, replace_part(getattr(estimator, self.of), self.path, value))


def held(path: str, *, of: str = "predictor_", or_none: bool = False) -> Any:
    """Return the declaration of a fitted attribute that is a part of `predictor_`.

    Parameters
    ----------
    path : str
        The names of nested fields, separated by dots.
    of : str, default="predictor_"
        The attribute of the estimator that has the first field.
    or_none : bool, default=False
        Whether it is None if the predictor has no such part.
    """
    return Held(path, of, or_none=or_none)


class Computed:
    """A fitted attribute that is computed and set on first use.

    Attributes
    ----------
    compute : str
        Name of the estimator's method that sets it.
    """

    def __init__(self, compute: str) -> None:
        self.compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        getattr(estimator, self.compute)()
        if self.name in vars(estimator):
            return vars(estimator)[self.name]
        msg = f"{type(estimator).__name__!r} object has no attribute {self.name!r}"
        raise AttributeError(msg)


def computed(compute: str, /) -> Any:
    """Return the declaration of a fitted attribute that a method sets on first use."""
    return Computed(compute)


def replace_part(value: Any, path: list[str], part: Any, /) -> Any:
    """Return a frozen value with the part at the end of a path of fields replaced."""
    first, *rest = path
    if rest:
        part = replace_part(getattr(value, first), rest, part)
    return dataclasses.replace(value, **{first: part})


# ---------------------------------------------------------------------------------- record


class Tried(TypedDict):
    """A trial in `tuning_`; methods add the setting's fields."""

    score: Annotated[float, AnyValue()] | None
    standard_error: Annotated[float, AnyValue()]
    seconds: float
    chosen: bool


@functools.cache
def record_hints(kind: type, /) -> dict[str, Any]:
    """Return the annotations of the record: fitted attributes that the predictor does not hold.

    A model with other fitted attributes cannot be saved.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if _is_recorded(kind, name, hint)}


def _is_recorded(kind: type, name: str, hint: Any) -> bool:
    if name == "predictor_" or get_origin(hint) is ClassVar:
        return False
    if isinstance(getattr(kind, name, None), (Held, property)):
        return False
    return get_origin(hint) is Annotated or (name.endswith("_") and not name.startswith("_"))
