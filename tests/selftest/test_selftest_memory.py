"""The first use of a GPU: tested once, remembered, and computed otherwise where it is wrong."""

import json
import os
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import gpukfl
from gpukfl._accel import trust
from gpukfl.core._places import resolve_place
from gpukfl.selftest import _trust as _remembered
from gpukfl.selftest import _trust as _trusted
from gpukfl.selftest import trusted_place
from gpukfl.selftest._checks import Outcome

FACTS = {"gpu": "stand-in", "driver": 13000}
PLACE = resolve_place("numpy", np.empty(0), dtype="float32", work=0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUKFL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(trust, "_distrusted", set())
    _trusted._wrong_parts.cache_clear()
    yield tmp_path
    _trusted._wrong_parts.cache_clear()


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that NumPy arrays are CuPy's, and what the test of them finds."""
    tests = []

    def pretend(*wrong, all_run=True, facts=FACTS, X_is_cupy=False):
        outcomes = [Outcome("sums", "float32", part, 0.0, None, "is wrong", 0.1) for part in wrong]

        def run(checks, *, seconds):
            tests.append(seconds)
            return outcomes, all_run

        fake = SimpleNamespace(empty=np.empty, ndarray=type("ndarray", (), {}))
        monkeypatch.setitem(sys.modules, "cupy", fake)
        monkeypatch.setattr(_trusted, "run", run)
        monkeypatch.setattr(_trusted, "environment_facts", lambda: dict(facts))
        monkeypatch.setattr(
            _trusted,
            "is_cupy",
            lambda x: x.size == 0 or X_is_cupy,  # the place's reference
        )
        monkeypatch.setattr(trust, "is_cupy", lambda x: isinstance(x, np.ndarray))
        return tests

    return pretend


def again():
    """As in another process."""
    _trusted._wrong_parts.cache_clear()
    trust._distrusted.clear()


X = np.ones((2, 2))


def test_other_places_are_not_tested(gpu, monkeypatch):
    tests = gpu()
    monkeypatch.setattr(_trusted, "is_cupy", lambda _: False)
    assert trusted_place(PLACE, X) is PLACE
    assert tests == []


def test_a_right_gpu_is_tested_once_and_remembered(gpu, folder):
    tests = gpu()
    for _ in range(2):
        assert trusted_place(PLACE, X) is PLACE
    again()
    assert trusted_place(PLACE, X) is PLACE
    assert tests == [20.0]
    kept = json.loads((folder / "selftest.json").read_text())
    assert kept["rows"] == [{"facts": FACTS, "wrong": {}}]


@pytest.mark.parametrize("changed", ["gpu", "driver"])
def test_another_driver_or_device_is_tested_anew(gpu, changed):
    tests = gpu()
    trusted_place(PLACE, X)
    again()
    gpu(facts={**FACTS, changed: "other"})
    trusted_place(PLACE, X)
    again()
    gpu()  # the first is still known
    trusted_place(PLACE, X)
    assert len(tests) == 2


def test_wrong_kernels_are_replaced_with_one_warning(gpu):
    tests = gpu("brownian", "brownian")
    assert trust.has_kernels(X, "brownian")
    for process in range(2):  # in the second it is remembered
        expected = r"array operations compute instead: brownian: sums in float32: is wrong \(and 1"
        with pytest.warns(RuntimeWarning, match=expected):
            assert trusted_place(PLACE, X) is PLACE
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert trusted_place(PLACE, X) is PLACE
        assert not trust.has_kernels(X, "brownian")
        assert trust.has_kernels(X, "distances")
        if process == 0:
            again()
    assert len(tests) == 1


def test_numpy_computes_where_cupy_is_wrong(gpu):
    gpu("CuPy")
    with pytest.warns(RuntimeWarning, match="and NumPy computes instead: CuPy: sums"):
        place = trusted_place(PLACE, X)
    assert place is not PLACE
    assert place.xp is PLACE.xp
    assert place.dtype == "float32"


def test_arrays_of_a_wrong_cupy_are_refused(gpu):
    gpu("CuPy", X_is_cupy=True)
    with pytest.warns(RuntimeWarning), pytest.raises(RuntimeError, match="use NumPy arrays"):
        trusted_place(PLACE, X)


def test_an_unfinished_test_is_not_remembered(gpu, folder):
    tests = gpu(all_run=False)
    trusted_place(PLACE, X)
    again()
    trusted_place(PLACE, X)
    assert len(tests) == 2
    assert not list(folder.iterdir())


def test_no_room_for_the_test_says_nothing(gpu, monkeypatch, folder):
    gpu()

    def fails(checks, *, seconds):
        raise MemoryError

    monkeypatch.setattr(_trusted, "run", fails)
    assert trusted_place(PLACE, X) is PLACE
    assert not list(folder.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 0}', '{"version": 1, "rows": [3]}'])
def test_a_damaged_file_is_as_none(folder, text):
    (folder / "selftest.json").write_text(text)
    assert _remembered.look_up(FACTS) is None
    _remembered.store_results(FACTS, {"CuPy": "sums"})
    assert _remembered.look_up(FACTS) == {"CuPy": "sums"}


def test_a_folder_that_cannot_be_made_fails_nothing(monkeypatch, folder):
    (folder / "file").write_text("")
    monkeypatch.setenv("GPUKFL_CACHE_DIR", str(folder / "file"))
    _remembered.store_results(FACTS, {})
    assert _remembered.look_up(FACTS) is None


def test_a_file_that_cannot_be_replaced_fails_nothing(monkeypatch, folder):
    def fails(*_):
        raise PermissionError

    monkeypatch.setattr(os, "replace", fails)
    _remembered.store_results(FACTS, {})
    assert _remembered.look_up(FACTS) is None
    assert not list(folder.iterdir())


def test_a_user_without_a_home_is_tested_every_time(monkeypatch):
    def fails():
        raise RuntimeError

    monkeypatch.delenv("GPUKFL_CACHE_DIR")
    monkeypatch.setattr("pathlib.Path.home", fails)
    assert _remembered.results_file() is None
    _remembered.store_results(FACTS, {})
    assert _remembered.look_up(FACTS) is None


def test_the_cache_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("GPUKFL_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _remembered.results_file() == tmp_path / "gpukfl" / "selftest.json"


def test_only_the_latest_set_ups_are_kept():
    for driver in range(30):
        _remembered.store_results({"driver": driver}, {})
    assert _remembered.look_up({"driver": 29}) == {}
    assert _remembered.look_up({"driver": 5}) is None


def test_a_fit_asks_whether_its_place_is_trusted(monkeypatch):
    asked = []

    def trusting(place, X):
        asked.append(type(X))
        return place

    monkeypatch.setattr("gpukfl.estimators._learner.trusted_place", trusting)
    rng = np.random.default_rng(0)
    data, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    gpukfl.KernelRidgeRegressor(ridge=0.1, lengthscale=1.0).fit(data, y)
    assert asked == [np.ndarray]
