"""A blend with its uncertainty, scores and importances from held-out rows."""

from __future__ import annotations

import math
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeVar, cast

import numpy as np

from gpukfl.core._annotations import Count, Doubles, Recorded, Sometimes
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_reference,
    to_host,
)
from gpukfl.core._places import Backend
from gpukfl.core._streams import try_write_line
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._fitted import computed, held
from gpukfl.estimators._learner import limit_threads
from gpukfl.estimators._progress import show_progress
from gpukfl.estimators._reweighting import read_loss
from gpukfl.estimators._run import FitTime, Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._attributes import (
    Blended,
    ImportanceBasis,
    LeaderboardRow,
    MetricScore,
    OutOfFold,
    PendingImportances,
)
from gpukfl.portfolio._description import leaderboard_rows
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, SquaredError
from gpukfl.portfolio._importances import PermutationImportances, permutation_importances
from gpukfl.portfolio._losses import make_mean_loss
from gpukfl.portfolio._repeats import learn_seen_rows
from gpukfl.portfolio._scored import held_out_scores
from gpukfl.portfolio._shift import has_shift, learn_shift
from gpukfl.portfolio._train import MemberTrainer
from gpukfl.predictor import (
    Blend,
    BlendedModels,
    Predictor,
    SeenRows,
    TargetTransform,
    check_finite_prediction,
    member_predictor,
)
from gpukfl.tables import Encoding, Table

Result = TypeVar("Result")
LATER_IMPORTANCES = "importances, after the fit"  # a part of `fit_times`
# Importances are means of up to 5 shuffles, while these have at most 500 rows together
_MAX_REPEATS, _REPEATED_ROWS = 5, 500
_IMPORTANCE_NAMES = (
    "feature_importances_",
    "feature_importances_error_",
    "feature_importances_basis_",
    "feature_groups_",
)


