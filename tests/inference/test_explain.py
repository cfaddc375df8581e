"""Explained predictions: what sums to what, for every kind of model, and what is refused."""

import time

import numpy as np
import pandas as pd
import pytest
from brief import bkernn, hkrr, regfeal
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl import AutoClassifier, AutoRegressor, KernelRidgeRegressor
from gpukfl.estimators._run import use_report
from gpukfl.inference import _explain
from gpukfl.inference._explain import find_players, herd, make_plan

RNG = np.random.default_rng(0)
N = 120
X = RNG.standard_normal((N, 3))
Y = np.sin(X[:, 0]) * X[:, 1] + X[:, 2]
WIDE = RNG.standard_normal((N, 8))
FRAME = pd.DataFrame(
    {
        "area": np.where(np.arange(N) % 7 == 0, np.nan, RNG.normal(100.0, 20.0, N)),
        "city": RNG.choice(["Kyiv", "Lviv", None], N),
        "text": [f"a {w} house number {k}" for k, w in enumerate(RNG.choice(["red", "tall"], N))],
        "day": pd.date_range("2024-01-01", periods=N),
        "key": [f"k{k}" for k in range(N)],
    },
    index=range(1000, 1000 + N),
)
PRICE = 3.0 * (FRAME["city"] == "Kyiv") + FRAME["area"].fillna(90.0).to_numpy() / 20.0
BLEND = {"members": ["linear", "manhattan_laplace"], "n_folds": 2, "random_state": 0}
FIT = {"members": ["linear", "manhattan_laplace"], "random_state": 0, "progress": False}
_SHORT = {
    "bkernn": bkernn(n_particles=8, max_iter=10, ridge=0.01),
    "hkrr": hkrr(n_components=2, n_starts=1, max_iter=2, ridge=0.01),
    "selection": {"sparsity": 0.05, "ridge": 0.01},
    "rkhs_weighting": {"n_parameters": 30, "instantiation": "stumps", "ridge": 0.01},
    "regfeal": regfeal(n_random_features=30, n_iter=1, degree_decay=0.3, strength=0.1),
}


@pytest.fixture(scope="module")
def blend():
    return gpukfl.fit(X, Y, **FIT)


@pytest.fixture(scope="module")
def wide():
    """A model without a closed form."""
    y = WIDE[:, 0] * WIDE[:, 1] + WIDE[:, 2] - np.abs(WIDE[:, 3])
    return KernelRidgeRegressor("matern52", ridge=0.01, lengthscale=4.0, random_state=0).fit(
        WIDE, y
    )


@pytest.fixture(scope="module")
def table():
    return gpukfl.fit(FRAME, PRICE.to_numpy(), **FIT)


def check_sums(found, predicted):
    t = len(found.outputs)
    shape = (len(found), len(found.columns), *([t] if t > 1 else []))
    assert found.contributions.shape == found.standard_error.shape == shape
    np.testing.assert_allclose(found.prediction, predicted, rtol=1e-9, atol=1e-9)
    whole = found.baseline + found.contributions.sum(axis=1)
    np.testing.assert_allclose(whole, found.prediction, rtol=1e-12, atol=1e-11)


def log_odds(p):
    return np.log(p / (1.0 - p))


# ------------------------------------------------------------------------------------ sums


def test_a_blend_of_numbers(blend):
    found = blend.explain(X[:6])
    check_sums(found, blend.predict(X[:6]))
    assert np.all(found.standard_error == 0.0)  # three columns have few subsets
    assert found.spread.shape == found.contributions.shape
    assert found.spread.max() > 0.0
    assert (found.columns, found.outputs, found.unit) == (("x0", "x1", "x2"), ("y",), "y")
    np.testing.assert_array_equal(found.values.astype(float), X[:6])
    assert repr(found) == "Explanation(6 rows, 3 columns)"
    same = blend.estimator.explain(X[:6])
    np.testing.assert_array_equal(found.contributions, same.contributions)


