"""Input validation, by scikit-learn on the host, and by this module on devices."""

from __future__ import annotations

import contextlib
import numbers
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from gpukfl.core._array import (
    Array,
    array_namespace,
    as_columns,
    get_device,
    is_array,
    is_host,
    is_torch,
    library_name,
    lies_in_parts,
    to_host,
)
from gpukfl.core._frames import (
    TOO_LONG,
    WIDE,
    check_container,
    check_labels,
    check_no_dates,
    check_rows,
    check_size,
    column_array,
    column_names,
    columns_to_numbers,
    holds_float32,
    kind_of_objects,
    not_finite,
    plain_numbers,
)
from gpukfl.tables._relations import drop_columns

_FLOATS = ("float32", "float64")
_CONVERSION_ERRORS = (
    "could not convert",
    "float() argument",
    "setting an array element",
)  # NumPy's words
_MISSING_ADVICE = (
    "gpukfl.fit, AutoRegressor and AutoClassifier accept missing values; "
    "sklearn.impute.SimpleImputer fills them"
)
_INFINITY_ADVICE = "gpukfl.fit, AutoRegressor and AutoClassifier treat infinity as missing"
_TEXT_ADVICE = (
    "gpukfl.fit, AutoRegressor and AutoClassifier accept text; gpukfl.tables.TableEncoder "
    "encodes it as numbers"
)
_LARGEST = 1e150  # float64 holds its square, and that of its inverse
_MEMMAP_ROWS = 2**18  # rows of a memory map checked at a time
_LOCKS: dict[int, threading.Lock] = {}  # by process, as a forked one has its own


def sklearn_lock() -> threading.Lock:
    """Return the lock that a thread holds while scikit-learn checks or splits data.

    Its checks change the warnings filters and restore them, which is not safe between threads.
    """
    return _LOCKS.setdefault(os.getpid(), threading.Lock())


def validate_samples(
    estimator: Any, X: Any, /, *, reset: bool, min_samples: int = 1, method: str = "fit"
) -> Array:
    """Validate `X` (n, d); return a float array of its own library and device.

    Raises
    ------
    TypeError
        If `X` is sparse.
    ValueError
        If `X` is not a finite real matrix with the expected number of features, or of another
        library than the model was fitted on.
    """
    if not reset and _is_ready_array(estimator, X, min_samples):
        return X
    if lies_in_parts(X):
        return _validate_parts(estimator, X, min_samples)
    if not reset:
        X = drop_columns(X, getattr(estimator, "beside_", ()))
    check_container("X", X)
    given = library_name(X) if is_array(X) else "numpy"  # lists and frames become NumPy arrays
    if not reset and given != estimator._library:
        msg = (
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace "
            f"as those passed to fit(): expected {estimator._library}, got {given}; "
            + (
                "give NumPy arrays"
                if estimator._library == "numpy"
                else "a model that is saved and loaded, or the estimator's to_host(), takes NumPy's"
            )
        )
        raise ValueError(msg)
    if not reset and given == "cupy" and not estimator.place_.endswith(f" {get_device(X)}"):
        msg = f"expected X on the device of the fit, {estimator.place_}, got {get_device(X)}"
        raise ValueError(msg)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.name in _FLOATS:
        _check_memory_map(estimator, X, reset=reset, min_samples=min_samples)
        return X
    if is_array(X) and not is_host(X):
        return _validate_device_array(estimator, X, reset=reset, min_samples=min_samples)
    check_rows(X, min_samples)
    X = columns_to_numbers(X)
    check_no_dates(X)
    with sklearn_lock(), _name_bad_argument("X", X):
        return validate_data(
            estimator,
            X,
            reset=reset,
            # scikit-learn knows the dtypes of pandas and NumPy only
            dtype=np.float32 if holds_float32(X) else [np.float64, np.float32],
            ensure_min_samples=min_samples,
            order="C",
        )


