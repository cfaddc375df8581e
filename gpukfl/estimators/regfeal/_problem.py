"""One data set of RegFeaL: its settings, and rows that Hermite polynomials can bear."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpukfl._array import array_namespace, to_host
from gpukfl._passes import reduce_rows
from gpukfl._places import Place
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators._data import Data
from gpukfl.estimators._samples import Samples
from gpukfl.estimators.regfeal._retraining import Coordinates, check_in_parts, check_weighted
from gpukfl.methods import DegreeLaw, RegFeaL, Reweighting
from gpukfl.prediction import FAR, farthest

_TERMS = 10  # of the kernel for each random feature, from which these tell little


@dataclass(frozen=True)
class Setting:
    """Law of the degrees, μ, and what is retrained on: None where Hermite features predict."""

    law: DegreeLaw
    strength: float
    way: Coordinates | None = None


@dataclass(frozen=True)
class Settings:
    """The parameters of the estimators.

    Attributes
    ----------
    n_random_features : int
        Tuples of degrees in each iteration.
    rotate : bool
        Whether directions are learned, not variables selected.
    law : DegreeLaw or None
        None is chosen.
    strength : float or None
        μ; None is chosen.
    retrain : "kernel_ridge", None or a regressor
        What is fitted on the directions.
    clip : float, "auto" or None
        Where features end.
    """

    n_random_features: int
    rotate: bool
    law: DegreeLaw | None
    strength: float | None
    ridge: float
    reweighting: Reweighting
    retrain: Any
    clip: float | str | None
    scaling: str | None

    @property
    def is_open(self) -> bool:
        """Whether the law or μ is to be chosen."""
        return self.law is None or self.strength is None

    def at(self, setting: Setting, /) -> RegFeaL:
        """Give the method at a setting."""
        by = self.reweighting
        return RegFeaL(
            self.n_random_features,
            setting.law,
            setting.strength,
            self.ridge,
            exponent=by.exponent,
            rotate=self.rotate,
            over_c=by.over_c,
            n_iter=by.n_iter,
        )


class Problem(Data):
    """One data set of RegFeaL.

    Attributes
    ----------
    given_weights : host array (n,), or None
        Sample weights; where rows lie in parts, theirs do.
    """

    def __init__(self, settings: Settings, samples: Samples, place: Place) -> None:
        super().__init__(settings, samples, place, clip=farthest(settings.clip))
        self.settings, self.given_weights = settings, samples.weights
        if self.rows.partitioning is not None:
            check_in_parts(settings.retrain)
        if samples.weights is not None:
            check_weighted(settings.retrain)

    @cached_property
    def kept_rows(self) -> Rows:
        """The rows, scaled once where they are few: each regression passes over them."""
        return self.rows.in_memory()

    @cached_property
    def _far(self) -> tuple[float, np.ndarray]:
        """Largest absolute value, and the share (d,) of values beyond where features may end."""
        xp = array_namespace(self.reference)
        rows, edge = replace(self.rows, clip=None), farthest(self.settings.clip) or FAR

        def part(start: int, stop: int) -> list[tuple[float, np.ndarray]]:
            found = []
            for _, _, block in rows.blocks(start=start, stop=stop):
                size = xp.abs(block)
                beyond = xp.sum(xp.astype(size > edge, xp.float64), axis=0)
                found.append((float(xp.max(size)), to_host(beyond)))
            return [functools.reduce(_farther, found)]

        ((largest, beyond),) = reduce_rows(rows.source, part, combine=_farther)
        return largest, beyond / rows.shape[0]

    @property
    def _is_scaled(self) -> bool:
        return self.settings.scaling is not None and self.settings.clip is not None

    def check_scale(self) -> None:
        """Refuse features of which most values are far from 0."""
        if self._is_scaled or not (self._far[1] > 0.5).any():
            return
        edge = farthest(self.settings.clip) or FAR
        msg = (
            "expected features around 0 of about unit variance, got most values of feature "
            f"{np.argmax(self._far[1])} beyond {edge:g}: scaling='standard' scales "
            "them"
        )
        raise ValueError(msg)

    def warn_of_scale(self) -> None:
        """Warn of features of which some values are far from 0."""
        settings = self.settings
        if self._is_scaled or settings.clip not in ("auto", None) or self._far[0] <= FAR:
            return
        advice = "scaling='standard' scales features, " if settings.scaling is None else ""
        msg = (
            f"a feature is {self._far[0]:.3g} standard deviations from 0, where Hermite "
            f"polynomials are huge: {advice}clip={FAR:g} moves what lies beyond"
        )
        warn(msg)

    def warn_of_many_terms(self) -> None:
        """Warn of a law that is given, and of which random features tell little."""
        law, d = self.settings.law, self.rows.shape[1]
        if law is None or law.decay is None:
            return
        count = self.settings.n_random_features
        enough, log_terms = _TERMS * count, -d * math.log1p(-law.decay)
        if log_terms > math.log(enough):
            most = -math.expm1(-math.log(enough) / d)
            msg = (
                f"a degree decay of {law.decay:g} with {d} features gives the kernel about "
                f"e^{log_terms:.1f} terms, of which {count} random ones tell little: expected at "
                f"most {most:.2g}, more random features, or 'auto'"
            )
            warn(msg)


def _farther(a: tuple[float, np.ndarray], b: tuple[float, np.ndarray], /) -> Any:
    """Largest value of two sets of rows, and the number of values beyond an edge."""
    return max(a[0], b[0]), a[1] + b[1]
