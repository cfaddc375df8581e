"""What is no data is refused: the argument is named, what was expected and what was got."""

import numpy as np
import pandas as pd
import pytest
from brief import bkernn, hkrr, regfeal
from scipy import sparse

import gpukfl
from gpukfl import (
    BKerNNClassifier,
    BKerNNRegressor,
    BrownianKernelRidge,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators.selection import Permutations

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (40, 3))
Y = X[:, 0] + X[:, 1] ** 2
MASKED = np.ma.masked_array(X, X > 0.9)
DATES = np.full((40, 3), np.datetime64("2020-01-01"))
RECORDS = np.zeros(40, dtype=[("a", "f8")])
SMALL = bkernn(n_particles=4, max_iter=2, ridge=0.01)
ESTIMATORS = {
    "BKerNN": BKerNNRegressor(**SMALL),
    "HKRR": HKRRRegressor(1, **hkrr(n_starts=1, max_iter=2, ridge=1e-3)),
    "selection": KernelFeatureSelector(sparsity=Permutations(2), ridge=0.01),
    "weighting": RKHSWeightingRegressor(10),
    "RegFeaL": RegFeaLRegressor(20, **regfeal(n_iter=1, degree_decay=0.3, strength=0.1)),
    "kernel ridge": KernelRidgeRegressor(ridge=1e-3),
    "Brownian": BrownianKernelRidge(),
}
TWICE = pd.DataFrame(X, columns=["a", "b", "a"])
NO_SAMPLES = {
    "a number": (3.0, ValueError, "expected an array, a frame or a list for X, got one value"),
    "0-d": (np.array(3.0), ValueError, "Expected 2D array.* list for X, got one value"),
    "text": ("abc", ValueError, "list for X, got one value"),
    "dict": ({"a": Y}, TypeError, "list for X, got dict: convert it with pandas.DataFrame"),
    "set": ({1, 2}, TypeError, "list for X, got set"),
    "function": (len, TypeError, "list for X, got builtin_function_or_method"),
    "generator": ((row for row in X), TypeError, "list for X, got generator"),
    "masked": (MASKED, ValueError, "list for X, got a masked array with masked values"),
    "dates": (DATES, ValueError, r"expected numbers for X, got datetime64\[D\]"),
    "records": (RECORDS, ValueError, "expected numbers for X, got "),
    "sparse": (
        sparse.csr_array(X),
        TypeError,
        "array or frame, got csr_array for X",
    ),
    "names twice": (TWICE, ValueError, "expected different column names in X, got a twice"),
}
NO_NUMBERS = {
    "words": np.full((40, 3), "a", dtype=object),
    "ragged": [[1.0, 2.0], [3.0]] * 20,
    "dicts": [[{"a": 1}] * 3] * 40,
}
NO_TARGETS = {
    "a number": (3.0, ValueError, "expected an array or a list for y, got one value"),
    "an integer": (3, ValueError, "expected an array or a list for y, got one value"),
    "0-d": (np.array(3.0), ValueError, "for y, got one value"),
    "text": ("abc", ValueError, "for y, got one value: a column name works with gpukfl.fit"),
    "dict": ({"a": 1}, TypeError, "for y, got dict"),
    "set": ({1, 2}, TypeError, "for y, got set"),
    "generator": ((v for v in Y), TypeError, "for y, got generator"),
    "masked": (MASKED[:, 0], ValueError, "for y, got a masked array with masked values"),
    "sparse": (
        sparse.csr_array(Y[:, None]),
        TypeError,
        "array or frame, got csr_array for y",
    ),
    "records": (RECORDS, ValueError, "expected numbers for y, got "),
}


def fit(data, y):
    return gpukfl.fit(data, y, method="bkernn", **SMALL)


