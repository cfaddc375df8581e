"""The predictor: a fitted model as one frozen dataclass, which predicts by array operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Protocol, Self

import numpy as np

from gpukfl.core._annotations import NOT_STORED, Count, Labels
from gpukfl.core._array import Array, array_namespace, to_double
from gpukfl.predictor._classes import Classes
from gpukfl.predictor._monotone import KnotFunction, Monotone

Put = Callable[[Array], Array]


class ValueFunction(Protocol):
    """A function of rows: a method's function, a model of another library, or a blend."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d), all at once."""

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d), by blocks that fit in memory."""

    def prepare(self) -> None:
        """Compute shared intermediate results once, before threads start."""

    def to_traceable(self) -> Self:
        """Return the same function, for arrays that record operations."""

    def map_arrays(self, put: Put, /) -> Self:
        """Return the function with arrays mapped by `put`."""


class DirectFunction:
    """A base class of functions that need no blocks: small ones, and those of other libraries."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return 1

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        return 20 * self.width

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d)."""
        found: Array = self(X)  # type: ignore[operator]
        return found

    def prepare(self) -> None:
        """Do nothing: rows share no intermediate results."""

    def to_traceable(self) -> Self:
        """Return the function itself: it uses array operations only."""
        return self


@dataclass(frozen=True, eq=False)
class Foreign(DirectFunction):
    """A model of another library, which computes its predictions itself.

    Attributes
    ----------
    why_not : str
        Error message where only array operations can be used.
    ask : callable
        Returns predictions (n, t), or probabilities, at rows (n, d); None if a file was read
        without the library's model.
    on_host : bool
        Whether `ask` requires NumPy rows in float64.
    """

    why_not: str
    ask: Callable[[Array], Array] | None = field(default=None, metadata=NOT_STORED)
    on_host: bool = True

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d)."""
        if self.ask is None:
            raise TypeError(self.why_not)
        return self.ask(X)

    def to_traceable(self) -> Self:
        """Raise TypeError: another library cannot evaluate such arrays."""
        raise TypeError(self.why_not)

    def map_arrays(self, put: Put, /) -> Self:
        """Return the function itself: it holds no arrays."""
        del put
        return self


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted model without its estimator.

    Attributes
    ----------
    values : ValueFunction
        Computes predictions (n, t), class scores, or class probabilities (blends).
    n_features : int
        Number of columns of X; for a blend of a table, the columns of its codes.
    one_target : bool
        Whether predictions have shape (n,).
    labels : host array, shape (k,), optional
        Class labels; None for a regression.
    classes : Classes, optional
        Converts scores to classes; None if `values` are probabilities.
    monotone : Monotone, optional
        Makes values monotone in some columns; with two classes, the second one's values.
    """

    values: ValueFunction
    n_features: Annotated[int, Count()]
    one_target: bool = True
    labels: Annotated[np.ndarray, Labels("n_classes")] | None = None
    classes: Classes | None = None
    monotone: Monotone | None = None

    def check(self) -> None:
        """Raise ValueError unless labels differ and match the classes."""
        if self.monotone is not None:
            self._check_monotone(self.monotone)
        if self.labels is None:
            if self.classes is not None:
                msg = "expected labels of classes, got none"
                raise ValueError(msg)
            return
        count = len(self.labels)
        if not count or len(set(self.labels.tolist())) < count:
            msg = "expected different classes"
            raise ValueError(msg)
        if self.classes is not None and self.classes.count != count:
            msg = f"expected scores of {count} classes, got {self.classes.count}"
            raise ValueError(msg)

    def _check_monotone(self, monotone: Monotone) -> None:
        last = max(one.column for one in monotone.columns)
        if last >= self.n_features:
            msg = f"expected monotone columns among {self.n_features}, got column {last}"
            raise ValueError(msg)
        if self.labels is not None and len(self.labels) > 2:
            msg = f"expected at most two classes of a monotone model, got {len(self.labels)}"
            raise ValueError(msg)

    def check_outputs(self) -> None:
        """Raise ValueError unless a row of zeros has a prediction for each target or class."""
        found = self.values(np.zeros((1, self.n_features)))
        t, count = found.shape[1], 0 if self.labels is None else len(self.labels)
        columns = 1 if self.classes is not None and count <= 2 else count
        fits = t == columns if count else t == 1 or not self.one_target
        if found.ndim != 2 or not fits:
            msg = f"expected predictions of {columns or 'one target'}, got shape {found.shape}"
            raise ValueError(msg)
        self.decode(found)

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d) that are validated, by blocks that fit in memory."""
        if self.monotone is None:
            return self.values.evaluate_in_blocks(X)
        found = self.project(self.values.evaluate_in_blocks, X)
        return array_namespace(found).astype(found, X.dtype, copy=False)

    def project(self, evaluate: Callable[[Array], Array], X: Array, /) -> Array:
        """Return monotone values (n, t, ...) of a function at rows (n, d), in float64.

        The function is like `values`. Without `monotone` its values are unchanged.
        """
        return self.project_at_knots(lambda rows, _: evaluate(rows), X)

    def project_at_knots(self, ask: KnotFunction, X: Array, /) -> Array:
        """Project a function that makes its own values at the knots monotone.

        See `Monotone.project` for the function's arguments.
        """
        if self.monotone is None:
            return ask(X, lambda values: values)
        if self.labels is None or self.classes is not None:
            return self.monotone.project(ask, X)
        if len(self.labels) < 2:
            return ask(X, lambda values: values)
        second = self.monotone.project(lambda *given: ask(*given)[:, 1:, ...], X)
        return array_namespace(second).concat([1.0 - second, second], axis=1)

    def decode(self, found: Array, /) -> Array:
        """Return predictions (n,) or (n, t), or class codes, from values."""
        if self.labels is None:
            return found[:, 0] if self.one_target else found
        if self.classes is None:
            return array_namespace(found).argmax(found, axis=1)
        return self.classes.codes(self.classes.margins(found))

    def probabilities(self, found: Array, /) -> Array:
        """Return class probabilities (n, k) from values."""
        if self.classes is None:
            return found
        return array_namespace(found).exp(self.classes.log_proba(found))

    def outputs(self, X: Array, n_classes: int, /) -> Array:
        """Return predictions (n, t), or probabilities of all classes, in float64 for a blend."""
        return self._expand_classes(self.values(X), n_classes)

    def outputs_by_blocks(self, X: Array, n_classes: int, /) -> Array:
        """Return the same, by blocks of rows that fit in memory."""
        return self._expand_classes(self.evaluate(X), n_classes)

    def _expand_classes(self, found: Array, n_classes: int) -> Array:
        if self.labels is not None:
            found = self.probabilities(found)
        found = to_double(found)
        if self.labels is None or self.knows(n_classes) or not n_classes:
            return found
        xp, known = array_namespace(found), self.labels.tolist()
        zeros = xp.zeros_like(found[:, 0])
        columns = [found[:, known.index(k)] if k in known else zeros for k in range(n_classes)]
        return xp.stack(columns, axis=1)

    def knows(self, n_classes: int, /) -> bool:
        """Whether the model was fitted to all `n_classes` classes."""
        return self.labels is not None and len(self.labels) == n_classes

    def to_traceable(self) -> Self:
        """Return the same model, for arrays that record operations.

        Raises
        ------
        TypeError
            If predictions need more than array operations; the message says what to fit instead.
        """
        if self.monotone is not None:
            msg = "expected a model without monotone columns, which ONNX export does not support"
            raise TypeError(msg)
        return dataclasses.replace(self, values=self.values.to_traceable())

    def map_arrays(self, put: Put, /) -> Self:
        """Return the model with arrays mapped by `put`."""
        return dataclasses.replace(self, values=self.values.map_arrays(put))


def check_finite_prediction(predicted: Array, what: str, precision: object, /) -> Array:
    """Return the predictions; raise ValueError if they overflowed far from the data."""
    xp = array_namespace(predicted)
    finite = xp.isfinite(predicted)
    if not bool(xp.all(finite)):
        bad = int(xp.sum(xp.astype(~xp.all(finite, axis=1), xp.int64)))
        msg = (
            f"the {what} overflows {precision} and is not finite at {bad} of {finite.shape[0]} "
            "rows: expected rows closer to the training data"
        )
        if "32" in str(precision):
            msg += "; or fit and predict with float64 data"
        raise ValueError(msg)
    return predicted
