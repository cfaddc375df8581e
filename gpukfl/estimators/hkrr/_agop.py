"""HKRR with maps from average gradient outer products: judged by leaving out each sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, double_reference, like, to_host
from gpukfl.core._places import Place
from gpukfl.core._results import History, Status
from gpukfl.estimators._data import HeldOut, truncate
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold, Search, Trial, Tuner, first_untried
from gpukfl.estimators.hkrr._data import FINE_RIDGES, HyperKernelProblem, Jitter, SolvedModel
from gpukfl.estimators.hkrr._fit import (
    FIT_SHARE,
    HKRR,
    LEARN_ROWS,
    TUNE_SHARE,
    HKRRFitted,
    HyperKernelFold,
    LearnedMap,
    affordable_centers,
    affordable_refit_centers,
)
from gpukfl.estimators.hkrr._settings import TunedRefit
from gpukfl.kernels import PowerExponential
from gpukfl.methods import (
    STRETCHES,
    AverageGradientOuterProduct,
    GradientFit,
    HKRRFit,
    MappedProblem,
    MappedRidge,
    fit_gradient_maps,
)

_KERNELS = {  # of the structures: one whose coordinates have a meaning, and one that turns
    "diagonal": PowerExponential(order=1.5),
    "full": PowerExponential(order=2.0, exponent=1.4),
}
_STRETCH = 8.0  # median distances: with a kink, kernels are best nearly without a scale
_ALL_CENTERS = 1_000  # rows up to which all are centres: the fit is then exact
_FIT_WORKS = 4  # normal equations, passes of leave-one-out and gradients at a map
_FEW_CENTERS = 200  # after an interruption


@dataclass(frozen=True)
class GradientSetting:
    """The lengthscale, in units of the median distance of the mapped rows, and what is known.

    From another fit to about the same rows.
    """

    stretch: float
    ridges: tuple[float, ...] | None = None  # of the fits on the way to the best map
    map: Array | None = None
    tuned: TunedRefit | None = field(default=None, compare=False)


Trials = Sequence[Trial[GradientSetting, GradientFit]]


@dataclass(frozen=True, eq=False)
class GradientTuner(Tuner[GradientSetting, GradientFit]):
    """Goes from a lengthscale to its neighbours while they predict left-out rows better."""

    stretches: Sequence[float]  # ascending

    @property
    def first(self) -> GradientSetting:
        """Return what is tried first: in the middle."""
        return GradientSetting(self.stretches[len(self.stretches) // 2])

    def propose(self, trials: Trials, /) -> GradientSetting | None:
        """Return the next neighbour of the best."""
        if not trials:
            return self.first
        at = self.stretches.index(self.choose(trials).setting.stretch)
        near = self.stretches[max(at - 1, 0) : at + 2]
        return first_untried([GradientSetting(stretch) for stretch in near], trials)

    def described(self, trial: Trial[GradientSetting, GradientFit], /) -> dict[str, Any]:
        """Name the map's size, the ridge that left-out rows ask for, and whether it was learned."""
        if not trial.learned:  # it overflowed
            return {"n_components": 0, "ridge": 1.0, "learned": False}
        best = trial.learned[0].best
        return {
            "n_components": best.B.shape[0],
            "ridge": best.ridge,
            "learned": trial.learned[0].n_steps > 0,
        }