@pytest.mark.each
@pytest.mark.parametrize("kind", NO_SAMPLES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_no_matrix_is_refused(name, kind):
    data, error, words = NO_SAMPLES[kind]
    estimator = ESTIMATORS[name]
    with pytest.raises(error, match=words):
        estimator.fit(data, Y)
    with pytest.raises(error, match=words):
        fit(data, Y)


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_no_numbers_is_refused(name, kind):
    with pytest.raises(
        (TypeError, ValueError), match="expected X to have numbers, in rows of the same"
    ):
        ESTIMATORS[name].fit(NO_NUMBERS[kind], Y)


@pytest.mark.parametrize("columns", [["a", "when"], ["when"]])
def test_dates_of_a_frame_are_no_numbers(columns):
    when = pd.date_range("2020-01-01", periods=len(X))
    frame = pd.DataFrame({"a": X[:, 0], "when": when})[columns]
    polars = pytest.importorskip("polars")
    others = polars.DataFrame(frame.to_dict("list"))
    for given in (frame, others, others.to_arrow()):
        with pytest.raises(ValueError, match="expected columns of numbers, got dates or durations"):
            KernelRidgeRegressor().fit(given, Y)


@pytest.mark.each
@pytest.mark.parametrize("kind", NO_TARGETS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_are_no_targets_is_refused(name, kind):
    y, error, words = NO_TARGETS[kind]
    with pytest.raises(error, match=words):
        ESTIMATORS[name].fit(X, y)
    if kind == "text":  # the name of a column
        error, words = TypeError, "expected a frame with a column 'abc' for X, got ndarray"
    with pytest.raises(error, match=words):
        fit(X, y)


def test_words_are_no_targets_of_a_regression():
    with pytest.raises(ValueError, match=r"expected y to have numbers.*'a'"):
        BKerNNRegressor(**SMALL).fit(X, ["a", "b"] * 20)


def test_dates_are_no_targets_of_a_regression_but_labels():
    dates = np.arange(40).astype("M8[D]")
    with pytest.raises(ValueError, match=r"expected numbers for y, got datetime64\[D\]"):
        BKerNNRegressor(**SMALL).fit(X, dates)
    days = dates[np.arange(40) % 2]
    assert set(BKerNNClassifier(**SMALL).fit(X, days).predict(X)) <= set(days)


@pytest.mark.parametrize("kind", ["a number", "dict", "masked", "dates", "sparse"])
def test_predictions_are_for_matrices_too(kind):
    data, error, words = NO_SAMPLES[kind]
    model = BKerNNRegressor(**SMALL).fit(X, Y)
    with pytest.raises(error, match=words):
        model.predict(data)


def test_what_holds_the_same_numbers_is_the_same():
    expected = BKerNNRegressor(**SMALL, random_state=0).fit(X, Y).predict(X)
    ways = [X.tolist(), X.astype(object), np.ma.masked_array(X), pd.DataFrame(X), X.astype(str)]
    for data in ways:
        model = BKerNNRegressor(**SMALL, random_state=0).fit(data, list(Y))
        np.testing.assert_array_equal(model.predict(data), expected)


FRAMES = {
    "pandas": pd.DataFrame,
    "nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "pyarrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=list(FRAMES))
def test_frames_of_float32_are_computed_in_it(make):
    narrow = X.astype(np.float32)
    frame = make({name: narrow[:, k] for k, name in enumerate("abc")})
    for learn in (BKerNNRegressor(**SMALL, random_state=0).fit, fit):
        found = learn(frame, Y).predict(frame)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, learn(narrow, Y).predict(narrow))
    one_wide = make({"a": X[:, 0], "b": narrow[:, 1], "c": narrow[:, 2]})
    assert BKerNNRegressor(**SMALL).fit(one_wide, Y).predict(one_wide).dtype == np.float64


@pytest.mark.parametrize("dtype", ["int32", "float16", ">f8", "bool"])
def test_memory_maps_of_other_dtypes_are_converted(tmp_path, dtype):
    host = (10 * X).astype(dtype)
    stored = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=X.shape)
    stored[:] = host
    model = BKerNNRegressor(**SMALL, random_state=0).fit(stored, Y)
    expected = BKerNNRegressor(**SMALL, random_state=0).fit(host, Y)
    np.testing.assert_array_equal(model.predict(stored), expected.predict(host))


# ---------------------------------------------------------------------- torch


def odd_tensor(torch, kind, x):
    x = torch.asarray(x)
    make = {
        "sparse": x.to_sparse,
        "csr": lambda: x.reshape(len(x), -1).to_sparse_csr(),
        "meta": lambda: x.to("meta"),
        "quantized": lambda: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
    }
    return make[kind]()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("sparse", r"Sparse data .* got sparse tensor \(torch.sparse_coo\) for X; use X.to_dense"),
        ("csr", r"Sparse data .* got sparse tensor \(torch.sparse_csr\)"),
        ("meta", "list for X, got a meta tensor"),
        ("quantized", "list for X, got a quantized tensor"),
    ],
)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.filterwarnings("ignore:torch.*quantiz:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*quantiz.*:UserWarning")
def test_tensors_that_cannot_be_computed_with_are_refused(torch, name, kind, words):
    tensor = odd_tensor(torch, kind, X)
    with pytest.raises(TypeError, match=words):
        ESTIMATORS[name].fit(tensor, Y)
    with pytest.raises(TypeError, match=words):
        fit(tensor, Y)
    with pytest.raises(TypeError, match=words.replace("X", "y")):
        ESTIMATORS[name].fit(X, odd_tensor(torch, kind, X))


def test_complex_tensors_are_no_targets(torch):
    with pytest.raises(ValueError, match=r"got dtype torch\.complex128"):
        BKerNNRegressor(**SMALL).fit(X, torch.asarray(Y + 0j))
