"""Fitted attributes: those that `predictor_` holds, and those of the record beside it.

Both are annotated on the classes that set them. The record of a fit is every annotation that ends
with an underscore, and the private ones with metadata; model files hold it, checked by these.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Annotated, Any, ClassVar, TypedDict, get_origin

from gpukfl.core._annotations import AnyValue


class Held:
    """A fitted attribute that is a part of `predictor_`; setting it makes another predictor.

    Attributes
    ----------
    path : sequence of str
        The fields that lead to it.
    of : str
        The attribute of the estimator at which they begin.
    or_none : bool
        Whether it is None where the predictor has no such part.
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
        The fields that lead to it, with dots between them.
    of : str, default="predictor_"
        The attribute of the estimator at which they begin.
    or_none : bool, default=False
        Whether it is None where the predictor has no such part.
    """
    return Held(path, of, or_none=or_none)


class Computed:
    """A fitted attribute that is computed at its first look, and is an ordinary one from then on.

    Attributes
    ----------
    compute : str
        The method of the estimator that sets it.
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
    """Return the declaration of a fitted attribute that a method sets at its first look."""
    return Computed(compute)


def replace_part(value: Any, path: list[str], part: Any, /) -> Any:
    """Return a frozen value with another part, at the end of a path of fields."""
    first, *rest = path
    if rest:
        part = replace_part(getattr(value, first), rest, part)
    return dataclasses.replace(value, **{first: part})


# ---------------------------------------------------------------------------------- record


class Tried(TypedDict):
    """A setting that was tried; a method adds what names it."""

    score: Annotated[float, AnyValue()] | None
    standard_error: Annotated[float, AnyValue()]
    seconds: float
    chosen: bool


@functools.cache
def record_hints(kind: type, /) -> dict[str, Any]:
    """Return the annotations of the fitted attributes of a class that its predictor does not hold.

    A fit that sets another attribute cannot be saved, which a test notices.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if _is_recorded(kind, name, hint)}


def _is_recorded(kind: type, name: str, hint: Any) -> bool:
    if name == "predictor_" or get_origin(hint) is ClassVar:
        return False
    if isinstance(getattr(kind, name, None), (Held, property)):
        return False
    return get_origin(hint) is Annotated or (name.endswith("_") and not name.startswith("_"))
