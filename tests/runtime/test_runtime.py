"""Model files predict with NumPy alone, as they do with everything."""

import copy
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from numpy_alone import BLOCKING, HEAVY
from served_models import NEW, SINGLE, TARGETS, X, Y, kernel_blend, model, said

import gpukfl
from gpukfl import runtime
from gpukfl.kernels import Gaussian, Linear
from gpukfl.linalg import distances, erf, interpolate_columns, interpolate_knots
from gpukfl.predictor import Predictor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALONE = (
    BLOCKING
    + """
import gpukfl.runtime
import numpy as np

data = np.load(sys.argv[1])
found = {}
for path in sys.argv[3:]:
    model = gpukfl.runtime.load(path)
    told = model.predict(data["rows"])
    found[path] = told if model.classes_ is None else model.predict_proba(data["rows"])
np.savez(sys.argv[2], *found.values())
"""
)


def saved(found, path):
    found.save(path)
    return runtime.load(path)


@pytest.mark.few
@pytest.mark.parametrize("name", SINGLE)
def test_every_method_predicts_alike(name, tmp_path):
    found = model(name)
    light = saved(found, tmp_path / "model.gpukfl")
    predicted, probabilities = said(found)
    near = 1e-6 if found.method == "bkernn" else 1e-10  # whose knots are in float32
    if probabilities is None:
        np.testing.assert_allclose(light.predict(NEW), predicted, rtol=0, atol=near * np.std(Y))
    else:
        assert light.predict(NEW).tolist() == predicted.tolist()
        np.testing.assert_allclose(light.predict_proba(NEW), probabilities, rtol=0, atol=near)


@pytest.mark.few
@pytest.mark.parametrize("target", TARGETS)
def test_blends_of_kernel_methods_predict_alike(target, tmp_path):
    found = kernel_blend(target)
    light, (predicted, probabilities) = saved(found, tmp_path / "model.gpukfl"), said(found)
    if probabilities is None:
        np.testing.assert_allclose(light.predict(NEW), predicted, rtol=0, atol=1e-7 * np.std(Y))
    else:  # knots of BKerNN are in float32 in a file
        np.testing.assert_allclose(light.predict_proba(NEW), probabilities, rtol=0, atol=1e-7)


def test_nothing_but_numpy_is_imported(tmp_path):
    names = [name for name in SINGLE if name.endswith(("one target", "three classes", "l1"))]
    paths = []
    for k, name in enumerate(names):
        paths.append(str(tmp_path / f"{k}.gpukfl"))
        model(name).save(paths[-1])
    np.savez(tmp_path / "rows.npz", rows=NEW)
    files = [str(tmp_path / "rows.npz"), str(tmp_path / "found.npz")]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *files, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    for name, key in zip(names, found.files, strict=True):
        predicted, probabilities = said(model(name))
        expected = predicted if probabilities is None else probabilities
        near = 1e-6 if name.startswith("bkernn") else 1e-10
        np.testing.assert_allclose(found[key], expected, rtol=0, atol=near * np.std(Y))


def test_importing_it_imports_nothing_else():
    code = f"import sys, gpukfl.runtime; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_blocks_of_rows_are_one(tmp_path, monkeypatch):
    light = saved(model("hkrr, one target"), tmp_path / "model.gpukfl")
    whole = light.predict(NEW)
    monkeypatch.setattr("gpukfl.runtime._predictor._BLOCK_ELEMENTS", 200)
    np.testing.assert_allclose(light.predict(NEW), whole, rtol=0, atol=1e-10)


def test_float32_rows_give_float32(tmp_path):
    found = model("hkrr, one target", "float32")
    light = saved(found, tmp_path / "model.gpukfl")
    rows = NEW.astype(np.float32)
    assert light.predict(rows).dtype == np.float32
    lost = np.abs(found.predict(rows) - model("hkrr, one target").predict(NEW)).max()
    assert np.abs(light.predict(rows) - found.predict(rows)).max() <= 1e-5 + lost
    assert light.predict(NEW.tolist()).dtype == np.float64