class HeldOutBlend:
    """A blend with its uncertainty and scores from held-out rows."""

    n_features_in_: Annotated[int, Count("n_features")]
    tuning_: list[LeaderboardRow]
    metric_scores_: Annotated[list[MetricScore], Sometimes()]
    model_names_: Annotated[dict[str, str], Sometimes()]
    tuning_seconds_: float
    fit_times_: Annotated[list[FitTime], Sometimes()]
    intercept_: Annotated[Array, Doubles("n_targets")]
    feature_importances_: Annotated[Array, Doubles("n_features")] = computed("_complete_record")
    feature_importances_error_: Annotated[Array, Doubles("n_features"), Sometimes()] = computed(
        "_complete_record"
    )
    feature_importances_basis_: Annotated[ImportanceBasis, Sometimes()] = computed(
        "_complete_record"
    )
    feature_groups_: list[list[Annotated[int, Count()]]] = computed("_complete_record")
    out_of_fold_: OutOfFold
    floor_: float = held("values.blending.floor")
    reach_: Array | None = held("values.blending.reach")
    shift_: Array | None = held("values.blending.shift")
    temperature_: float = held("values.blending.temperature")
    target_transform_: TargetTransform | None = held("values.blending.transform")
    whole_: bool = held("values.blending.whole")
    seen_rows_: SeenRows | None = held("values.seen")
    predictor_: Predictor
    _models: Annotated[list[list[Any]], Recorded()]  # estimators of each member
    _table: Table | None
    _blind: Annotated[Encoding | None, Recorded()]  # learned without targets
    _pending_importances: PendingImportances  # absent once computed
    _n_samples: Annotated[int, Count("n_samples")]
    _n_rows: Annotated[int, Count(), Sometimes()]  # with copies
    impute: str
    backend: str | Backend
    max_time: float | None
    verbose: int
    _fitted_predictor: Callable[[], Predictor]

    # ------------------------------------------------------------------ the blend

    @property
    def members_(self) -> list[Blended]:
        """The blend: name, weight and models of each member in it."""
        pairs = zip(self._blend.members, self._models, strict=True)
        return [
            Blended(one.name, one.weight, models, one.residuals, one.sees) for one, models in pairs
        ]

    @members_.setter
    def members_(self, members: Sequence[Blended]) -> None:
        self._models = [list(one.models) for one in members]
        parts = [
            BlendedModels(
                *(one.name, one.weight, tuple(map(member_predictor, one.models))),
                *(one.residuals, one.sees),
            )
            for one in members
        ]
        self._change_blend(members=tuple(parts))

    @property
    def encodings_(self) -> Encodings | None:
        """The encodings of the columns of a frame; None if these are numbers."""
        folds: Any = self._blend.encoder
        if self._table is None or self._blind is None:
            return None
        return Encodings(self._table, folds, self._blind, self.impute)

    @encodings_.setter
    def encodings_(self, encodings: Encodings | None) -> None:
        self._table = self._blind = None
        if encodings is None:
            self._change_blend(encoder=None)
            return
        self._table, self._blind = encodings.table, encodings.blind
        count = len(encodings.table.coded)
        self._change_blend(encoder=encodings.folds, n_features=count)
        self.predictor_ = replace(self.predictor_, n_features=count)

    def _change_blend(self, **parts: Any) -> None:
        self.predictor_ = replace(self.predictor_, values=replace(self._blend, **parts))

    # ------------------------------------------------------------------ predictions

    @property
    def _blend(self) -> Blend:
        """The blend in the predictor."""
        values = self._fitted_predictor().values
        assert isinstance(values, Blend)
        return values

    @property
    def _n_classes(self) -> int:
        """The number of classes; 0 in a regression."""
        return len(getattr(self, "classes_", ()))

    def _outputs(self, X: Array, fold: int | None = None, /) -> Array:
        """Return the blend (n, t) at validated rows in float64, of one fold's models or all.

        Rows of the fit are predicted like new ones.
        """
        blend = self._blend if fold is None else self._blend.select_fold(fold)
        return self.predictor_.project(blend.evaluate_in_double, X)

    def _fold_outputs(self, X: Array, /) -> list[Array]:
        """Return the blends (n, t) of each fold's models, and then of all; see `_outputs`."""
        if self.predictor_.monotone is None:
            return self._blend.fold_outputs(X)

        def evaluate(rows: Array) -> Array:
            found = self._blend.fold_outputs(rows)
            return array_namespace(*found).stack(found, axis=2)

        together = self.predictor_.project(evaluate, X)
        return [together[:, :, k] for k in range(together.shape[2])]

    @property
    def _held_out(self) -> OutOfFold:
        """Out-of-fold predictions with their rows; ValueError if a file left these out."""
        if not self.out_of_fold_.is_complete:
            msg = (
                "expected held-out rows, got a file that was saved with record=False: save it with "
                "record=True, or pass X and y"
            )
            raise ValueError(msg)
        return self.out_of_fold_

    @property
    def _has_fold_models(self) -> bool:
        """Whether members keep the folds' models."""
        return self._blend.n_folds >= self.out_of_fold_.n_folds

    def _fold_blends(self, X: Array, /) -> np.ndarray:
        """Return the blends (K, n, t) of a regression by each fold's models, on the host.

        Their mean is the prediction at these validated rows. If members have only a model of all
        rows, it is repeated for each fold.
        """
        blends, seen = self._fold_blends_without_copies(X), self.seen_rows_
        return blends if seen is None else np.stack([to_host(seen.move(X, one)) for one in blends])

    def _fold_blends_without_copies(self, X: Array) -> np.ndarray:
        n_folds = self.out_of_fold_.n_folds
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            *found, together = self._blend.fold_outputs(X)
        for one in (*found, together):
            check_finite_prediction(one, "prediction", one.dtype)
        if not self._has_fold_models:
            whole = to_host(together)
            return np.broadcast_to(whole, (n_folds, *whole.shape))
        blends = np.stack([to_host(one) for one in found[:n_folds]])
        return blends + (to_host(together) - blends.mean(axis=0))

    # ------------------------------------------------------------------ results of a fit

    @property
    @abstractmethod
    def _sources(self) -> list[int]:
        """The feature that each column of rows comes from."""

    @abstractmethod
    def _set_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:
        """Set the uncertainty of predictions from held-out rows."""

    def _set_seen_rows(self, trainer: MemberTrainer, samples: Samples) -> None:
        """Set the predictions of rows of the fit that have copies, or None."""
        fitter = trainer.fitter
        # Moving some rows alone would break monotony; the mean of copies is no quantile
        if fitter.monotone is not None or has_shift(fitter.judge):
            self.seen_rows_ = None
            return
        self.seen_rows_ = learn_seen_rows(samples, self.out_of_fold_, fitter.judge, fitter.floor)

    def _project_held_out(self) -> None:
        """Replace held-out predictions by those of the monotone blends of the folds."""
        if self.predictor_.monotone is None:
            return
        kept = self.out_of_fold_
        parts = [to_host(self._outputs(rows, k)) for k, rows in enumerate(kept.rows_by_fold)]
        self.out_of_fold_ = replace(kept, predicted=np.concatenate(parts))

    def _set_shift(self, judge: HeldOutLoss) -> np.ndarray | float:
        """Set the shift of a quantile, and move held-out predictions by that of other folds.

        Returns the moves (m, t), or 0.
        """
        found = learn_shift(judge, self.out_of_fold_)
        if found is None:
            return 0.0
        kept = self.out_of_fold_
        self.shift_ = asarray_like(found.shift, double_reference(kept.rows))
        self.out_of_fold_ = replace(kept, predicted=kept.predicted + found.moves)
        return found.moves

    def _set_results(
        self, trainer: MemberTrainer, samples: Samples, run: Run
    ) -> list[tuple[float, Any]]:
        """Set the results of the members; return the blended ones with their weights."""
        standings, fitter = trainer.standings, trainer.fitter
        pairs = zip(standings.weights.tolist(), standings.finished, strict=True)
        chosen = [(w, entry) for w, entry in pairs if w > 0]
        self.members_, self.whole_ = [one.to_blend_member(w) for w, one in chosen], False
        self.temperature_, self.shift_ = standings.temperature, None
        self.out_of_fold_ = _make_out_of_fold(trainer, samples)
        self._set_seen_rows(trainer, samples)
        reference = double_reference(samples.X)
        self.reach_ = None if fitter.reach is None else asarray_like(fitter.reach, reference)
        self._project_held_out()
        blend = standings.final_blend + self._set_shift(fitter.judge)
        middle = np.average(to_host(samples.Y), axis=0, weights=samples.weights)
        self.intercept_ = asarray_like(middle.astype(np.float64), reference)
        rows, self.tuning_seconds_ = leaderboard_rows(standings, self.seen_rows_, blend)
        self.tuning_ = cast("list[LeaderboardRow]", rows)
        for name in ("metric_scores_", "model_names_"):  # of an earlier fit
            vars(self).pop(name, None)
        entered = (one.member for one in standings.entries)
        named = {one.name: one.model for one in entered if one.model}
        if named:
            self.model_names_ = named
        if trainer.metric is not None:
            groups = self.out_of_fold_.groups
            self.metric_scores_ = held_out_scores(trainer.metric, standings, blend, groups)
        run.lap("weights")
        run_within_time(
            trainer,
            lambda over: self._set_uncertainty(
                run.again(), 0.0 if over else run.remaining_seconds()
            ),
        )
        run.lap("uncertainty")
        self._defer_importances(fitter.judge, run)
        return chosen

    # ------------------------------------------------------------------ importances

    def _defer_importances(self, judge: HeldOutLoss, run: Run) -> None:
        """Drop importances of an earlier fit, and store what those of this one need."""
        for name in _IMPORTANCE_NAMES:
            vars(self).pop(name, None)
        scale = getattr(judge, "scale", None)
        self._pending_importances = PendingImportances(
            run.again().get_state(), scale, self.max_time
        )

    def _complete_record(self) -> None:
        """Compute importances, unless that was done."""
        pending = vars(self).get("_pending_importances")
        if pending is None:
            return
        limit, begun = pending.max_time, time.perf_counter()
        end = math.inf if limit is None else begun + limit
        with show_progress(None):
            self._compute_importances(lambda: max(end - time.perf_counter(), 0.0))
        took = time.perf_counter() - begun
        self.fit_times_ = [
            *self.fit_times_,
            FitTime(part=LATER_IMPORTANCES, member="", fits=0, seconds=took),
        ]
        if self.verbose:
            try_write_line(f"importances: {took:.1f} s", sys.stderr)

    def _compute_importances(self, left: Callable[[], float]) -> bool:
        """Set importances within the seconds left; return whether the user interrupted."""
        found = self._shuffle_held_out(self.out_of_fold_.rows, left)
        reference = double_reference(self.out_of_fold_.rows)
        self.feature_importances_ = asarray_like(found.shares, reference)
        self.feature_importances_error_ = asarray_like(found.errors, reference)
        by_groups = self.out_of_fold_.groups is not None
        self.feature_importances_basis_ = ImportanceBasis(
            found.total, found.n_rows, found.n_held_out, by_groups
        )
        self.feature_groups_ = found.groups
        del self._pending_importances
        return found.is_interrupted

    @run_on_data_device
    def _shuffle_held_out(self, X: Array, left: Callable[[], float]) -> PermutationImportances:
        """Shuffle the columns of the held-out rows (m, d), fold by fold."""
        kept, pending = self.out_of_fold_, self._pending_importances
        judge: HeldOutLoss = LogLoss(kept.truth, kept.weights, groups=kept.groups)
        if pending.scale is not None:
            judge = SquaredError(kept.truth, kept.weights, pending.scale, groups=kept.groups)
            loss = read_loss(self)
            judge = judge if loss is None else make_mean_loss(loss, judge, kept.truth, kept.weights)
        rng = np.random.RandomState(0)
        rng.set_state(pending.state)
        with limit_threads(X, self._n_samples, Backend.parse(self.backend).name):
            return permutation_importances(
                *(kept.rows_by_fold, self._sources, self.n_features_in_),
                lambda k, some: to_host(self._outputs(some, k)),
                *(judge, rng, left),
                repeats=max(1, min(_MAX_REPEATS, _REPEATED_ROWS // len(kept.fold))),
            )


def _make_out_of_fold(trainer: MemberTrainer, samples: Samples) -> OutOfFold:
    xp, judge, folds = array_namespace(samples.X), trainer.fitter.judge, trainer.fitter.folds
    sizes = [len(fold.outside) for fold in folds]
    fold = np.repeat(np.arange(len(sizes)), sizes)
    rows = xp.concat([xp.asarray(one.source.outside.X) for one in folds], axis=0)
    final = trainer.standings.final_blend
    return OutOfFold(rows, final, judge.truth, judge.weights, fold, groups=judge.groups)


def run_within_time(trainer: MemberTrainer, run: Callable[[bool], Result]) -> Result:
    """Return ``run(False)``, or the quick ``run(True)`` if time is over or the user interrupts."""
    try:
        return run(trainer.stopped or trainer.run.is_over())
    except KeyboardInterrupt:
        trainer.stopped = True
        return run(True)
