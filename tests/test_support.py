"""The table of what takes data of which library is true: every row, for every library."""

import functools

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal

import gpukfl
from gpukfl import inference
from gpukfl._registry import HOST, LIBRARIES, REFUSED, STAYS, SUPPORT
from gpukfl.core._array import library_name
from gpukfl.core._places import cupy_is_usable
from gpukfl.partitioned import is_dask
from gpukfl.tables import TableEncoder

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:the best ridge:UserWarning",
    "ignore:Sending large graph:UserWarning",
)

N = 240
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
TWO = (Y > 0).astype(float)

REFUSALS = r"expected data in memory"
BRIEF = {  # by the beginning of an estimator's name
    "Auto": {"members": ["linear", "manhattan_laplace"], "n_folds": 2},
    "BKerNN": bkernn(n_particles=4, max_iter=2, ridge=0.1),
    "HKRR": hkrr(n_components=1, n_starts=1, max_iter=2, ridge=1e-2),
    "KernelFeatureSelector": {"sparsity": 0.05, "ridge": 1e-2},
    "RKHSWeighting": {"n_parameters": 20, "instantiation": "stumps", "ridge": 1e-2},
    "RegFeaL": regfeal(n_random_features=20, n_iter=1, degree_decay=0.3, strength=0.1),
    "KernelRidge": {"ridge": 1e-2, "lengthscale": 2.0, "n_centers": 20},
}


class Data:
    """Samples in a library."""

    def __init__(self, put):
        self.X, self.y, self.two = put(X), put(Y), put(TWO)

    @functools.cached_property
    def one(self):
        """A model whose predictions others ask for."""
        options = BRIEF["HKRR"]
        return gpukfl.fit(self.X, self.y, method="hkrr", random_state=0, **options)


def estimator(name, **more):
    options = next((o for start, o in BRIEF.items() if name.startswith(start)), {})
    if name != "BrownianKernelRidge":
        more = {"random_state": 0, **more}
    return getattr(gpukfl, name)(**options | more)


def asked(name, methods, data):
    """Fit an estimator, and ask it for what it gives of rows."""
    y = data.two if name.endswith("Classifier") else data.y
    model = estimator(name).fit(data.X, y)
    return [getattr(model, method)(data.X) for method in methods.split(", ")[1:]]


def saved(data, tmp_path):
    data.one.save(tmp_path / "model.gpukfl")
    found = gpukfl.load(tmp_path / "model.gpukfl").predict(X)
    np.testing.assert_allclose(found, np.asarray(host(data.one.predict(data.X))), atol=1e-8)
    return [data.one.predict(data.X)]


def found(question, **options):
    return lambda data, _: [question(data.one, data.X, data.y, **options).frame().to_numpy()]


CALLS = {
    ("gpukfl.fit", "fit, predict"): lambda data, _: [data.one.predict(data.X)],
    ("gpukfl.HKRRRegressor", "predict(return_std=True)"): lambda data, _: (
        estimator("HKRRRegressor", criterion="evidence")
        .fit(data.X, data.y)
        .predict(data.X, return_std=True)
    ),
    ("gpukfl.KernelFeatureSelector", 'error_control="fdr"'): lambda data, _: [
        estimator("KernelFeatureSelector", sparsity="auto", error_control="fdr")
        .fit(data.X, data.y)
        .predict(data.X)
    ],
    ("gpukfl.Model", "save and load"): saved,
    ("gpukfl.Model", "score"): lambda data, _: [np.asarray(data.one.score(data.X, data.y))],
    ("gpukfl.inference.bands", "of a fitted model"): found(inference.bands, features=[0], points=5),
    ("gpukfl.inference.conditional_importance", "of a fitted model"): found(
        inference.conditional_importance, random_state=0
    ),
    ("gpukfl.inference.interactions", "of a fitted model"): found(inference.interactions),
    ("gpukfl.inference.subspace", "of a fitted model"): found(inference.subspace),
    ("gpukfl.tables.TableEncoder", "fit, transform"): lambda data, _: [
        TableEncoder().fit_transform(data.X, data.y)
    ],
}
rows = pytest.mark.parametrize("row", SUPPORT, ids=lambda row: f"{row.name}: {row.methods}")


def host(x):
    return x.compute() if is_dask(x) else x.get() if hasattr(x, "get") else x


def check(row, library, data, tmp_path):
    key = (row.name, row.methods)
    call = CALLS.get(key, lambda d, _: asked(row.name.removeprefix("gpukfl."), row.methods, d))
    taken = row.handling(library)
    if taken is REFUSED:
        with pytest.raises((TypeError, ValueError), match=REFUSALS):
            call(data, tmp_path)
        return
    results = call(data, tmp_path)
    assert results
    for result in results:
        lies = "dask" if is_dask(result) else library_name(result)
        assert lies == (library if taken is STAYS else "numpy")
        assert len(np.atleast_1d(np.asarray(host(result))))


data_by = functools.cache(Data)  # with the model that others ask


def in_two_parts(a):
    return pytest.importorskip("dask.array").from_array(a, chunks=(N // 2, *a.shape[1:]))


@pytest.mark.few
@rows
def test_numpy(row, tmp_path):
    check(row, "numpy", data_by(np.asarray), tmp_path)


@rows
def test_torch(row, torch, tmp_path):
    check(row, "torch", data_by(torch.asarray), tmp_path)


@rows
def test_cupy(row, tmp_path):
    if not cupy_is_usable():
        pytest.skip("there is no GPU, and no stand-in")
    check(row, "cupy", data_by(pytest.importorskip("cupy").asarray), tmp_path)


@pytest.mark.few
@rows
def test_dask(row, tmp_path, monkeypatch):
    monkeypatch.setattr("gpukfl.estimators._dask.SAMPLE", 10)  # so that rows stay where they are
    monkeypatch.setattr("gpukfl.tables._training.SAMPLE", 10)
    check(row, "dask", data_by(in_two_parts), tmp_path)


def test_every_estimator_has_a_row():
    named = {row.name for row in SUPPORT if row.methods.startswith("fit")}
    kinds = [name for name in gpukfl.__all__ if hasattr(getattr(gpukfl, name), "fit")]
    assert {f"gpukfl.{name}" for name in kinds if not name.endswith("Model")} <= named
    assert LIBRARIES == ("numpy", "cupy", "torch", "dask")
    assert {row.handling(library) for row in SUPPORT for library in LIBRARIES} == {
        STAYS,
        HOST,
        REFUSED,
    }