def test_they_are_what_brute_force_says(blend):
    """All subsets by `predict` alone, with a background of one's own."""
    others = X[50:57]
    found = blend.explain(X[:2], background=others)
    for i in range(2):
        value = {}
        for number in range(8):
            inside = [j for j in range(3) if number >> j & 1]
            rows = others.copy()
            rows[:, inside] = X[i, inside]
            value[frozenset(inside)] = blend.predict(rows).mean()
        for j in range(3):
            a, b = [k for k in range(3) if k != j]
            pays = [(set(), 1 / 3), ({a}, 1 / 6), ({b}, 1 / 6), ({a, b}, 1 / 3)]
            paid = sum(w * (value[frozenset(s | {j})] - value[frozenset(s)]) for s, w in pays)
            np.testing.assert_allclose(found.contributions[i, j], paid, atol=1e-10)
    np.testing.assert_allclose(found.baseline, blend.predict(others).mean(), atol=1e-12)


def test_a_table_with_text_dates_and_missing_values(table):
    found = table.explain(FRAME[:8])
    check_sums(found, table.predict(FRAME[:8]))
    assert found.columns == ("area", "city", "text", "day", "key")
    frame = found.to_frame()
    assert list(frame.index) == list(range(1000, 1008))
    assert list(frame.columns) == list(found.columns)
    assert np.all(frame["key"] == 0.0)  # an identifier is left out
    assert found.values[0, 0] is None
    assert found.values[0, 3] == "2024-01-01"
    assert set(found.values[:, 1]) <= {"Kyiv", "Lviv", None}
    assert found.values[:, 2].tolist() == FRAME["text"][:8].tolist()
    shuffled = table.explain(FRAME[:8][list(FRAME.columns[::-1])])
    np.testing.assert_array_equal(found.contributions, shuffled.contributions)


@pytest.mark.parametrize("output", ["auto", "probability"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes, output):
    labels = np.array(["low", "mid", "high"])[-n_classes:]
    y = labels[np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))]
    model = AutoClassifier(**BLEND).fit(X, y)
    found, p = model.explain(X[:5], output=output), model.predict_proba(X[:5])
    expected = p if output == "probability" else log_odds(p)
    check_sums(found, expected if n_classes > 2 else expected[:, 1])
    assert found.unit == ("probability" if output == "probability" else "log odds")
    assert found.outputs == tuple(model.classes_ if n_classes > 2 else model.classes_[1:])
    if n_classes > 2:
        assert found.to_frame().columns.names == ["output", "column"]
        np.testing.assert_array_equal(found.to_frame()["low"], found.contributions[:, :, 1])


def test_many_targets():
    model = AutoRegressor(**BLEND).fit(X, np.stack([Y, 2.0 - 3.0 * Y], axis=1))
    found = model.explain(X[:4])
    check_sums(found, model.predict(X[:4]))
    assert found.outputs == ("y 0", "y 1")
    assert found.baseline.shape == (2,)


def test_transformed_targets():
    model = AutoRegressor(**BLEND, target_transform="log").fit(X, np.exp(2.0 * Y))
    check_sums(model.explain(X[:4]), model.predict(X[:4]))


@pytest.mark.few
@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("name", list(_SHORT))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_single_methods(name, classes):
    y = Y > 0.0 if classes else Y
    model = gpukfl.fit(X, y, method=name, random_state=0, progress=False, **_SHORT[name])
    found = model.explain(X[:4], background=X)
    p = model.predict_proba(X[:4])[:, 1] if classes else None
    check_sums(found, model.predict(X[:4]) if p is None else log_odds(p))
    assert found.spread is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_single_method_of_a_table():
    model = gpukfl.fit(
        FRAME, PRICE.to_numpy(), method="hkrr", random_state=0, progress=False, **_SHORT["hkrr"]
    )
    found = model.explain(FRAME[:4], background=FRAME)
    check_sums(found, model.predict(FRAME[:4]))
    assert found.columns == tuple(FRAME.columns)


def test_a_sum_over_columns_is_exact(on):
    """A linear function: each column is paid its slope times its distance from the mean."""
    slopes, rows = RNG.standard_normal(8), on.rounded(WIDE)
    model = AutoRegressor(members=["linear"], n_folds=2, random_state=0)
    model.fit(on.put(rows), on.put(rows @ slopes))
    found = model.explain(on.put(rows[:5]), n_background=16, n_walks=16)
    own = model.explain(on.put(rows[:5]), n_background=16, n_walks=32, random_state=3)
    assert isinstance(found.contributions, np.ndarray)
    check_sums(found, found.prediction)
    exact = slopes * (rows[:5] - rows.mean(axis=0))
    np.testing.assert_allclose(found.contributions, exact, atol=0.5)
    assert np.corrcoef(own.contributions.ravel(), exact.ravel())[0, 1] > 0.98


