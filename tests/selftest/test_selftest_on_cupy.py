"""The self-test, and what may go wrong around it, on CuPy: on a GPU, or the stand-in for one."""

import json
import multiprocessing
import threading

import numpy as np
import pytest

import gpukfl
from gpukfl._accel import _launch, cuda, trust
from gpukfl.cli import main
from gpukfl.core._array import array_namespace, get_device
from gpukfl.core._cuda import cuda_devices, cupy_is_usable
from gpukfl.selftest import _trust as _trusted
from gpukfl.selftest._checks import PRIMITIVES
from gpukfl.selftest._timings import card, timings
from gpukfl.solvers import ProximalGradient

pytestmark = [
    pytest.mark.skipif(not cupy_is_usable(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
RNG = np.random.default_rng(2)
X = RNG.standard_normal((120, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(120)


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(autouse=True)
def untested(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUKFL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(trust, "_distrusted", set())
    _trusted._wrong_parts.cache_clear()
    yield
    _trusted._wrong_parts.cache_clear()


def model(**given):
    settings = {"random_state": 0, "ridge": 1e-3, "backend": "cupy", **given}
    optimizer = ProximalGradient(max_iter=2)
    return gpukfl.BKerNNRegressor(4, optimizer=optimizer, **settings)


def test_everything_is_right_and_said_in_json(capsys, tmp_path):
    out = tmp_path / "report.json"
    assert main(["selftest", "--full", "--samples", "3000", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert found["right"]
    assert {row["problem"] for row in (*found["checks"], *found["recorded"])} == {""}
    assert len(found["recorded"]) > 20
    assert {"gpu", "driver", "runtime", "cupy", "gpukfl", "kernels", "memory", "card"} <= set(found)
    assert "predictions" in found["note"]
    for row in found["timings"]:
        assert row["seconds"] > 0
        assert row["predicted_seconds"] > 0
    assert found["seconds"] > 0


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_samples_are_timed(cupy, n):
    reference = cupy.empty(0)
    found = timings(array_namespace(reference), get_device(reference), card(), n)
    assert {row["n"] for row in found} == {n}


def test_a_wrong_kernel_is_reported(monkeypatch, capsys):
    right = cuda.bin_products
    monkeypatch.setattr(cuda, "bin_products", lambda *args: 2.0 * right(*args))
    assert main(["selftest", "--samples", "0"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["right"] is False
    assert {row["what"] for row in found["checks"] if row["problem"]} == {"bin_products"}


def test_a_fit_tests_once(monkeypatch):
    calls = []
    run = _trusted.run
    monkeypatch.setattr(_trusted, "run", lambda *a, **k: calls.append(1) or run(*a, **k))
    model().fit(X, Y)
    model().fit(X, Y)
    assert len(calls) == 1
    assert not trust._distrusted


def test_wrong_kernels_leave_results_right(monkeypatch):
    expected = model().fit(X, Y).predict(X)
    right = cuda.ridge_sums
    monkeypatch.setattr(cuda, "ridge_sums", lambda *args: 1.01 * right(*args))
    monkeypatch.setenv("GPUKFL_CACHE_DIR", "/dev/null/nowhere")
    _trusted._wrong_parts.cache_clear()
    with pytest.warns(RuntimeWarning, match="array operations compute instead: brownian"):
        actual = model().fit(X, Y).predict(X)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_compiler_that_fails_leaves_results_right(monkeypatch):
    expected = model().fit(X, Y).predict(X)

    def fails(self, name):
        msg = "nvrtc: error: failed to open libnvrtc-builtins.so"
        raise RuntimeError(msg)

    monkeypatch.setattr(_launch.Kernels, "get", fails)
    monkeypatch.setenv("GPUKFL_CACHE_DIR", "/dev/null/nowhere")
    _trusted._wrong_parts.cache_clear()
    with pytest.warns(RuntimeWarning, match="failed to open libnvrtc-builtins"):
        actual = model().fit(X, Y).predict(X)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert trust._distrusted == {primitive.file for primitive in PRIMITIVES}


def test_wrong_libraries_leave_the_fit_to_numpy(monkeypatch, cupy):
    cholesky = cupy.linalg.cholesky
    expected = model(backend="numpy").fit(X, Y).predict(X)
    monkeypatch.setattr(cupy.linalg, "cholesky", lambda A: 1.5 * cholesky(A))
    with pytest.warns(RuntimeWarning, match="and NumPy computes instead: CuPy: Cholesky solves"):
        fitted = model().fit(X, Y)
    assert fitted.place_.startswith("numpy")
    np.testing.assert_array_equal(fitted.predict(X), expected)
    with pytest.raises(RuntimeError, match="expected CuPy to compute correctly on this GPU"):
        model().fit(cupy.asarray(X), cupy.asarray(Y))


@pytest.mark.parametrize(
    ("solver", "told"),
    [("eigh", "eigenvectors"), ("eigvalsh", "eigenvalues"), ("svd", "singular values")],
)
def test_wrong_solvers_of_spectra_are_found(monkeypatch, solver, told):
    """Those of the device: small matrices go to the host, and would tell nothing."""
    linalg = pytest.importorskip("array_api_compat.cupy").linalg
    right = getattr(linalg, solver)

    def wrong(A, *args, **kwargs):
        found = right(A, *args, **kwargs)
        if solver == "eigvalsh":
            return 1.01 * found
        return (*found[:-1], 1.01 * found[-1])

    monkeypatch.setattr(linalg, solver, wrong)
    with pytest.warns(RuntimeWarning, match=f"NumPy computes instead: CuPy: .*{told}"):
        assert model().fit(X, Y).place_.startswith("numpy")


# ---------------------------------------------------------------------- around it


def test_kernels_are_launched_on_the_stream_of_the_caller(monkeypatch, cupy):
    """CuPy's current stream is of a thread: nothing may name one, or leave the caller's thread."""
    seen = []
    get = _launch.Kernels.get

    def watched(self, name):
        kernel = get(self, name)

        def launch(*args, **kwargs):
            seen.append((threading.get_ident(), tuple(kwargs), cupy.cuda.get_current_stream()))
            return kernel(*args, **kwargs)

        return launch

    monkeypatch.setattr(_launch.Kernels, "get", watched)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        current = cupy.cuda.get_current_stream()
        model().fit(cupy.asarray(X), cupy.asarray(Y)).predict(cupy.asarray(X))
    assert seen
    assert {thread for thread, _, _ in seen} == {threading.get_ident()}
    assert {given for _, given, _ in seen} == {("shared_mem",)}
    assert all(one == current for _, _, one in seen)


def test_arrays_of_two_devices_are_refused(cupy):
    if cuda_devices() < 2 or cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one device")
    here = cupy.asarray(X), cupy.asarray(Y)
    with cupy.cuda.Device(1):
        there = cupy.asarray(X), cupy.asarray(Y)
    with pytest.raises(ValueError, match=r"expected y on the device of X, .* 0>, got .* 1>"):
        model(backend="auto").fit(here[0], there[1])
    fitted = model(backend="auto").fit(*here)
    with pytest.raises(ValueError, match=r"expected X on the device of the fit, .* 0>, got .* 1>"):
        fitted.predict(there[0])


def _fit_in_child(queue, data):
    try:
        model(backend="auto").fit(*data)
        queue.put("fitted")
    except Exception as error:
        queue.put(f"{type(error).__name__}: {error}")


def test_a_forked_process_says_what_to_do(monkeypatch, cupy):
    data = cupy.asarray(X), cupy.asarray(Y)
    monkeypatch.setattr("gpukfl.core._cuda.ask_driver", _forked_driver)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_child, args=(queue, data))
    child.start()
    told = queue.get(timeout=120)
    child.join()
    assert told.startswith("RuntimeError: CUDA was used before this process was forked")


def _forked_driver():
    """What cuInit answers in such a child; the stand-in's driver does not know of forks."""
    from gpukfl.core._cuda import _FORKED, Driver

    return Driver(0, _FORKED)
