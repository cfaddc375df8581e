"""A GPU that is full, and a process that was forked: the right result, or a clear error."""

from __future__ import annotations

import os

import cupy
import numpy as np
import pytest
from cupy import _memory

import gpukfl
from gpukfl.solvers import ProximalGradient


@pytest.fixture
def fit(rng):
    """Fit a model to the same samples, and predict them."""
    X = rng.standard_normal((300, 4))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(300)

    def predictions(X=X, backend="cupy", **settings):
        optimizer = ProximalGradient(max_iter=3, tol=0.0)
        model = gpukfl.BKerNNRegressor(5, ridge=1e-3, optimizer=optimizer, random_state=0)
        return model.set_params(backend=backend, **settings).fit(X, y).predict(X)

    predictions.X = X
    return predictions


@pytest.fixture
def leave(monkeypatch):
    """Let another process take the memory of the device but for so many bytes."""

    def taken(n_bytes):
        memory = _memory.MEMORY
        monkeypatch.setattr(memory, "taken", memory.limit - memory.used[0] - n_bytes)

    return taken


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_little_memory_is_enough_and_too_little_is_explained(fit, leave):
    expected = fit()
    leave(2**22)
    np.testing.assert_allclose(fit(), expected, rtol=1e-10)
    leave(2**16)
    with pytest.raises(MemoryError, match="Out of memory allocating") as caught:
        fit()
    (note,) = caught.value.__notes__
    assert note.startswith("The GPU's memory is full: nvidia-smi shows which processes use it.")
    leave(2**22)  # they have let it go
    np.testing.assert_allclose(fit(), expected, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_forked_child_computes_on_the_processor_and_refuses_arrays_of_the_gpu(fit):
    expected, there = fit(backend="numpy"), cupy.asarray(fit.X)
    fit()  # CUDA is used
    child = os.fork()
    if child == 0:
        wrong = 1
        try:
            np.testing.assert_array_equal(fit(backend="auto"), expected)
            for X, backend in ((fit.X, "cupy"), (there, "auto")):
                with pytest.raises(RuntimeError, match=r"before this process was forked.*'spawn'"):
                    fit(X, backend)
            wrong = 0
        finally:
            os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
