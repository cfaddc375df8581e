"""What a member of a contest has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._results import Status
from gpukfl.estimators._learner import Precedent
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._members import Member
from gpukfl.prediction import TargetTransform


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A member's fit to rows of a fold.

    Attributes
    ----------
    model : estimator
        That was fitted.
    precedent : Precedent or None
        What its setting came to.
    predicted : array, shape (m, t)
        Of the rows that the fold holds out.
    """

    model: Any
    precedent: Precedent[Any] | None
    predicted: np.ndarray

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return is_interrupted(self.model)


def is_interrupted(model: Any, /) -> bool:
    """Whether the user stopped a fit."""
    return getattr(model, "status_", "") == Status.INTERRUPTED.name


def is_limited(model: Any, /) -> bool:
    """Whether a fit was cut off by the time."""
    return getattr(model, "status_", "") == Status.TIME_LIMIT.name


@dataclass(eq=False)
class Entry:
    """What a member has done so far.

    Attributes
    ----------
    member : Member
        Who.
    models : list
        One for each fold.
    predicted : list of arrays, shape (m_k, t)
        Of the rows that each fold holds out, of transformed targets where they are.
    losses : array, shape (m,)
        Of these rows.
    precedent : Precedent or None
        What its first fit came to.
    seconds : float
        That it took.
    rows : int
        To which each of its fits was.
    steps : int or None
        Of each of its fits, where there was no time for all that it was made with.
    whole : Member
        As it was made, with all of them.
    last_seconds : float
        That the last of them took, with its predictions.
    note : str
        Why it has not done all; empty where it has.
    behind : bool
        Whether it was left because it was clearly behind.
    remark : str
        What else is to be said.
    warnings : list of str
        What its fits warned of.
    transform : TargetTransform or None
        Of the targets that it is fitted to.
    residuals : array, shape (q, t), or None
        Quantiles of what its predictions of transformed targets are short of.
    """

    member: Member
    models: list[Any] = field(default_factory=list)
    predicted: list[np.ndarray] = field(default_factory=list)
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    precedent: Precedent[Any] | None = None
    seconds: float = 0.0
    rows: int = 1
    steps: int | None = None
    last_seconds: float = 0.0
    note: str = ""
    behind: bool = False
    remark: str = ""
    warnings: list[str] = field(default_factory=list)
    transform: TargetTransform | None = None
    residuals: np.ndarray | None = None
    whole: Member = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self.member

    def add(self, fit: FoldFit, /) -> None:
        """Keep what a fold came to."""
        self.models.append(fit.model)
        self.predicted.append(fit.predicted)
        if self.precedent is None:  # the same for all others, whatever is fitted at once
            self.precedent = fit.precedent

    def seconds_for(self, n: int, /) -> float:
        """Seconds that a fit to n rows may take; 0 of a member that ends when it is told to."""
        if self.member.keeps_time:
            return 0.0
        return self.last_seconds * (n / self.rows) ** self.member.power

    @property
    def outputs(self) -> np.ndarray:
        """Predictions of all rows seen so far (m, t), in the targets' own units."""
        return self._own(np.concatenate(self.predicted))

    def blended(self, weight: float, /) -> Blended:
        """Give what it becomes in a blend."""
        name, sees = self.member.name, self.member.sees
        return Blended(name, weight, self.models, self.residuals, sees)

    def _own(self, found: np.ndarray) -> np.ndarray:
        if self.transform is None or self.residuals is None:
            return found
        return to_host(self.transform.mean(found, self.residuals))
