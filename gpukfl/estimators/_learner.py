"""The template of every fit: validate, place, search, learn, keep and warn."""

from __future__ import annotations

import contextlib
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from gpukfl._accel.limits import one_blas_thread, one_openmp_thread
from gpukfl._accel.trust import prepare_compiled_code
from gpukfl.core._annotations import Choice, Count, Recorded, Sometimes
from gpukfl.core._array import (
    Array,
    is_array,
    is_host,
    is_on_gpu,
    library_name,
    lies_in_parts,
    to_host,
)
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._cuda import cuda_devices
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._places import Backend, Place, resolve_place, will_use_torch
from gpukfl.core._results import STATUS_NAMES, History, Status
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._base import HostPickled, RenamedParameters, feature_names
from gpukfl.estimators._calibration import Calibration, HeldOutScores, SoftmaxCalibration
from gpukfl.estimators._dask import fit_collections, has_dask
from gpukfl.estimators._data import HeldOut, make_mover
from gpukfl.estimators._pace import Pace, Size, fit_work
from gpukfl.estimators._reweighting import Reweighting, check_not_in_parts, read_loss
from gpukfl.estimators._run import Run, ignore_step, use_report
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import (
    Fold,
    FoldMethod,
    Learned,
    Problem,
    Search,
    Setting,
    Trial,
)
from gpukfl.estimators._validation import (
    validate_labels,
    validate_samples,
    validate_targets,
    validate_weights,
)
from gpukfl.estimators.scaling import WORDS, warn_bad_units
from gpukfl.partitioned import (
    Collections,
    Holder,
    PartitionedArray,
    Partitioning,
    Read,
    ThreadHolders,
)
from gpukfl.predictor import Function
from gpukfl.selftest import trusted_place
from gpukfl.tables._monotone import (
    check_classes,
    check_monotone,
    learn_monotone,
    read_signs,
)
from gpukfl.tables._relations import GivenRelations, Relations
from gpukfl.tables._training import check_not_related, drop_outliers_of_parts, read_arrays

# ---------------------------------------------------------------------------- several gpus

_MAX_PARTS = 8  # for any number of GPUs, so that results do not depend on it
_PART_ROWS = 1_000  # least rows of a part


def fit_on_devices(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    devices: int,
    fit: Callable[[Any, Any, Any], object],
    /,
) -> None:
    """Divide host data among GPUs and fit there; the model works on NumPy arrays.

    ``fit(X, y, sample_weight)`` takes partitioned arrays.

    Raises
    ------
    TypeError
        If `X` is not on the host.
    RuntimeError
        If CuPy finds fewer GPUs.
    """
    X = validate_samples(estimator, X, reset=True, min_samples=2)
    if not is_host(X):
        msg = f"expected NumPy data with several devices, got {type(X).__name__}"
        raise TypeError(msg)
    y = (validate_labels if is_classifier(estimator) else validate_targets)(y, X)
    weights = validate_weights(sample_weight, X)
    resolve_place("cupy", X, dtype="float64", work=0)  # raises an error without CuPy
    if cuda_devices() < devices:
        msg = f"expected {devices} CUDA devices, found {cuda_devices()}"
        raise RuntimeError(msg)
    holders = [Holder(_device_reference(k)) for k in range(devices)]
    sizes = _part_sizes(X.shape[0])
    given = ThreadHolders(holders, sizes)
    try:
        rows = Partitioning(given, holders[0].place)
        fit(*(None if x is None else _divide_rows(rows, given, x) for x in (X, y, weights)))
    finally:
        given.close()
    for name, value in estimator.__getstate__().items():  # arrays go back to the host
        setattr(estimator, name, value)


def _device_reference(device: int) -> Array:
    import cupy

    with cupy.cuda.Device(device):
        return cupy.empty(0)


