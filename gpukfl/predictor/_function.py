"""The base class of fitted functions."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, Self

import numpy as np

from gpukfl.core._annotations import Floats
from gpukfl.core._array import Array, array_namespace, is_array, like, reference_like
from gpukfl.linalg import each_block
from gpukfl.partitioned._rows import Rows


class Scaling(Protocol):
    """A scaling of columns: see `gpukfl.estimators.scaling`."""

    @property
    def parts(self) -> Sequence[Any]:
        """Scalings that each scale every column once, and can `concat` several scalings."""

    def __call__(self, X: Array, /) -> Array:
        """Scale rows of float64."""

    def select_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Return the scaling of some columns, whose results are multiplied by factors."""


@dataclass(frozen=True)
class LogLink:
    """The mean of a target as the exponential of a function, within limits.

    Attributes
    ----------
    low, high : list of float
        Least and largest logarithm of each target's mean.
    """

    low: list[float]
    high: list[float]

    def __call__(self, F: Array, /) -> Array:
        """Return means (..., t)."""
        xp = array_namespace(F)
        low, high = (xp.asarray(part, **like(F)) for part in (self.low, self.high))
        return xp.exp(xp.minimum(xp.maximum(F, low), high))


@dataclass(frozen=True, eq=False, kw_only=True)
class Function(ABC):
    """A fitted function of rows in the units of the targets.

    Attributes
    ----------
    intercept : array, shape (t,)
        Constant, added to all values.
    scaling : callable, optional
        Scales rows in float64.
    clip : float, optional
        Largest absolute value of the scaled rows.
    leading_ones : bool
        Whether rows start with a column of ones.
    link : LogLink, optional
        Converts values to predictions; without it, values are predictions.
    """

    intercept: Annotated[Array, Floats("t")]
    scaling: Scaling | None = None
    clip: float | None = None
    leading_ones: bool = False
    link: LogLink | None = None
    _on_host: ClassVar[tuple[str, ...]] = ()  # names of arrays that `map_arrays` leaves unchanged

    @cached_property
    def reference(self) -> Array:
        """An empty array with the library, device and dtype of the computation."""
        return reference_like(self.intercept)

    @property
    @abstractmethod
    def width(self) -> int:
        """Return the temporary elements per row."""

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        return 20 * self.width

    @abstractmethod
    def evaluate(self, X: Array, /) -> Array:
        """Return values (n, t) at scaled rows."""

    def prepare(self) -> None:  # noqa: B027
        """Compute shared intermediate results once, before threads start."""

    def rows(self, X: Array, /) -> Rows:
        """Return rows (n, d) of data that are scaled on access."""
        return Rows(X, self.reference, self.scaling, self.clip, self.leading_ones)

    def __call__(self, X: Array, /) -> Array:
        """Return values (n, t) at all rows (n, d) at once, in the dtype of `X`.

        This uses array operations only. `X` may record operations, with an unknown number of rows.
        """
        found = self._apply_link(self.evaluate(self.rows(X).whole()))
        return array_namespace(X).astype(found, X.dtype)

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Return values (n, t) at rows (n, d) in the dtype of `X`, by blocks that fit in memory."""
        rows, parts = self.rows(X), list[Array]()
        self.prepare()
        each_block(
            self.reference,
            (0, rows.shape[0]),
            self.width,
            lambda start, stop: self.evaluate(rows.block(start, stop)),
            lambda _start, _stop, part: parts.append(part),
            fewest=1,
        )
        xp = array_namespace(self.reference)
        found = xp.concat(parts, axis=0) if parts else self.evaluate(rows.block(0, 0))
        return xp.astype(self._apply_link(found), X.dtype)

    def _apply_link(self, found: Array) -> Array:
        return found if self.link is None else self.link(found)

    def to_traceable(self) -> Self:
        """Return the function itself: it uses array operations only."""
        return self

    def map_arrays(self, put: Callable[[Array], Array], /) -> Self:
        """Return the function with arrays mapped by `put`."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        own: dict[str, Any] = {
            k: put(v) for k, v in found.items() if is_array(v) and k not in self._on_host
        }
        return dataclasses.replace(self, **own)


@dataclass(frozen=True, eq=False, kw_only=True)
class Constant(Function):
    """A constant function."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self.intercept.shape[0]

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        return self.intercept + array_namespace(X).zeros_like(X[:, :1])
