"""Fits to few of very many rows, which drop members that cannot help the blend."""

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

_RACE_FROM = 40_000  # rows of the first fold
_SAMPLE_SHARE, _MIN_SAMPLE, _MAX_SAMPLE = 0.05, 4_000, 20_000  # of these rows, for a race
# A member that is behind is dropped at these multiples of the lowest loss: of fits to all rows, and
# of fits to few rows
_HOPELESS_RATIO, _BEATEN_RATIO = 2.0, 1.3
# Other members stay below this multiple of the lowest loss of fits to few rows, or if they lower
# the loss of the blend of such fits by this share
_CLOSE_RATIO, _MIN_GAIN = 1.1, 0.003


class Race:
    """A race of members on few rows of the first fold.

    Parameters
    ----------
    fitter : FoldFitter
        Fits members to the folds.
    standings : Standings
        Results of fits to all rows.
    """

    def __init__(self, fitter: FoldFitter, standings: Standings, /) -> None:
        self._fitter, self._standings = fitter, standings
        self._results: dict[str, MemberResult] = {}

    @property
    def is_worth_it(self) -> bool:
        """Whether the first fold has enough rows for a race."""
        return self._fitter.n_rows >= _RACE_FROM

    @property
    def n_rows(self) -> int:
        """The number of rows of the race."""
        return min(max(int(_SAMPLE_SHARE * self._fitter.n_rows), _MIN_SAMPLE), _MAX_SAMPLE)

    def run(self, member: Member, limit: float | None = None, /) -> None:
        """Fit a member to few rows, unless it has run already.

        Raises
        ------
        KeyboardInterrupt
            If the user interrupts.
        """
        if member.name in self._results:
            return
        result = MemberResult(member, transform=self._fitter.transform)
        with collect_warnings():  # this fit is not kept
            fit = self._fitter.fit(member, 0, self.n_rows, None, limit)
        if fit.is_interrupted:
            raise KeyboardInterrupt
        self._fitter.add_fit(result, fit)
        self._results[member.name] = result

    def rank(self, members: Sequence[Member], /) -> list[Member]:
        """Order members by their losses; those that have not run are last."""

        def loss(member: Member) -> float:
            result = self._results.get(member.name)
            return np.inf if result is None else float(result.losses.sum())

        return sorted(members, key=loss)

    def warm_start(self, member: Member, /) -> WarmStart[Any] | None:
        """Return the settings of the fit to few rows from which the full fit starts, or None.

        Only a diagonal metric is returned, which a full fit learns from as few rows. Directions are
        learned better from more rows: HKRR that started from those of few rows lost 3 % more.
        """
        result = self._results.get(member.name)
        found = None if result is None else result.warm_start
        if found is None or not isinstance(found.setting, MetricFit):
            return None
        return found if found.setting.is_diagonal else None

    def drop_reason(self, member: Member, /) -> str:
        """Return why a member that has run is not fitted to all rows, or an empty string.

        A member that would help the blend of finished members, with all their rows, always stays.
        """
        result = self._results[member.name]
        if not self._standings.is_behind(result):
            return ""
        loss, seen = result.losses.sum(), slice(0, len(result.losses))
        least_full = min(one.losses[seen].sum() for one in self._standings.finished)
        least_few = min(one.losses.sum() for one in self._results.values())
        dropped = f"dropped after a fit to {self.n_rows} rows"
        if loss >= min(_HOPELESS_RATIO * least_full, _BEATEN_RATIO * least_few):
            return f"{dropped}: clearly behind"
        promising = loss < _CLOSE_RATIO * least_few or self._helps_blend(result)
        return "" if promising else f"{dropped}: adds too little to the others"

    def _helps_blend(self, result: MemberResult) -> bool:
        """Whether a result improves the blend of the finished members, all fitted to few rows."""
        judge, seen = self._standings.judge, slice(0, len(result.losses))
        names = [one.member.name for one in self._standings.finished]
        known = [self._results[name].outputs for name in names if name in self._results]
        if not known:
            return True

        def loss(mean: np.ndarray) -> float:
            return float(judge.row_losses(mean, seen).sum())

        def best_loss(outputs: Sequence[np.ndarray]) -> float:
            parts = [judge.part(one, seen) for one in outputs]
            weights = blend_weights(parts, loss, judge.n_effective)
            return loss(sum(w * part for w, part in zip(weights, parts, strict=True)))

        return best_loss([*known, result.outputs]) < (1.0 - _MIN_GAIN) * best_loss(known)