def _part_sizes(n: int) -> list[int]:
    """Return the number of rows of each part."""
    parts = max(1, min(_MAX_PARTS, n // _PART_ROWS))
    edges = np.linspace(0, n, parts + 1).astype(int)
    return np.diff(edges).tolist()


def _divide_rows(rows: Partitioning, holders: ThreadHolders, x: np.ndarray) -> PartitionedArray:
    whole = PartitionedArray(rows, None, x.shape[1:], x.dtype)
    for part, start in enumerate(rows.edges[:-1]):
        holders.put(part, whole.key, x[start : rows.edges[part + 1]])
    return whole


# --------------------------------------------------------------------------------- threads

_FEW_ROWS = 2_000  # fewer samples are faster on torch with one thread


@contextlib.contextmanager
def limit_threads(X: Any, n_samples: int, backend: str, /) -> Iterator[None]:
    """Limit the threads of a fit of `X`: one for BLAS, and one for torch with few samples."""
    with contextlib.ExitStack() as limits:
        limits.enter_context(one_blas_thread())
        if n_samples < _FEW_ROWS and will_use_torch(backend, X):
            limits.enter_context(one_openmp_thread())
        yield


Fitted_co = TypeVar("Fitted_co", covariant=True)  # the result of the final fit

_CALIBRATED_FROM = 20  # with fewer rows, probabilities are not calibrated
_CALIBRATION_ROWS = 5_000  # split for calibration if no search has held out rows
_CALIBRATION_ENOUGH = 300  # held-out rows after which no more folds are fitted for calibration
_DOUBLE_ELEMENTS = 2_000_000  # of X, up to which float64 costs nothing
_LEAST_TIME = 1e-3  # seconds; the limit of a timed fit, which then does only what it must
_QUICK_ELEMENTS = 50_000  # of X, up to which all rows are fitted under any limit
_LEAST_SHARE = 0.5  # share of the remaining time for the work that a fit must do
_EXCESS_SHARE, _EXCESS_SECONDS = 0.2, 0.7  # excess over the limit that is allowed


@dataclass
class SearchResult(Generic[Setting, Learned]):
    """The result of a search, from which the final fit may start.

    Attributes
    ----------
    setting : Setting
        The setting to fit with.
    trial : Trial or None
        The chosen trial; None if nothing was tried.
    trials : list of Trial
        All trials.
    descriptions : list of dict
        The setting of each trial, as plain values by name.
    folds : sequence of Fold
        Training and held-out rows of the trials.
    stopped : bool
        Whether the user interrupted the search.
    cut_short : bool
        Whether the time ended it.
    settled : bool
        Whether the setting comes from another fit, without a search.
    """

    setting: Setting
    trial: Trial[Setting, Learned] | None = None
    trials: list[Trial[Setting, Learned]] = field(default_factory=list)
    descriptions: list[dict[str, Any]] = field(default_factory=list)
    folds: Sequence[Fold[Any]] = ()
    stopped: bool = False
    cut_short: bool = False
    settled: bool = False


@dataclass(frozen=True)
class WarmStart(Generic[Setting]):
    """The result of a fit, from which fits to similar rows may start.

    Attributes
    ----------
    setting : Setting
        The chosen setting.
    calibration : Calibration or None
        The map from scores to probabilities; None for a regression.
    """

    setting: Setting
    calibration: Calibration | SoftmaxCalibration | None


def mean_start(starts: Sequence[WarmStart[Any]], /) -> WarmStart[Any] | None:
    """Return the mean of several fits' results, or the first if settings have no mean."""
    if not starts:
        return None
    first, *others = starts
    mean = getattr(first.setting, "mean_with", None)
    if mean is None or not others:
        return first
    return replace(first, setting=mean([one.setting for one in others]))


class Method(FoldMethod[Problem, Setting, Learned], Protocol[Problem, Setting, Learned, Fitted_co]):
    """A published method with its settings, as a frozen value without an estimator."""

    splits: ClassVar[Splits]

    def work(self, n: int, d: int, /) -> int:
        """Return the work of a product over the rows, which decides on the place."""

    def problem(self, samples: Samples, place: Place, run: Run, /) -> Problem:
        """Place and scale samples."""

    def default_setting(self, problem: Problem, /) -> Setting:
        """Return the setting without a search."""

    def search(
        self, folds: Callable[[], Sequence[Fold[Problem]]], problem: Problem, run: Run, /
    ) -> Search[Setting, Learned] | None:
        """Return the search of a setting on held-out rows, or None without a choice."""

    def learn(
        self, problem: Problem, choice: SearchResult[Setting, Learned], run: Run, /
    ) -> Fitted_co:
        """Fit all rows; quickly, if the search was interrupted."""


def choose_setting(
    method: Method[Problem, Setting, Learned, Fitted_co],
    problem: Problem,
    samples: Samples,
    place: Place,
    run: Run,
    /,
) -> SearchResult[Setting, Learned]:
    """Choose a setting by held-out rows, if there is a choice and enough rows.

    The draws of the folds do not change those of the final fit. After an interruption, the best
    setting so far is chosen, or the default.
    """
    if problem.constant or len(samples) < method.splits.fewest:
        return SearchResult(method.default_setting(problem))

    search: Search[Setting, Learned] | None = None
    try:
        search = method.search(
            lambda: make_folds(method, samples, place, run, method.splits), problem, run
        )
        if search is None:
            return SearchResult(method.default_setting(problem))
        search.go()
        stopped = False
    except KeyboardInterrupt:
        stopped = True
    if search is None or not search.trials:  # interrupted early, or nothing was proposed
        reached = () if search is None else search.folds
        return SearchResult(method.default_setting(problem), folds=reached, stopped=stopped)
    tuner, trials = search.tuner, search.trials
    best = tuner.choose(trials)
    descriptions = [tuner.describe_trial(trial) for trial in trials]
    return SearchResult(
        best.setting, best, trials, descriptions, search.folds, stopped, search.is_cut_short
    )


def make_folds(
    method: Method[Problem, Setting, Learned, Fitted_co],
    samples: Samples,
    place: Place,
    run: Run,
    splits: Splits,
    /,
) -> list[Fold[Problem]]:
    """Split samples into folds, and place them; only the first fold if time is short."""
    folds = []
    for inside, outside in samples.splits(run.again(), splits):
        part = method.problem(inside, place, run)
        folds.append(Fold(part, HeldOut.from_samples(part, outside)))
        if not run.has_time_for_folds(math.prod(inside.X.shape)):
            break
    return folds


def predict_held_out(
    method: Method[Problem, Setting, Learned, Fitted_co],
    problem: Problem,
    samples: Samples,
    place: Place,
    run: Run,
    choice: SearchResult[Setting, Learned],
    /,
) -> HeldOutScores | None:
    """Return held-out predictions at the chosen setting.

    They are those of the search. Without a search, rows are held out for them: in several folds if
    rows are few. None if rows are too few, or the time is over.
    """
    folds = choice.folds
    predicted = [] if choice.trial is None else choice.trial.predicted
    if not predicted or len(predicted) < len(folds):  # a trial that overflowed has fewer
        few = len(samples) < max(method.splits.fewest, _CALIBRATED_FROM)
        if few or problem.constant or choice.stopped or run.is_over():
            return None
        some = Splits(at_most=_CALIBRATION_ROWS, enough=_CALIBRATION_ENOUGH)
        folds = make_folds(method, samples, place, run, some)
        try:
            learned = [method.fit_fold(fold, choice.setting, None, run) for fold in folds]
        except FloatingPointError:
            return None
        pairs = zip(folds, learned, strict=True)
        predicted = [to_host(method.predict_fold(fold, one)) for fold, one in pairs]
    F, Y, weights = [], [], []
    for fold, scores in zip(folds, predicted, strict=True):
        scale, mean = to_host(fold.problem.y_scale), to_host(fold.problem.y_mean)
        F.append(scores * scale + mean)
        Y.append(to_host(fold.held_out.Y) * scale + mean)
        weights.append(to_host(fold.held_out.weights)[:, 0])
    return HeldOutScores(np.concatenate(F), np.concatenate(Y), np.concatenate(weights))


def _working_precision(backend: Backend, X: Array, splits: Splits) -> str:
    """Return the precision of a fit: float64 for few samples, unless the user chose another.

    With few samples, rounding may decide a step or a choice.
    """
    n, d = X.shape
    few = n < splits.double_below and n * d <= _DOUBLE_ELEMENTS
    if n < splits.fewest or (few and backend.dtype == "auto"):
        return "float64"
    return backend.precision(X)


def _place_text(reference: Array, X: Array, source: Array) -> str:
    """Return in words where a fit was computed, and how rows were copied to a GPU."""
    place = f"{library_name(reference)} {reference.device}"
    if not is_host(X) or not is_on_gpu(reference):
        return place
    return f"{place}, X {'read in blocks' if is_host(source) else 'copied to it'}"


def _make_contiguous(x: Array) -> Array:
    return np.ascontiguousarray(x) if is_host(x) and x.ndim > 1 else x


class Learner(RenamedParameters, HostPickled):
    """An estimator that fits by a `Method`."""

    backend: str | Backend
    scaling: Any  # a word of `scaling.WORDS`; for HKRR perhaps several
    place_: str
    status_: Annotated[str, Choice(STATUS_NAMES)]
    tuning_: list[Any]
    tuning_seconds_: float
    tuning_cut_short_: bool
    n_reweightings_: Annotated[int, Count(), Sometimes()]
    _n_samples: Annotated[int, Count("n_samples")]
    _n_rows: Annotated[int, Count(), Sometimes()]  # with copies
    _setting: Annotated[Any, Recorded(), Sometimes()]  # in the form of files
    _values: ClassVar[tuple[type, ...]] = ()  # frozen classes of parameters and attributes
    client: ClassVar[Any] = None  # of a Dask cluster; an instance may have its own
    _finds_nothing: ClassVar[str] = "learns no features"  # from a constant target

    @abstractmethod
    def _method(self) -> Any:
        """Check the own parameters, and return the `Method`."""

    @abstractmethod
    def _keep(
        self, problem: Any, fitted: Any, choice: SearchResult[Any, Any], back: Any
    ) -> Function:
        """Return the fitted function, moved by `back` to the library of the data.

        Also set the other learned attributes.
        """

    def _keep_contiguous(self) -> None:
        """Make NumPy arrays contiguous as in files, so that products round alike."""
        given = self.get_params(deep=False)
        for name, value in list(vars(self).items()):
            if name not in given and is_array(value):
                setattr(self, name, _make_contiguous(value))
        self.predictor_ = self.predictor_.map_arrays(_make_contiguous)

    @abstractmethod
    def _read_targets(
        self, y: Any, X: Array, sample_weight: Any, relations: Relations | None
    ) -> Samples:
        """Validate targets and weights, and set the attributes about them."""

    def _predict(self, X: Any, method: str) -> Array:
        """Return the fitted functions at `X`: (n, t)."""
        predictor = self._fitted_predictor()  # raises NotFittedError first
        return predictor.evaluate(validate_samples(self, X, reset=False, method=method))

    def _check_parameters(self) -> Any:
        """Check all parameters, the common ones first, and return the `Method`."""
        Backend.parse(self.backend)
        limit = getattr(self, "max_time", None)
        check_number("max_time", limit, low=0, low_allowed=False, also=(None,))
        self._check_scaling()
        check_monotone(self.monotone)
        if not is_classifier(self):
            read_loss(self)
        return self._method()

    def fits_on_gpu(self, X: Array, n: int, /) -> bool:
        """Return whether a fit to n rows like `X` computes on a GPU."""
        backend, method = Backend.parse(self.backend).name, self._check_parameters()
        place = resolve_place(backend, X, dtype="float64", work=method.work(n, X.shape[1]))
        return is_on_gpu(place.reference)

    def _check_scaling(self) -> None:
        check_choice("scaling", self.scaling, WORDS)

    def _learn(self, X: Any, y: Any, sample_weight: Any, given: GivenRelations) -> Self:
        """Fit a regressor or a classifier."""
        if has_dask(X, y, sample_weight):
            self._check_parameters()  # before anything is read
            check_not_related(given, "in Dask collections")
            everything = Collections.from_inputs(X, y, sample_weight)
            if not is_classifier(self):
                everything = drop_outliers_of_parts(everything)
            return self.fit_collections(everything)
        data = read_arrays(X, y, sample_weight, given, classes=is_classifier(self))
        self._fit_rows(data.X, data.y, data.sample_weight, data.relations)
        self._keep_beside(data.beside)
        return self

    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, relations: Relations | None = None
    ) -> Self:
        devices = Backend.parse(self.backend).devices
        if devices is not None:
            self._check_parameters()
            check_not_related(relations, "divided among devices")
            fit_on_devices(self, X, y, sample_weight, devices, self._fit_paced)
        else:
            self._fit_paced(X, y, sample_weight, relations)
        return self

    def _fit_paced(
        self, X: Any, y: Any, sample_weight: Any, relations: Relations | None = None
    ) -> None:
        self.fit_like(X, y, sample_weight, None, relations=relations, paced=True)

    def fit_collections(self, given: Collections, /, *, read: Read | None = None) -> Self:
        """Fit to Dask collections; `read` encodes partitions that are not numeric arrays."""
        self._check_parameters()
        if not is_classifier(self):
            check_not_in_parts(read_loss(self))
        fit_collections(self, given, self._fit_paced, read=read)
        return self

    def fit_like(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        like: WarmStart[Any] | None,
        /,
        *,
        relations: Relations | None = None,
        deviations: bool = True,
        paced: bool = False,
    ) -> WarmStart[Any]:
        """Fit with the setting of another fit, or search for one; return the setting.

        `fit` calls this with `like=None`, and restores the estimator on an error. The folds of the
        search respect `relations`. Without `deviations`, attributes that only `return_std` needs
        are not computed. A `paced` fit draws as many samples as there is time for.
        """
        method, run, backend = (
            self._check_parameters(),
            Run.from_settings(self),
            Backend.parse(self.backend),
        )
        X = validate_samples(self, X, reset=True, min_samples=2)
        with limit_threads(X, X.shape[0], backend.name):
            samples = everyone = self._read_targets(y, X, sample_weight, relations)
            monotone = learn_monotone(samples.X, samples.weights, self._monotone_signs())
            loss = None if samples.labels else read_loss(self)
            if paced:
                samples = self._draw_affordable(everyone, run)
            if "n_reweightings_" in vars(self):  # of another fit
                del self.n_reweightings_

            def fit_squares(some: Samples, start: WarmStart[Any] | None) -> WarmStart[Any]:
                within = deviations and loss is None
                return self._fit_samples(method, some, start, run, deviations=within)

            if loss is None:
                found = fit_squares(samples, like)
            else:
                found = Reweighting(self, loss, samples, run, fit_squares).go(like)
            self.predictor_ = replace(self.predictor_, monotone=monotone)
            if len(samples) < len(everyone) and self.status_ != Status.INTERRUPTED.name:
                self.status_ = Status.TIME_LIMIT.name
        if self.scaling is None and not lies_in_parts(X):
            warn_bad_units(X, unit_free=self._unit_free)
        return found

    def _fit_samples(
        self,
        method: Any,
        samples: Samples,
        like: WarmStart[Any] | None,
        run: Run,
        /,
        *,
        deviations: bool,
    ) -> WarmStart[Any]:
        """Fit validated samples by least squares, and set the learned attributes."""
        X, backend = samples.X, Backend.parse(self.backend)
        dtype, within = backend.precision(X), _working_precision(backend, X, method.splits)
        place = resolve_place(backend.name, X, dtype=within, work=method.work(*X.shape))
        place = trusted_place(place, X)
        problem = method.problem(samples, place, run)
        if problem.constant:
            warn(f"y is constant: the model predicts that constant and {self._finds_nothing}")
        begun = time.perf_counter()
        if like is None or problem.constant:
            choice = choose_setting(method, problem, samples, place, run)
        else:
            choice = SearchResult(like.setting, settled=True)
        if not choice.settled or not hasattr(self, "tuning_") or samples.given_weights is None:
            self._keep_tuning(choice, time.perf_counter() - begun)
        fitted = method.learn(problem, choice, run)
        self._library = library_name(place.reference) if lies_in_parts(X) else library_name(X)
        self.place_ = _place_text(place.reference, X, problem.rows.source)
        self._n_samples = int(problem.rows.shape[0])
        self._n_rows = samples.n_rows or self._n_samples
        values = self._keep(problem, fitted, choice, make_mover(X, dtype))
        self.predictor_ = replace(self.predictor_, values=values, monotone=None)
        if deviations:
            self._keep_deviations(fitted, make_mover(X, dtype))
        self._keep_contiguous()
        alike = samples.given_weights is not None  # reweighting fits the same rows again
        choice = replace(choice, setting=self._warm_setting(choice, fitted, alike=alike))
        self._setting = self._stored_setting(choice.setting)
        if like is None or like.calibration is None:
            self._calibrate(lambda: predict_held_out(method, problem, samples, place, run, choice))
        else:
            self.calibration_ = like.calibration
        return WarmStart(choice.setting, getattr(self, "calibration_", None))

    def _monotone_signs(self) -> dict[int, int]:
        """Return the signs of `monotone` by column, perhaps those of a table's encoded columns."""
        read = self.__dict__.pop("_read_signs", None)
        signs = read_signs(self.monotone, feature_names(self)) if read is None else read
        check_classes(len(getattr(self, "classes_", ())), signs)
        return signs

    def _draw_affordable(self, samples: Samples, run: Run) -> Samples:
        """Draw as many samples as there is time for, and reserve the time that a fit needs."""
        left, (n, d) = run.remaining_seconds(), samples.X.shape
        if left is None or n * d <= _QUICK_ELEMENTS or lies_in_parts(samples.X):
            return samples
        prepare_compiled_code(samples.X)
        pace = self._measure_pace(samples, run)
        if pace is None:
            return samples
        left = run.remaining_seconds()
        assert left is not None
        rows = max(pace.affordable_rows(_LEAST_SHARE * left), min(n, pace.size.rows))
        if rows < n:
            warn(
                f"max_time is too short for {n} rows of {d} columns: the model is fitted to {rows} "
                "random rows. To use more, raise max_time"
            )
        least = pace.seconds(replace(pace.full, rows=rows))
        run.reserve(max(least - max(_EXCESS_SHARE * left, _EXCESS_SECONDS), 0.0))
        return samples.draw(rows, run.again())

    def _measure_pace(self, samples: Samples, run: Run) -> Pace | None:
        """Time small fits; return None if the method cannot fit few rows."""
        own = self.get_params(deep=False)
        given = {"max_time": _LEAST_TIME, "monotone": None}
        given |= {"verbose": 0} if "verbose" in own else {}

        def time_fit(size: Size) -> float:
            few = samples.draw(size.rows, run.again())
            y = few.Y if few.classes is None else few.classes
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
            model, begun = clone(self).set_params(**given), time.perf_counter()
            with collect_warnings(), use_report(ignore_step):
                model.fit_like(few.X[:, : size.columns], y, few.weights, None, deviations=False)
            if model.status_ == Status.INTERRUPTED.name:
                raise KeyboardInterrupt
            return time.perf_counter() - begun

        def remaining_seconds() -> float:
            return run.remaining_seconds() or _LEAST_TIME

        try:
            with restore_interruptions():
                return Pace.measure(Size(*samples.X.shape), fit_work, time_fit, remaining_seconds)
        except Exception:  # the method may not fit few rows or columns
            return None

    def _keep_deviations(self, fitted: Any, back: Callable[[Array], Array], /) -> None:
        """Set the attributes that only `return_std` needs."""

    def _keep_tuning(self, choice: SearchResult[Any, Any], seconds: float) -> None:
        """Set the trials and scores of the search."""
        self.tuning_ = [
            {
                **setting,
                "score": trial.score,
                "standard_error": trial.standard_error,
                "seconds": trial.seconds,
                "chosen": trial is choice.trial,
            }
            for trial, setting in zip(choice.trials, choice.descriptions, strict=True)
        ]
        self.tuning_seconds_, self.tuning_cut_short_ = seconds, choice.cut_short

    def _warm_setting(
        self,
        choice: SearchResult[Any, Any],
        fitted: Any,  # noqa: ARG002
        *,
        alike: bool = False,  # noqa: ARG002
    ) -> Any:
        """Return the setting from which a fit to similar rows starts, or to the same if `alike`."""
        return choice.setting

    def _stored_setting(self, setting: Any, /) -> Any:
        """Return the setting in the form that files hold."""
        return setting

    def _restored_setting(self) -> Any:
        """Return the stored setting in the form that a fit takes."""
        return self._setting

    def to_warm_start(self) -> WarmStart[Any] | None:
        """Return a start for a fit to similar rows; None for a model from an older file.

        That fit calibrates its own probabilities.
        """
        known = "_setting" in vars(self)
        return WarmStart(self._restored_setting(), None) if known else None

    def _calibrate(self, held_out: Callable[[], HeldOutScores | None]) -> None:
        """Set the calibration of probabilities; a regression has none."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class SteppedLearner(Learner):
    """A learner whose fit goes in steps, with a history."""

    n_iter_: Annotated[int, Count()]
    history_: History

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield from super()._rules()
        yield "a history of its steps", self.n_iter_ == len(self.history_)

    def _keep_steps(self, history: History, status: Status, quiet: tuple[Status, ...]) -> None:
        """Set status and history of the final fit, and warn if it did not converge."""
        self.history_, self.n_iter_ = history, len(history)
        self.status_ = status.name
        if status not in quiet:
            msg = f"{type(self).__name__} after {self.n_iter_} iterations: {status.value}"
            warn(msg, ConvergenceWarning)
