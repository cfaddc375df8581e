"""The base of the portfolios: parameters, fit, fitted attributes and predictions."""

from __future__ import annotations

import contextlib
import itertools
import math
import numbers
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Choice, Count, Doubles, Recorded, Sometimes
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_reference,
    library_name,
    to_host,
)
from gpukfl.core._checks import check_bool, check_choice, check_number
from gpukfl.core._frames import check_size, columns_to_numbers
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._places import Backend, resolve_place
from gpukfl.core._results import STATUS_NAMES, Status
from gpukfl.core._streams import try_write_line
from gpukfl.core._warnings import record_warning, warn
from gpukfl.estimators._base import HostStored, RenamedParameters, feature_names
from gpukfl.estimators._dask import find_client, has_dask, run_on_data_device
from gpukfl.estimators._fitted import computed, held
from gpukfl.estimators._learner import limit_threads
from gpukfl.estimators._progress import show_progress
from gpukfl.estimators._reweighting import check_not_in_parts, read_loss
from gpukfl.estimators._run import FitTime, Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import validate_samples
from gpukfl.estimators._workers import Workers, check_n_jobs
from gpukfl.inspection import Description, Names
from gpukfl.partitioned import Collections, check_places
from gpukfl.portfolio._attributes import (
    Blended,
    ImportanceBasis,
    LaterImportances,
    MemberTried,
    MetricTried,
    OutOfFold,
)
from gpukfl.portfolio._blend import TRANSFORMS, choose_transform, rows_with_weight
from gpukfl.portfolio._description import (
    describe,
    fit_times_frame,
    leaderboard_frame,
    leaderboard_rows,
)
from gpukfl.portfolio._distilled import Distilled, distil
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._fold_fits import FoldFitter, is_limited, start_workers
from gpukfl.portfolio._folds import (
    HeldOutLoss,
    LogLoss,
    SquaredError,
    choose_n_folds,
    count_related_folds,
    make_held_out_loss,
    split_folds,
)
from gpukfl.portfolio._importances import PermutationImportances, permutation_importances
from gpukfl.portfolio._losses import (
    fit_members_by,
    judge_by,
    judge_samples_by,
    limit_to_range,
)
from gpukfl.portfolio._members import (
    EFFORTS,
    NAMES,
    Member,
    Task,
    check_members,
    make_constant_member,
    make_members,
    prediction_limits,
)
from gpukfl.portfolio._metrics import check_metric, find_metric
from gpukfl.portfolio._monotone import constrain_trees, member_monotone
from gpukfl.portfolio._precedent import KNOWN_FOLDS, Precedent
from gpukfl.portfolio._refit import BESIDE, Refit, choose_refit, fit_members_to_all, refit_members
from gpukfl.portfolio._repeats import learn_seen_rows
from gpukfl.portfolio._scored import held_out_scores, read_scored_rows, score_models
from gpukfl.portfolio._train import MemberTrainer
from gpukfl.predictor import (
    Blend,
    BlendedModels,
    Blending,
    Predictor,
    SeenRows,
    TargetTransform,
    check_finite_prediction,
    member_predictor,
    weighted_medians,
)
from gpukfl.selftest import trusted_place
from gpukfl.tables import IMPUTE, Encoding, Table
from gpukfl.tables._monotone import (
    check_classes,
    check_monotone,
    learn_monotone,
    read_signs,
    read_table_signs,
)
from gpukfl.tables._relations import GivenRelations, Relations, drop_columns
from gpukfl.tables._schema import infer_schema
from gpukfl.tables._seen import VIEWS, replace_gaps
from gpukfl.tables._target_checks import Range
from gpukfl.tables._training import (
    FEWEST,
    SAMPLE,
    Dataset,
    check_not_related,
    drop_outliers,
    read_arrays,
)
from gpukfl.tables._validation import check_validation_classes, join_validation

if TYPE_CHECKING:
    import pandas as pd


# ------------------------------------------------------------------------------------ kept

# What a portfolio keeps of a trainer: the blend, how sure it is, and what matters to it.


Found = TypeVar("Found")
_LOOK = "importances, after the fit"
_REPEATS, _FEW = 5, 500  # shuffles of which the mean is taken, of rows below so many
_IMPORTANCES = (
    "feature_importances_",
    "feature_importances_error_",
    "feature_importances_basis_",
    "feature_groups_",
)


