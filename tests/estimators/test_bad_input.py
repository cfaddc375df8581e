"""Bad data is named, with what was expected and what came, and leaves a fitted model as it was."""

import functools
import re

import numpy as np
import pandas as pd
import pytest
from bad_input_cases import (
    CLASSIFIERS,
    LABELS,
    MAKERS,
    D,
    N,
    X,
    Y,
    changed,
    hkrr,
    kernel_ridge,
    regfeal,
    regressor,
    selector,
    weighting,
)
from scipy import sparse
from sklearn.exceptions import NotFittedError

from gpukfl import (
    AutoRegressor,
    Backend,
    BKerNNRegressor,
    BrownianKernelRidge,
    HKRRRegressor,
    KernelFeatureSelector,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
beside_the_error = pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")

# ---------------------------------------------------------------------- the data

BAD_X = [
    (changed(X, np.nan, (3, 1)), ValueError, "X contains NaN. Expected numbers without"),
    (changed(X, np.inf, (3, 1)), ValueError, "X contains inf"),
    (X[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (np.ones((N, D, 1)), ValueError, "dim 3"),
    (X[:0], ValueError, "0 sample"),
    (X[:1], ValueError, "1 sample.*minimum of 2"),
    (X[:, :0], ValueError, r"0 feature\(s\).*minimum of 1"),
    (X + 1j, ValueError, "Complex data not supported"),
    (
        np.full((N, D), "red"),
        ValueError,
        "could not convert string to float.*red.*gpukfl.fit.* accept text",
    ),
    (
        changed(X.astype(object), "red", (0, 0)),
        ValueError,
        "could not convert string to float.*red.*gpukfl.fit.* accept text",
    ),
    (changed(X.astype(object), None, (0, 0)), ValueError, "X contains NaN"),
    (sparse.csr_array(X), TypeError, "expected a dense array or frame, got csr_array"),
    (None, ValueError, "got scalar array"),
]


@pytest.mark.each
@pytest.mark.parametrize("make", [*MAKERS, *CLASSIFIERS])
@pytest.mark.parametrize(("bad", "error", "match"), BAD_X)
def test_bad_samples_are_named(make, bad, error, match):
    n = bad.shape[0] if hasattr(bad, "shape") else N
    y = (LABELS if make in CLASSIFIERS else Y)[:n]
    with pytest.raises(error, match=re.compile(match, re.DOTALL)):
        make().fit(bad, y)


BAD_DEVICE_X = [
    (changed(X, np.nan, (3, 1)), "X contains NaN or infinity: expected finite"),
    (changed(X, -np.inf, (3, 1)), "X contains NaN or infinity: expected finite"),
    (X[:, 0], r"Expected 2D array, got 1D array of shape \(30,\)"),
    (X[:0], "0 sample.*minimum of 2"),
    (X[:1], "1 sample.*minimum of 2"),
    (X[:, :0], r"0 feature\(s\).*minimum of 1"),
]


@pytest.mark.each
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("bad", "match"), BAD_DEVICE_X)
def test_bad_samples_are_named_everywhere(on_double, make, bad, match):
    if on_double.package == "numpy":
        pytest.skip("scikit-learn's own messages, tested above")
    with pytest.raises(ValueError, match=match):
        make().fit(on_double.put(bad), on_double.put(Y[: bad.shape[0]]))


BAD_Y = [
    (changed(Y, np.nan), "y contains NaN"),
    (changed(Y, np.inf), "y contains inf"),
    (Y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
    (np.ones((N, 1, 1)), "dim 3|shape"),
    (Y + 1j, "Complex data not supported"),
    (LABELS, "could not convert string to float"),
    (None, "expected .* got None"),
]


@pytest.mark.each
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("bad", "match"), BAD_Y)
def test_bad_targets_are_named(make, bad, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X, bad)


@pytest.mark.pairs
@pytest.mark.parametrize("make", [regressor, kernel_ridge, hkrr, selector, weighting, regfeal])
@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (changed(Y, np.nan), "y contains NaN or infinity: expected finite"),
        (Y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
        (np.ones((N, 1, 1)), r"expected y of shape \(n,\) or \(n, t\), got \(30, 1, 1\)"),
    ],
)
def test_bad_targets_are_named_everywhere(on_double, make, bad, match):
    if on_double.package == "numpy":
        pytest.skip("scikit-learn's own messages, tested above")
    with pytest.raises(ValueError, match=match):
        make().fit(on_double.put(X), on_double.put(bad))


@pytest.mark.each
@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (Y, "Unknown label type: continuous"),
        (LABELS[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
        (np.stack([LABELS, LABELS], axis=1), "1d array"),
        (changed(Y, np.nan), "NaN"),
        (None, "expected labels, got None"),
    ],
)
def test_bad_labels_are_named(make, bad, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X, bad)


@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_named(make, missing):
    labels = LABELS.astype(object)
    labels[3] = missing
    with pytest.raises(ValueError, match=r"NaN|None|missing"):
        make().fit(X, labels)


@pytest.mark.few
@pytest.mark.each
@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize("dtype", [bool, int, float])
def test_objects_that_are_numbers_are_labels(make, dtype):
    labels = (LABELS == "yes").astype(dtype)
    expected, model = make().fit(X, labels), make().fit(X, labels.astype(object))
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.score(X, labels.astype(object)) == expected.score(X, labels)


BAD_WEIGHTS = [
    (changed(np.ones(N), -1.0), "expected sample weights of at least 0, got -1.0"),
    (np.zeros(N), "expected at least two positive sample weights"),
    (changed(np.zeros(N), 1.0), "expected at least two positive sample weights"),
    (changed(np.ones(N), np.nan), "sample_weight contains NaN"),
    (changed(np.ones(N), np.inf), "sample_weight contains inf"),
    (np.ones(N - 1), r"inconsistent numbers of samples: \[29, 30\]"),
    (np.ones((N, 1)), r"expected \(30,\), got \(30, 1\)"),
]


@pytest.mark.each
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("bad", "match"), BAD_WEIGHTS)
def test_bad_weights_are_named(make, bad, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X, Y, sample_weight=bad)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_samples_that_overflow_float32_are_reported(make):
    with pytest.raises(ValueError, match=r"X overflows .*float32: expected .*; standardise"):
        make(dtype="float32").fit(np.asarray(1e30 * X, dtype=np.float32), Y)


