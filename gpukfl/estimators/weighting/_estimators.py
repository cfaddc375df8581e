"""RKHS weightings as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, to_host
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators._device import on_its_device
from gpukfl.estimators._learner import Choice
from gpukfl.estimators._validation import validate_labels, validate_samples, validate_targets
from gpukfl.estimators.weighting._attributes import OF_CLASSES
from gpukfl.estimators.weighting._base import WeightingBase
from gpukfl.estimators.weighting._problem import Learned, WeightingProblem
from gpukfl.estimators.weighting._search import Setting, Weighting
from gpukfl.methods import LOSSES

_PARAMETERS = """
    Parameters
    ----------
    n_parameters : int, default=1000
        T, the parameters w drawn from p; each gives one feature.
    learner : {"least_squares", "lasso", "optimal_step", "sfgd"} or Descent, \
            default="least_squares"
        Algorithm 3, 4, 2 or 1: least squares with the RKHS norm, or with the sum of absolute
        coefficients, which leaves many of them out; stochastic functional gradient descent with
        optimal steps, or with steps 1/λt, projection and averaging. A `Descent` of
        `gpukfl.estimators.weighting` also gives the last two the size of their batches, by default
        50 rows, and B, the largest RKHS norm of "sfgd", by default 1000.
    instantiation : {"auto", "gaussian_sign", "stumps"} or Instantiation, default="auto"
        What is weighted: signs of linear functions, decision stumps, or a value such as
        ``Stumps(gamma=0.5)``. For a name its widths, and for "auto" both, are chosen by 5 folds
        of at most 20 000 samples, with 300 parameters; of at most 20 000 samples such a fit is
        kept where more parameters do not predict better.
    loss : {"squared", "logistic", "hinge"}, default="squared"
        The last two for classes, with "optimal_step" and "sfgd".
    ridge : float or "auto", default="auto"
        λ, positive. "auto" is chosen by 5 folds, around the best one of the search of an
        instantiation where there was one (least squares).
    prune : {None, "norm", "bound", "risk", "error"} or Pruning, default=None
        Prune by Algorithm 5, as long as the model gets less than 0.01 worse by this rule: the
        bound (63) on the change of the risk, that of Theorem 8 (64), the change of the training
        risk (65), or of the share of wrong labels (66). ``Pruning(rule, tolerance)`` of
        `gpukfl.estimators.weighting` takes another ε. Risks are of a loss that is at least the 0-1
        loss, or squared errors in units of the targets' variance.
    bias : bool, default=True
        Put a column of ones before the features.
    max_time : float or None, default=None
        Seconds. A pass over the rows that is cut off gives a fit of the rows seen.
    random_state : int, RandomState or None, default=None
        Draws parameters, folds and batches, on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute, as a `Backend` also in which precision the features are. "auto" follows
        X, and moves large NumPy data to a usable GPU. Sums over samples and systems are float64.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "standard".
        The widths of the instantiations rely on it.
    verbose : int, default=0
        1 prints a line per step.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    parameters_ : array of shape (n_parameters_, number of a parameter's entries)
        The parameters with a coefficient.
    coef_ : array of shape (n_parameters_, n_targets)
        Their coefficients a times ``exp(log_scale_)``: in high dimension features vanish and
        coefficients explode. In float64: large ones cancel in predictions.
    intercept_ : array of shape (n_targets,)
        Mean of the targets of a regression, in float64.
    log_scale_ : float
        Logarithm of the unit of the features.
    n_parameters_ : int
        Parameters kept.
    rkhs_norm_, log_rkhs_norm_ : array of shape (n_targets,)
        Norm of the weighting α of each target, and its logarithm.
    theta_ : float
        θ of eq. (26): predictions differ from the intercept by at most θ times the norm.
    instantiation_ : Instantiation
        As chosen, with its widths.
    ridge_ : float
        λ as used.
    feature_matrix_ : array of shape (n_features, n_features)
        Average outer product of the gradients of the fitted functions, along directions in which
        rows differ: 0 for a column that does not vary, and nothing from one to another way of
        saying the same, as columns that sum to 1 have. Of more than 1000 columns only those that
        do not vary are left out.
    feature_importances_ : array of shape (n_features,)
        Root mean squares of the partial derivatives, of `feature_matrix_`, summing to 1; all are 0
        where no column varies.
    components_, n_effective_features_ : array of shape (n_effective_features_, n_features), int
        Orthonormal directions in which the fitted functions vary, and their number.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    tuning_ : list of dict
        Settings tried: "instantiation", "n_parameters" and "n_samples" of the fit, "ridge",
        "score" on the same held-out rows for all and its "standard_error", "seconds", shared among
        the ridges of a fit, and whether it was "chosen": the best of those fitted to all samples.
    pruning_ : list of dict or None
        Parameters kept and how much worse, for each step of Algorithm 5.
    expectation_error_ : float
        Relative standard error of the features; 0 where they are exact.
    jitter_, gap_ : float
        What was added to the diagonal of the normal equations, relative to its mean
        ("least_squares"), and the relative duality gap ("lasso").
    history_, n_iter_, status_ : History, int, str
        Objective (53) or (55), or risk of the batches of some steps; entries; how the fit ended.
"""

_NOTES = """
    Notes
    -----
    "least_squares" and "lasso" take one pass over the rows, O(n T (d + T)) in blocks, and O(T³)
    for each ridge and fold after it. The other two see `batch_size` rows a step. Rows may be a
    NumPy memory map.

    References
    ----------
    .. [1] Dubé and Marchand, "RKHS Weightings of Functions", hal-04236058.
"""


class RKHSWeightingRegressor(ArrayRegressor, WeightingBase):
    __doc__ = f"""RKHS weighting of base predictors for regression.

    f(x) = E_w[α(w) φ(w, x)] over a density p of parameters w, with α in an RKHS: a sum of T
    expectations known in closed form.
    {_PARAMETERS}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import RKHSWeightingRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    >>> model = RKHSWeightingRegressor(200, instantiation="stumps", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    @on_its_device
    def bound(
        self, X: Any, y: Any, delta: float = 0.05, *, radius: str | float = "doubling"
    ) -> float:
        """Bound the mean squared error on new data, from that on `X`: Theorem 10.

        No target may be farther from the mean than those of `X`, and the standardisation and the
        instantiation must not depend on the data; where they do, the bound is approximate.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Independent samples, those of the fit or others.
        y : array of shape (n_samples,)
            Targets.
        delta : float
            δ: the bound may fail with this probability.
        radius : {"doubling", "norm"} or float
            B. "doubling" covers every norm at once, "norm" takes that of the model, as the paper
            does although it depends on the data; a number must have been fixed before.

        Returns
        -------
        float
            The bound, in squared units of y.

        Raises
        ------
        ValueError
            If there are several targets, or the norm is above the radius.
        """
        check_is_fitted(self)
        if not self._one_target:
            msg = f"expected a model of one target for a bound, got {self.log_rkhs_norm_.shape[0]}"
            raise ValueError(msg)
        samples = validate_samples(self, X, reset=False, method="bound")
        truth = to_host(validate_targets(y, samples)).astype(np.float64)
        errors = truth - to_host(self.predict(X)).astype(np.float64)
        largest_y = float(np.max(np.abs(truth - float(to_host(self.intercept_)[0]))))
        risk = 0.5 * float(np.mean(errors**2))
        return 2.0 * (risk + self._gap(len(truth), delta, radius, largest_y))


class RKHSWeightingClassifier(OneHotClassifier, WeightingBase):
    __doc__ = f"""RKHS weighting of base predictors for classification.

    f(x) = E_w[α(w) φ(w, x)] over a density p of parameters w, with α in an RKHS: a sum of T
    expectations known in closed form. Two classes are -1 and 1; of more each is held against the
    others, with the same parameters.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen on held-out folds.
    validation_ : dict or None
        "risk" (at least the 0-1 loss) and "error" (share of wrong labels) on held-out folds;
        "training_risk" and the "n_samples" it is of; "unit", what makes the loss that risk.
    {_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpukfl import RKHSWeightingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RKHSWeightingClassifier(200, instantiation="stumps", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _signs = True
    _attributes = OF_CLASSES

    def _keep_validation(
        self, problem: WeightingProblem, fitted: Weighting, choice: Choice[Setting, Learned]
    ) -> None:
        """Set what held-out folds show, which bounds are compared with."""
        self.validation_ = None
        if choice.trial is None or not choice.trial.predicted:
            return
        F = np.concatenate(choice.trial.predicted)
        Y, w = (
            np.concatenate([to_host(getattr(fold.held_out, name)) for fold in choice.folds])
            for name in ("Y", "weights")
        )
        wrong = F.argmax(axis=1) != Y.argmax(axis=1) if F.shape[1] > 1 else F[:, 0] * Y[:, 0] <= 0
        w = w[:, 0] / w.sum()
        risks = np.sum(to_host(problem.loss.value(F, Y)), axis=1)
        training, seen = problem.training_risk(fitted.learned, fitted.A)
        unit = problem.loss.unit
        self.validation_ = {
            "risk": float(unit * (w @ risks)),
            "error": float(w @ wrong),
            "training_risk": unit * training,
            "n_samples": seen,
            "unit": unit,
        }

    @on_its_device
    def decision_function(self, X: Any) -> Array:
        """Give scores, of which the largest is predicted.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes f(x), positive for the second.
        """
        return super().decision_function(X)

    @on_its_device
    def bound(
        self, X: Any, y: Any, delta: float = 0.05, *, radius: str | float = "doubling"
    ) -> float:
        """Bound the share of wrong labels on new data, from the risk on `X`: Theorem 10, eq. (71).

        The risk is that of a loss which is at least the 0-1 loss: for "squared" the mean of
        (1 - y f(x))², as in eq. (73). The bound also holds for that risk. The standardisation and
        the instantiation must not depend on the data; where they do, it is approximate.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Independent samples, those of the fit or others.
        y : array of shape (n_samples,)
            Labels.
        delta : float
            δ: the bound may fail with this probability.
        radius : {"doubling", "norm"} or float
            B. "doubling" covers every norm at once, "norm" takes that of the model, as the paper
            does although it depends on the data; a number must have been fixed before.

        Returns
        -------
        float
            The bound; above 1 it says nothing about the share of wrong labels.

        Raises
        ------
        ValueError
            If there are not two classes, a label is another, or the norm is above the radius.
        """
        check_is_fitted(self)
        if len(self.classes_) != 2:
            msg = f"expected a model of two classes for a bound, got {len(self.classes_)}"
            raise ValueError(msg)
        labels = validate_labels(y, validate_samples(self, X, reset=False, method="bound"))
        other = np.setdiff1d(labels, self.classes_)
        if len(other):
            known, others = self.classes_.tolist(), other[:5].tolist()
            msg = f"expected labels {known} for a bound, got {others} too"
            raise ValueError(msg)
        loss = LOSSES[self.loss]
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        f = to_host(self.decision_function(X)).astype(np.float64)
        risk = float(np.mean(to_host(loss.value(f, signs))))
        return loss.unit * (risk + self._gap(len(signs), delta, radius, 1.0))
