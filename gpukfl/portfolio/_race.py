"""Fits to few of very many rows, by which members that cannot help a blend are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators._learner import WarmStart
from gpukfl.methods import MetricFit
from gpukfl.portfolio._blend import blend_weights
from gpukfl.portfolio._fold_fits import FoldFitter, MemberResult
from gpukfl.portfolio._members import Member
from gpukfl.portfolio._standings import Standings

# A twentieth of so many rows is fitted first
_TRIED, _TRIED_FROM = 20_000, 40_000
_TRIED_SHARE, _FEWEST_TRIED = 0.05, 4_000
# More rows of what is behind, and no help, would gain nothing where these lose twice as much as the
# best of all rows, or more than the best of these
_HOPELESS, _BEATEN = 2.0, 1.3
# Of the loss of a blend of fits to few rows: what another one should save that loses a tenth more
# than the best. Whoever comes closer may be the best with all rows
_HELPS, _CLOSE = 0.003, 1.1


class Race:
    """A race of members on few rows of the first fold.

    Parameters
    ----------
    fitter : FoldFitter
        The folds, and what fits a member to them.
    standings : Standings
        What the members have come to with all rows.
    """

    def __init__(self, fitter: FoldFitter, standings: Standings, /) -> None:
        self._fitter, self._standings = fitter, standings
        self._trials: dict[str, MemberResult] = {}

    @property
    def is_worth_it(self) -> bool:
        """Whether there are so many rows that few of them say enough."""
        return self._fitter.n_rows >= _TRIED_FROM

    @property
    def n_rows(self) -> int:
        """How many rows are few."""
        return min(max(int(_TRIED_SHARE * self._fitter.n_rows), _FEWEST_TRIED), _TRIED)

    def run(self, member: Member, limit: float | None = None, /) -> None:
        """Fit a member to few rows, unless that was done.

        Raises
        ------
        KeyboardInterrupt
            If the user stops it.
        """
        if member.name in self._trials:
            return
        trial = MemberResult(member, transform=self._fitter.transform)
        with collect_warnings():  # what it warns of is not of the fit that stays
            fit = self._fitter.fit(member, 0, self.n_rows, None, limit)
        if fit.is_interrupted:
            raise KeyboardInterrupt
        self._fitter.add_fit(trial, fit)
        self._trials[member.name] = trial

    def rank(self, members: Sequence[Member], /) -> list[Member]:
        """Order members by what they have lost; those that have not run come last."""

        def loss(member: Member) -> float:
            trial = self._trials.get(member.name)
            return np.inf if trial is None else float(trial.losses.sum())

        return sorted(members, key=loss)

    def start(self, member: Member, /) -> WarmStart[Any] | None:
        """Return what few rows found from which a fit to all starts, or None.

        That is a diagonal metric, which all rows would learn on as few. Directions are better with
        more: HKRR that started from those of few rows lost 3 % more.
        """
        trial = self._trials.get(member.name)
        found = None if trial is None else trial.precedent
        if found is None or not isinstance(found.setting, MetricFit):
            return None
        return found if found.setting.is_diagonal else None

    def reason_to_leave(self, member: Member, /) -> str:
        """Return why a member that has run is not worth all rows, or an empty string.

        What may help the blend of those that have finished, with all their rows, is never left.
        """
        trial = self._trials[member.name]
        if not self._standings.is_behind(trial):
            return ""
        lost, seen = trial.losses.sum(), slice(0, len(trial.losses))
        least = min(one.losses[seen].sum() for one in self._standings.finished)
        least_tried = min(one.losses.sum() for one in self._trials.values())
        left = f"dropped after a fit to {self.n_rows} rows"
        if lost >= min(_HOPELESS * least, _BEATEN * least_tried):
            return f"{left}: clearly behind"
        promising = lost < _CLOSE * least_tried or self._helps(trial)
        return "" if promising else f"{left}: adds too little to the others"

    def _helps(self, trial: MemberResult) -> bool:
        """Whether a fit to few rows helps the blend of such of the members that have finished."""
        judge, seen = self._standings.judge, slice(0, len(trial.losses))
        names = [one.member.name for one in self._standings.finished]
        known = [self._trials[name].outputs for name in names if name in self._trials]
        if not known:
            return True

        def loss(mean: np.ndarray) -> float:
            return float(judge.row_losses(mean, seen).sum())

        def best_loss(outputs: Sequence[np.ndarray]) -> float:
            parts = [judge.part(one, seen) for one in outputs]
            weights = blend_weights(parts, loss, judge.n_effective)
            return loss(sum(w * part for w, part in zip(weights, parts, strict=True)))

        return best_loss([*known, trial.outputs]) < (1.0 - _HELPS) * best_loss(known)