@pytest.mark.few
@pytest.mark.parametrize(
    "kind", [BKerNNRegressor, HKRRRegressor, functools.partial(RegFeaLRegressor, 30, degrees=0.3)]
)
@pytest.mark.parametrize(("dtype", "scale"), [("float64", 1e-160), ("float32", 1e-25)])
def test_samples_whose_squares_vanish_are_reported(kind, dtype, scale):
    with pytest.raises(ValueError, match=f"X underflows .*{dtype}: expected .*; standardise"):
        kind(scaling=None, backend=Backend(dtype=dtype)).fit(np.asarray(scale * X, dtype=dtype), Y)
    for seed in (0, 13):  # which do not vary: no ridge is better than another but by rounding
        kind(scaling=None, random_state=seed).fit(np.zeros_like(X, dtype=dtype), Y)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_samples_that_overflow_when_cast_are_reported(make):
    with pytest.raises(ValueError, match=r"X overflows .*float32"):
        make(dtype="float32").fit(1e39 * X, Y)


@pytest.mark.parametrize(
    "kind",
    [
        BKerNNRegressor,
        HKRRRegressor,
        KernelFeatureSelector,
        RKHSWeightingRegressor,
        RegFeaLRegressor,
    ],
)
def test_samples_that_overflow_when_standardised_are_reported(kind):
    with pytest.raises(ValueError, match="X overflows float64 when it is standardised"):
        kind(scaling="standard").fit(1e200 * (1e107 * X), Y)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_samples_that_overflow_float64_are_reported(make):
    with pytest.raises((ValueError, FloatingPointError), match="overflow"):
        make().fit(1e200 * X, Y)


@pytest.mark.few
@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_targets_that_overflow_float32_are_predicted_or_reported(make):
    try:
        model = make(dtype="float32").fit(X, 1e39 * Y)
    except (ValueError, FloatingPointError) as error:
        assert "overflow" in str(error)  # noqa: PT017
    else:
        assert np.all(np.isfinite(model.predict(X)))


SQUARES = {
    1e200: r"y overflows float64 .*: expected targets between -1e\+150 and 1e\+150, got 2.0e\+200",
    1e-200: r"y underflows float64 .* a range of at least 1e-150, got 2.0e-200",
    1e-310: r"y underflows float64 .* a range of at least 1e-150, got 2.0e-310",
}


