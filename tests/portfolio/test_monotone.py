"""Models that rise or fall with columns: 0 pairs out of order, by every way to predict."""

import pickle

import numpy as np
import pandas as pd
import pytest
from command_line import run
from sklearn.base import clone

import gpukfl
from gpukfl import AutoClassifier, AutoRegressor, KernelRidgeRegressor

SIGNS = {"age": 1, "price": -1}
MEMBERS = ["linear", "trees", "manhattan_laplace"]


def make_frame(n, seed=0, beyond=1.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80 * beyond, n),
            "price": rng.lognormal(0.0, beyond, n),
            "town": rng.choice(list("abcd"), n),
            "wind": rng.standard_normal(n),
        }
    )
    frame.loc[rng.choice(n, n // 10), "wind"] = np.nan
    frame.loc[rng.choice(n, n // 10), "price"] = np.nan
    return frame


def make_target(frame, seed=0):
    noise = np.random.default_rng(seed).standard_normal(len(frame))
    price = np.log(frame.price.fillna(1.0))
    return frame.age / 20 - price + (frame.town == "a") + np.sin(frame.wind.fillna(0)) + noise


def raise_rows(frame, seed=0):
    """Return rows with more age and a lower price."""
    rng, other, n = np.random.default_rng(seed), frame.copy(), len(frame)
    other["age"] += rng.choice([0.0, 1e-13, 1e-4, 3.0, 100.0], n)
    other["price"] *= rng.choice([1.0, 1 - 1e-15, 0.99, 0.1], n)
    return other


@pytest.fixture(scope="module")
def blend():
    frame = make_frame(120)
    return gpukfl.fit(frame, make_target(frame), members=MEMBERS, n_folds=3, monotone=SIGNS)


def test_every_way_to_predict_keeps_the_order(blend, tmp_path):
    path = tmp_path / "model.gpukfl"
    blend.save(path)
    low = make_frame(30, seed=1, beyond=1.5)
    high = raise_rows(low)
    loaded, light = gpukfl.load(path), gpukfl.runtime.load(path)
    ways = [one.predict for one in (blend, loaded, light, pickle.loads(pickle.dumps(blend)))]
    ways += [lambda X, k=k: np.asarray(blend.predict_interval(X, 0.8))[:, k] for k in range(2)]
    ways += [
        lambda X, k=k: np.asarray(blend.predict_quantiles(X, [0.2, 0.5, 0.9]))[:, k] for k in (0, 2)
    ]
    for ask in ways:
        one, other = np.asarray(ask(low)), np.asarray(ask(high))
        assert not np.any(other < one)
        assert np.mean(other > one) > 0.2
    np.testing.assert_array_equal(loaded.predict(low), blend.predict(low))
    np.testing.assert_allclose(light.predict(low), blend.predict(low), rtol=1e-7)


def test_intervals_have_their_ends_in_order(blend):
    ends = blend.predict_quantiles(make_frame(60, seed=2), [0.1, 0.5, 0.9])
    assert np.all(np.diff(ends, axis=1) >= 0)


def test_held_out_predictions_are_those_of_projected_folds(blend):
    e = blend.estimator
    kept = e.out_of_fold_
    rows = kept.fold == 1
    np.testing.assert_allclose(e._outputs(kept.rows[rows], 1), kept.predicted[rows], rtol=1e-9)


def test_the_call_names_the_columns(blend):
    assert "monotone={'age': 1, 'price': -1}" in gpukfl._call.call_text(blend)


def test_onnx_is_refused(blend, tmp_path):
    pytest.importorskip("ndonnx")
    with pytest.raises(TypeError, match="monotone columns"):
        blend.to_onnx(tmp_path / "model.onnx")


@pytest.mark.slow
def test_explanations_follow(blend):
    rows = make_frame(2, seed=3)
    found = blend.explain(rows, background=make_frame(4, seed=4), n_walks=2)
    total = found.baseline + np.sum(found.contributions, axis=1)
    np.testing.assert_allclose(total, blend.predict(rows), rtol=1e-6)


@pytest.mark.parametrize("method", ["hkrr", pytest.param("bkernn", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_single_methods_keep_the_order_of_tables(method, tmp_path):
    frame = make_frame(60)
    model = gpukfl.fit(frame, make_target(frame), method=method, ridge=1e-3, monotone=SIGNS)
    model.save(tmp_path / "model.gpukfl")
    low = make_frame(80, seed=1, beyond=1.5)
    high = raise_rows(low)
    for one in (model, gpukfl.runtime.load(tmp_path / "model.gpukfl")):
        assert not np.any(one.predict(high) < one.predict(low))
    again = clone(model).fit(frame, make_target(frame))
    np.testing.assert_array_equal(again.predict(low), model.predict(low))
    later = model.refit(make_frame(50, seed=5), make_target(make_frame(50, seed=5)))
    assert not np.any(later.predict(high) < later.predict(low))


@pytest.mark.parametrize("kind", [KernelRidgeRegressor])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_estimators_take_arrays_and_signs_like_scikit_learn(kind, dtype):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3)).astype(dtype)
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    by_number = kind(monotone={0: 1}, ridge=1e-3, random_state=0).fit(X, y)
    by_signs = kind(monotone=[1, 0, 0], ridge=1e-3, random_state=0).fit(X, y)
    free = kind(ridge=1e-3, random_state=0).fit(X, y)
    low = rng.uniform(-2, 2, (500, 3)).astype(dtype)
    high = low + np.array([1, 0, 0], dtype) * rng.exponential(0.1, (500, 1)).astype(dtype)
    assert np.any(free.predict(high) < free.predict(low))
    assert not np.any(by_number.predict(high) < by_number.predict(low))
    assert by_number.predict(low).dtype == dtype
    np.testing.assert_array_equal(by_signs.predict(low), by_number.predict(low))


@pytest.mark.parametrize("method", ["auto", "hkrr"])
def test_the_second_of_two_classes_rises(method):
    frame = make_frame(100)
    y = np.where(make_target(frame) > 2, "yes", "no")
    options = {"members": MEMBERS, "n_folds": 2} if method == "auto" else {"ridge": 1e-3}
    model = gpukfl.fit(frame, y, method=method, monotone=SIGNS, **options)
    low = make_frame(60, seed=1, beyond=1.5)
    one, other = (np.asarray(model.predict_proba(X)) for X in (low, raise_rows(low)))
    assert not np.any(other[:, 1] < one[:, 1])
    assert not np.any(other[:, 0] > one[:, 0])
    np.testing.assert_allclose(one.sum(axis=1), 1.0)
    assert not np.any((model.predict(low) == "yes") & (model.predict(raise_rows(low)) == "no"))


@pytest.mark.parametrize("method", ["auto", "hkrr"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"town": 1}, ValueError, "expected only numeric columns in monotone, got 'town'"),
        ({"Age": 1}, ValueError, "Did you mean 'age'"),
        ({"age": 2}, ValueError, "-1, 0 or 1"),
        ({"age": True}, ValueError, "-1, 0 or 1"),
        ("age", TypeError, "-1, 0 or 1"),
        ([1, 0], ValueError, "4 monotone signs, one for each column, got 2"),
        ({"age": 1, 0: 1}, ValueError, "'age' twice"),
    ],
)
def test_bad_input_is_refused_before_anything_is_fitted(method, given, error, message):
    frame = make_frame(20)
    with pytest.raises(error, match=message):
        gpukfl.fit(frame, make_target(frame), method=method, monotone=given)


@pytest.mark.parametrize("method", ["auto", "hkrr"])
def test_many_classes_are_refused(method):
    X = np.random.default_rng(0).uniform(size=(30, 2))
    with pytest.raises(ValueError, match="at most two classes"):
        gpukfl.fit(X, np.arange(30) % 3, method=method, monotone={"x0": 1})


def test_signs_of_zero_change_nothing():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    y = np.sin(9 * X[:, 0]) + np.random.default_rng(1).standard_normal(40)
    free, given = (
        KernelRidgeRegressor(random_state=0, monotone=one).fit(X, y) for one in (None, [0, 0])
    )
    np.testing.assert_array_equal(free.predict(X), given.predict(X))


def test_two_rows_are_enough():
    X, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0])
    model = AutoRegressor(monotone={0: 1}, random_state=0).fit(X, y)
    assert np.ptp(model.predict(np.array([[0.0, 0.5], [1.0, 0.5]]))) >= 0


@pytest.mark.slow
def test_arrays_of_every_library_keep_the_order(on):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 2))
    model = AutoClassifier(["linear", "manhattan_laplace"], n_folds=2, monotone=[1, 0])
    model.fit(on.put(X), on.put(np.sin(5 * X[:, 0]) > 0, "int64"))
    low = rng.uniform(-2, 2, (100, 2))
    one, other = (model.predict_proba(on.put(low + step)) for step in ([0, 0], [0.1, 0]))
    on.assert_lives_here(one)
    assert not np.any(on.host(other)[:, 1] < on.host(one)[:, 1])