def _is_ready_array(estimator: Any, X: Any, min_samples: int) -> bool:
    """Whether new rows are a valid array that needs no conversion.

    For a single row, scikit-learn's checks would take as long as the prediction.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype.name in _FLOATS
        and X.flags.c_contiguous
        and X.shape == (max(len(X), min_samples), vars(estimator).get("n_features_in_"))
        and "feature_names_in_" not in vars(estimator)
        and vars(estimator).get("_library") == "numpy"
        and bool(np.isfinite(X).all())
    )


def _validate_parts(estimator: Any, X: Array, min_samples: int) -> Array:
    """Validate partitioned rows, which were checked on their workers."""
    check_size(X.shape, min_samples)
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)
    return X


@contextlib.contextmanager
def _name_bad_argument(name: str, X: Any = None) -> Iterator[None]:
    """Name the argument that NumPy could not convert to numbers, and bad columns of `X`."""
    try:
        yield
    except OverflowError:
        msg = f"{name}: {TOO_LONG}"
        raise ValueError(msg) from None
    except (TypeError, ValueError) as error:
        said = str(error)
        # scikit-learn would recommend one of its own estimators
        if X is not None and said.startswith(("Input X contains NaN", "Input X contains infinity")):
            values = np.asarray(X, dtype=np.float64)
            where = not_finite(values, list(map(str, column_names(X))))
            what, ways = (
                ("NaN", _MISSING_ADVICE) if "NaN" in said else ("infinity", _INFINITY_ADVICE)
            )
            msg = f"Input X contains {what}. Expected numbers without them, got {where}: "
            raise ValueError(msg + ways) from error
        if not said.startswith(_CONVERSION_ERRORS):
            raise
        text = name == "X" and said.startswith("could not convert string")
        way = f". {_TEXT_ADVICE}" if text else ""
        msg = f"expected {name} to have numbers, in rows of the same length: {said}{way}"
        raise type(error)(msg) from error


def _check_memory_map(estimator: Any, X: np.memmap, *, reset: bool, min_samples: int) -> None:
    # The first rows go through the usual checks, which also set n_features_in_.
    with sklearn_lock():
        validate_data(estimator, np.asarray(X[: max(min_samples, 1)]), reset=reset)
    check_size(X.shape, min_samples)
    for start in range(0, X.shape[0], _MEMMAP_ROWS):
        _check_finite(np.asarray(X[start : start + _MEMMAP_ROWS]), "X")


def _validate_device_array(estimator: Any, X: Array, *, reset: bool, min_samples: int) -> Array:
    xp = array_namespace(X)
    X = detach(X)
    if X.ndim != 2:
        msg = f"Expected 2D array, got {X.ndim}D array of shape {tuple(X.shape)}. Reshape your data"
        raise ValueError(msg)
    check_size(X.shape, min_samples)
    if xp.isdtype(X.dtype, "complex floating"):
        msg = f"Complex data not supported: expected real numbers, got dtype {X.dtype}"
        raise ValueError(msg)
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    _check_finite(X, "X")
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif X.shape[1] != estimator.n_features_in_:
        msg = (
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
        raise ValueError(msg)
    return X


def _check_finite(x: Array, name: str) -> None:
    xp = array_namespace(x)
    if not bool(xp.all(xp.isfinite(x))):
        where = f", got {not_finite(x)}" if name == "X" else ""
        msg = f"Input {name} contains NaN or infinity: expected finite values only{where}"
        raise ValueError(msg)


def validate_targets(y: Any, X: Array, /) -> Array:
    """Validate numeric targets (n,) or (n, t) for `X`; a float array of y's own library."""
    if lies_in_parts(X):
        return y
    check_container("y", y)
    if is_array(y) and not is_host(y):
        xp = array_namespace(y)
        y = detach(y)
        if y.ndim not in (1, 2):
            msg = f"expected y of shape (n,) or (n, t), got {tuple(y.shape)}"
            raise ValueError(msg)
        check_same_length(X, y)
        check_same_device(X, y, "y")
        if xp.isdtype(y.dtype, "complex floating"):
            msg = f"Complex data not supported: expected real targets, got dtype {y.dtype}"
            raise ValueError(msg)
        y = y if xp.isdtype(y.dtype, "real floating") else xp.astype(y, xp.float64)
        _check_finite(y, "y")
        _check_squares(y)
        return y
    if y is None:
        msg = "requires y to be passed, but the target y is None: expected (n,) or (n, t), got None"
        raise ValueError(msg)
    with sklearn_lock(), _name_bad_argument("y"):
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=0)
        if y.dtype.kind in "OUS":
            y = y.astype(np.float64)
    if y.dtype.kind == "c":
        msg = f"Complex data not supported: expected real targets, got dtype {y.dtype}"
        raise ValueError(msg)
    if y.ndim > 2:
        msg = f"expected y of shape (n,) or (n, t), got {y.shape}"
        raise ValueError(msg)
    check_same_length(X, y)
    y = y if y.dtype.name in _FLOATS else y.astype(np.float64)
    _check_squares(y)
    return y


