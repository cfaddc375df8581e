"""A fitted model as one frozen value: what it says of rows, by array operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Protocol, Self

import numpy as np

from gpukfl.core._annotations import NOT_STORED, Count, Labels
from gpukfl.core._array import Array, array_namespace
from gpukfl.predictor._classes import Classes
from gpukfl.predictor._monotone import Ask, Monotone

Put = Callable[[Array], Array]


class Valued(Protocol):
    """A function of rows: one of a method, of another library's model, or a blend."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d), all at once."""

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d), by blocks that fit in memory."""

    def prepare(self) -> None:
        """Compute shared intermediate results once, before threads start."""

    def alone(self) -> Self:
        """Return the same function for arrays that record what is done with them."""

    def map_arrays(self, put: Put, /) -> Self:
        """Return the function with arrays mapped by `put`."""


class AtOnce:
    """A function of few numbers a row, or of another library, which makes blocks by itself."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return 1

    @property
    def steps(self) -> int:
        """Steps that a row takes, about, where NumPy takes them."""
        return 20 * self.width

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d)."""
        found: Array = self(X)  # type: ignore[operator]
        return found

    def prepare(self) -> None:
        """Compute nothing: there is nothing that all rows need."""

    def alone(self) -> Self:
        """Return itself: it is one function of arrays already."""
        return self


@dataclass(frozen=True, eq=False)
class Foreign(AtOnce):
    """A model of another library, whose predictions are asked for.

    Attributes
    ----------
    why_not : str
        What to say where predictions by arrays alone are needed.
    ask : callable
        Return predictions (n, t), or probabilities, at rows (n, d); None of a file without it.
    on_host : bool
        Whether it takes rows of NumPy alone, in float64.
    """

    why_not: str
    ask: Callable[[Array], Array] | None = field(default=None, metadata=NOT_STORED)
    on_host: bool = True

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d)."""
        if self.ask is None:
            raise TypeError(self.why_not)
        return self.ask(X)

    def alone(self) -> Self:
        """Raise TypeError: it is no function of arrays."""
        raise TypeError(self.why_not)

    def map_arrays(self, put: Put, /) -> Self:
        """Return itself: it has no arrays of its own."""
        del put
        return self


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted model without its estimator.

    Attributes
    ----------
    values : Valued
        Predictions (n, t), scores of classes, or, of a blend, their probabilities.
    n_features : int
        Columns of rows; of a blend for tables those of codes.
    one_target : bool
        Whether predictions are (n,).
    labels : host array, shape (k,), optional
        Of the classes; None of a regression.
    classes : Classes, optional
        What makes classes of scores; None where values are probabilities.
    monotone : Monotone, optional
        What makes values rise or fall with columns of rows; of two classes those of the second.
    """

    values: Valued
    n_features: Annotated[int, Count()]
    one_target: bool = True
    labels: Annotated[np.ndarray, Labels("n_classes")] | None = None
    classes: Classes | None = None
    monotone: Monotone | None = None

    def check(self) -> None:
        """Raise ValueError unless labels differ, and classes are of as many."""
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
        columns = count
        if self.classes is not None:
            columns = 1 if count <= 2 else count
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

        The function's values are like those of the model; without `monotone` they stay.
        """
        return self.project_at_knots(lambda rows, _: evaluate(rows), X)

    def project_at_knots(self, ask: Ask, X: Array, /) -> Array:
        """Project as `project` does, of a function that takes what `Monotone.project` gives."""
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
        """Probabilities (n, k) of the classes of values."""
        if self.classes is None:
            return found
        return array_namespace(found).exp(self.classes.log_proba(found))

    def outputs(self, X: Array, n_classes: int, /) -> Array:
        """Return predictions, or all probabilities, (n, t) in float64 for a blend."""
        return self._expand_classes(self.values(X), n_classes)

    def outputs_by_blocks(self, X: Array, n_classes: int, /) -> Array:
        """Return the same, by blocks of rows that fit in memory."""
        return self._expand_classes(self.evaluate(X), n_classes)

    def _expand_classes(self, found: Array, n_classes: int) -> Array:
        xp = array_namespace(found)
        if self.labels is not None:
            found = self.probabilities(found)
        found = xp.astype(found, xp.float64, copy=False)
        if self.labels is None or self.knows(n_classes) or not n_classes:
            return found
        seen, nothing = self.labels.tolist(), xp.zeros_like(found[:, 0])
        columns = [found[:, seen.index(k)] if k in seen else nothing for k in range(n_classes)]
        return xp.stack(columns, axis=1)

    def knows(self, n_classes: int, /) -> bool:
        """Whether it has seen so many classes."""
        return self.labels is not None and len(self.labels) == n_classes

    def alone(self) -> Self:
        """Return the same model for arrays that only record what is done with them.

        Raises
        ------
        TypeError
            If predictions are not array operations alone; says what to fit instead.
        """
        if self.monotone is not None:
            msg = "expected a model without monotone columns, which ONNX export does not support"
            raise TypeError(msg)
        return dataclasses.replace(self, values=self.values.alone())

    def map_arrays(self, put: Put, /) -> Self:
        """Return the model with arrays mapped by `put`."""
        return dataclasses.replace(self, values=self.values.map_arrays(put))
