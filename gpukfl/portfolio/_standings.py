"""Results of members so far, their blend, and which members are useless to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpukfl.core._array import to_host
from gpukfl.estimators._search import is_clearly_worse
from gpukfl.estimators.scaling import SCALINGS
from gpukfl.portfolio._blend import blend_weights, choose_temperature
from gpukfl.portfolio._fold_fits import MemberResult
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss
from gpukfl.portfolio._members import Member
from gpukfl.predictor import apply_temperature

_MIN_ROWS_TO_DROP = 150  # held-out rows that show that a member is behind
_TRIAL_WEIGHTS = (0.05, 0.15, 0.3, 0.5)  # of a member in a blend that it may improve
# From this number of held-out rows, a member must lower the blend's loss by this share
_MANY_ROWS, _MIN_GAIN = 1_000, 1e-3


@dataclass(eq=False)
class Standings:
    """The results of members so far, and the blend of the finished ones.

    Attributes
    ----------
    judge : HeldOutLoss
        Loss on all held-out rows, in the order of the folds.
    entries : list of MemberResult
        Results of all members, in the order of their turns.
    weights : array, shape (n_finished,)
        Weights of the finished members in the blend.
    """

    judge: HeldOutLoss
    entries: list[MemberResult] = field(default_factory=list)
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def finished(self) -> list[MemberResult]:
        """The results of members that may be blended and have fitted all folds."""
        return [one for one in self.entries if not one.note and one.member.blended]

    @property
    def blend(self) -> np.ndarray:
        """Out-of-fold predictions of the current blend (m, t)."""
        pairs = zip(self.weights, self.finished, strict=True)
        weights, outputs = zip(*((w, one.outputs) for w, one in pairs if w > 0), strict=True)
        return self.judge.mix(np.array(weights), outputs)

    @cached_property
    def temperature(self) -> float:
        """The temperature of the final blend; 1 for a regression."""
        judge = self.judge
        return choose_temperature(self.blend, judge) if isinstance(judge, LogLoss) else 1.0

    @property
    def final_blend(self) -> np.ndarray:
        """Calibrated out-of-fold predictions of the final blend (m, t)."""
        if not isinstance(self.judge, LogLoss):
            return self.blend
        return to_host(apply_temperature(self.blend, self.temperature))

    def weigh(self, entries: Sequence[MemberResult], /) -> np.ndarray:
        """Return the weights of the best blend of some results."""
        parts = [self.judge.part(one.outputs) for one in entries]
        loss, n = lambda mean: self.judge.row_losses(mean).sum(), self.judge.n_effective
        return blend_weights(parts, loss, n)

    def add(self, entry: MemberResult, weights: np.ndarray, /) -> None:
        """Add a result, and set the weights of the blend with it."""
        self.entries.append(entry)
        self.weights = weights

    def replace(self, old: MemberResult, new: MemberResult, /) -> None:
        """Replace a result of a member by a better one."""
        self.entries[self.entries.index(old)] = new
        self.weights = self.weigh(self.finished)

    def best(self) -> MemberResult:
        """Return the finished result of the lowest loss."""
        return min(self.finished, key=lambda one: one.losses.sum())

    def is_useless(self, name: str, /) -> bool:
        """Whether a member with this name was dropped, or is clearly behind."""
        pairs = zip(self.weights, self.finished, strict=True)
        own = [entry for weight, entry in pairs if weight == 0 and entry.member.name == name]
        dropped = [entry for entry in self.entries if entry.is_behind and entry.member.name == name]
        return bool(dropped) or any(map(self.is_behind, own))

    def is_behind(self, entry: MemberResult, /) -> bool:
        """Whether a member is significantly worse than the best, and does not help the blend.

        With many held-out rows, whether it helps too little to be worth its time.
        """
        n_rows = len(entry.losses)
        if n_rows < _MIN_ROWS_TO_DROP:
            return False
        rows, many = slice(0, n_rows), n_rows >= _MANY_ROWS
        best = min((one.losses[rows] for one in self.finished), key=np.sum)
        groups = None if self.judge.groups is None else self.judge.groups[rows]
        if not (many or is_clearly_worse(entry.losses, best, groups)):
            return False
        blend, own = (self.judge.part(one, rows) for one in (self.blend[rows], entry.outputs))
        least = self.judge.row_losses(blend, rows).sum() * (1.0 - _MIN_GAIN if many else 1.0)
        mixes = ((1.0 - share) * blend + share * own for share in _TRIAL_WEIGHTS)
        return all(self.judge.row_losses(mix, rows).sum() >= least for mix in mixes)

    def lead_text(self) -> str:
        """Return the scores of the blend and of the best member in words."""
        if not self.finished:
            return ""
        best = max(self.finished, key=lambda one: self.judge.score(one.losses))
        score = self.judge.score(self.judge.losses(self.blend))
        led = self.judge.score(best.losses)
        return f" (blend {score:.3f}, best {best.member.name} {led:.3f})"


def find_twin(member: Member, finished: Iterable[MemberResult], /) -> str:
    """Return the name of a finished member with the same settings, or an empty string.

    With scaling "auto", a member chooses its scaling in its fits. It may be that of another member.
    """
    estimator = member.estimator
    for one in finished:
        if type(one.member.estimator) is not type(estimator) or not hasattr(estimator, "scaling"):
            continue
        own = one.member.estimator.get_params()
        alike = own | {"scaling": estimator.scaling} == estimator.get_params()
        chosen = {type(getattr(model, "scaling_", None)) for model in one.models}
        if alike and own["scaling"] == "auto" and chosen == {SCALINGS.get(str(estimator.scaling))}:
            return one.member.name
    return ""
