"""What all constructors share: words for names that are no longer, and the weights of classes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

RENAMED = {  # of every estimator, and what to do instead
    "dtype": "give backend=Backend(dtype=...)",
    "standardize": "give scaling='standard' or None",
    "normalize_y": "targets are always scaled",
    "validation_fraction": "a fifth of the rows is held out",
}


class Constructed:
    """An estimator whose constructor says what became of names that it once had."""

    _renamed: ClassVar[dict[str, str]] = {}
    _more: ClassVar[
        tuple[str, ...]
    ] = ()  # parameters, by default None, that its base does not have

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known, own = inspect.signature(cls.__init__).parameters, "__init__" in vars(cls)
        more = () if own else tuple(name for name in cls._more if name not in known)
        if own or more:
            cls.__init__ = _constructor(cls.__init__, more)  # type: ignore

    @classmethod
    def _refuse_old(cls, names: Iterable[str], /) -> None:
        """Raise TypeError for names that are now other ones."""
        known = RENAMED | cls._renamed
        for name in filter(cls.has_renamed, names):
            msg = f"{cls.__name__} has no parameter {name!r} any more: {known[name]}"
            raise TypeError(msg)

    @classmethod
    def has_renamed(cls, name: str, /) -> bool:
        """Whether it once had a parameter of this name, which is now another."""
        return name in RENAMED or name in cls._renamed

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, also of nested values as ``name__field``.

        Raises
        ------
        TypeError
            For a name that is now another; says which.
        ValueError
            For any other name that is not a parameter.
        """
        self._refuse_old(params)
        return super().set_params(**params)  # type: ignore[misc]


def _constructor(init: Callable[..., None], more: tuple[str, ...]) -> Callable[..., None]:
    """Give a constructor with more parameters, whose signature scikit-learn can read."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        added = {name: kwargs.pop(name, None) for name in more}
        self._refuse_old(name for name in kwargs if name not in signature.parameters)
        init(self, *args, **kwargs)
        for name, value in added.items():
            setattr(self, name, value)

    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(name, kind, default=None) for name in more]
    own = signature.replace(parameters=[*signature.parameters.values(), *keywords])
    construct.__signature__ = own  # type: ignore[attr-defined]
    return construct