def test_a_sum_of_kernels_is_read(tmp_path):
    kernel = 0.5 * Gaussian(2.0) * Gaussian() + Linear()
    found = gpukfl.fit(X, Y, method="hkrr", kernel=kernel, n_components=1, ridge=1e-2)
    light = saved(found, tmp_path / "model.gpukfl")
    np.testing.assert_allclose(light.predict(NEW), found.predict(NEW), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["bkernn, two targets", "hkrr, l1", "rkhs_weighting, signs"])
def test_a_row_takes_no_work_of_a_thousand(name, tmp_path):
    """The least of many: a row of small models takes a few tenths of a millisecond."""
    light, least = saved(model(name), tmp_path / "model.gpukfl"), np.inf
    for _ in range(50):
        begun = time.perf_counter()
        light.predict(NEW[:1])
        least = min(least, time.perf_counter() - begun)
    assert least < 0.01


# ---------------------------------------------------------------------- its own operations


def test_operations_without_compiled_code_are_the_same():
    from gpukfl._accel.trust import use_numpy_only

    rng = np.random.default_rng(0)
    A, knots = rng.normal(size=(5, 30)), np.sort(rng.normal(size=(5, 9)), axis=1)
    knots[:, -3:] = knots[:, -3:-2]  # padding
    values = rng.normal(size=(5, 9, 2))
    values[:, -3:] = values[:, -3:-2]
    B = rng.normal(size=(7, 3))
    calls = (
        lambda: interpolate_knots(A, knots, values),
        lambda: interpolate_columns(A.T, knots, values[..., 0]),
        lambda: erf(A),
        lambda: distances(B, B, norm="manhattan"),
        lambda: distances(B, B),
        lambda: distances(B, B, norm=1.5),
    )
    for call in calls:
        expected = call()
        with use_numpy_only():
            np.testing.assert_allclose(call(), expected, rtol=1e-13, atol=1e-13)


def test_many_points_are_interpolated_as_few_are():
    from gpukfl._accel.trust import use_numpy_only

    rng = np.random.default_rng(0)
    A, knots = rng.normal(size=(2, 20_000)), np.sort(rng.normal(size=(2, 9)), axis=1)
    values = rng.normal(size=(2, 9, 1))
    expected = sum(np.interp(a, k, v[:, 0]) for a, k, v in zip(A, knots, values, strict=True))
    with use_numpy_only():
        for n in (30, 20_000):
            found = interpolate_knots(A[:, :n], knots, values)[:, 0]
            np.testing.assert_allclose(found, expected[:n], rtol=0, atol=1e-12)
            alone = interpolate_columns(A[:, :n].T, knots, values[..., 0])
            np.testing.assert_allclose(alone.sum(axis=1), expected[:n], rtol=0, atol=1e-12)


# ---------------------------------------------------------------------- bad input


@pytest.fixture
def light(tmp_path):
    return saved(model("hkrr, one target"), tmp_path / "model.gpukfl")


def test_rows_that_are_no_rows_are_refused(light):
    for rows in (NEW[:, :2], NEW[0]):
        with pytest.raises(ValueError, match=r"expected X of shape \(n, 4\)"):
            light.predict(rows)
    for rows in (NEW[:0], []):
        with pytest.raises(ValueError, match="expected at least 1 row, got 0 sample"):
            light.predict(rows)
    with pytest.raises(ValueError, match="got NaN in x1 and infinity in x3"):
        light.predict(np.array([[1.0, np.nan, 1.0, np.inf]]))
    with pytest.raises(ValueError, match="expected columns of numbers, got 'a'"):
        light.predict([["a", "b", "c", "d"]])
    with pytest.raises(TypeError, match="got a regression: use predict"):
        light.predict_proba(NEW)