def test_a_single_method_where_its_rows_live(on):
    rows = on.put(X)
    model = KernelRidgeRegressor(ridge=0.01, lengthscale=2.0, random_state=0).fit(rows, on.put(Y))
    found = model.explain(rows[:4, :], background=rows)
    assert found.contributions.dtype == found.prediction.dtype == np.float64
    predicted = on.host(model.predict(rows[:4, :]))
    np.testing.assert_allclose(found.prediction, predicted, atol=1e-4)
    check_sums(found, found.prediction)
    plain = KernelRidgeRegressor(ridge=0.01, lengthscale=2.0, random_state=0)
    expected = plain.fit(on.rounded(X), on.rounded(Y)).explain(X[:4], background=X)
    np.testing.assert_allclose(found.contributions, expected.contributions, atol=1e-3)


def test_rows_of_dask_are_loaded_first(blend):
    array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="expected data in memory"):
        blend.explain(array.from_array(X))


def test_weights_draw_the_background():
    """Rows of no weight are not in the background."""
    weights = np.where(X[:, 0] > 0.0, 1.0, 0.0)
    model = AutoRegressor(**BLEND).fit(X, X[:, 0], sample_weight=weights)
    assert model.explain(X[:2]).baseline > 0.3


def test_rows_that_a_fit_remembers():
    """What a copy of a row adds is shared equally, and the sums hold."""
    rows = np.concatenate([X[:60], X[:60]])
    y = np.concatenate([Y[:60], Y[:60]]) + 3.0 * np.tile(RNG.standard_normal(60), 2)
    model = AutoRegressor(**BLEND).fit(rows, y)
    assert model.seen_rows_ is not None
    new = RNG.standard_normal((3, rows.shape[1]))
    found = model.explain(np.concatenate([rows[:5], new]))
    check_sums(found, model.predict(np.concatenate([rows[:5], new])))
    (remark,) = found.remarks
    most = np.abs(found.remembered).max()
    assert "5 of 8 rows (62%)" in remark
    assert f"{most:.3g}" in remark
    assert repr(found).endswith(remark)
    assert remark in found.summary().words
    assert "copies of this row" in found.row(0).words
    assert "copies" not in found.row(7).words
    seen = found.plot_row(0).get_xlabel()
    assert "copies of this row" in " ".join(seen.split())
    assert model.explain(new).remarks == ()
    assert model.explain(new).remembered is None


def test_models_from_files(blend, tmp_path):
    blend.save(tmp_path / "whole.gpukfl")
    blend.save(tmp_path / "bare.gpukfl", record=False)
    whole, bare = (gpukfl.load(tmp_path / f"{name}.gpukfl") for name in ("whole", "bare"))
    found = blend.explain(X[:3])
    np.testing.assert_allclose(whole.explain(X[:3]).contributions, found.contributions, atol=1e-12)
    with pytest.raises(ValueError, match=r"expected background=, .* without its rows"):
        bare.explain(X[:3])
    check_sums(bare.explain(X[:3], background=X), blend.predict(X[:3]))


def test_groups(table):
    found = table.explain(FRAME[:3], groups={"place": ["city", "text"]})
    check_sums(found, table.predict(FRAME[:3]))
    assert found.columns == ("area", "place", "day", "key")
    assert found.values[0, 1] is None


def test_reports_explain_two_rows(blend, wide, tmp_path):
    blend.report(tmp_path / "one.html")
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "Explained rows" in page
    assert 'aria-label="Row of the highest prediction: y ' in page
    found = _explain.explained_panels(blend, X[:40], None)
    predicted = np.sort(blend.predict(X[:40]))
    whole = [panel.prediction[0, 0] for panel in found]
    np.testing.assert_allclose(whole, predicted[[19, -1]], atol=1e-9)
    alone = gpukfl.Model.from_estimator(wide)
    assert _explain.explained_panels(alone, None, None) == []
    assert len(_explain.explained_panels(alone, None, WIDE)) == 2