class HeldOutBlend:
    """A blend with its uncertainty and scores from held-out rows."""

    n_features_in_: Annotated[int, Count("n_features")]
    tuning_: list[MemberTried]
    metric_scores_: Annotated[list[MetricTried], Sometimes()]
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
    temperature_: float = held("values.blending.temperature")
    target_transform_: TargetTransform | None = held("values.blending.transform")
    whole_: bool = held("values.blending.whole")
    seen_rows_: SeenRows | None = held("values.seen")
    predictor_: Predictor
    _models: Annotated[
        list[list[Any]], Recorded()
    ]  # of each member, whose predictors the blend has
    _table: Table | None
    _blind: Annotated[Encoding | None, Recorded()]  # learned without targets
    _later: LaterImportances  # until they are computed
    _n_samples: Annotated[int, Count("n_samples")]
    impute: str
    backend: str | Backend
    max_time: float | None
    verbose: int
    _fitted_predictor: Callable[[], Predictor]

    # ------------------------------------------------------------------ what predicts

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
        """How columns of a frame become numbers, where they are not numbers already."""
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
        """The members, whose models predict together."""
        values = self._fitted_predictor().values
        assert isinstance(values, Blend)
        return values

    @property
    def _n_classes(self) -> int:
        """The number of classes; 0 in a regression."""
        return len(getattr(self, "classes_", ()))

    def _outputs(self, X: Array, fold: int | None = None, /) -> Array:
        """Return the blend (n, t) at validated rows in float64, by one fold's models or all.

        As of new rows, whatever the fit has seen.
        """
        blend = self._blend if fold is None else self._blend.select_fold(fold)
        return self.predictor_.project(blend.evaluate_in_double, X)

    def _fold_outputs(self, X: Array, /) -> list[Array]:
        """Return the blends (n, t) of each fold's models, and of all, as `_outputs` does."""
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
                "expected a model with the rows that its folds held out, got one from a file "
                "without them: save it with record=True, or give X and y"
            )
            raise ValueError(msg)
        return self.out_of_fold_

    @property
    def _has_folds(self) -> bool:
        """Whether members have models of the folds."""
        return self._blend.n_folds >= self.out_of_fold_.n_folds

    def _fold_blends(self, X: Array, /) -> np.ndarray:
        """Return the blends (K, n, t) of a regression by each fold's models, on the host.

        Their mean is what `predict` says at these validated rows. Where members have a model of
        all samples alone, it is each fold's.
        """
        blends, seen = self._blends_of_new_rows(X), self.seen_rows_
        return blends if seen is None else np.stack([to_host(seen.move(X, one)) for one in blends])

    def _blends_of_new_rows(self, X: Array) -> np.ndarray:
        n_folds = self.out_of_fold_.n_folds
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            *found, together = self._blend.fold_outputs(X)
        for one in (*found, together):
            check_finite_prediction(one, "prediction", one.dtype)
        if not self._has_folds:
            whole = to_host(together)
            return np.broadcast_to(whole, (n_folds, *whole.shape))
        blends = np.stack([to_host(one) for one in found[:n_folds]])
        return blends + (to_host(together) - blends.mean(axis=0))

    # ------------------------------------------------------------------ what is kept

    @property
    @abstractmethod
    def _sources(self) -> list[int]:
        """The feature that each column of rows comes from."""

    @abstractmethod
    def _keep_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:
        """Set the uncertainty of predictions, by held-out rows."""

    def _keep_seen_rows(self, trainer: MemberTrainer, samples: Samples) -> None:
        """Set what is predicted where rows come again, or drop what another fit left."""
        fitter = trainer.fitter
        if fitter.monotone is not None:  # rows that come again would move, and others not
            self.seen_rows_ = None
            return
        self.seen_rows_ = learn_seen_rows(samples, self.out_of_fold_, fitter.judge, fitter.floor)

    def _project_held_out(self) -> None:
        """Make the blend's held-out predictions those of the projected blends of the folds."""
        if self.predictor_.monotone is None:
            return
        kept = self.out_of_fold_
        ends = [0, *np.cumsum(np.bincount(kept.fold)).tolist()]
        parts = [
            to_host(self._outputs(kept.rows[start:stop, :], k))
            for k, (start, stop) in enumerate(itertools.pairwise(ends))
        ]
        self.out_of_fold_ = replace(kept, predicted=np.concatenate(parts))

    def _keep(self, trainer: MemberTrainer, samples: Samples, run: Run) -> list[tuple[float, Any]]:
        """Set the members' results; return the blended ones with their weights."""
        standings, fitter = trainer.standings, trainer.fitter
        pairs = zip(standings.weights.tolist(), standings.finished, strict=True)
        chosen = [(w, entry) for w, entry in pairs if w > 0]
        self.members_, self.whole_ = [one.to_blend_member(w) for w, one in chosen], False
        self.temperature_ = standings.temperature
        self.out_of_fold_ = _make_out_of_fold(trainer, samples)
        self._keep_seen_rows(trainer, samples)
        there = double_reference(samples.X)
        self.reach_ = None if fitter.reach is None else asarray_like(fitter.reach, there)
        self._project_held_out()
        middle = np.average(to_host(samples.Y), axis=0, weights=samples.weights)
        self.intercept_ = asarray_like(middle.astype(np.float64), there)
        rows, self.tuning_seconds_ = leaderboard_rows(standings, self.seen_rows_)
        self.tuning_ = cast("list[MemberTried]", rows)
        vars(self).pop("metric_scores_", None)  # of another fit
        if trainer.metric is not None:
            groups = self.out_of_fold_.groups
            self.metric_scores_ = held_out_scores(trainer.metric, standings, groups)
        run.lap("weights")
        _ask_in_time(
            trainer,
            lambda over: self._keep_uncertainty(
                run.again(), 0.0 if over else run.remaining_seconds()
            ),
        )
        run.lap("uncertainty")
        self._put_off_importances(fitter.judge, run)
        return chosen

    # ------------------------------------------------------------------ importances

    def _put_off_importances(self, judge: HeldOutLoss, run: Run) -> None:
        """Drop importances of another fit, and keep what those of this one need."""
        for name in _IMPORTANCES:
            vars(self).pop(name, None)
        scale = getattr(judge, "scale", None)
        self._later = LaterImportances(run.again().get_state(), scale, self.max_time)

    def _complete_record(self) -> None:
        """Compute importances, where no look at them has yet."""
        later = vars(self).get("_later")
        if later is None:
            return
        limit, begun = later.max_time, time.perf_counter()
        end = math.inf if limit is None else begun + limit
        with show_progress(None):
            self._compute_importances(lambda: max(end - time.perf_counter(), 0.0))
        took = time.perf_counter() - begun
        self.fit_times_ = [*self.fit_times_, FitTime(part=_LOOK, member="", fits=0, seconds=took)]
        if self.verbose:
            try_write_line(f"importances: {took:.1f} s", sys.stderr)

    def _compute_importances(self, left: Callable[[], float]) -> bool:
        """Set importances within the seconds that are left; return whether it was interrupted."""
        found = self._shuffle_held_out(self.out_of_fold_.rows, left)
        there = double_reference(self.out_of_fold_.rows)
        self.feature_importances_ = asarray_like(found.shares, there)
        self.feature_importances_error_ = asarray_like(found.errors, there)
        by_groups = self.out_of_fold_.groups is not None
        self.feature_importances_basis_ = ImportanceBasis(
            found.total, found.n_rows, found.n_held_out, by_groups
        )
        self.feature_groups_ = found.groups
        del self._later
        return found.is_interrupted

    @run_on_data_device
    def _shuffle_held_out(self, X: Array, left: Callable[[], float]) -> PermutationImportances:
        """Shuffle the columns of the rows that were held out (m, d), fold by fold."""
        kept, later = self.out_of_fold_, self._later
        ends = np.cumsum(np.bincount(kept.fold)).tolist()
        rows = [X[start:stop, :] for start, stop in zip([0, *ends], ends, strict=False)]
        judge: HeldOutLoss = LogLoss(kept.truth, kept.weights, groups=kept.groups)
        if later.scale is not None:
            judge = SquaredError(kept.truth, kept.weights, later.scale, groups=kept.groups)
            loss = read_loss(self)
            judge = judge if loss is None else judge_by(loss, judge, kept.truth, kept.weights)
        rng = np.random.RandomState(0)
        rng.set_state(later.state)
        with limit_threads(X, self._n_samples, Backend.parse(self.backend).name):
            return permutation_importances(
                *(rows, self._sources, self.n_features_in_),
                lambda k, some: to_host(self._outputs(some, k)),
                *(judge, rng, left),
                repeats=max(1, min(_REPEATS, _FEW // len(kept.fold))),
            )


def _make_out_of_fold(trainer: MemberTrainer, samples: Samples) -> OutOfFold:
    xp, judge, folds = array_namespace(samples.X), trainer.fitter.judge, trainer.fitter.folds
    sizes = [len(fold.outside) for fold in folds]
    fold = np.repeat(np.arange(len(sizes)), sizes)
    rows = xp.concat([xp.asarray(one.source.outside.X) for one in folds], axis=0)
    final = trainer.standings.final_blend
    return OutOfFold(rows, final, judge.truth, judge.weights, fold, groups=judge.groups)


def _ask_in_time(trainer: MemberTrainer, ask: Callable[[bool], Found]) -> Found:
    """Call a slow function, or a quick one if time is over or the user stops it."""
    try:
        return ask(trainer.stopped or trainer.run.is_over())
    except KeyboardInterrupt:
        trainer.stopped = True
        return ask(True)


# ------------------------------------------------------------------------------------ base

# What the portfolios share: parameters, the fit, and predictions.


_WORK = 1_000  # kernel elements for each row, by which a place is chosen


def _reads_its_columns(e: Any) -> bool:
    if e.encodings_ is None:
        return e.out_of_fold_.rows.shape[1] == e.n_features_in_
    counts = {len(member.models) for member in e.members_}
    columns = len(e.encodings_.table.coded)
    return (
        len(counts) == 1
        and e.encodings_.is_sound(e.n_features_in_, *counts)
        and e.out_of_fold_.rows.shape[1] == columns
    )


def _has_its_models(e: Any) -> bool:
    n_folds, counts = e.out_of_fold_.n_folds, {len(member.models) for member in e.members_}
    return counts == {n_folds} or (e.whole_ and counts in ({1}, {n_folds + 1}))


class AutoBase(HeldOutBlend, RenamedParameters, HostStored):
    """The common part: parameters, the fit, and predictions."""

    place_: str
    status_: Annotated[str, Choice(STATUS_NAMES)]
    tuning_cut_short_: bool
    _values: ClassVar[tuple[type, ...]] = ()  # that parameters may be
    client: ClassVar[Any] = None  # of a Dask cluster; an instance may have its own

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield "encodings of its columns", _reads_its_columns(self)
        yield "models of its folds and of all samples", _has_its_models(self)
        yield "views of a table", all(one.sees in VIEWS for one in self._blend.members)

    def __init__(
        self,
        members: Any = None,
        *,
        effort: str = "normal",
        n_folds: int | str = "auto",
        refit: bool | str = "auto",
        columns: Mapping[str, str] | None = None,
        impute: str = "median",
        metric: str = "auto",
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.members = members
        self.effort = effort
        self.n_folds = n_folds
        self.refit = refit
        self.columns = columns
        self.impute = impute
        self.metric = metric
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    @abstractmethod
    def _read_targets(
        self, y: Any, X: Array, sample_weight: Any, relations: Relations | None = None
    ) -> Samples:
        """Validate targets and weights, and set the attributes about them."""

    def _check_parameters(self) -> None:
        """Check all parameters."""
        Backend.parse(self.backend)
        check_members(self.members, is_classifier(self))
        check_choice("effort", self.effort, EFFORTS)
        check_number("n_folds", self.n_folds, kind=numbers.Integral, low=1, also=("auto",))
        check_bool("refit", self.refit, also=("auto", BESIDE))
        check_choice("impute", self.impute, IMPUTE)
        find_metric(self.metric, classes=is_classifier(self))
        check_choice("target_transform", getattr(self, "target_transform", None), TRANSFORMS)
        if not is_classifier(self):
            self._check_loss()
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_n_jobs(self.n_jobs)
        check_monotone(self.monotone)

    def _learn_validated(
        self, X: Any, y: Any, sample_weight: Any, given: GivenRelations, validation: Any
    ) -> Self:
        """Fit to rows that are judged by others, where such are given."""
        if validation is None:
            return self._learn(X, y, sample_weight, given)
        self._check_parameters()  # before anything is read
        return self._learn(*join_validation(X, y, sample_weight, given, validation))

    @property
    def _asked_transform(self) -> str | None:
        """The scale of the targets that was asked for: None with a loss that has its own."""
        own = is_classifier(self) or read_loss(self) is None
        return getattr(self, "target_transform", None) if own else None

    def _check_loss(self) -> None:
        """Raise ValueError for a scale of the targets beside a loss that has its own."""
        loss, scale = read_loss(self), getattr(self, "target_transform", None)
        if loss is not None and scale not in ("auto", None):
            msg = f"expected target_transform=None with loss={loss!r}, got {scale!r}"
            raise ValueError(msg)

    def _learn(self, X: Any, y: Any, sample_weight: Any, given: GivenRelations) -> Self:
        if has_dask(X, y, sample_weight):
            self._check_parameters()  # before anything is read
            check_not_related(given, "in Dask collections")
            return self.fit_collections(Collections.from_inputs(X, y, sample_weight))
        data = read_arrays(X, y, sample_weight, given, classes=is_classifier(self), named=True)
        self._fit_rows(data.X, data.y, data.sample_weight, data.relations)
        self._keep_beside(data.beside)
        return self

    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, relations: Relations | None = None
    ) -> Self:
        return self._learn_blend(X, y, sample_weight, None, relations)

    def refit_rows(
        self,
        known: Precedent,
        X: Any,
        y: Any,
        sample_weight: Any,
        relations: Relations | None = None,
        /,
    ) -> Self:
        """Fit the members of an earlier blend to other rows, without trying others."""
        return self._learn_blend(X, y, sample_weight, None, relations, known)

    def fit_collections(self, given: Collections, /, *, read: None = None) -> Self:  # noqa: ARG002
        """Fit to Dask collections: choose members on a sample, and fit them to all rows."""
        self._check_parameters()
        if not is_classifier(self):
            check_not_in_parts(read_loss(self))
        is_all = given.n_rows <= SAMPLE
        if not is_all:
            check_places(find_client(self), Backend.parse(self.backend).name)
        rows = given.sample(check_random_state(self.random_state), max(SAMPLE, FEWEST))
        if not is_classifier(self):
            data = drop_outliers(Dataset(*rows))
            if len(data.y) < len(rows[1]):
                given = given.only(Range.from_targets(data.y))
            rows = data.X, data.y, data.sample_weight
        return self._learn_blend(*rows, None if is_all else given)

    def _learn_blend(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        whole: Collections | None,
        relations: Relations | None = None,
        known: Precedent | None = None,
    ) -> Self:
        """Fit to rows in memory, which may be a sample of `whole`, perhaps as was `known`."""
        self._check_parameters()
        run, backend = Run.from_settings(self), Backend.parse(self.backend)
        table = infer_schema(X, self.columns, whole) if known is None else known.table
        X = self._read(X, table, seen=known is None)
        with limit_threads(X, X.shape[0], backend.name), contextlib.ExitStack() as stack:
            samples = self._read_samples(y, X, sample_weight, relations)
            self._keep_monotone(samples, table)
            place = resolve_place(
                backend.name, X, dtype=backend.precision(X), work=_WORK * len(samples)
            )
            place = trusted_place(place, X)
            workers = stack.enter_context(start_workers(self.n_jobs, samples.X, place.reference))
            run.lap("table")
            self.encodings_ = (
                None if table is None else Encodings.blindly(table, samples, self.impute)
            )
            if known is not None:
                self.encodings_ = known.keep_levels(self.encodings_)
            run.lap("encodings")
            fitted = _never_validation(samples)
            self.target_transform_ = choose_transform(
                known.target_transform if known else self._asked_transform,
                replace(fitted, X=self._finite(fitted.X)),
                run,
            )
            run.lap("target transform")
            self.place_ = f"{library_name(place.reference)} {place.reference.device}"
            weighted = sample_weight is not None or getattr(self, "class_weight", None) is not None
            trainer = self._train_members(
                samples, run, workers, once=whole is not None, weighted=weighted, known=known
            )
            self._library, self._n_samples = library_name(X), len(samples)
            chosen = self._keep(trainer, samples, run)
            how = self._choose_last_fit(trainer, samples, whole, known)
            if whole is not None or how == "instead":  # then the folds' models go
                self._compute_importances_in(trainer)
                run.lap("importances")
            stopped = trainer.stopped
            if how and not stopped:
                stopped = self._refit(chosen, samples, trainer, how)
            if whole is not None and not stopped:
                stopped = self._fit_members_to(whole, chosen, len(samples), run)
            self._end(trainer, stopped=stopped)
            run.lap("other")
            self.fit_times_ = run.times
        return self

    def _fit_members_to(
        self, whole: Collections, chosen: list[tuple[float, Any]], n: int, run: Run
    ) -> bool:
        """Fit members to all rows, of which n chose them; return whether the user stopped it."""
        try:
            self.members_, self.whole_, stopped = fit_members_to_all(self, chosen, whole, run)
            self.seen_rows_ = None  # which are those of the sample
        except KeyboardInterrupt:  # while rows are read: those that are here have a blend
            stopped = True
        self._n_samples = whole.n_rows if self.whole_ else n
        run.lap("last fit")
        return stopped

    def _choose_last_fit(
        self,
        trainer: MemberTrainer,
        samples: Samples,
        whole: Collections | None,
        known: Precedent | None,
    ) -> Refit:
        """Return whether members are fitted to all of these rows in the end."""
        if whole is not None:
            return ""
        asked, related = self.refit, samples.relations
        if related is not None and related.is_validation and asked == "auto":
            return ""  # rows of validation are never fitted, unless the user says so
        if known is not None:
            asked = known.choose_refit(asked, len(trainer.fitter))
        run, are_related = trainer.run, related is not None
        return choose_refit(asked, trainer, len(samples), run, related=are_related)

    def _compute_importances_in(self, trainer: MemberTrainer) -> None:
        """Compute importances within the time of the fit."""
        run = trainer.run

        def compute(over: bool) -> bool:
            def left() -> float:
                there_is = run.remaining_seconds()
                return math.inf if there_is is None else 0.0 if run.is_over() else there_is

            return self._compute_importances((lambda: 0.0) if over else left)

        trainer.stopped = _ask_in_time(trainer, compute) or trainer.stopped

    def _read_samples(
        self, y: Any, X: Array, sample_weight: Any, relations: Relations | None
    ) -> Samples:
        """Read targets and weights, and check that they can be judged."""
        if is_classifier(self):
            check_validation_classes(y, relations)
        samples = self._read_targets(y, X, sample_weight, relations)
        metric = find_metric(self.metric, classes=is_classifier(self))
        check_metric(metric, samples, self._n_classes)
        return samples

    def _keep_monotone(self, samples: Samples, table: Table | None) -> None:
        """Set the projection that makes predictions monotone, if they shall be."""
        if table is None:
            signs = read_signs(self.monotone, feature_names(self))
        else:
            signs = read_table_signs(self.monotone, table)
        check_classes(self._n_classes, signs)
        monotone = learn_monotone(samples.X, samples.weights, signs)
        self.predictor_ = replace(self.predictor_, monotone=monotone)

    def _read(self, X: Any, table: Table | None, *, seen: bool) -> Array:
        """Validate rows, or encode a table, which may have been learned from them."""
        if table is None:
            return validate_samples(self, X, reset=True, min_samples=2)
        names = [column.name for column in table.columns]
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return table.codes(X, seen=seen)

    def _finite(self, X: Array) -> Array:
        """Return rows without missing values, made without the targets."""
        return X if self.encodings_ is None else self.encodings_.finite(to_host(X))

    def _train_members(
        self,
        samples: Samples,
        run: Run,
        workers: Workers,
        *,
        once: bool,
        weighted: bool,
        known: Precedent | None,
    ) -> MemberTrainer:
        """Train the members, on one held-out part if `once`.

        Those that take no weights are left out where samples are `weighted` by the user.
        """
        n, count = len(samples), self._n_classes
        asked = self.n_folds
        if isinstance(asked, str):
            asked = choose_n_folds(n, samples.X.shape[1], self.max_time, effort=self.effort)
            asked = asked if known is None else min(asked, KNOWN_FOLDS)
        n_folds = 1 if once else int(asked)
        if samples.relations is not None:
            n_folds = count_related_folds(samples.relations, n_folds, self.n_folds)
        folds = split_folds(samples, run.rng, n_folds)
        self.floor_ = 0.5 / (n + max(count, 1))
        judge, transform = make_held_out_loss(folds, samples, count), self.target_transform_
        loss = None if count else read_loss(self)
        judge = judge if loss is None else judge_samples_by(loss, judge, samples)
        if transform is not None:
            folds = [fold.transform_targets(transform.forward) for fold in folds]
        if self.encodings_ is not None:
            self.encodings_, folds = self.encodings_.learn_on_folds(folds, _draw_seed(run.again()))
        fitted = _never_validation(samples)
        Y = to_host(fitted.Y).astype(np.float64)
        kept = rows_with_weight(fitted)
        Y, w = Y[kept], None if fitted.weights is None else fitted.weights[kept]
        reach = (
            None if count else prediction_limits(Y if transform is None else transform.forward(Y))
        )
        reach = None if reach is None else limit_to_range(reach, loss, Y, w)
        monotone = member_monotone(self.predictor_.monotone, self.encodings_)
        fitter = FoldFitter(
            *(folds, judge, run, self.floor_, transform, reach, workers), monotone=monotone
        )
        metric = find_metric(self.metric, classes=is_classifier(self))
        trainer = MemberTrainer(fitter, run, metric=metric)
        d = folds[0].inside.X.shape[1]
        members = fit_members_by(loss, self._members(samples, d, run, known), d)
        run.lap("encodings")
        trainer.train([replace(one, weighted=weighted) for one in members])
        return trainer

    def _members(
        self, samples: Samples, d: int, run: Run, precedent: Precedent | None
    ) -> Sequence[Member]:
        if not np.ptp(to_host(samples.Y), axis=0).any():
            warn("y is constant: the model predicts that constant and learns nothing")
            return [make_constant_member(is_classifier(self))]
        known = self.encodings_
        task = Task.from_samples(
            samples,
            d,
            self.backend,
            _draw_seed(run.rng),
            of_table=known is not None,
            has_levels=known is not None and len(known.some) > 0,
        )
        if precedent is not None:
            members = precedent.members(task, known)
        else:
            limited = self.max_time is not None
            members = make_members(self.members, self.effort, task, limited=limited)
        monotone = self.predictor_.monotone
        if monotone is None:
            return members
        return [constrain_trees(one, monotone, known, d) for one in members]

    def _refit(
        self,
        chosen: Sequence[tuple[float, Any]],
        samples: Samples,
        trainer: MemberTrainer,
        how: Refit,
    ) -> bool:
        """Refit members to all rows, or keep the folds' models after an interruption.

        So they do where time is over, or a member fails. Says whether it was interrupted.
        """
        run, workers = trainer.run, trainer.fitter.workers
        try:
            seed, beside = _draw_seed(run.again()), how == BESIDE
            with restore_interruptions():
                found = refit_members(self, chosen, samples, run, seed, workers, beside=beside)
            if found is None and not isinstance(self.refit, str):
                warn("max_time leaves no time to refit to all samples: the folds' models stay")
        except KeyboardInterrupt:
            return True
        except Exception as error:  # whatever a member does, there is a blend
            why = f"{type(error).__name__}: {error}"
            warn(f"the blend is not fitted to all samples, that of the folds stays: {why}")
            return False
        if found is not None:
            (self.members_, self.encodings_), self.whole_ = found, True
        return False

    def _end(self, trainer: MemberTrainer, *, stopped: bool) -> None:
        """Set the status and the members' warnings, and warn if the fit was stopped."""
        standings = trainer.standings
        for weight, entry in zip(standings.weights.tolist(), standings.finished, strict=True):
            for message in entry.warnings if weight > 0 else ():
                record_warning(f"the member {entry.member.name}: {message}")
        limited = any(is_limited(model) for member in self.members_ for model in member.models)
        status = Status.TIME_LIMIT if limited or trainer.cut_short else Status.CONVERGED
        if stopped:
            status = Status.INTERRUPTED
        self.status_, self.tuning_cut_short_ = status.name, trainer.cut_short
        if status is not Status.CONVERGED:
            done = ", ".join(one.member.name for one in standings.finished)
            msg = f"{type(self).__name__}: {status.value}; blended of {done}"
            warn(msg, ConvergenceWarning)

    # ------------------------------------------------------------------ prediction

    def _start(
        self, n_features: int, *, one_target: bool = True, labels: np.ndarray | None = None
    ) -> None:
        count = 0 if labels is None else len(labels)
        classes = labels is not None
        blending = Blending(classes=classes, floor=0.0, temperature=1.0, log_odds=classes)
        blend = Blend((), blending, count, n_features)
        self.predictor_ = Predictor(blend, n_features, one_target, labels)

    def without_record(self) -> Self:
        self._complete_record()  # it takes the rows
        host: Self = self.to_host()
        kept, has_gaps = host.out_of_fold_, host.encodings_ is not None
        host.out_of_fold_ = kept.without_rows(has_gaps=has_gaps)
        host._models = [[_without_record(one) for one in models] for models in host._models]
        return host

    def _own_predictor(self) -> Predictor:
        members = tuple(replace(one, models=()) for one in self._blend.members)
        return replace(self.predictor_, values=replace(self._blend, members=members))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "predictor_" in state:
            self.members_ = self.members_

    def _predict(self, X: Any, method: str) -> Array:
        """Return the blend at `X`: (n, t)."""
        return self._fitted_predictor().evaluate(self._new_rows(X, method))

    def _new_rows(self, X: Any, method: str) -> Array:
        """Validate new rows as in the fit, or encode a table."""
        self._fitted_predictor()  # before data are looked at
        X = drop_columns(X, getattr(self, "beside_", ()))
        if self.encodings_ is None:
            return self._new_numbers(X, method)
        codes = self.encodings_.table.codes(X)
        check_size(codes.shape, 1)
        return codes

    def _new_numbers(self, X: Any, method: str) -> Array:
        X = columns_to_numbers(X)
        try:
            with np.errstate(invalid="ignore"):  # of sums of infinite numbers, or missing ones
                return validate_samples(self, X, reset=False, method=method)
        except ValueError:  # perhaps of missing values: complete rows are looked at once
            kept = self.out_of_fold_
            names = feature_names(self)
            X = replace_gaps(X, lambda: weighted_medians(kept.rows, kept.weights), names)
        return validate_samples(self, X, reset=False, method=method)

    @property
    def _sources(self) -> list[int]:
        """The feature that each column of rows comes from."""
        if self.encodings_ is None:
            return list(range(self.n_features_in_))
        return [one.source for one in self.encodings_.table.coded]

    # ------------------------------------------------------------------ what came of it

    def leaderboard(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> pd.DataFrame:
        """Return the score, weight and time of every member, best first.

        With rows and their targets, return the scores of the models of the blend on these.

        Parameters
        ----------
        X, y : as for `score`, optional
            Rows with their targets, or the name of the target's column in X.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows, at least 0.

        Returns
        -------
        DataFrame
            A row for each member and for the blend: member; score, on rows that its fits have not
            seen, with its standard_error: R² of a regression, averaged over targets, and of
            classes the share of the log loss that is saved; of classes log_loss and brier; weight
            in the blend; seconds; and a note where a member was left out, and of the blend how
            well rows are predicted that come again, where the fit has copies that tell. Where
            `metric` was given it is in front, by its name, and standard_error is its own.

            On given rows: member; weight; and the metric of the fit, if one was given, R², RMSE and
            MAE, or log loss, ROC AUC, accuracy, balanced accuracy and Brier score. Beside each is
            its standard error, as the rows are a sample. Members are those with a weight.

        Raises
        ------
        TypeError, ValueError
            If one of X and y is missing, or they are not as the model knows.

        Notes
        -----
        The weights were chosen by the rows of the fit: there the score of the blend is a little too
        good. Standard errors are those of the infinitesimal jackknife, over groups where the fit
        has these; of a scorer of scikit-learn those of 50 bootstrap samples.
        """
        check_is_fitted(self)
        if X is not None or y is not None:
            data = read_scored_rows(X, y, sample_weight, "y")
            return score_models(self, data.X, data.y, data.sample_weight)
        return leaderboard_frame(
            cast("list[dict[str, Any]]", self.tuning_),
            classes=is_classifier(self),
            metric=find_metric(self.metric, classes=is_classifier(self)),
            scores=vars(self).get("metric_scores_", ()),
        )

    def fit_times(self) -> pd.DataFrame:
        """Return where the time of the fit went, in the order in which its parts began.

        Returns
        -------
        DataFrame
            A row for each part: part; member, where it is of one; fits, how many models it
            fitted; seconds; and share of the fit. Parts are "table", its reading, and imports;
            "encodings", which make numbers of its columns; "target transform"; "compiled code",
            where that is made ready; "folds", the fits of a member to the folds, also of members
            that are left; "weights"; "uncertainty"; "last fit", a member's to all samples;
            "importances"; and "other". Their sum is the time of the fit. Importances that were
            computed at a later look come after these, and have no share. The frame is empty for a
            model of an older file.
        """
        check_is_fitted(self)
        return fit_times_frame(vars(self).get("fit_times_", []), later=_LOOK)

    def distilled(self, method: str = "bkernn") -> Distilled:
        """Fit one small model to the predictions of the blend, and measure its loss.

        Parameters
        ----------
        method : str, default="bkernn"
            The name of one of our members, of which a single one is easily read.

        Returns
        -------
        Distilled
            The fitted `model`; the `score` of an equal one on rows that neither it nor its teachers
            have seen (where several folds' models were replaced, no teacher the rows that it was
            asked at); `score_of_blend` on the same; and their difference as `loss`. A classifier
            learns the classes that the blend predicts.

        Raises
        ------
        ValueError
            If there is no such member.
        """
        check_is_fitted(self)
        check_choice("method", method, NAMES)
        return distil(self, method)

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags


def _never_validation(samples: Samples) -> Samples:
    """Return the samples that may be fitted: all but those of a validation."""
    known = samples.relations
    if known is None or not known.is_validation:
        return samples
    return samples.take(known.training_rows)


def _without_record(model: Any) -> Any:
    return model.without_record() if isinstance(model, HostStored) else model


def _draw_seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(2**31 - 1))
