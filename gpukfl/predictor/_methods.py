"""The fitted function of each method, from its fitted attributes.

What is read is an estimator, or anything else that has its attributes and parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    double_like,
    double_reference,
    reference_like,
    to_double,
    to_host,
)
from gpukfl.kernels import Brownian
from gpukfl.operators import apply_map
from gpukfl.predictor._function import Constant, Function
from gpukfl.predictor._sums import FeatureSum, HermiteSum, KernelSum, ShapeSum

FAR = 6.0  # standard deviations beyond which Hermite polynomials explode


def make_function(kind: str, e: Any, /) -> Function:
    """Return the fitted function of an estimator.

    Parameters
    ----------
    kind : str
        Name of its class.
    e : estimator
        Fitted; or what has its attributes.

    Returns
    -------
    Function
        On the place of its arrays.

    Raises
    ------
    TypeError
        If the class is none of a single method, or predictions are another estimator's.
    """
    if not is_method(kind):
        msg = (
            f"expected an estimator of {', '.join(_MAKERS)}, whose predictions are array "
            f"operations alone, got {kind}"
        )
        raise TypeError(msg)
    return _MAKERS[_stem(kind)](e)


def is_method(kind: str, /) -> bool:
    """Whether a class has a fitted function."""
    return _stem(kind) in _MAKERS


def _stem(kind: str) -> str:
    return kind.removesuffix("Regressor").removesuffix("Classifier")


def _bkernn(e: Any) -> Function:
    shapes = e.shape_functions_
    return ShapeSum(
        reference=reference_like(e.W_),
        intercept=e.intercept_,
        scaling=e.scaling_,
        W=e.W_,
        knots=shapes.knots,
        values=shapes.values,
    )


# Sums of kernels are in float64, as they were solved: coefficients of small ridges magnify what
# kernels are rounded by


def _hkrr(e: Any) -> Function:
    B = to_double(e.map_)
    return KernelSum(
        reference=double_reference(e.map_),
        intercept=e.intercept_,
        scaling=e.scaling_,
        kernel=e.kernel_,
        centers=apply_map(to_double(e.centers_), B),
        coef=e.dual_coef_,
        components=B,
        bound=e.bound_,
    )


def _selection(e: Any) -> Function:
    if e.dual_coef_ is None:
        return Constant(reference=reference_like(e.intercept_), intercept=e.intercept_)
    used, stretch = to_host(e._used), to_host(e._stretch)
    scaling = _times(stretch) if e.scaling_ is None else e.scaling_.select_columns(used, stretch)
    return KernelSum(
        reference=double_reference(e.centers_),
        intercept=e.intercept_,
        scaling=scaling,
        columns=used,
        kernel=e.kernel_,
        centers=to_double(e.centers_),
        coef=e.dual_coef_,
        bounds=e.bounds_,
    )


def _times(factors: np.ndarray) -> Callable[[Array], Array]:
    """Return a function that multiplies columns by factors."""
    return lambda X: X * array_namespace(X).asarray(factors, **double_like(X))


def _kernel_ridge(e: Any) -> Function:
    return KernelSum(
        reference=double_reference(e.centers_),
        intercept=e.intercept_,
        scaling=e.scaling_,
        kernel=e.kernel_,
        centers=to_double(e.centers_),
        coef=e.dual_coef_,
        bounds=e.bounds_,
    )


def _brownian(e: Any) -> Function:
    return KernelSum(
        reference=reference_like(e.X_fit_),
        intercept=e.intercept_,
        scaling=e.scaling_,
        kernel=Brownian(),
        centers=e.X_fit_,
        coef=e.dual_coef_,
    )


def _regfeal(e: Any) -> Function:
    prepared = {"scaling": e.scaling_, "clip": farthest(e.clip)}
    if e.kernel_ is not None:
        return KernelSum(
            **prepared,
            reference=double_reference(e.centers_),
            intercept=e._offset,
            kernel=e.kernel_,
            centers=to_double(e.centers_),
            coef=e.dual_coef_,
            components=to_double(e.retrain_components_),
            bounds=e.bounds_,
        )
    if e.retrained_ is not None:
        msg = (
            "expected predictions by the method itself, got those of "
            f"{type(e.retrained_).__name__}: fit with retrain='kernel_ridge', or None"
        )
        raise TypeError(msg)
    R = to_host(e._rotation)
    return HermiteSum(
        **prepared,
        reference=reference_like(e.coef_),
        intercept=e.intercept_,
        tuples=to_host(e.multi_indices_),
        coef=e.coef_,
        R=None if np.array_equal(R, np.eye(len(R))) else e._rotation,
        bounds=e.bounds_,
    )


def _weighting(e: Any) -> Function:
    reference = reference_like(e.parameters_)
    if not e.n_parameters_:
        return Constant(reference=reference, intercept=e.intercept_)
    return FeatureSum(
        reference=reference,
        intercept=e.intercept_,
        scaling=e.scaling_,
        leading_ones=e.bias,
        instantiation=e.instantiation_,
        parameters=e.parameters_,
        log_scale=e.log_scale_,
        coef=e.coef_,
        n_columns=e.n_features_in_ + e.bias,
    )


def farthest(clip: Any, /) -> float | None:
    """Return the clipping limit of RegFeaL's features, in standard deviations."""
    return FAR if clip == "auto" else clip


_MAKERS: dict[str, Callable[[Any], Function]] = {
    "BKerNN": _bkernn,
    "HKRR": _hkrr,
    "KernelFeatureSelector": _selection,
    "KernelRidge": _kernel_ridge,
    "BrownianKernelRidge": _brownian,
    "RegFeaL": _regfeal,
    "RKHSWeighting": _weighting,
}
