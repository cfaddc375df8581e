"""What the kernel feature selectors share: parameters, the fit, and what was selected."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gpukfl._array import Array, array_namespace, beside, like
from gpukfl._checks import check_kind, check_number, check_switch
from gpukfl._places import Backend
from gpukfl._warnings import warn
from gpukfl.estimators._bounds import BoundedPredictions
from gpukfl.estimators._data import dual_coefficients
from gpukfl.estimators._learner import Choice, SteppedLearner
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.kernel_ridge._base import warn_of_solution
from gpukfl.estimators.selection._attributes import ATTRIBUTES, RULES, TRIED
from gpukfl.estimators.selection._control import Fitted
from gpukfl.estimators.selection._problem import SelectionProblem, selection_kernel
from gpukfl.estimators.selection._search import (
    QUIET,
    KernelSelection,
    Learned,
    Setting,
)
from gpukfl.estimators.selection._selected import SelectedVariables
from gpukfl.estimators.selection._settings import (
    DEFAULT_RIDGE,
    Knockoffs,
    Path,
    Permutations,
    Stability,
    Weights,
)
from gpukfl.kernels import Kernel
from gpukfl.knockoffs import GaussianKnockoffs, RankKnockoffs, level_of
from gpukfl.methods import Selection
from gpukfl.solvers import ArmijoSearch, ProjectedGradient

_CONTROLS = {"fdr": Knockoffs()}
_SPARSITIES: dict[str, Permutations | Path] = {"auto": Permutations(), "tune": Path()}
_MUCH = 0.1  # R² of what is not selected that is worth saying, beside its error


class SelectionBase(SelectedVariables, BoundedPredictions, SteppedLearner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _tried = TRIED
    _predicts = "KernelFeatureSelector"
    _attributes = ATTRIBUTES
    _rules = RULES
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
    )
    _unit_free = True  # the anchor takes it up
    _finds_nothing = "selects no variable"
    _renamed: ClassVar[dict[str, str]] = {
        "radius": "give anchor=Weights(radius=...)",
        "n_permutations": "give sparsity=Permutations(number)",
        "n_sparsities": "give sparsity=Path(number)",
        "level": "give error_control=Knockoffs(level)",
        "stability": "give error_control=Stability(...)",
        "n_subsamples": "give error_control=Stability(n_subsamples)",
        "max_false": "give error_control=Stability(n_subsamples, max_false)",
        "max_iter": "give optimizer=ProjectedGradient(max_iter=...)",
        "tol": "give optimizer=ProjectedGradient(tol=...)",
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

    # ------------------------------------------------------------------ fitting

    def _method(self) -> KernelSelection:
        kernel, whole = selection_kernel(self.kernel), numbers.Integral
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("n_centers", self.n_centers, kind=whole, low=1, also=("auto", "all"))
        check_kind("optimizer", self.optimizer, (ProjectedGradient, type(None)))
        check_switch("hierarchical", self.hierarchical)
        return KernelSelection(
            kernel=kernel,
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            sparsity=self._sparsity(),
            hierarchical=bool(self.hierarchical),
            weights=self.anchor if isinstance(self.anchor, Weights) else Weights(self.anchor),
            n_centers=self.n_centers,
            error_control=self._error_control(),
            optimizer=self.optimizer or ProjectedGradient(),
            # By cross-validation on 18 sets with heavy tails: "robust" lost in the mean
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
            return _CONTROLS[self.error_control]
        check_kind("error_control", self.error_control, (Stability, Knockoffs, str, type(None)))
        return self.error_control

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
        fitted: Fitted,
        choice: Choice[Setting, Learned],
        back: Callable[[Array], Array],
    ) -> None:
        selection, last = fitted.selection, fitted.last
        beta = np.zeros(problem.p) if last is None else last.beta
        used, stretch = np.flatnonzero(beta), np.ones(0)
        self.intercept_ = there = back(problem.y_mean)
        check_finite_result(there)
        self._keep_bounds(problem, back)
        self.kernel_, self.dual_coef_, self.centers_ = problem.kernel, None, None
        if last is not None:
            self.dual_coef_ = dual_coefficients(last.fit.alpha, problem, there)
            check_finite_result(back(self.dual_coef_))
            self.centers_, self.kernel_ = back(last.fit.Z), last.fit.kernel
            warn_of_solution(last.fit, problem)
            stretch = beta[used] ** (1.0 / problem.kernel.power)
        self._support, self._used, self._stretch = (
            _beside(values, there) for values in (selection.support, used, stretch)
        )
        self.beta_ = _beside(beta, there)
        self._keep_rounds(selection, there)
        shares = fitted.frequencies
        self.selection_frequencies_ = None if shares is None else _beside(shares, there)
        self.stability_threshold_ = fitted.threshold
        self._keep_discoveries(fitted, there)
        importances = np.zeros(problem.p) if last is None else last.importances
        self.feature_importances_ = _beside(importances, there)
        order = used[np.argsort(-importances[used], kind="stable")]
        components = np.zeros((len(order), problem.p))
        components[np.arange(len(order)), order] = 1.0
        self.components_ = beside(components, there)
        self.n_effective_features_ = int(selection.support.sum())
        self.sparsity_ = selection.rounds[-1].sparsity if selection.rounds else 0.0
        self.anchor_, self.ridge_ = problem.anchor, choice.setting.ridge
        self.path_ = fitted.path
        self._keep_steps(selection.history, selection.status, QUIET)
        if not self.n_effective_features_ and not problem.constant:
            warn(_nothing_selected(fitted.missed, problem.n))

    def _keep_discoveries(self, fitted: Fitted, there: Array) -> None:
        """Set what knockoffs found; None of all of it without them."""
        found = fitted.discoveries
        self.e_values_, self.fdr_, self.knockoffs_ = None, None, None
        if found is None:
            return
        self.e_values_ = _beside(found.e_values, there)
        self.fdr_ = level_of(found.e_values, fitted.selection.support)
        self.knockoffs_ = {
            "level": found.level,
            "draws": found.draws,
            "copies": found.copies,
            "shrinkage": found.shrinkage,
            "n_samples": found.n_samples,
        }

    def _keep_rounds(self, selection: Selection, there: Array) -> None:
        """Set level and score of every variable, and what each round found."""
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
        # What bounds errors may leave out what entered, and keep what no round found
        levels[~selection.support] = 0
        levels[selection.support & (levels == 0)] = len(selection.rounds) + 1
        self.levels_, self.scores_ = _beside(levels, there), _beside(scores, there)

    # ------------------------------------------------------------------ prediction

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.allow_nan = False
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _beside(host: np.ndarray, there: Array) -> Array:
    """Copy to a library and device, and keep the dtype."""
    return array_namespace(there).asarray(host, device=like(there)["device"])


def _nothing_selected(missed: float | None, n: int) -> str:
    """Say so, and what all of the variables together explain of n samples, where that is much."""
    said = "no variable was selected: the model predicts the mean of y"
    if missed is None or missed < _MUCH + 2.0 / n**0.5:
        return said
    return (
        f"{said}, though all variables together explain it (R² {missed:.2f}): those that act with "
        'others alone are not found; method="auto" of gpukfl.fit takes all'
    )