def test_columns_in_another_order_are_refused(tmp_path):
    names = list("abcd")
    found = gpukfl.fit(pd.DataFrame(X, columns=names), Y, method="hkrr", n_components=1, ridge=0.01)
    light = saved(found, tmp_path / "model.gpukfl")
    frame = pd.DataFrame(NEW, columns=names)
    np.testing.assert_allclose(light.predict(frame), light.predict(NEW), rtol=0, atol=1e-10)
    assert light.feature_names == names
    with pytest.raises(ValueError, match="expected columns a, b, c, d in order, got d, c"):
        light.predict(frame[names[::-1]])


@pytest.fixture(scope="module")
def of_numbers(tmp_path_factory):
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    options = {"members": ["linear"], "effort": "quick"}
    found = gpukfl.fit(frame, frame["a"] + Y, **options)
    return found, saved(found, tmp_path_factory.mktemp("numbers") / "model.gpukfl")


@pytest.mark.filterwarnings("ignore:missing values in a")
def test_nullable_columns_may_have_gaps(of_numbers):
    found, light = of_numbers
    frame = pd.DataFrame(NEW[:, :2], columns=["a", "b"]).astype("Float64")
    frame.loc[0, "a"] = pd.NA
    np.testing.assert_allclose(light.predict(frame), found.predict(frame), rtol=0, atol=1e-10)


@pytest.mark.parametrize("bad", ["x", pd.Timestamp("2020-01-01"), pd.Timedelta("1h")])
def test_columns_of_anything_but_numbers_are_refused(of_numbers, bad):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [bad, bad]})
    for rows in (frame, frame.astype(object), frame.to_dict("list"), frame.to_dict("records")):
        with pytest.raises(ValueError, match=r"expected columns of numbers, got .* in b"):
            of_numbers[1].predict(rows)


class Far:
    """Values that overflow in every row but the first."""

    width = 1

    def __call__(self, X):
        return np.where(np.arange(len(X)) > 0, np.inf, 1.0)[:, None]


def test_predictions_that_overflow_are_refused():
    about = {"method": "hkrr", "task": "regression", "feature_names": [], "target_name": "y"}
    light = runtime.RuntimeModel(Predictor(Far(), 4), about)
    with pytest.raises(ValueError, match="not finite at 2 of 3 rows"):
        light.predict(NEW[:3])


def test_files_that_are_none_are_refused(tmp_path):
    path = tmp_path / "model.gpukfl"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="expected a gpukfl model file, got"):
        runtime.load(path)
    model("hkrr, one target").save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(ValueError, match="truncated"):
        runtime.load(path)
    with pytest.raises(FileNotFoundError):
        runtime.load(tmp_path / "none")


def test_changed_parts_are_refused(tmp_path):
    """Of a file whose checksum is right."""
    from model_files import opened

    from gpukfl.core._archive import VERSION, write_archive

    path = tmp_path / "model.gpukfl"
    model("hkrr, one target").save(path)
    header, arrays = opened(path)

    def read_again(header, arrays):
        import json

        with path.open("w+b") as file:
            write_archive(file, json.dumps(header).encode(), arrays)
        return runtime.load(path)

    assert read_again(header, arrays).task == "regression"
    wrong = {**arrays, "predictor/values/coef": arrays["predictor/values/coef"][1:]}
    with pytest.raises(ValueError, match=r"coef is an array .*: expected"):
        read_again(header, wrong)
    fewer = {name: array for name, array in arrays.items() if name != "predictor/values/B"}
    with pytest.raises(ValueError, match="neither a value nor an array that it holds"):
        read_again(header, fewer)
    kernel = {"record": "Popen", "fields": {"args": "ls"}}
    odd = copy.deepcopy(header)
    odd["predictor"]["fields"]["values"]["fields"]["kernel"] = kernel
    with pytest.raises(ValueError, match="kernel is no Brownian or "):
        read_again(odd, arrays)
    other = {**header, "model": {**header["model"], "task": "nothing"}}
    with pytest.raises(ValueError, match="whose model is not of a task among"):
        read_again(other, arrays)
    later = f"which has version {VERSION + 1}: expected version {VERSION}; upgrade"
    with pytest.raises(ValueError, match=later):
        read_again({**header, "version": VERSION + 1}, arrays)