@pytest.mark.pairs
@pytest.mark.parametrize("make", [*MAKERS, AutoRegressor])
@pytest.mark.parametrize("scale", SQUARES)
def test_targets_whose_squares_float64_does_not_hold_are_refused(on_double, make, scale):
    y = np.column_stack([Y, np.ones(N), 2 * scale * (Y > 1)])
    with pytest.raises(ValueError, match=f"{SQUARES[scale]}.*; rescale y"):
        make().fit(on_double.put(X), on_double.put(y))


# ---------------------------------------------------------------------- a constant target


@pytest.mark.each
@pytest.mark.parametrize("make", [regressor, kernel_ridge, hkrr, selector, weighting, regfeal])
@pytest.mark.parametrize("value", [0.0, 7.3, -1e12, 1e-200])
def test_a_constant_target_is_predicted_with_a_warning(make, value):
    with pytest.warns(UserWarning, match="y is constant: the model predicts that constant"):
        model = make().fit(X, np.full(N, value))
    np.testing.assert_allclose(model.predict(2 * X), value, rtol=1e-15)
    assert not np.any(getattr(model, "W_", 0.0))


def test_a_constant_target_needs_no_features_to_learn():
    with pytest.warns(UserWarning, match="y is constant"):
        model = BrownianKernelRidge().fit(X, np.full(N, 7.3))
    np.testing.assert_allclose(model.predict(2 * X), 7.3, rtol=1e-15)


# ---------------------------------------------------------------------- prediction


@pytest.mark.parametrize(
    ("make", "y"), [(m, Y) for m in MAKERS] + [(m, LABELS) for m in CLASSIFIERS]
)
def test_not_fitted(make, y):
    with pytest.raises(NotFittedError):
        make().predict(X)


@pytest.mark.few
@pytest.mark.parametrize("make", MAKERS)
def test_another_number_of_features_is_refused(on_double, make):
    model = make().fit(on_double.put(X), on_double.put(Y))
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        model.predict(on_double.put(X[:, :2]))


@pytest.mark.few
@pytest.mark.parametrize("make", MAKERS)
def test_another_library_is_refused(on_double, make):
    if on_double.package == "numpy":
        pytest.skip("the library of the reference")
    fitted_here = make().fit(on_double.put(X), on_double.put(Y))
    with pytest.raises(ValueError, match=f"expected {on_double.package}, got numpy"):
        fitted_here.predict(X)
    with pytest.raises(ValueError, match=f"expected numpy, got {on_double.package}"):
        make().fit(X, Y).predict(on_double.put(X))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kind", [list, pd.DataFrame])
def test_host_data_is_refused_by_a_model_of_another_library(make, kind, torch):
    model = make().fit(torch.asarray(X), torch.asarray(Y))
    with pytest.raises(ValueError, match="expected torch, got numpy"):
        model.predict(kind(X))


@pytest.mark.parametrize("make", [regressor, kernel_ridge, hkrr, selector, weighting, regfeal])
def test_other_column_names_are_refused(make):
    model = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=["a", "b", "z"]))


# ---------------------------------------------------------------------- a failed fit

FAILURES = {
    "samples": lambda model: model.fit(changed(X[:, :2], np.nan, (0, 0)), Y),
    "targets": lambda model: model.fit(X[:, :2], Y[:-1]),
    "missing targets": lambda model: model.fit(X[:, :2], changed(Y, np.nan)),
    "weights": lambda model: model.fit(X[:, :2], Y, sample_weight=-np.ones(N)),
    "parameter": lambda model: model.set_params(ridge=-1.0).fit(X[:, :2], Y),
    "overflow": lambda model: model.fit(1e200 * X[:, :2], Y),
}


@pytest.mark.few
@pytest.mark.pairs
@beside_the_error
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("make", MAKERS)
def test_a_failed_fit_leaves_the_model_as_it_was(make, how):
    model = make().fit(X, Y)
    before = model.predict(X)
    with pytest.raises((ValueError, FloatingPointError)):
        FAILURES[how](model)
    assert model.n_features_in_ == D
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.few
@pytest.mark.parametrize("make", CLASSIFIERS)
def test_a_failed_fit_leaves_the_classes_as_they_were(make):
    model = make().fit(X, LABELS)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, np.arange(N - 1) % 3)
    assert list(model.classes_) == ["no", "yes"]
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_failed_fit_leaves_the_column_names_as_they_were():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = regressor().fit(frame, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(frame.rename(columns={"a": "z"}), changed(Y, np.nan))
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_a_fit_without_column_names_forgets_the_old_ones(on_double):
    model = regressor().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    model.fit(on_double.put(X), on_double.put(Y))
    assert not hasattr(model, "feature_names_in_")
