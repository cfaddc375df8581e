"""Kernel feature selection as scikit-learn estimators."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal, TypedDict, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Booleans, Count, Doubles, Floats, Integers
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    index_like,
    is_array,
    is_host,
    like,
    to_host,
)
from gpukfl.core._checks import check_bool, check_kind, check_number
from gpukfl.core._places import Backend
from gpukfl.core._warnings import warn
from gpukfl.estimators._base import OF_EVERY_FIT, SCORES, ArrayRegressor, DescribedMethod
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._data import (
    BoundedPredictions,
    prediction_bounds,
    rescale_dual_coefficients,
)
from gpukfl.estimators._features import profile_curves
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import SearchResult, SteppedLearner
from gpukfl.estimators._reweighting import LOSS, read_loss
from gpukfl.estimators._validation import check_finite_result, validate_samples
from gpukfl.estimators.kernel_ridge._estimator import warn_bad_solution
from gpukfl.estimators.scaling import SCALING_ATTRIBUTE, STANDARD_SCALING
from gpukfl.estimators.selection._data import SelectionProblem, make_selection_kernel
from gpukfl.estimators.selection._fit import (
    QUIET,
    KernelSelection,
    SelectionFoldFit,
    SelectionResult,
    SelectionSetting,
)
from gpukfl.estimators.selection._settings import (
    DEFAULT_RIDGE,
    Knockoffs,
    Path,
    Permutations,
    Stability,
    Weights,
)
from gpukfl.inspection import Description, Importances, Names, Objective, Panel, Rounds
from gpukfl.inspection import Path as PathPanel
from gpukfl.kernels import Kernel
from gpukfl.knockoffs import (
    GaussianKnockoffs,
    RankKnockoffs,
    min_discoveries,
    select_by_e_values,
    selection_level,
)
from gpukfl.methods import Selection
from gpukfl.predictor import KernelSum
from gpukfl.solvers import ArmijoSearch, ProjectedGradient
from gpukfl.tables._monotone import MONOTONE

# ------------------------------------------------------------------------------ attributes


class SelectionTried(Tried):
    """A setting that was tried."""

    ridge: float
    sparsity: float | Literal["auto"]
    n_selected: float


class Round(TypedDict):
    """A round of the selection."""

    level: Annotated[int, Count()]
    sparsity: float
    entered: list[Annotated[int, Count()]]
    scores: list[float]
    highest_left: float


class PathRecord(TypedDict):
    """The result of a path over the sparsities."""

    sparsity: Annotated[np.ndarray, Doubles("n_path")]
    beta: Annotated[np.ndarray, Doubles("n_path", "n_features")]
    score: Annotated[np.ndarray, Doubles("n_path")]


class KnockoffRecord(TypedDict):
    """The settings of the knockoffs that were used."""

    level: float
    draws: Annotated[int, Count()]
    copies: Annotated[int, Count()]
    shrinkage: float
    n_samples: Annotated[int, Count()]


# ----------------------------------------------------------------------------- description


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    last = "the mean" if e.dual_coef_ is None else type(e.kernel_).__name__
    found = [one for one in e.rounds_ if one["entered"]]
    selected = f"{e.n_effective_features_} of {e.n_features_in_} variables"
    tuned = ("ridge", ()) if e.path_ is None else ("sparsity", ("ridge",))
    about = e._fit_fields(names, along=tuned[0], beside=tuned[1])
    return Description(
        **about | {"dimension": (e.n_effective_features_, "selected variable")},
        text=(
            f"{selected}{_rounds_text(e, len(found))}, then "
            f"{last if e.dual_coef_ is None else f'{last} kernel'}"
        ),
        products="by blocks",
        facts={
            "selection by": type(make_selection_kernel(e.kernel)).__name__,
            "selected": selected,
            "variables by round": ", ".join(str(len(r["entered"])) for r in found) or "none",
            "thresholds γ": ", ".join(f"{r['sparsity']:.3g}" for r in e.rounds_) or "none",
            "ridge λ": f"{e.ridge_:.3g}",
            "prediction by": last,
        }
        | _knockoff_facts(e),
        note=(
            "A variable enters in the first round in which its score stays above the threshold γ "
            "until it has weight. Scores are those at the start of a round. A profile is "
            "the prediction along one selected variable, averaged over the others of some centres."
        ),
        panels=_panels(e, names),
    )


def _rounds_text(e: Any, count: int) -> str:
    """Return the number of rounds in words."""
    if e.error_control is not None:
        return ""
    return f" in {count} round{'' if count == 1 else 's'}"


def _knockoff_facts(e: Any) -> dict[str, str]:
    """Return facts on the guarantees of knockoffs."""
    if e.knockoffs_ is None:
        return {}
    level, draws, copies = (e.knockoffs_[key] for key in ("level", "draws", "copies"))
    times, fewest = f"{draws} draw{'' if draws == 1 else 's'}", min_discoveries(level, copies)
    return {
        "false discoveries": f"at most {level:.3g} of those selected, on average",
        "knockoffs": f"{times} of {copies} copies, {e.knockoffs_['n_samples']} rows",
        "fewest that can be found": str(fewest),
        "correlations shrunk by": f"{e.knockoffs_['shrinkage']:.1%}",
    }


def _panels(e: Any, names: Names) -> tuple[Panel, ...]:
    features = names.features
    thresholds = tuple((one["level"], one["sparsity"]) for one in e.rounds_)
    panels: list[Panel] = [
        Importances(features, e.feature_importances_, "error that permuting adds", e.levels_),
        Rounds(features, e.scores_, e.levels_, thresholds),
        profile_curves(e, names, "Prediction along the selected variables"),
    ]
    if e.path_ is not None:
        gammas, beta, scores = (e.path_[key] for key in ("sparsity", "beta", "score"))
        score = SCORES[is_classifier(e)]
        panels.append(PathPanel(features, gammas, beta, scores, e.sparsity_, score))
    return (*panels, Objective(tuple(e.history_.objective)))


# ------------------------------------------------------------------------------------ base

_CONTROLS = {"fdr": Knockoffs()}
_SPARSITIES: dict[str, Permutations | Path] = {"auto": Permutations(), "tune": Path()}
_PROFILE_CENTERS = 30  # centres over which a profile is averaged
_NOTABLE_R2 = 0.1  # R² of all variables, beyond its error, that is shown if none was selected


class SelectionBase(DescribedMethod, SelectorMixin, BoundedPredictions, SteppedLearner):
    """The base of regressor and classifier: parameters, fitted attributes and predictions."""

    kernel_: Kernel = held("values.kernel")
    centers_: Array | None = held("values.centers")
    dual_coef_: Array | None = held("values.coef")
    _used: np.ndarray = held("values.columns")
    _stretch: np.ndarray = held("values.factors")
    _describe = describe
    scores_: Annotated[Array, Doubles("n_features")]
    levels_: Annotated[Array, Integers("n_features")]
    beta_: Annotated[Array, Doubles("n_features")]
    feature_importances_: Annotated[Array, Doubles("n_features")]
    components_: Annotated[Array, Floats("n_used", "n_features")]
    n_effective_features_: Annotated[int, Count()]
    _support: Annotated[Array, Booleans("n_features")]
    ridge_: float
    sparsity_: float
    anchor_: float
    rounds_: list[Round]
    path_: PathRecord | None
    selection_frequencies_: Annotated[Array, Doubles("n_features")] | None
    stability_threshold_: float | None
    e_values_: Annotated[Array, Doubles("n_features")] | None
    fdr_: float | None
    knockoffs_: KnockoffRecord | None
    tuning_: list[SelectionTried]
    _values = (
        Permutations,
        Path,
        Stability,
        Knockoffs,
        RankKnockoffs,
        GaussianKnockoffs,
        Weights,
        ProjectedGradient,
        ArmijoSearch,
        SelectionSetting,
    )
    _unit_free = True  # the anchor is scaled with the features
    _finds_nothing = "selects no variable"
    _renamed: ClassVar[dict[str, str]] = {
        "radius": "pass anchor=Weights(radius=...)",
        "n_permutations": "pass sparsity=Permutations(number)",
        "n_sparsities": "pass sparsity=Path(number)",
        "level": "pass error_control=Knockoffs(level)",
        "stability": "pass error_control=Stability(...)",
        "n_subsamples": "pass error_control=Stability(n_subsamples)",
        "max_false": "pass error_control=Stability(n_subsamples, max_false)",
        "max_iter": "pass optimizer=ProjectedGradient(max_iter=...)",
        "tol": "pass optimizer=ProjectedGradient(tol=...)",
    }

    def __init__(
        self,
        kernel: str | Kernel = "laplace",
        *,
        ridge: float | str = DEFAULT_RIDGE,
        sparsity: float | str | Permutations | Path = "auto",
        hierarchical: bool = True,
        anchor: float | str | Weights = "auto",
        n_centers: int | str = "auto",
        error_control: str | Stability | Knockoffs | None = None,
        optimizer: ProjectedGradient | None = None,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.sparsity = sparsity
        self.hierarchical = hierarchical
        self.anchor = anchor
        self.n_centers = n_centers
        self.error_control = error_control
        self.optimizer = optimizer
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling
        self.verbose = verbose

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield from super()._rules()
        entered = [k for one in self.rounds_ for k in one["entered"]]
        inside = max(entered, default=0) < self.n_features_in_
        sound = inside and bool((to_host(self.levels_) >= 0).all())
        yield "rounds of its variables", sound and len(self._used) == self.components_.shape[0]
        count = int(to_host(self._support).sum())
        yield "as many variables", count == self.n_effective_features_
        known = [one is None for one in (self.e_values_, self.fdr_, self.knockoffs_)]
        yield "e-values with their share of false ones", len({*known}) == 1
        e_values = None if self.e_values_ is None else to_host(self.e_values_)
        yield "e-values", e_values is None or bool((e_values >= 0).all())

    # ------------------------------------------------------------------ fitting

    def _method(self) -> KernelSelection:
        kernel, whole = make_selection_kernel(self.kernel), numbers.Integral
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("n_centers", self.n_centers, kind=whole, low=1, also=("auto", "all"))
        check_kind("optimizer", self.optimizer, (ProjectedGradient, type(None)))
        check_bool("hierarchical", self.hierarchical)
        return KernelSelection(
            kernel=kernel,
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            sparsity=self._sparsity(),
            hierarchical=bool(self.hierarchical),
            weights=self.anchor if isinstance(self.anchor, Weights) else Weights(self.anchor),
            n_centers=self.n_centers,
            error_control=self._error_control(),
            optimizer=self.optimizer or ProjectedGradient(),
            # "robust" was worse on average, on 18 data sets with heavy tails
            scaling="standard" if self.scaling == "auto" else self.scaling,
        )

    def _error_control(self) -> Stability | Knockoffs | None:
        if isinstance(self.error_control, str):
            if self.error_control not in _CONTROLS:
                msg = (
                    "expected error_control to be 'fdr', None, or an instance of Knockoffs or "
                    f"Stability of gpukfl.estimators.selection, got {self.error_control!r}"
                )
                raise ValueError(msg)
            found: Stability | Knockoffs | None = _CONTROLS[self.error_control]
        else:
            kinds = (Stability, Knockoffs, str, type(None))
            check_kind("error_control", self.error_control, kinds)
            found = self.error_control
        loss = read_loss(self)
        if found is not None and loss is not None:
            msg = (
                f"expected loss='squared' with error_control, got {loss!r}: reweighted targets "
                "hold what was fitted to the variables before, so that no bound of errors holds"
            )
            raise ValueError(msg)
        return found

    def _sparsity(self) -> float | Permutations | Path:
        if isinstance(self.sparsity, (Permutations, Path)):
            return self.sparsity
        check_number("sparsity", self.sparsity, low=0, also=("auto", "tune"))
        if isinstance(self.sparsity, str):
            return _SPARSITIES[self.sparsity]
        return float(self.sparsity)

    def _keep(
        self,
        problem: SelectionProblem,
        fitted: SelectionResult,
        choice: SearchResult[SelectionSetting, SelectionFoldFit],
        back: Callable[[Array], Array],
    ) -> KernelSum:
        selection, last = fitted.selection, fitted.last
        beta = np.zeros(problem.p) if last is None else last.beta
        used, stretch = np.flatnonzero(beta), np.ones(0)
        there = back(problem.y_mean)
        check_finite_result(there)
        coef = centers = None
        if last is not None:
            coef = rescale_dual_coefficients(last.fit.alpha, problem, there)
            check_finite_result(back(coef))
            centers = back(last.fit.Z)
            warn_bad_solution(last.fit, problem)
            stretch = beta[used] ** (1.0 / problem.kernel.power)
        self._support = _copy_keeping_dtype(selection.support, there)
        self.beta_ = _copy_keeping_dtype(beta, there)
        self._keep_rounds(selection, there)
        shares = fitted.frequencies
        self.selection_frequencies_ = None if shares is None else _copy_keeping_dtype(shares, there)
        self.stability_threshold_ = fitted.threshold
        self._keep_discoveries(fitted, there)
        importances = np.zeros(problem.p) if last is None else last.importances
        self.feature_importances_ = _copy_keeping_dtype(importances, there)
        order = used[np.argsort(-importances[used], kind="stable")]
        components = np.zeros((len(order), problem.p))
        components[np.arange(len(order)), order] = 1.0
        self.components_ = asarray_like(components, there)
        self.n_effective_features_ = int(selection.support.sum())
        self.sparsity_ = selection.rounds[-1].sparsity if selection.rounds else 0.0
        self.anchor_, self.ridge_ = problem.anchor, choice.setting.ridge
        self.path_ = cast("PathRecord | None", fitted.path)
        self._keep_steps(selection.history, selection.status, QUIET)
        if not self.n_effective_features_ and not problem.constant:
            warn(_nothing_selected_text(fitted.missed, problem.n, is_classifier(self)))
        return KernelSum(
            intercept=there,
            scaling=problem.scaling,
            kernel=problem.kernel if last is None else last.fit.kernel,
            centers=centers,
            coef=coef,
            columns=used,
            factors=stretch,
            bounds=prediction_bounds(problem, back),
        )

    def _keep_discoveries(self, fitted: SelectionResult, there: Array) -> None:
        """Set the attributes of knockoffs, which are None without them."""
        found = fitted.discoveries
        self.e_values_, self.fdr_, self.knockoffs_ = None, None, None
        if found is None:
            return
        self.e_values_ = _copy_keeping_dtype(found.e_values, there)
        self.fdr_ = selection_level(found.e_values, fitted.selection.support)
        self.knockoffs_ = {
            "level": found.level,
            "draws": found.draws,
            "copies": found.copies,
            "shrinkage": found.shrinkage,
            "n_samples": found.n_samples,
        }

    def _keep_rounds(self, selection: Selection, there: Array) -> None:
        """Set level and score of every variable, and the discoveries of each round."""
        p = len(selection.beta)
        levels, scores = np.zeros(p, dtype=np.int64), np.zeros(p)
        self.rounds_ = []
        for level, one in enumerate(selection.rounds, start=1):
            out = levels == 0
            scores[out] = one.scores[out]
            levels[one.entered] = level
            self.rounds_.append(
                {
                    "level": level,
                    "sparsity": float(one.sparsity),
                    "entered": one.entered.tolist(),
                    "scores": one.scores[one.entered].tolist(),
                    "highest_left": float(np.delete(one.scores, one.entered).max(initial=0.0)),
                }
            )
        # Error control may drop variables that entered, and keep others
        levels[~selection.support] = 0
        levels[selection.support & (levels == 0)] = len(selection.rounds) + 1
        self.levels_, self.scores_ = (
            _copy_keeping_dtype(levels, there),
            _copy_keeping_dtype(scores, there),
        )

    # ------------------------------------------------------------------ what was selected

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return to_host(self._support)

    @run_on_data_device
    def transform(self, X: Any) -> Array:
        """Keep the selected columns.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array or frame of shape (n_samples, n_selected)
            The selected columns as they are in X.

        Raises
        ------
        ValueError
            If no variable was selected.
        """
        check_is_fitted(self)
        whole = validate_samples(self, X, reset=False, method="transform")
        if not self.n_effective_features_:
            msg = (
                "expected at least one selected variable to transform to, got none: lower "
                "sparsity, or look at scores_ for the next best variables"
            )
            raise ValueError(msg)
        if hasattr(X, "columns"):
            return super().transform(X)
        index = self.get_support(indices=True)
        if is_host(whole):
            return whole[:, index]
        xp = array_namespace(whole)
        return xp.take(whole, xp.asarray(index, device=like(whole)["device"]), axis=1)

    @run_on_data_device
    def inverse_transform(self, X: Any) -> Array:
        """Put the selected columns back in place, with zeros for the others.

        Parameters
        ----------
        X : array of shape (n_samples, n_selected)
            What `transform` gives, of any library.

        Returns
        -------
        array of shape (n_samples, n_features)
            Of the library, device and dtype of X.

        Raises
        ------
        ValueError
            If X has another number of columns than were selected.
        """
        if not is_array(X) or is_host(X):
            return super().inverse_transform(X)
        support = self.get_support()
        if X.ndim != 2 or X.shape[1] != support.sum():
            msg = f"expected X of shape (n, {int(support.sum())}), got {tuple(X.shape)}"
            raise ValueError(msg)
        xp = array_namespace(X)
        with_zeros = xp.concat([X, xp.zeros((X.shape[0], 1), **like(X))], axis=1)
        origin = np.where(support, np.cumsum(support) - 1, X.shape[1])
        return xp.take(with_zeros, xp.asarray(origin, **index_like(X)), axis=1)

    def selected_at(self, level: float, /) -> np.ndarray:
        """Select at another level, by the e-values that knockoffs gave.

        Parameters
        ----------
        level : float
            Share of false variables among those selected, at most, on average: in (0, 1].

        Returns
        -------
        host array of bool (n_features,)
            Whether each variable is selected. Far from the level of the fit fewer are found than
            by a fit at that level.

        Raises
        ------
        ValueError
            If the fit has no e-values: it was not one with knockoffs, or ended before them.
        """
        check_is_fitted(self)
        check_number("level", level, low=0, high=1, low_allowed=False)
        if self.e_values_ is None:
            msg = (
                f"expected a complete fit with error_control='fdr' for e-values, got "
                f"error_control={self.error_control!r} and no e-values"
            )
            raise ValueError(msg)
        return select_by_e_values(to_host(self.e_values_), float(level))

    def profiles(self, count: int = 5, points: int = 100) -> tuple[np.ndarray, np.ndarray]:
        """Predict along the selected variables, averaged over the other values of some centres.

        At their mean there may be no row at all, such as between the indicators of categories,
        and a narrow kernel knows nothing there.

        Parameters
        ----------
        count : int
            Variables at most, most important first.
        points : int
            On each, over the range of the centres.

        Returns
        -------
        tuple of host arrays, shapes (c, points) and (c, points, n_targets)
            Values of the variables as `scaling` left them, and predictions.
        """
        check_is_fitted(self)
        if self.dual_coef_ is None or self.centers_ is None:
            return np.zeros((0, points)), np.zeros((0, points, len(to_host(self.intercept_))))
        centers = to_host(self.centers_).astype(float)
        importances = to_host(self.feature_importances_)[to_host(self._used)]
        order = np.argsort(-importances, kind="stable")[:count]
        steps = np.linspace(centers.min(axis=0), centers.max(axis=0), points, axis=1)[order]
        some = np.linspace(0, len(centers) - 1, min(_PROFILE_CENTERS, len(centers))).astype(int)
        coef = to_host(self.dual_coef_)
        values = np.empty((len(order), points, coef.shape[1]))
        for row, variable in enumerate(order):
            Z = np.tile(centers[some], (points, 1, 1))
            Z[:, :, variable] = steps[row][:, None]
            K = np.asarray(self.kernel_(Z.reshape(-1, Z.shape[-1]), centers))
            values[row] = (K @ coef).reshape(points, len(some), -1).mean(axis=1)
        return steps / to_host(self._stretch)[order, None], to_host(self.intercept_) + values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _copy_keeping_dtype(host: np.ndarray, there: Array) -> Array:
    """Copy to a library and device, and keep the dtype."""
    return array_namespace(there).asarray(host, device=like(there)["device"])


def _nothing_selected_text(missed: float | None, n: int, classes: bool) -> str:
    """Return a warning that nothing was selected, with R² of all variables."""
    what = "the frequencies of the classes" if classes else "the mean of y"
    said = f"no variable was selected: the model predicts {what}"
    if missed is None or missed < _NOTABLE_R2 + 2.0 / n**0.5:
        return said
    return (
        f"{said}, though all variables together predict well (R² {missed:.2f}). Variables that "
        "only "
        'act together are not found: try method="auto" of gpukfl.fit, which uses all'
    )


_PARAMETERS = (
    """
    Parameters
    ----------
    kernel : {"laplace", "gaussian", "inverse"} or Kernel, default="laplace"
        Kernel that weights the variables: a function of the weighted sum of absolute differences
        (exp(-u), or 1 / (1 + u)) or of squares (exp(-u)). Or a value such as
        ``ManhattanMixture()``. Only kernels of absolute differences find variables without a linear
        effect from β = 0.
    ridge : float or "auto", default=0.01
        Regularisation λ of the selection, positive, for targets of variance 1. "auto" is chosen on
        held-out rows, with at most 1250 rows. The final fit tunes its own.
    sparsity : float, "auto", "tune", Permutations or Path, default="auto"
        Threshold γ: a variable gets weight while its score exceeds γ, so that larger values select
        fewer. A number suits one λ, as scores grow about as 1/λ. "auto" is the largest score of any
        variable over 19 random permutations of the rows, new in every round. The chance of any
        false variable in a round is then about 1/20. For another number of permutations, use
        ``Permutations(number)`` of `gpukfl.estimators.selection`. "tune" follows a path over 10
        values of γ, from one that selects nothing to a thousandth of it. It chooses the sparsest
        model whose hold-out loss is within a standard error of the best. ``Path(number)`` sets the
        length of the path.
    hierarchical : bool, default=True
        Algorithm 2': rounds with the weights of the variables found so far fixed at τ, until no
        more are found. It finds interactions whose variables have no effect alone. False is
        Algorithm 1', one round.
    anchor : float, "auto" or Weights, default="auto"
        Weight τ of the variables found so far. "auto" is the reciprocal of the mean difference of
        two rows (or of its square). ``Weights(anchor, radius)`` also sets M, the bound on the sum
        of the free weights, by default 10.
    n_centers : int, "auto" or "all", default="auto"
        "all" uses the kernel matrix of all rows; a number its pivoted Cholesky factor of that rank.
        "auto" is "all" up to 3000 rows, and 256 beyond. Then variables are selected on at most
        100 000 rows; the prediction is fitted to all. You are warned if the gradient with so few
        centres is off by more than a quarter.
    error_control : "fdr", Knockoffs or Stability, optional
        "fdr" keeps variables that outweigh random copies of themselves (model-X knockoffs). On
        average, at most a tenth of those selected is false. To set the level and the copies, use
        ``Knockoffs(level=0.1, draws=2, copies="auto", sampler="ranks")``. If `ridge` is "auto",
        λ is 0.01 here. ``Stability(n_subsamples, max_false=1.0)`` keeps variables that are selected
        on enough halves of the rows, in complementary pairs. At most `max_false` false ones are
        then expected. A fit that ends before the halves are compared has no bound, and warns.
        It needs the squared loss: with another `loss`, the reweighted targets depend on the
        variables.
    optimizer : ProjectedGradient, optional
        Steps in a working set, and the smallest relative gain for which they continue; by
        default ``ProjectedGradient(max_iter=100, tol=1e-4)``.
    max_time : float or None, default=None
        Time limit in seconds. Variables are selected on as many rows as there is time for, and the
        variables found so far are kept, as after Ctrl-C. If all variables, with weight τ, predict
        clearly better than these, all are kept.
    random_state : int, RandomState or None, default=None
        Seed of the permutations, centres and splits, which are drawn on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Array library to compute with; "auto" uses that of X, and moves large NumPy data to a usable
        GPU. A `Backend` also sets the precision of the distances. Linear systems and sums over rows
        are float64.
