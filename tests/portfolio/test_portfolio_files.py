"""Portfolios in model files and pickles."""

import pickle

import numpy as np
import pytest
from model_files import assert_as_before
from portfolio_cases import THREE, TWO, N, Truth, X, Y

import gpukfl
from gpukfl.core._archive import Archive, RefusedError
from gpukfl.inference import conditional_importance
from gpukfl.predictor._skops import dump_estimator, load_estimator

OPTIONS = {"members": ["linear", "trees", "laplace", "bkernn"], "n_folds": 2}
TARGETS = {
    "one target": Y,
    "two targets": np.stack([Y, X[:, 2]], axis=1),
    "two classes": TWO,
    "three classes": THREE,
}


@pytest.fixture(scope="module", params=TARGETS)
def model(request):
    noise = 0.3 * np.random.default_rng(0).standard_normal((N, 2))
    y = TARGETS[request.param]
    if y.dtype.kind == "f":
        y = y + (noise if y.ndim == 2 else noise[:, 0])
    return gpukfl.fit(X, y, progress=False, **OPTIONS)


def predictions(model):
    one = model.predict_proba if model.task == "classification" else model.predict
    return one(X)


def test_what_was_saved_comes_back(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = gpukfl.load(tmp_path / "m")
    assert_as_before(predictions(loaded), predictions(model))
    assert loaded.summary() == model.summary()
    assert vars(loaded.estimator).keys() == vars(model.estimator).keys()
    assert loaded.estimator.leaderboard().equals(model.estimator.leaderboard())


def test_a_file_without_the_record_predicts_as_before(model, tmp_path):
    for name, record in (("with", True), ("without", False)):
        model.save(tmp_path / name, record=record)
    assert (tmp_path / "without").stat().st_size < (tmp_path / "with").stat().st_size
    loaded = gpukfl.load(tmp_path / "without")
    assert_as_before(predictions(loaded), predictions(model))
    light = gpukfl.runtime.load(tmp_path / "without")
    assert_as_before(predictions(light), predictions(model))
    gaps = X[:5].copy()
    gaps[0, 0] = np.nan  # replaced by the median of the fit
    with pytest.warns(UserWarning, match="median"):
        expected = model.predict(gaps)
    with pytest.warns(UserWarning, match="median"):
        assert_as_before(loaded.predict(gaps), expected)
    ask = loaded.predict_set if model.task == "classification" else loaded.predict_interval
    own = model.predict_set if model.task == "classification" else model.predict_interval
    assert_as_before(ask(X), own(X))
    assert loaded.summary()
    for without in (
        lambda: conditional_importance(loaded),
        lambda: loaded.compress(0.1),
        loaded.distilled,
    ):
        with pytest.raises(ValueError, match="expected held-out rows, got a file"):
            without()
    loaded.save(tmp_path / "again")
    assert_as_before(predictions(gpukfl.load(tmp_path / "again")), predictions(model))


def test_single_methods_have_no_record_to_leave_out(tmp_path):
    found = gpukfl.fit(X, Y, method="hkrr", ridge=0.01, progress=False, random_state=0)
    found.reference = None  # the sample of rows for `drift` is a record
    found.save(tmp_path / "with")
    found.save(tmp_path / "without", record=False)
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


@pytest.mark.parametrize(
    ("method", "options", "left_out"),
    [
        ("bkernn", {"ridge": 0.01}, ("dual_coef_",)),
        ("hkrr", {"criterion": "evidence"}, ("factor_", "inner_factor_")),
    ],
)
def test_what_only_inference_needs_may_be_left_out(method, options, left_out, tmp_path):
    found = gpukfl.fit(X, Y, method=method, progress=False, random_state=0, **options).estimator
    for name, record in (("with", True), ("without", False)):
        found.save(tmp_path / name, record=record)
    assert (tmp_path / "without").stat().st_size < (tmp_path / "with").stat().st_size
    loaded = gpukfl.load(tmp_path / "without")
    assert all(getattr(loaded.estimator, name) is None for name in left_out)
    assert getattr(found, left_out[0]) is not None
    np.testing.assert_array_equal(loaded.predict(X), gpukfl.load(tmp_path / "with").predict(X))
    assert loaded.summary()


def test_a_pickle_comes_back(model):
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(predictions(loaded), predictions(model))


def test_members_keep_no_matrix_of_all_their_rows(tmp_path):
    found = gpukfl.fit(X, Y, members=["evidence_quantile"], n_folds=2, progress=False)
    found.save(tmp_path / "m")
    with (tmp_path / "m").open("rb") as file:
        shapes = [one.shape for one in Archive(file).arrays.values()]
    assert (N // 2, X.shape[1]) in shapes
    assert (N // 2, N // 2) not in shapes
    member = found.estimator.members_[0].models[0]
    with pytest.raises(ValueError, match="got criterion='evidence', and no factor_"):
        member.predict(X, return_std=True)


def test_members_that_skops_does_not_know_are_named(tmp_path):
    model = gpukfl.AutoRegressor(members=[("truth", Truth())], n_folds=3).fit(X, Y)
    with pytest.raises(TypeError, match=r"types that skops trusts, got Truth with .*: use pickle"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_bytes_of_other_types_are_not_made(tmp_path):
    from skops.io import dumps

    with pytest.raises(TypeError, match="Truth"):
        dump_estimator(Truth())
    data = np.frombuffer(dumps(Truth().fit(X, Y)), dtype=np.uint8)
    with pytest.raises(RefusedError, match="cannot be read"):
        load_estimator(data)
    with pytest.raises(RefusedError, match="not a readable archive"):
        load_estimator(data[:50])


def test_a_file_holds_arrays_and_json_only(model, tmp_path):
    model.save(tmp_path / "m")
    with (tmp_path / "m").open("rb") as file:
        archive = Archive(file)
        assert archive.header["model"]["method"] == "auto"
        assert any("members" in name for name in archive.arrays)