def _check_squares(y: Array) -> None:
    """Raise ValueError if squares of the centred targets overflow or underflow float64."""
    xp = array_namespace(y)
    low, high = (to_host(end(as_columns(y), axis=0)).astype(np.float64) for end in (xp.min, xp.max))
    varies = low < high
    low, high = low[varies], high[varies]
    largest = float(np.max(np.maximum(-low, high), initial=0.0))
    if largest > _LARGEST:
        msg = (
            f"y overflows float64 when it is squared: expected targets between -{_LARGEST:.0e} and "
            f"{_LARGEST:.0e}, got {largest:.1e} in absolute value; rescale y"
        )
        raise ValueError(msg)
    least = float(np.min(high - low, initial=np.inf))
    if least < 1.0 / _LARGEST:
        msg = (
            "y underflows float64 when it is squared: expected constant targets, or "
            f"a range of at least {1.0 / _LARGEST:.0e}, got {least:.1e}; rescale y"
        )
        raise ValueError(msg)


def validate_labels(y: Any, X: Array, /) -> np.ndarray:
    """Validate class labels (n,) for `X`; return a host array, or partitioned labels as they are.

    Raises
    ------
    ValueError
        If labels are missing, not finite, continuous, or not one for each sample.
    """
    if lies_in_parts(X):
        return y
    if y is None:
        msg = "requires y to be passed, but the target y is None: expected labels, got None"
        raise ValueError(msg)
    check_container("y", y, labels=True)
    with sklearn_lock(), _name_bad_argument("y"):
        given = to_host(detach(y)) if is_array(y) else y
        given = column_array(given) if isinstance(given, (list, tuple)) else given
        shape = tuple(getattr(given, "shape", ()))
        if len(shape) == 2 and shape[1] > 1:
            msg = (
                f"y should be a 1d array, got an array of shape {shape} instead: "
                "expected one column of classes. For several labels a row, use "
                "gpukfl.fit(X, y, task='classification') or MultiOutputClassifier of scikit-learn"
            )
            raise ValueError(msg)
        labels = column_or_1d(given, warn=True)
    labels = plain_labels(labels)
    if labels.dtype.kind in "fc" and not np.all(np.isfinite(labels)):
        msg = "Input y contains NaN or infinity: expected a label for each sample"
        raise ValueError(msg)
    if labels.dtype == object and any(label is None or label != label for label in labels):  # noqa: PLR0124
        msg = "Input y contains NaN or None: expected a label for each sample"
        raise ValueError(msg)
    if labels.dtype.kind == "f" and (labels != np.trunc(labels)).any():
        first = labels[labels != np.trunc(labels)][0]
        said = f"Unknown label type: continuous: expected classes, got numbers such as {first:g}"
        msg = f"{said}; to use them as labels, pass y.astype(str)"
        raise ValueError(msg)
    with sklearn_lock():
        check_classification_targets(labels)
    check_same_length(X, labels)
    return labels