"""
    + STANDARD_SCALING
    + """        γ and τ rely on it.
    verbose : int, default=0
        1 prints a line per iteration.
"""
)

_ATTRIBUTES = (
    """
    Attributes
    ----------
    scores_ : array of shape (n_features,)
        The rate at which the objective falls when weight is given to a variable, at the start of
        the round where it entered, or of the last round for one that never did. A round with none
        above γ finds nothing. In one that finds some, scores fall as others take weight: one that
        was above γ at its start may be left out.
"""
    + SCALING_ATTRIBUTE
    + """    levels_ : array of shape (n_features,)
        Round in which each selected variable entered, from 1; one more than there were rounds for
        those that no round found, as `error_control` may select; 0 for those not selected.
    rounds_ : list of dict
        Of every round, before `error_control`: "level", "sparsity" (γ), "entered" (indices),
        "scores" (theirs) and "highest_left" (the largest score among the others), where it began.
    beta_ : array of shape (n_features,)
        Weights of the selected variables in the last fit, relearned without the penalty or all
        equal, whichever predicts better; 0 for the others.
    feature_importances_ : array of shape (n_features,)
        Shares in the error that permuting a variable's values among some samples adds.
    components_ : array of shape (n_used, n_features)
        A row for each variable that the last fit uses, most important first: 1 there, 0 elsewhere.
    n_effective_features_ : int
        Number of selected variables.
    path_ : dict or None
        "sparsity" (k,), "beta" (k, n_features) and hold-out "score" (k,), for `sparsity="tune"`.
    selection_frequencies_, stability_threshold_ : array of shape (n_features,), float, or None
        Of stability selection: share of the halves that selected a variable, and what it took.
    e_values_, fdr_, knockoffs_ : array of shape (n_features,), float, dict, or None
        Of knockoffs: evidence for each variable, to be compared with p over the level and the
        number of variables selected; the lowest level at which the same variables would be
        selected, 0 of none; and "level", "draws", "copies", "shrinkage" of the correlations and
        "n_samples" that were used.
    sparsity_, ridge_, anchor_ : float
        γ of the last round, λ and τ as used.
    kernel_, centers_, dual_coef_, intercept_ : Kernel and arrays
        Kernel ridge regression on the selected variables, with a kernel (that of the selection or
        a Gaussian), lengthscale and ridge chosen by leave-one-out. `dual_coef_` is None where
        nothing was selected.
    bounds_ : array of shape (2, n_targets)
        Least and largest value that is predicted: the mean of a target, less and plus twice its
        largest deviation. With a small ridge functions may be wild just outside the data.
    tuning_ : list of dict
        Settings tried: "ridge", "sparsity", "n_selected", hold-out "score" of the f of the
        selection's objective and its "standard_error", "seconds", and which was "chosen".
    history_, n_iter_, status_ : History, int, str
        Objective of every step, their number, and how the selection ended.
