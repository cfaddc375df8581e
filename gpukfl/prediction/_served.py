"""What a model says of rows, by array operations only: values, codes of classes, probabilities."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, to_host
from gpukfl.prediction._blend import Blending
from gpukfl.prediction._classes import Classes
from gpukfl.prediction._methods import function_of, is_method

Put = Callable[[Array], Array]
BLENDS = ("AutoRegressor", "AutoClassifier")


class Valued(Protocol):
    """A function of rows: one of a method, or a blend."""

    @property
    def width(self) -> int:
        """Elements that a row needs."""

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t) at rows (n, d)."""

    def placed(self, put: Put, /) -> Self:
        """Return the same function of arrays that `put` makes of its own."""


@dataclass(frozen=True, eq=False)
class Served:
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
    """

    values: Valued
    n_features: int
    one_target: bool = True
    labels: np.ndarray | None = None
    classes: Classes | None = None

    def predicted(self, found: Array, /) -> Array:
        """Return predictions (n,) or (n, t) of values: of classes their numbers."""
        if self.labels is None:
            return found[:, 0] if self.one_target else found
        if self.classes is None:
            return array_namespace(found).argmax(found, axis=1)
        return self.classes.codes(self.classes.margins(found))

    def probabilities(self, found: Array, /) -> Array:
        """Return probabilities (n, k) of the classes of values."""
        if self.classes is None:
            return found
        return array_namespace(found).exp(self.classes.log_proba(found))

    def outputs(self, X: Array, n_classes: int, /) -> Array:
        """Predictions (n, t) as a blend takes them, in float64: of classes all probabilities."""
        xp = array_namespace(X)
        if self.labels is None:
            return xp.astype(self.values(X), xp.float64)
        found, seen = (
            xp.astype(self.probabilities(self.values(X)), xp.float64),
            self.labels.tolist(),
        )
        if len(seen) == n_classes:
            return found
        nothing = xp.zeros_like(found[:, 0])
        columns = [found[:, seen.index(k)] if k in seen else nothing for k in range(n_classes)]
        return xp.stack(columns, axis=1)

    def placed(self, put: Put, /) -> Self:
        """Return the same model of arrays that `put` makes of its own."""
        return dataclasses.replace(self, values=self.values.placed(put))


@dataclass(frozen=True, eq=False)
class BlendedModels:
    """A member of a blend: its weight, models, and residuals on the scale that it predicts on.

    `sees` says how its models see the rows of a table.
    """

    weight: float
    models: tuple[Served, ...]
    residuals: Array | None
    sees: str


class Seen(Protocol):
    """Rows of which each model sees what it takes."""

    def by(self, k: int, view: str, /) -> Array:
        """Return the rows as a model of fold k sees them."""


@dataclass(frozen=True, eq=False)
class Blend:
    """A blend of models, for rows (n, d) of numbers, or of the codes of a table.

    Attributes
    ----------
    members : tuple of BlendedModels
        All with a weight.
    blending : Blending
        How they are joined.
    n_classes : int
        0 of a regression.
    seen : callable, optional
        What gives models their rows, where these are of a table.
    """

    members: tuple[BlendedModels, ...]
    blending: Blending
    n_classes: int
    seen: Callable[[Array], Seen] | None = None

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return max(model.values.width for member in self.members for model in member.models)

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t), or probabilities."""
        by = self._rows(X)
        means = (
            (one.weight, self.blending.mean(self._outputs(one, by), one.residuals))
            for one in self.members
        )
        return array_namespace(X).astype(self.blending.total(means), X.dtype)

    def _rows(self, X: Array) -> Callable[[int, str], Array]:
        """Return what a model's rows are, by its fold and how it sees them."""
        return (lambda _, __: X) if self.seen is None else self.seen(X).by

    def _outputs(self, member: BlendedModels, by: Callable[[int, str], Array]) -> list[Array]:
        return [
            model.outputs(by(k, member.sees), self.n_classes)
            for k, model in enumerate(member.models)
        ]

    def placed(self, put: Put, /) -> Self:
        """Return the same blend of arrays that `put` makes of its own."""
        members = tuple(
            dataclasses.replace(
                one,
                models=tuple(model.placed(put) for model in one.models),
                residuals=None if one.residuals is None else put(one.residuals),
            )
            for one in self.members
        )
        reach = self.blending.reach
        blending = self.blending if reach is None else _with_reach(self.blending, put(reach))
        return dataclasses.replace(self, members=members, blending=blending)


def _with_reach(blending: Blending, reach: Array) -> Blending:
    return dataclasses.replace(blending, reach=reach)


def served(
    e: Any, kind_of: Callable[[Any], str], foreign: Callable[[Any], Served] | None = None, /
) -> Served:
    """Make what serves a fitted estimator.

    Parameters
    ----------
    e : estimator
        Fitted; or what has its attributes and parameters.
    kind_of : callable
        Gives the name of the class of an estimator, or of one inside it.
    foreign : callable, optional
        What makes it of a member of another library.

    Raises
    ------
    TypeError
        If predictions are not array operations alone; says what to fit instead.
    """
    kind = kind_of(e)
    is_blend = kind in BLENDS
    own = hasattr(type(e), "_function")  # of estimators, of which there may be new ones
    if foreign is not None and not (is_blend or own or is_method(kind)):
        return foreign(e)
    if is_blend:
        values: Valued = _blend(e, kind, kind_of, foreign)
    else:
        values = e._function() if own else function_of(kind, e)
    of_table = is_blend and e.encodings_ is not None
    n_features = len(e.encodings_.table.coded) if of_table else e.n_features_in_
    if hasattr(e, "classes_"):
        labels = np.asarray(to_host(e.classes_))
        signs = getattr(e, "_signs", kind.startswith("RKHSWeighting"))
        classes = None if is_blend else Classes(len(labels), e.calibration_, signs)
        return Served(values, n_features, labels=labels, classes=classes)
    return Served(values, n_features, e._one_target)


def _blend(
    e: Any, kind: str, kind_of: Callable[[Any], str], foreign: Callable[[Any], Served] | None
) -> Blend:
    members = tuple(
        BlendedModels(
            one.weight,
            tuple(served(m, kind_of, foreign) for m in one.models),
            one.residuals,
            one.sees,
        )
        for one in e.members_
        if one.weight > 0
    )
    n_classes = len(e.classes_) if kind == "AutoClassifier" else 0
    blending = Blending(
        n_classes > 0, e.floor_, e.temperature_, e.reach_, e.target_transform_, e.whole_
    )
    seen = None if e.encodings_ is None else e.encodings_.seen
    return Blend(members, blending, n_classes, seen)