def plain_labels(y: Any, /) -> np.ndarray:
    """Convert an object array of numbers or booleans to these, as scikit-learn needs it."""
    labels = np.asarray(y)
    if labels.dtype == object and kind_of_objects(labels.ravel()) == "numbers":
        return check_labels(plain_numbers(labels))
    return labels


def detach(x: Array, /) -> Array:
    """Detach a torch tensor from its gradient."""
    return x.detach() if is_torch(x) and x.requires_grad else x


def check_same_device(X: Array, other: Array, name: str, /) -> None:
    """Raise ValueError if CuPy arrays are on two devices."""
    both = library_name(X) == library_name(other) == "cupy"
    if both and get_device(X) != get_device(other):
        msg = f"expected {name} on the device of X, {get_device(X)}, got {get_device(other)}"
        raise ValueError(msg)


def check_same_length(X: Array, y: Array) -> None:
    """Raise ValueError unless `X` and `y` have the same number of samples."""
    if X.shape[0] != y.shape[0]:
        msg = (
            "Found input variables with inconsistent numbers of samples: "
            f"[{X.shape[0]}, {y.shape[0]}]"
        )
        raise ValueError(msg)


def validate_weights(sample_weight: Any, X: Array, /) -> np.ndarray | None:
    """Validate sample weights; host float64 (n,), or None where all are equal.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or fewer than two are positive.
    """
    if sample_weight is None:
        return None
    if lies_in_parts(X):
        _check_positive(array_namespace(sample_weight).sum(sample_weight > 0))
        return sample_weight
    n = X.shape[0]
    host = to_host(sample_weight) if is_array(sample_weight) else sample_weight
    if isinstance(host, numbers.Real):
        host = np.full(n, float(host))
    host = column_array(host) if str(getattr(host, "dtype", "")) in WIDE else host
    with sklearn_lock(), _name_bad_argument("sample_weight"):
        weights = check_array(host, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1:
        msg = f"Sample weights must be 1D array or scalar: expected ({n},), got {weights.shape}"
        raise ValueError(msg)
    check_consistent_length(weights, np.empty(n))
    if np.any(weights < 0):
        msg = f"expected sample weights of at least 0, got {weights.min()}"
        raise ValueError(msg)
    _check_positive(np.count_nonzero(weights))
    return None if np.all(weights == weights[0]) else weights


def _check_positive(count: Any) -> None:
    if int(count) < 2:
        msg = "expected at least two positive sample weights, got at most one: all others are zero"
        raise ValueError(msg)


def weighted_mean_scale(Y: Array, root_weights: Array | None, /) -> tuple[Array, Array]:
    """Return mean and standard deviation (t,) of the columns of `Y` (n, t), in float64.

    A column that is constant up to rounding has standard deviation 0.
    """
    xp = array_namespace(Y)
    Y64 = xp.astype(as_columns(Y), xp.float64)
    largest = xp.max(xp.abs(Y64), axis=0)
    unit = xp.where(largest > 0, largest, xp.ones_like(largest))
    Y64 = Y64 / unit  # so that squares neither overflow nor vanish
    if root_weights is None:
        w, total = xp.ones_like(Y64[:, :1]), float(Y64.shape[0])
    else:
        w = xp.astype(root_weights, xp.float64) ** 2
        total = float(xp.sum(w))
    mean = xp.sum(w * Y64, axis=0) / total
    spread = xp.sqrt(xp.sum(w * (Y64 - mean) ** 2, axis=0) / total)
    # Smaller values are rounding of a constant column
    spread = xp.where(spread > 1e-14, spread, xp.zeros_like(spread))
    return mean * unit, spread * unit


def check_finite_result(*results: Array) -> None:
    """Raise ValueError if a fit has overflowed to NaN or infinity."""
    for x in results:
        xp = array_namespace(x)
        if not bool(xp.all(xp.isfinite(x))):
            msg = (
                f"the fit overflows {x.dtype}: expected smaller targets; scale y, or use "
                "dtype='float64'"
            )
            raise ValueError(msg)
