"""The base class of the blends: parameters, fit and predictions."""

from __future__ import annotations

import contextlib
import math
import numbers
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Choice
from gpukfl.core._array import (
    Array,
    library_name,
    to_host,
)
from gpukfl.core._checks import check_bool, check_choice, check_number
from gpukfl.core._frames import check_size, columns_to_numbers
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._places import Backend, resolve_place
from gpukfl.core._results import STATUS_NAMES, Status
from gpukfl.core._warnings import keep_warnings, record_warning, warn
from gpukfl.estimators._base import (
    HostStored,
    RenamedParameters,
    feature_names,
    restore_on_error,
)
from gpukfl.estimators._dask import find_client, has_dask, run_on_data_device
from gpukfl.estimators._learner import limit_threads
from gpukfl.estimators._reweighting import check_not_in_parts, read_loss
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import validate_samples
from gpukfl.estimators._workers import Workers, check_n_jobs
from gpukfl.inspection import Description, Names
from gpukfl.losses import Loss
from gpukfl.partitioned import Collections, check_places
from gpukfl.portfolio._blend import TRANSFORMS, choose_transform, weighted_targets
from gpukfl.portfolio._description import (
    describe,
    fit_times_frame,
    leaderboard_frame,
)
from gpukfl.portfolio._distilled import Distilled, distil
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._fold_fits import FoldFitter, is_limited, start_workers
from gpukfl.portfolio._folds import (
    choose_n_folds,
    count_related_folds,
    make_held_out_loss,
    split_folds,
)
from gpukfl.portfolio._held_out_blend import LATER_IMPORTANCES, HeldOutBlend, run_within_time
from gpukfl.portfolio._losses import (
    make_mean_loss,
    restrict_reach,
    set_member_losses,
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
from gpukfl.portfolio._previous_blend import REFIT_FOLDS, PreviousBlend
from gpukfl.portfolio._refit import BESIDE, Refit, choose_refit, fit_members_to_all, refit_members
from gpukfl.portfolio._scored import own_names, read_scored_rows, score_models
from gpukfl.portfolio._train import MemberTrainer
from gpukfl.predictor import (
    Blend,
    Blending,
    Predictor,
    weighted_medians,
)
from gpukfl.selftest import trusted_place
from gpukfl.tables import IMPUTE, Table
from gpukfl.tables._monotone import (
    check_classes,
    check_monotone,
    declare_monotone_numeric,
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


_ELEMENTS_PER_ROW = 1_000  # assumed kernel elements, by which the device is chosen


def _encodings_fit_columns(e: Any) -> bool:
    if e.encodings_ is None:
        return e.out_of_fold_.rows.shape[1] == e.n_features_in_
    counts = {len(member.models) for member in e.members_}
    columns = len(e.encodings_.table.coded)
    return (
        len(counts) == 1
        and e.encodings_.is_sound(e.n_features_in_, *counts)
        and e.out_of_fold_.rows.shape[1] == columns
    )


def _models_fit_folds(e: Any) -> bool:
    n_folds, counts = e.out_of_fold_.n_folds, {len(member.models) for member in e.members_}
    return counts == {n_folds} or (e.whole_ and counts in ({1}, {n_folds + 1}))


class AutoBase(HeldOutBlend, RenamedParameters, HostStored):
    """The common base of `AutoRegressor` and `AutoClassifier`."""

    place_: str
    status_: Annotated[str, Choice(STATUS_NAMES)]
    tuning_cut_short_: bool
    _values: ClassVar[tuple[type, ...]] = ()  # types of parameters
    client: ClassVar[Any] = None  # of a Dask cluster; instances may set it

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield "encodings of its columns", _encodings_fit_columns(self)
        yield "models of its folds and of all samples", _models_fit_folds(self)
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

    @restore_on_error
    @keep_warnings
    @run_on_data_device
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        cv: Any = None,
        validation: Any = None,
    ) -> Self:
        """Fit the models of the blend on folds, and weight them by held-out rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Arrays of NumPy, CuPy or torch, lists of rows, frames, NumPy memory maps or Dask
            collections. Columns may have text, dates and missing values.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Finite numbers for a regression. For a classification one label a row: text, integers,
            booleans or categories. Ordered categories of pandas keep their order in `classes_`.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0. A common factor changes nothing. An integer weight counts as that
            many copies of the row, which are held out together.
        groups : array of shape (n_samples,), or str, optional
            Groups of rows, such as patients, or the name of their column in a frame. All rows of a
            group are held out together. For groups of columns see `gpukfl.Model.explain`.
        time : array of shape (n_samples,), or str, optional
            Numbers or dates, or the name of their column in a frame. Held-out rows are later than
            the rows that are fitted.
        gap : float or timedelta, optional
            Time before each held-out part in which no row is fitted, in units of `time`.
        cv : splitter of scikit-learn, or pairs of indices, optional
            Rows to fit and to hold out, instead of random folds.
        validation : tuple (X, y) or (X, y, sample_weight), optional
            Other rows, which score the models instead of folds. Weights, probabilities, intervals
            and importances come from them. No model is fitted to them, unless `refit` is given.
            They exclude `groups`, `time`, `cv` and Dask.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If the data or a parameter is not as described. The estimator does not change.
        RuntimeError
            If the backend is not available.

        Notes
        -----
        The time of a fit is the sum over all models and folds. `max_time` limits it, and
        `effort="quick"` takes a fifth to four fifths of it.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from gpukfl import AutoClassifier
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> model = AutoClassifier(members=["linear"], n_folds=2, random_state=0).fit(X, y)
        >>> model.predict_proba(X).shape
        (178, 3)
        """
        given = GivenRelations(groups, time, gap, cv)
        with self._keep_order(y):
            if validation is None:
                return self._learn(X, y, sample_weight, given)
            self._check_parameters()  # before anything is read
            return self._learn(*join_validation(X, y, sample_weight, given, validation))

    def _keep_order(self, y: Any) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """Return a context that keeps the order of labels; a regression has none."""
        return contextlib.nullcontext()

    @property
    def _transform_parameter(self) -> str | None:
        """The parameter `target_transform`; None with a loss other than "squared"."""
        has_loss = not is_classifier(self) and read_loss(self) is not None
        return None if has_loss else getattr(self, "target_transform", None)

    def _check_loss(self) -> None:
        """Raise ValueError for a `target_transform` with a loss other than "squared"."""
        loss, transform = read_loss(self), getattr(self, "target_transform", None)
        if loss is not None and transform not in ("auto", None):
            msg = f"expected target_transform=None with loss={loss!r}, got {transform!r}"
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
        return self._fit_blend(X, y, sample_weight, None, relations)

    def refit_rows(
        self,
        previous: PreviousBlend,
        X: Any,
        y: Any,
        sample_weight: Any,
        relations: Relations | None = None,
        /,
    ) -> Self:
        """Fit the members of an earlier blend to other rows, without trying others."""
        return self._fit_blend(X, y, sample_weight, None, relations, previous)

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
        return self._fit_blend(*rows, None if is_all else given)

    def _fit_blend(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        whole: Collections | None,
        relations: Relations | None = None,
        previous: PreviousBlend | None = None,
    ) -> Self:
        """Fit to rows in memory: all, or a sample of `whole`; perhaps the members of `previous`."""
        self._check_parameters()
        run, backend = Run.from_settings(self), Backend.parse(self.backend)
        table = self._infer_table(X, whole) if previous is None else previous.table
        X = self._read_rows(X, table, seen=previous is None)
        with limit_threads(X, X.shape[0], backend.name), contextlib.ExitStack() as stack:
            samples = self._read_samples(y, X, sample_weight, relations)
            self._set_monotone(samples, table)
            place = resolve_place(
                backend.name, X, dtype=backend.precision(X), work=_ELEMENTS_PER_ROW * len(samples)
            )
            place = trusted_place(place, X)
            workers = stack.enter_context(start_workers(self.n_jobs, samples.X, place.reference))
            run.lap("table")
            self.encodings_ = (
                None if table is None else Encodings.blindly(table, samples, self.impute)
            )
            if previous is not None:
                self.encodings_ = previous.keep_levels(self.encodings_)
            run.lap("encodings")
            fitted = _training_samples(samples)
            self.target_transform_ = choose_transform(
                previous.target_transform if previous else self._transform_parameter,
                replace(fitted, X=self._finite(fitted.X)),
                run,
            )
            run.lap("target transform")
            self.place_ = f"{library_name(place.reference)} {place.reference.device}"
            weighted = sample_weight is not None or getattr(self, "class_weight", None) is not None
            trainer = self._train_members(
                *(samples, run, workers, previous),
                hold_out_once=whole is not None,
                weighted=weighted,
            )
            self._library, self._n_samples = library_name(X), len(samples)
            self._n_rows = samples.n_rows or len(samples)
            chosen = self._set_results(trainer, samples, run)
            refit = self._choose_refit(trainer, samples, whole, previous)
            if whole is not None or refit == "instead":  # before the folds' models are dropped
                self._compute_importances_in_time(trainer)
                run.lap("importances")
            stopped = trainer.stopped
            if refit and not stopped:
                stopped = self._refit_members(chosen, samples, trainer, refit)
            if whole is not None and not stopped:
                stopped = self._refit_to_collections(whole, chosen, len(samples), run)
            self._set_status(trainer, stopped=stopped)
            run.lap("other")
            self.fit_times_ = run.times
        return self

    def _refit_to_collections(
        self, whole: Collections, chosen: list[tuple[float, Any]], n: int, run: Run
    ) -> bool:
        """Refit members, chosen on n of all rows, to all; return whether the user interrupted."""
        try:
            self.members_, self.whole_, stopped = fit_members_to_all(self, chosen, whole, run)
            self.seen_rows_ = None  # they come from the sample
        except KeyboardInterrupt:  # while rows are read; the blend of the sample stays
            stopped = True
        self._n_samples = whole.n_rows if self.whole_ else n
        run.lap("last fit")
        return stopped

    def _choose_refit(
        self,
        trainer: MemberTrainer,
        samples: Samples,
        whole: Collections | None,
        previous: PreviousBlend | None,
    ) -> Refit:
        """Return how members are refitted to the rows in memory."""
        if whole is not None:
            return ""
        asked, related = self.refit, samples.relations
        if related is not None and related.is_validation and asked == "auto":
            return ""  # validation rows are fitted only on request
        if previous is not None:
            asked = previous.choose_refit(asked, len(trainer.fitter))
        run, are_related = trainer.run, related is not None
        return choose_refit(asked, trainer, len(samples), run, related=are_related)

    def _compute_importances_in_time(self, trainer: MemberTrainer) -> None:
        """Compute importances within the time limit of the fit."""
        run = trainer.run

        def compute(over: bool) -> bool:
            def left() -> float:
                seconds = run.remaining_seconds()
                return math.inf if seconds is None else 0.0 if run.is_over() else seconds

            return self._compute_importances((lambda: 0.0) if over else left)

        trainer.stopped = run_within_time(trainer, compute) or trainer.stopped

    def _read_samples(
        self, y: Any, X: Array, sample_weight: Any, relations: Relations | None
    ) -> Samples:
        """Read targets and weights, and check that the metric can judge them."""
        if is_classifier(self):
            check_validation_classes(y, relations)
        samples = self._read_targets(y, X, sample_weight, relations)
        metric = find_metric(self.metric, classes=is_classifier(self))
        check_metric(metric, samples, self._n_classes)
        return samples

    def _set_monotone(self, samples: Samples, table: Table | None) -> None:
        """Set the projection that makes predictions monotone, if there are signs."""
        if table is None:
            signs = read_signs(self.monotone, feature_names(self))
        else:
            signs = read_table_signs(self.monotone, table)
        check_classes(self._n_classes, signs)
        monotone = learn_monotone(samples.X, samples.weights, signs)
        self.predictor_ = replace(self.predictor_, monotone=monotone)

    def _infer_table(self, X: Any, whole: Collections | None) -> Table | None:
        """Return the schema of the columns, or None for complete numbers."""
        return infer_schema(X, declare_monotone_numeric(self.columns, self.monotone, X), whole)

    def _read_rows(self, X: Any, table: Table | None, *, seen: bool) -> Array:
        """Validate rows, or encode a table; `seen` if its schema was learned from them."""
        if table is None:
            return validate_samples(self, X, reset=True, min_samples=2)
        names = [column.name for column in table.columns]
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return table.codes(X, seen=seen)

    def _finite(self, X: Array) -> Array:
        """Return rows without missing values, encoded without the targets."""
        return X if self.encodings_ is None else self.encodings_.finite(to_host(X))

    def _train_members(
        self,
        samples: Samples,
        run: Run,
        workers: Workers,
        previous: PreviousBlend | None,
        *,
        hold_out_once: bool,
        weighted: bool,
    ) -> MemberTrainer:
        """Train the members on folds, or on one held-out part if `hold_out_once`.

        If the user gave weights (`weighted`), members that take none are dropped.
        """
        n, count = len(samples), self._n_classes
        asked = self.n_folds
        if isinstance(asked, str):
            asked = choose_n_folds(n, samples.X.shape[1], self.max_time, effort=self.effort)
            asked = asked if previous is None else min(asked, REFIT_FOLDS)
        n_folds = 1 if hold_out_once else int(asked)
        if samples.relations is not None:
            n_folds = count_related_folds(samples.relations, n_folds, self.n_folds)
        folds = split_folds(samples, run.rng, n_folds)
        self.floor_ = 0.5 / (n + max(count, 1))
        judge, transform = make_held_out_loss(folds, samples, count), self.target_transform_
        loss = None if count else read_loss(self)
        if loss is not None:
            targets = to_host(samples.Y).astype(np.float64)
            judge = make_mean_loss(loss, judge, targets, samples.weights)
        if transform is not None:
            folds = [fold.transform_targets(transform.forward) for fold in folds]
        if self.encodings_ is not None:
            self.encodings_, folds = self.encodings_.learn_on_folds(folds, _draw_seed(run.again()))
        reach = self._limit_predictions(samples, loss)
        monotone = member_monotone(self.predictor_.monotone, self.encodings_)
        fitter = FoldFitter(
            *(folds, judge, run, self.floor_, transform, reach, workers), monotone=monotone
        )
        metric = find_metric(self.metric, classes=is_classifier(self))
        trainer = MemberTrainer(fitter, run, metric=metric)
        d = folds[0].inside.X.shape[1]
        members = set_member_losses(loss, self._make_members(samples, d, run, previous), d)
        run.lap("encodings")
        trainer.train([replace(one, weighted=weighted) for one in members])
        return trainer

    def _limit_predictions(self, samples: Samples, loss: Loss | None) -> np.ndarray | None:
        """Return the limits of members' predictions (2, t); None for classes."""
        if is_classifier(self):
            return None
        transform = self.target_transform_
        _, Y, w = weighted_targets(_training_samples(samples))
        limits = prediction_limits(Y if transform is None else transform.forward(Y))
        return restrict_reach(limits, loss, Y, w)

    def _make_members(
        self, samples: Samples, d: int, run: Run, previous: PreviousBlend | None
    ) -> Sequence[Member]:
        if not np.ptp(to_host(samples.Y), axis=0).any():
            warn("y is constant: the model predicts that constant and learns nothing")
            return [make_constant_member(is_classifier(self))]
        encodings = self.encodings_
        task = Task.from_samples(
            samples,
            d,
            self.backend,
            _draw_seed(run.rng),
            of_table=encodings is not None,
            has_levels=encodings is not None and len(encodings.some) > 0,
        )
        if previous is not None:
            members = previous.make_members(task, encodings)
        else:
            limited = self.max_time is not None
            members = make_members(self.members, self.effort, task, limited=limited)
        monotone = self.predictor_.monotone
        if monotone is None:
            return members
        return [constrain_trees(one, monotone, encodings, d) for one in members]

    def _refit_members(
        self,
        chosen: Sequence[tuple[float, Any]],
        samples: Samples,
        trainer: MemberTrainer,
        refit: Refit,
    ) -> bool:
        """Refit members to all rows; return whether the user interrupted.

        The folds' models are kept if the user interrupts, time is over, or a member fails.
        """
        run, workers = trainer.run, trainer.fitter.workers
        try:
            seed, beside = _draw_seed(run.again()), refit == BESIDE
            with restore_interruptions():
                found = refit_members(self, chosen, samples, run, seed, workers, beside=beside)
            if found is None and not isinstance(self.refit, str):
                warn("max_time leaves no time to refit to all rows: the folds' models are kept")
        except KeyboardInterrupt:
            return True
        except Exception as error:  # the blend of the folds stays
            why = f"{type(error).__name__}: {error}"
            warn(f"the blend is not refitted to all rows, its models of the folds are kept: {why}")
            return False
        if found is not None:
            (self.members_, self.encodings_), self.whole_ = found, True
        return False

    def _set_status(self, trainer: MemberTrainer, *, stopped: bool) -> None:
        """Set the status and the members' warnings; warn if the fit did not run to its end."""
        standings = trainer.standings
        for weight, entry in zip(standings.weights.tolist(), standings.finished, strict=True):
            for message in entry.warnings if weight > 0 else ():
                record_warning(f"the blend's member {entry.member.name}: {message}")
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
        self._complete_record()  # this needs the rows
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
        self._fitted_predictor()  # raises before data are read
        X = drop_columns(X, getattr(self, "beside_", ()))
        if self.encodings_ is None:
            return self._new_numbers(X, method)
        codes = self.encodings_.table.codes(X)
        check_size(codes.shape, 1)
        return codes

    def _new_numbers(self, X: Any, method: str) -> Array:
        X = columns_to_numbers(X)
        try:
            with np.errstate(invalid="ignore"):  # infinite or missing numbers are checked
                return validate_samples(self, X, reset=False, method=method)
        except ValueError:  # perhaps missing values
            kept, names = self.out_of_fold_, feature_names(self)
            X = replace_gaps(X, lambda: weighted_medians(kept.rows, kept.weights), names)
        return validate_samples(self, X, reset=False, method=method)

    @property
    def _sources(self) -> list[int]:
        """The feature that each column of rows comes from."""
        if self.encodings_ is None:
            return list(range(self.n_features_in_))
        return [one.source for one in self.encodings_.table.coded]

    # ------------------------------------------------------------------ results

    def leaderboard(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> pd.DataFrame:
        """Return the score, weight and time of every member, best first.

        Given rows and their targets, return the scores of the blend's models on these rows.

        Parameters
        ----------
        X, y : as for `score`, optional
            Rows with their targets, or the name of the target's column in X.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows, at least 0.

        Returns
        -------
        DataFrame
            A row for each member and for the blend, with these columns:

            - member: the name that the parameter `members` takes.
            - model: the name of the model in words.
            - score: R² for a regression, averaged over targets, or the share of the log loss that a
              classifier saves. Each row is scored by fits that have not seen it.
            - standard_error: the standard error of the score.
            - log_loss and brier: for a classification only.
            - weight: the weight in the blend.
            - seconds: the time of the fits.
            - note: the reason why a member was left out. If the fit has enough copies of rows, the
              blend's note gives the score for rows that are in the fit.

            If `metric` was given, a column with its name comes before score, and standard_error is
            that of the metric.

            On given rows the columns are member, model, weight and metrics. The metric of the fit
            comes first, if one was given. A regression has R², RMSE and MAE. A classification has
            log loss, ROC AUC, accuracy, balanced accuracy and Brier score. Beside each metric is
            its standard error, as the rows are a sample. Members without a weight are left out.

        Raises
        ------
        TypeError, ValueError
            If one of X and y is missing, or they do not match the rows of the fit.

        Notes
        -----
        The rows of the fit chose the weights: on them, the score of the blend is a little too good.
        Standard errors are those of the infinitesimal jackknife, over groups if the fit has groups.
        For a scorer of scikit-learn they come from 50 bootstrap samples.
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
            own=own_names(self),
        )

    def fit_times(self) -> pd.DataFrame:
        """Return the time of each part of the fit, in the order in which the parts began.

        Returns
        -------
        DataFrame
            A row for each part, with these columns:

            - part: one of the names below.
            - member: the member, if the part belongs to one.
            - fits: the number of models that the part fitted.
            - seconds: the time of the part.
            - share: its share of the time of the fit.

            The parts are:

            - "table": reading the table, and imports.
            - "encodings": converting its columns to numbers.
            - "target transform".
            - "compiled code": preparing the compiled code, if necessary.
            - "folds": the fits of a member to the folds, also for members that are left out.
            - "weights".
            - "uncertainty".
            - "last fit": the fit of a member to all samples.
            - "importances".
            - "other".

            The times add up to the time of the fit. Importances that were computed after the fit
            come last, and have no share. The frame is empty for a model of an older file.
        """
        check_is_fitted(self)
        return fit_times_frame(vars(self).get("fit_times_", []), later=LATER_IMPORTANCES)

    def distilled(self, method: str = "bkernn") -> Distilled:
        """Fit one small model to the predictions of the blend, and measure its loss.

        Parameters
        ----------
        method : str, default="bkernn"
            Name of one of gpukfl's members. A single model is easier to read than the blend.

        Returns
        -------
        Distilled
            A value with `model`, `score`, `score_of_blend` and `loss`. `model` is the fitted model.
            `score` is that of an equal model, on rows that neither it nor its teachers have seen.
            If a refit replaced the models of several folds, the teachers are out-of-fold: none has
            seen the rows that it labels. `score_of_blend` is the blend's score on the same rows,
            and `loss` is the difference. A classifier learns the classes that the blend predicts.

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


def _training_samples(samples: Samples) -> Samples:
    """Return the samples without validation rows."""
    relations = samples.relations
    if relations is None or not relations.is_validation:
        return samples
    return samples.take(relations.training_rows)


def _without_record(model: Any) -> Any:
    return model.without_record() if isinstance(model, HostStored) else model


def _draw_seed(rng: np.random.RandomState) -> int:
    return int(rng.randint(2**31 - 1))