@dataclass(frozen=True)
class GradientHKRR:
    """HKRR whose map comes from the gradients of its own fits.

    Attributes
    ----------
    settings : HKRR
        What all optimisers share; its optimizer is an `AverageGradientOuterProduct`.
    stretches : tuple of float
        Lengthscales to try, in units of the median distance of the mapped rows.
    """

    settings: HKRR
    stretches: tuple[float, ...]
    splits: ClassVar[Splits] = HKRR.splits

    @classmethod
    def of(cls, settings: HKRR, /, *, any_kernel: bool) -> Self:
        """Take the kernel that is best with gradients, where any will do."""
        if any_kernel:
            assert isinstance(settings.optimizer, AverageGradientOuterProduct)
            kernel = _KERNELS[settings.optimizer.structure]
            return cls(replace(settings, kernel=kernel), (_STRETCH,))
        return cls(settings, (1.0,) if settings.lengthscale is not None else STRETCHES)

    @property
    def optimizer(self) -> AverageGradientOuterProduct:
        """How a map is made."""
        assert isinstance(self.settings.optimizer, AverageGradientOuterProduct)
        return self.settings.optimizer

    def work(self, n: int, d: int, /) -> int:
        """Rows times centres."""
        return self.settings.work(n, d)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> HyperKernelProblem:
        """Place and scale samples."""
        return self.settings.problem(samples, place, run)

    def given(self, problem: HyperKernelProblem, /) -> GradientSetting:  # noqa: ARG002
        """Return the lengthscale in the middle: it is seldom far off."""
        return GradientTuner(self.stretches).first

    def fit_fold(
        self,
        fold: HyperKernelFold,
        setting: GradientSetting,
        start: GradientFit | None,  # noqa: ARG002
        run: Run,
        /,
    ) -> GradientFit:
        """Fit maps, until the time is over."""
        return self.maps(fold.problem, setting, run)

    def predict_fold(self, fold: HyperKernelFold, learned: GradientFit, /) -> Array:
        """Predict every row that is fitted by the others, at the best map."""
        bound = fold.problem.bound
        xp = array_namespace(bound)
        return truncate(learned.best.left_out(), xp.astype(bound, xp.float64))

    def search(
        self,
        folds: Callable[[], Sequence[HyperKernelFold]],  # noqa: ARG002
        problem: HyperKernelProblem,
        run: Run,
        /,
    ) -> Search[GradientSetting, GradientFit]:
        """Try lengthscales on all rows, or many: each is judged by the others."""
        part = problem.part(LEARN_ROWS)
        xp = array_namespace(part.reference)
        weights = xp.ones_like(part.Y[:, :1]) if part.weights is None else part.weights
        wide = [xp.astype(values, xp.float64) for values in (part.Y, weights)]
        fold = Fold(part, HeldOut(part.rows.whole(), *wide))
        return Search(self, [fold], GradientTuner(self.stretches), run, TUNE_SHARE)

    def maps(
        self,
        problem: HyperKernelProblem,
        setting: GradientSetting,
        run: Run,
        /,
        *,
        quick: bool = False,
    ) -> GradientFit:
        """Fit maps from the identity, with as many centres as there is time for; or a known one."""
        settings, known = self.settings, setting.map
        ridges = () if quick or known is not None else setting.ridges

        def watch(k: int, _: Array, history: History) -> Status | None:
            run.tell(f"maps at {setting.stretch:g} median distances", k, history)
            return Status.TIME_LIMIT if run.is_over(FIT_SHARE) else None

        sample = problem.sample(problem.rng)
        fit = fit_gradient_maps(
            MappedProblem(
                problem.kernel,
                problem.rows,
                problem.Y,
                problem.weights,
                FINE_RIDGES if settings.ridge is None else [settings.ridge],
                sample,
                self._centers(problem, sample, run, quick=quick),
                settings.lengthscale,
                setting.stretch,
            ),
            self.optimizer,
            n_components=settings.n_components,
            start=None if known is None else self._moved(known, problem),
            ridges=ridges,
            watch=watch,
        )
        if fit.status is Status.INTERRUPTED and not quick:
            raise KeyboardInterrupt
        return fit

    def _moved(self, known: Array, problem: HyperKernelProblem) -> Array:
        """Return a map of another fit, in float64, beside these rows."""
        there = double_reference(problem.Y)
        return asarray_like(to_host(known).astype(np.float64), there)

    def _centers(
        self,
        problem: HyperKernelProblem,
        sample: tuple[Array, np.ndarray | None],
        run: Run,
        *,
        quick: bool,
    ) -> Array | None:
        """Return the centres while maps are learned; None are all rows."""
        wanted = self.settings.centers.fit
        exact = _ALL_CENTERS if isinstance(wanted, str) else int(wanted)
        if problem.n <= (_FEW_CENTERS if quick else exact):
            return None
        if quick:
            return problem.centers(_FEW_CENTERS)
        q = self.settings.centers.wanted
        if isinstance(wanted, str):
            identity = array_namespace(sample[0]).ones(problem.d, **like(sample[0]))
            begin = LearnedMap(identity, problem.lengthscale(identity, *sample))
            q = affordable_centers(problem, begin, run, q, _FIT_WORKS * self.optimizer.max_iter)
        return problem.centers(q)

    def learn(
        self,
        problem: HyperKernelProblem,
        choice: SearchResult[GradientSetting, GradientFit],
        run: Run,
        /,
    ) -> HKRRFitted:
        """Solve at the best map, with all rows and more centres."""
        stopped, trial = choice.stopped, choice.trial
        if trial is not None and trial.learned:
            part, fit = choice.folds[0].problem, trial.learned[0]
        else:
            quick = stopped or problem.constant
            part = problem.part(LEARN_ROWS)
            fit = self.maps(part, choice.setting, run, quick=quick)
        model = _solve_at_best(part, fit.best)
        try:
            model = self._refit(problem, part, model, choice.setting.tuned, run, stopped=stopped)
        except KeyboardInterrupt:  # the model of the best map is there
            stopped = True
        steps = HKRRFit(model.B, model.lengthscale, fit.status, fit.best.score, fit.history)
        learned = fit.n_steps > 0 or choice.setting.map is not None
        ended = self._ended(fit, stopped=stopped)
        return HKRRFitted(steps, model, ended, learned, ridges=fit.ridges)

    def _refit(
        self,
        problem: HyperKernelProblem,
        part: HyperKernelProblem,
        model: SolvedModel,
        tuned: TunedRefit | None,
        run: Run,
        *,
        stopped: bool,
    ) -> SolvedModel:
        """Solve with more centres, where there are more; ridge and lengthscale are tuned anew."""
        refit, used = self.settings.centers.refit, model.Z.shape[0]
        if refit is None:
            return model if part.n == problem.n else problem.solved(model)
        wanted = problem.n_refit_centers()
        if problem.constant or (used == part.n == problem.n and refit in ("auto", "all")):
            return model
        if stopped:  # nobody waits for more
            return problem.refit(model, min(wanted, _FEW_CENTERS), model.tuned)
        if refit == "auto":
            wanted = affordable_refit_centers(problem, model, run, wanted)
        known = tuned is not None and tuned.serves(problem.n)
        return problem.refit(model, wanted, tuned if known else None)

    def _ended(self, fit: GradientFit, *, stopped: bool) -> Status:
        """Return how the fit ended: with as many maps as are asked for, it is done."""
        if stopped:
            return Status.INTERRUPTED
        return Status.DECIDED if fit.status is Status.MAX_ITER else fit.status


def _solve_at_best(problem: HyperKernelProblem, best: MappedRidge) -> SolvedModel:
    """Solve at the best map; the model is in the precision of the rows."""
    dtype = problem.reference.dtype
    xp = array_namespace(problem.reference)
    alpha, factor = best.solve()
    B, Z = xp.astype(best.B, dtype), xp.astype(best.operator.Z, dtype)
    tuned = TunedRefit(1.0, best.path, problem.n)
    return SolvedModel(B, best.lengthscale, Z, alpha, best.ridge, Jitter.of(factor), tuned)
