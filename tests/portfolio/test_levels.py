"""Levels of categories of more than eight and not too many levels, which some members see."""

from dataclasses import replace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from model_files import write_unchecked
from sklearn.preprocessing import OneHotEncoder

import gpukfl
from gpukfl import runtime
from gpukfl.core._archive import RefusedError
from gpukfl.inspection import Directions, get_description
from gpukfl.portfolio import Encodings
from gpukfl.portfolio._members import Task, make_members
from gpukfl.tables import Encoding, Table
from gpukfl.tables._seen import LEVELS, NUMBERS, find_level_columns, level_outputs, with_levels

N, SHOPS = 450, 16
RNG = np.random.default_rng(5)
SHOP = RNG.integers(0, SHOPS, N)
X = RNG.standard_normal((N, 2))
SLOPES = RNG.permutation(np.repeat([-1.0, 1.0], SHOPS // 2))
Y = SLOPES[SHOP] * X[:, 0] + 0.1 * RNG.standard_normal(N)
FRAME = pd.DataFrame({"size": X[:, 0], "age": X[:, 1], "shop": [f"shop {k}" for k in SHOP]})
TABLE = Table.learn(FRAME)
CODES = TABLE.codes(FRAME)
INSIDE, OUTSIDE = slice(0, 350), slice(350, N)
NAMED = ["linear", "evidence_levels", "manhattan_laplace", "evidence_quantile"]


def fit(target=Y, **options):
    options = {"members": NAMED, "n_folds": 2, "progress": False} | options
    return gpukfl.fit(FRAME[INSIDE], target[INSIDE], **options)


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture(scope="module")
def classes():
    return fit(np.where(Y > 0, "up", "down"), members=["linear", "evidence_levels"])


def codes_of(levels, n, gaps=0):
    """Codes of one category, of which all levels occur."""
    column = pd.Series([f"{k % levels:03d}" for k in range(n)], dtype=object)
    column[:gaps] = None
    frame = pd.DataFrame({"x": np.arange(n) / 3, "g": column})
    table = Table.learn(frame, columns={"g": "category"})
    return table.codes(frame), table.coded


@pytest.mark.parametrize(
    ("levels", "n", "gaps", "seen"),
    [
        (8, 1000, 0, False),  # have a column each for all members
        (9, 180, 0, True),
        (9, 179, 0, False),  # too few rows
        (9, 188, 8, True),
        (9, 188, 9, False),
        (32, 640, 0, True),
        (33, 1000, 0, False),
    ],
)
def test_levels_are_seen_where_they_are_some_and_have_rows(levels, n, gaps, seen):
    assert find_level_columns(*codes_of(levels, n, gaps)) == ((1,) if seen else ())


def test_of_many_categories_those_of_few_levels_are_seen():
    parts = [codes_of(levels, 900) for levels in (30, 9, 20, 12)]
    codes = np.column_stack([codes[:, 1] for codes, _ in parts])
    coded = [coded[1] for _, coded in parts]
    assert find_level_columns(codes, coded) == (1, 3, 2)


def test_rows_with_levels_are_as_by_scikit_learn():
    encoding, encoded = Encoding.learn(CODES, TABLE.coded, Y)
    codes = np.concatenate([CODES, CODES[:2]])
    codes[-2:, 2] = SHOPS, np.nan  # a level that was not seen, and none
    encoded = np.concatenate([encoded, encoded[:2]])
    rows = with_levels(encoding, (2,), codes, encoded)
    expected = OneHotEncoder(sparse_output=False).fit_transform(CODES[:, 2:])
    np.testing.assert_array_equal(rows[:, : encoding.n_features], encoded)
    np.testing.assert_array_equal(rows[:N, encoding.n_features :], expected)
    assert not rows[N:, encoding.n_features :].any()
    names = [name for name, _ in level_outputs(encoding, (2,))]
    assert names == [*encoding.names, *(f"shop={level}" for level in TABLE.columns[2].levels)]


def test_members_see_levels_as_their_models_were_fitted(model):
    e = model.estimator
    assert e.encodings_.some == (2,)
    seen = e.encodings_.folds.view_rows(CODES)
    sees = {member.name: member.sees for member in e.members_}
    assert sees["evidence_levels"] == LEVELS
    assert NUMBERS in sees.values() or len(sees) == 1
    for member in e.members_:
        for k, one in enumerate(member.models):
            assert seen.rows(k, member.sees).shape == (N, one.n_features_in_)
    kept = e.out_of_fold_
    for k in range(2):
        rows = kept.fold == k
        found = e._outputs(kept.rows[rows], k)
        np.testing.assert_allclose(found, kept.predicted[rows], rtol=1e-10)


def test_what_differs_by_level_is_learned(model, classes):
    assert model.score(FRAME[OUTSIDE], Y[OUTSIDE]) > 0.9
    blind = fit(members=["evidence_quantile"])
    assert blind.score(FRAME[OUTSIDE], Y[OUTSIDE]) < 0.75
    assert classes.score(FRAME[OUTSIDE], np.where(Y > 0, "up", "down")[OUTSIDE]) > 0.85


@pytest.mark.parametrize("name", ["model", "classes"])
def test_files_and_what_reads_them_predict_alike(request, tmp_path, name):
    found = request.getfixturevalue(name)
    rows = FRAME[OUTSIDE].copy()
    rows.iloc[0, 2], rows.iloc[1, 2] = "another shop", None
    say = "predict" if name == "model" else "predict_proba"
    expected = getattr(found, say)(rows)
    found.save(tmp_path / "model.gpukfl")
    loaded, alone = (read(tmp_path / "model.gpukfl") for read in (gpukfl.load, runtime.load))
    np.testing.assert_array_equal(getattr(loaded, say)(rows), expected)
    np.testing.assert_allclose(getattr(alone, say)(rows), expected, rtol=1e-9)
    np.testing.assert_allclose(getattr(alone, say)(rows[:1]), expected[:1], rtol=1e-9)


def test_onnx_files_predict_alike(tmp_path, model):
    pytest.importorskip("ndonnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    rows = FRAME[OUTSIDE]
    inputs = {name: rows[name].to_numpy() for name in ("size", "age")}
    inputs["shop"] = rows["shop"].to_numpy(dtype=object)
    (found,) = session.run(None, inputs)
    np.testing.assert_allclose(found, model.predict(rows), rtol=0, atol=1e-9)


def test_files_that_claim_levels_of_numbers_are_refused(tmp_path, model):
    e = model.estimator
    sound = e.encodings_
    try:
        e.encodings_ = replace(sound, folds=replace(sound.folds, some=(0,)))
        write_unchecked(model, tmp_path / "model.gpukfl")
    finally:
        e.encodings_ = sound
    for read in (gpukfl.load, runtime.load):
        with pytest.raises((RefusedError, ValueError)):
            read(tmp_path / "model.gpukfl")


def test_reports_name_levels(model):
    directions = get_description(model).panel(Directions)
    assert {f"shop=shop {k}" for k in range(SHOPS)} <= set(directions.features)
    assert "evidence_levels" in directions.of
    importances = model.estimator.feature_importances_
    names = [name.split("=")[0].split(" ")[0] for name in directions.features]
    for name, importance in zip(["size", "age", "shop"], importances, strict=True):
        own = [k for k, other in enumerate(names) if other == name]
        np.testing.assert_allclose(directions.importances[own].sum(), importance, rtol=1e-9)


def test_members_of_collections_see_levels_too(monkeypatch, model):
    monkeypatch.setattr("gpukfl.tables._training.FEWEST", 350)
    monkeypatch.setattr("gpukfl.estimators._dask.SAMPLE", 0)
    monkeypatch.setattr("gpukfl.tables._training.SAMPLE", 0)
    monkeypatch.setattr("gpukfl.portfolio._base.FEWEST", 330)
    monkeypatch.setattr("gpukfl.portfolio._base.SAMPLE", 0)
    lazy = dd.from_pandas(FRAME[INSIDE].assign(y=Y[INSIDE]), npartitions=2)
    found = gpukfl.fit(lazy, "y", members=NAMED[1:], progress=False)
    e = found.estimator
    assert {one.sees for one in e.members_} >= {LEVELS}
    assert all(one.models[0]._n_samples == 350 for one in e.members_)
    assert found.score(FRAME[OUTSIDE], Y[OUTSIDE]) > 0.9


def test_levels_are_learned_first_where_time_is_short():
    task = Task(False, 4_000, 5, 1, 4_000, "numpy", 0, of_table=True, has_levels=True)
    names = [member.name for member in make_members(None, "normal", task, limited=True)]
    assert names[:5] == ["linear", "trees", "evidence_levels", "bkernn", "hkrr"]


def test_tables_without_such_categories_have_no_such_member():
    few = FRAME.assign(shop=[f"shop {k % 3}" for k in range(N)])
    found = gpukfl.fit(few[INSIDE], Y[INSIDE], effort="quick", n_folds=2, progress=False)
    assert "evidence_levels" not in set(found.leaderboard()["member"])
    assert {one.sees for one in found.estimator.members_} <= {NUMBERS, "codes"}


def test_weights_and_targets_do_not_say_which_levels_are_seen():
    from gpukfl.estimators._samples import Samples

    weights = np.linspace(0.1, 2, N)
    some = [
        Encodings.blindly(TABLE, Samples(CODES, y[:, None], w)).some
        for y, w in ((Y, None), (-Y, weights))
    ]
    assert some == [(2,), (2,)]
