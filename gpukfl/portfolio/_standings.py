"""What members of a blend have come to so far, and who is of no use to it."""

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

_JUDGES = 150  # rows that must have judged a member before it is left: fewer often are wrong
_SHARES = (0.05, 0.15, 0.3, 0.5)  # of a blend, with one of which a member should help
# So many rows tell whether a member helps by as much as its further folds are worth
_MANY_JUDGES, _WORTH = 1_000, 1e-3  # of the blend's loss


@dataclass(eq=False)
class Standings:
    """The members' results so far, and the blend of those that have finished.

    Attributes
    ----------
    judge : HeldOutLoss
        Of the rows that are held out, in the order of the folds.
    entries : list of MemberResult
        What was tried, in this order.
    weights : array, shape (n_finished,)
        Of the blend of those that have finished and may be in it.
    """

    judge: HeldOutLoss
    entries: list[MemberResult] = field(default_factory=list)
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def finished(self) -> list[MemberResult]:
        """The results of members with predictions of all rows."""
        return [one for one in self.entries if not one.note and one.member.blended]

    @property
    def blend(self) -> np.ndarray:
        """Out-of-fold predictions of the current blend (m, t)."""
        pairs = zip(self.weights, self.finished, strict=True)
        weights, outputs = zip(*((w, one.outputs) for w, one in pairs if w > 0), strict=True)
        return self.judge.mix(np.array(weights), outputs)

    @cached_property
    def temperature(self) -> float:
        """The temperature of the final blend of classes."""
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
        """Put a better result of a member in the place of its first one."""
        self.entries[self.entries.index(old)] = new
        self.weights = self.weigh(self.finished)

    def best(self) -> MemberResult:
        """Return the finished result of the lowest loss."""
        return min(self.finished, key=lambda one: one.losses.sum())

    def is_of_no_use(self, name: str, /) -> bool:
        """Whether a member with this name was dropped, or is clearly behind."""
        pairs = zip(self.weights, self.finished, strict=True)
        own = [entry for weight, entry in pairs if weight == 0 and entry.member.name == name]
        left = [entry for entry in self.entries if entry.behind and entry.member.name == name]
        return bool(left) or any(map(self.is_behind, own))

    def is_behind(self, entry: MemberResult, /) -> bool:
        """Whether a member is significantly worse than the best, and does not help the blend.

        Where many rows have judged it, whether it helps so little that it is not worth its time.
        """
        n_judges = len(entry.losses)
        if n_judges < _JUDGES:
            return False
        seen, many = slice(0, n_judges), n_judges >= _MANY_JUDGES
        best = min((one.losses[seen] for one in self.finished), key=np.sum)
        groups = None if self.judge.groups is None else self.judge.groups[seen]
        if not (many or is_clearly_worse(entry.losses, best, groups)):
            return False
        blend, own = (self.judge.part(one, seen) for one in (self.blend[seen], entry.outputs))
        least = self.judge.row_losses(blend, seen).sum() * (1.0 - _WORTH if many else 1.0)
        mixes = ((1.0 - share) * blend + share * own for share in _SHARES)
        return all(self.judge.row_losses(mix, seen).sum() >= least for mix in mixes)

    def lead_text(self) -> str:
        """Return the scores of the blend and of the best member in words."""
        if not self.finished:
            return ""
        best = max(self.finished, key=lambda one: self.judge.score(one.losses))
        score = self.judge.score(self.judge.losses(self.blend))
        led = self.judge.score(best.losses)
        return f" (blend {score:.3f}, best {best.member.name} {led:.3f})"


def find_twin(member: Member, finished: Iterable[MemberResult], /) -> str:
    """Return the name of the member that chose the same scaling, or an empty string.

    "auto" scales features as it finds them, so that what else they have in common is known only
    after a fit.
    """
    asked = member.estimator
    for one in finished:
        if type(one.member.estimator) is not type(asked) or not hasattr(asked, "scaling"):
            continue
        own = one.member.estimator.get_params()
        alike = own | {"scaling": asked.scaling} == asked.get_params()
        found = {type(getattr(model, "scaling_", None)) for model in one.models}
        if alike and own["scaling"] == "auto" and found == {SCALINGS.get(str(asked.scaling))}:
            return one.member.name
    return ""