# ------------------------------------------------------------------------------- estimates


def test_reports_and_explain_agree():
    options = {**FIT, "members": ["matern52"]}  # which has no closed form
    model = gpukfl.fit(WIDE, WIDE[:, 0] * WIDE[:, 1] + WIDE[:, 2], **options)
    panel = _explain.explained_panels(model, WIDE, None)[1]
    row = int(np.argmax(model.predict(WIDE)))
    found = model.explain(WIDE[[row]])
    np.testing.assert_allclose(panel.contributions[0, :, 0], found.contributions[0], atol=1e-9)
    np.testing.assert_allclose(panel.baseline[0], found.baseline)


def test_reports_explain_dates_with_times_between_them_together():
    frame = FRAME.assign(left=FRAME["day"] + pd.to_timedelta(np.arange(N) % 9, "D"))
    model = gpukfl.fit(frame, (np.arange(N) % 9).astype(float), **FIT)
    panel = _explain.explained_panels(model, frame, None)[0]
    assert "day + left" in panel.columns
    assert not {"day", "left"} & set(panel.columns)
    assert {"day", "left"} <= set(model.explain(frame[:2]).columns)


def test_progress_is_reported_from_the_start_and_often(wide):
    told = []
    with use_report(lambda stage, *_: told.append(stage)):
        wide.explain(WIDE, background=WIDE)
    assert told[0].endswith("0 of 32 background rows")
    assert told[-1].endswith("32 of 32 background rows")
    assert len(told) > 16


def test_orders_come_near_all_subsets(wide):
    some = WIDE[:3]
    exact = wide.explain(some, background=WIDE[:20], n_background=20, n_walks=20 * 30)
    found = wide.explain(some, background=WIDE[:20], n_background=20, n_walks=40)
    gaps = np.abs(found.contributions - exact.contributions)
    error = np.hypot(found.standard_error, exact.standard_error)
    assert np.mean(gaps <= 2.0 * error + 1e-12) > 0.85
    assert 0.0 < found.standard_error.max() < 0.2
    assert exact.standard_error.max() < 0.5 * found.standard_error.max()


def test_few_background_rows_of_many(wide):
    found = wide.explain(WIDE[:4], background=WIDE, n_background=40, n_walks=10)
    assert (found.n_background, found.n_taken) == (40, 10)
    check_sums(found, wide.predict(WIDE[:4]))
    assert np.all(found.standard_error[:, :3] > 0.0)


def test_one_random_state_gives_one_result(wide):
    one, two, other = (
        wide.explain(WIDE[:2], background=WIDE, random_state=seed).contributions
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("n", "p", "n_walks", "expected"),
    [
        (1, 20, "auto", ((2,) * 32, 32)),
        (1000, 20, "auto", ((1,) * 8, 8)),
        (200, 20, "auto", ((2,) * 8 + (1,) * 24, 32)),
        (1, 5, "auto", ((), 32)),
        (10_000, 4, "auto", ((), 8)),
        (5, 9, 100, ((3,) * 32, 32)),
        (5, 9, 5, ((1,) * 5, 5)),
    ],
)
def test_the_plan_follows_the_work(n, p, n_walks, expected):
    plan = make_plan(n, p, 32, n_walks)
    assert (plan.pairs, plan.n_background) == expected
    taken = [(int(k), pairs) for some, pairs in plan.blocks() for k in some]
    assert [k for k, _ in taken] == list(range(plan.n_background))
    assert [pairs for _, pairs in taken] == list(plan.pairs or (0,) * plan.n_background)
    assert [len(some) for some, _ in plan.blocks(one_by_one=True)] == [1] * plan.n_background


def test_first_rows_of_a_background_are_like_all():
    Z, weights = RNG.standard_normal((400, 6)), RNG.uniform(0.5, 2.0, 400)
    chosen = herd(Z, weights, 64)
    mean, spread = np.average(Z, axis=0, weights=weights), 1.0
    for count in (8, 16, 64):
        off = np.abs(Z[chosen[:count]].mean(axis=0) - mean).max()
        assert off < 2.5 * spread / count
    assert sorted(herd(Z[:5], np.ones(5), 64)) == list(range(5))