@pytest.mark.slow
def test_the_command_line_takes_columns(tmp_path, capsys):
    frame = make_frame(60)
    table, out = tmp_path / "table.csv", tmp_path / "model.gpukfl"
    frame.assign(target=make_target(frame)).to_csv(table, index=False)
    call = ["fit", table, "--method", "hkrr", "--ridge", "0.01", "--test-fraction", "0"]
    status, _, err = run(capsys, *call, "--monotone", "price=-1", "--out", out)
    assert status == 0, err
    assert gpukfl.load(out).get_params()["monotone"] == {"price": -1}
    for bad in (["price=up"], ["price=1", "--monotone", "price=-1"]):
        status, _, err = run(capsys, *call, "--monotone", *bad)
        assert status
        assert "--monotone NAME=1" in err


@pytest.mark.slow
def test_inference_refits_by_the_names_of_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((80, 2)), columns=["age", "other"])
    y = 2.0 * frame["age"] + 0.1 * rng.standard_normal(80)
    model = gpukfl.fit(frame, y, method="hkrr", monotone={"age": 1})
    found = gpukfl.inference.bands(model, frame, y, random_state=0)
    assert "age" in found.summary()


def test_integers_of_few_values_and_booleans_may_be_monotone():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"rooms": rng.integers(1, 5, 120), "old": rng.random(120) < 0.5})
    frame["town"] = rng.choice(["u", "v"], 120)
    y = frame["rooms"] - 1.0 * frame["old"] + 0.3 * rng.standard_normal(120)
    given = {"members": ["linear", "manhattan_laplace"], "n_folds": 2}
    model = gpukfl.fit(frame, y, monotone={"rooms": 1, "old": -1}, **given)
    low = frame.assign(rooms=1, old=True)
    high = frame.assign(rooms=4, old=False)
    assert (model.predict(high) > model.predict(low)).all()
    assert model.table.columns[0].kind == "numeric"