"""
)

_NOTES = """
    Notes
    -----
    With the kernel matrix O(n³ + n² p) a step and O(n²) memory; with centres O(n m² + n m p) and
    O(n (m + p)), the columns sorted once. A constant column is never selected. Of two equal
    columns both are selected, with equal weights.

    References
    ----------
    .. [1] Ruan, Liu and Jordan, "Taming Nonconvexity in Kernel Feature Selection: Favorable
       Properties of the Laplace Kernel", Section 5.
"""


class KernelFeatureSelector(ArrayRegressor, SelectionBase):
    __doc__ = f"""Kernel feature selection, and kernel ridge regression on what was selected.
    {_PARAMETERS}{LOSS}{MONOTONE}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelFeatureSelector
    >>> X = np.random.default_rng(0).standard_normal((300, 8))
    >>> y = X[:, 2] + X[:, 2] * X[:, 5]
    >>> selector = KernelFeatureSelector(random_state=0).fit(X, y)
    >>> selector.get_support(indices=True), selector.levels_
    (array([2, 5]), array([0, 0, 1, 0, 0, 2, 0, 0]))
    """


class KernelFeatureSelectorClassifier(OneHotClassifier, SelectionBase):
    __doc__ = f"""Kernel feature selection for classes, and least squares on what was selected.

    Any number of classes, any labels.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen by the held-out samples of the search; without
        one by a fifth of at most 5000 samples, and another selection on the others.
    {_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelFeatureSelectorClassifier
    >>> X = np.random.default_rng(0).standard_normal((300, 8))
    >>> y = np.where(np.abs(X[:, 3]) > 0.7, "far", "near")
    >>> selector = KernelFeatureSelectorClassifier(random_state=0).fit(X, y)
    >>> selector.get_support(indices=True)
    array([3])
    """