# ---------------------------------------------------------------------- time and interruptions


def test_an_interruption_keeps_what_is_done(wide, monkeypatch):
    monkeypatch.setattr(_explain, "_AT_ONCE", 1)  # one background row at a time
    interrupt(monkeypatch, _explain.ShapleyEstimate, "add", 5)
    with pytest.warns(ConvergenceWarning, match="interrupted after 5 of 32 background rows"):
        found = wide.explain(WIDE[:3], background=WIDE)
    assert found.n_taken == 5
    check_sums(found, wide.predict(WIDE[:3]))
    assert np.all(found.standard_error[:, :3] > 0.0)


def test_an_interruption_before_anything_is_done(wide, monkeypatch):
    interrupt(monkeypatch, _explain.ShapleyEstimate, "add", 0)
    with pytest.raises(KeyboardInterrupt):
        wide.explain(WIDE[:3], background=WIDE)


def test_max_time(wide, monkeypatch):
    monkeypatch.setattr(_explain, "_AT_ONCE", 1)
    begun = time.monotonic()
    with pytest.warns(ConvergenceWarning, match="max_time is over after"):
        found = wide.explain(WIDE[:20], background=WIDE, n_walks=3200, max_time=0.05)
    assert time.monotonic() - begun < 5.0
    assert 1 <= found.n_taken < 32
    check_sums(found, wide.predict(WIDE[:20]))


# --------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("groups", "error", "text"),
    [
        ({"g": ["a", "z"]}, ValueError, "expected groups= to name columns of the table, got 'z'"),
        ({"g": ["a"], "h": ["a"]}, ValueError, "each column in one group, got 'a' in 'g' and 'h'"),
        ({"g": ["a", "a"]}, ValueError, "each column in one group, got 'a' in 'g' and 'g'"),
        ({"g": []}, ValueError, "at least one column in the group 'g'"),
        ({"g": "a"}, TypeError, "expected a list of columns for the group 'g', got 'a'"),
        ({"b": ["a"]}, ValueError, "names of groups that are not names of columns, got 'b'"),
        (["a"], TypeError, "expected groups to be Mapping or None"),
    ],
)
def test_bad_groups(groups, error, text):
    with pytest.raises(error, match=text):
        find_players(("a", "b", "c"), groups)


def test_a_group_may_have_the_name_of_its_column():
    names, owner = find_players(("a", "b", "c"), {"a": ["a", "c"]})
    assert names == ("a", "b")
    assert owner.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (X[:0], "minimum of 1 is required|at least 1"),
        (X[:, :2], "2 features"),
        (np.full((1, 3), "a"), "expected|numeric|string"),
    ],
)
def test_bad_rows(blend, rows, text):
    with pytest.raises(ValueError, match=text):
        blend.explain(rows)
    with pytest.raises(ValueError, match=text):
        blend.explain(X[:2], background=rows)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"output": "log_odds"}, "expected output='auto' for a regression"),
        ({"n_background": 0}, "expected n_background to be an integer of at least 1"),
        ({"n_walks": 0}, "expected n_walks to be an integer of at least 1, or 'auto'"),
        ({"max_time": 0.0}, "expected max_time to be a number greater than 0"),
    ],
)
def test_bad_options(blend, options, text):
    with pytest.raises(ValueError, match=text):
        blend.explain(X[:2], **options)


def test_a_single_method_needs_a_background(wide):
    with pytest.raises(ValueError, match=r"expected background=, .* this model keeps no rows"):
        wide.explain(WIDE[:2])


def test_one_class_has_nothing_to_explain():
    model = AutoClassifier(**BLEND)
    with pytest.warns(UserWarning, match="constant"):
        model.fit(X, np.full(N, "one"))
    with pytest.raises(ValueError, match="at least two classes"):
        model.explain(X[:2])


def test_kernel_ridge_alone():
    model = KernelRidgeRegressor(ridge=0.01, lengthscale=2.0, random_state=0).fit(X, Y)
    check_sums(model.explain(X[:2], background=X), model.predict(X[:2]))
