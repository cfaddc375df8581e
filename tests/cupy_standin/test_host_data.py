"""Data of the host on a GPU: copied once where they fit, and the summary says so."""

import cupy
import numpy as np
import pytest

import gpukfl


@pytest.fixture
def fitted(rng):
    X = rng.standard_normal((200, 30))
    y = X[:, 0] + 0.1 * rng.standard_normal(200)

    def fit(put=np.asarray):
        model = gpukfl.HKRRRegressor(2, ridge=1e-3, n_centers=20, random_state=0, backend="cupy")
        return model.fit(put(X), put(y))

    return fit


def test_the_summary_says_that_data_were_copied(fitted):
    assert "on cupy <CUDA Device 0>, X copied to it" in fitted().summary()


def test_the_summary_says_that_data_were_read_in_blocks(fitted):
    with gpukfl.memory_budget(8 * 200 * 30):  # half of which may be a copy
        assert "on cupy <CUDA Device 0>, X read in blocks" in fitted().summary()


def test_data_of_the_gpu_stay_where_they_are(fitted):
    assert fitted(cupy.asarray).place_ == "cupy <CUDA Device 0>"
