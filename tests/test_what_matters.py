"""Importances and curves of fitted models as frames: what they are, on which rows, with errors."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gpukfl
from gpukfl.portfolio import _importances
from gpukfl.portfolio._folds import squared_error
from gpukfl.portfolio._importances import permutation_importances

RNG = np.random.default_rng(0)
N = 240
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), "D")
FRAME = pd.DataFrame(
    {
        "size": RNG.uniform(-1, 1, N),
        "shop": RNG.choice(["north", "south", "west"], N),
        "opened": DAYS,
        "sold": DAYS + pd.to_timedelta(RNG.integers(0, 400, N), "D"),
        "new": RNG.random(N) < 0.4,
        "noise": RNG.standard_normal(N),
    }
)
Y = (
    2.0 * FRAME["size"]
    + (FRAME["shop"] == "north")
    + (FRAME["sold"] - FRAME["opened"]).dt.days / 200
    + 0.1 * RNG.standard_normal(N)
).to_numpy()
OPTIONS = {"members": ["linear"], "n_folds": 3, "progress": False}


@pytest.fixture(scope="module")
def blend():
    return gpukfl.fit(FRAME, Y, **OPTIONS)


# ---------------------------------------------------------------------- importances


def test_importances_take_no_rows(blend):
    with pytest.raises(TypeError, match="takes no rows"):
        blend.importances(FRAME, Y)


def test_importances_say_what_is_lost_of_the_score_on_all_held_out_rows(blend):
    found = blend.importances()
    assert found["column"][0] in ("size", "opened", "sold")
    unit = found["group"].where(found["group"] != "", found["column"])
    totals = found.groupby(unit)["importance"].sum().sort_values(ascending=False, kind="stable")
    assert list(dict.fromkeys(unit)) == list(totals.index)  # what is shuffled together is one
    assert (found["rows"] == N).all()
    assert "R² is lost" in found.attrs["question"]
    by_name = found.set_index("column")
    np.testing.assert_allclose(by_name["share"][FRAME.columns], blend.feature_importances_)
    kept, e = blend.estimator.out_of_fold_, blend.estimator
    at = [k for k, source in enumerate(e._sources) if source == 0]
    losses = []
    rng = np.random.RandomState(0)
    for _ in range(40):
        rows = kept.rows.copy()
        for k in range(kept.n_folds):
            own = np.flatnonzero(kept.fold == k)
            rows[np.ix_(own, at)] = kept.rows[np.ix_(rng.permutation(own), at)]
        told = [e._outputs(rows[kept.fold == k], k) for k in range(kept.n_folds)]
        losses.append(np.sum((kept.truth - np.concatenate(told)) ** 2))
    plain = np.sum((kept.truth - kept.predicted) ** 2)
    expected = (np.mean(losses) - plain) / np.sum((kept.truth - kept.truth.mean()) ** 2)
    lost = by_name["importance"]["size"]
    assert abs(lost - expected) < 3 * by_name["standard_error"]["size"]
    assert lost == pytest.approx(expected, rel=0.25)


def test_columns_that_are_alike_are_named_as_a_group(tmp_path):
    frame = FRAME.assign(twin=FRAME["size"] + 1e-3 * FRAME["noise"])
    model = gpukfl.fit(frame, Y, **OPTIONS)
    found = model.importances().set_index("column")
    assert found["group"]["twin"] == found["group"]["size"] == "size, twin"
    assert found["group"]["noise"] == ""
    assert found["importance"]["twin"] == found["importance"]["size"]
    model.save(tmp_path / "m", record=False)
    pd.testing.assert_frame_equal(gpukfl.load(tmp_path / "m").importances(), model.importances())


def test_more_rows_are_shuffled_than_must_be_while_there_is_time(monkeypatch):
    X = RNG.standard_normal((2_000, 2))
    judge = squared_error(X[:, :1] + X[:, 1:], np.ones(len(X)))
    given = [X[:1_200], X[1_200:]], range(2), 2, lambda _, rows: rows[:, :1] + rows[:, 1:], judge

    def find(seconds):
        monkeypatch.setattr(_importances, "_MAX_SECONDS", seconds)
        return permutation_importances(*given, np.random.RandomState(0), lambda: np.inf)

    every, some = find(100.0), find(0.0)
    assert (every.n_rows, every.n_held_out) == (2_000, 2_000)
    assert 400 < some.n_rows < 700
    assert (some.errors > every.errors).all()
    assert every.total == pytest.approx(2.0, rel=0.1)  # (2 variances of each column) / 2, twice
    np.testing.assert_allclose(every.shares, 0.5, atol=0.05)


def test_errors_are_those_of_groups_where_the_fit_was_given_groups():
    count = 5
    frame = FRAME[["size", "noise"]].iloc[: N // count]
    frame = pd.concat([frame] * count, ignore_index=True)
    frame["noise"] += 1e-6 * RNG.standard_normal(len(frame))
    y = np.tile(Y[: N // count], count)
    group = np.tile(np.arange(N // count), count)
    rows = frame.to_numpy()
    judge = squared_error(y[:, None], np.ones(len(y)))
    given = [rows], range(2), 2, lambda _, rows: rows[:, :1]
    alone, grouped = (
        permutation_importances(
            *given, replace(judge, groups=by), np.random.RandomState(0), lambda: np.inf
        )
        for by in (None, group)
    )
    np.testing.assert_array_equal(alone.shares, grouped.shares)
    assert grouped.errors[0] > 1.3 * alone.errors[0]
    model = gpukfl.fit(frame, y, groups=group, **OPTIONS)
    assert model.estimator.feature_importances_basis_.by_groups
    assert "by their groups" in model.describe().importances.remark


@pytest.mark.parametrize("method", ["hkrr", "bkernn"])
def test_single_methods_answer_a_question_of_their_own(method):
    X = FRAME[["size", "noise"]]
    model = gpukfl.fit(X, Y, method=method, ridge=1e-2, progress=False)
    found = model.importances()
    assert list(found["column"]) == ["size", "noise"]
    assert found["importance"].sum() == pytest.approx(1.0)
    assert found["standard_error"].isna().all()
    assert found.attrs["question"].startswith("How ")
    pd.testing.assert_frame_equal(found, model.estimator.importances())


# ---------------------------------------------------------------------- curves


def test_curves_have_the_values_of_the_table(blend):
    found = blend.partial_dependence(list(FRAME.columns))
    assert list(found.columns) == ["column", "value", "mean", "lower", "upper"]
    values = found.groupby("column", sort=False)["value"].agg(list)
    assert set(values["shop"]) == {"north", "south", "west"}
    assert values["new"] == [False, True]
    assert all(isinstance(one, pd.Timestamp) for one in values["sold"])
    assert (found["lower"] <= found["mean"]).all()
    assert (found["mean"] <= found["upper"]).all()
    spans = found.groupby("column")["mean"].agg(lambda part: part.max() - part.min())
    assert spans["size"] == pytest.approx(4.0, rel=0.15)
    assert spans["noise"] < 0.3
    assert spans["shop"] == pytest.approx(1.0, rel=0.15)


def test_a_curve_is_the_mean_prediction_of_rows_with_one_value(blend):
    rows = FRAME.iloc[:60]
    for name in ("size", "shop", "sold"):
        for one in blend.partial_dependence(name, X=rows, points=4).itertuples():
            changed = rows.assign(**{name: one.value})
            if name == "shop":
                changed["shop"] = changed["shop"].astype(str)
            assert one.mean == pytest.approx(float(np.mean(blend.predict(changed))), abs=1e-6)


def test_dates_with_times_between_them_move_together_by_default(blend):
    rows = FRAME.iloc[:60].copy()
    rows.loc[rows.index[3], "opened"] = pd.NaT
    found = blend.partial_dependence(X=rows, points=4)
    assert "opened + sold" in set(found["column"])
    assert not {"opened", "sold"} & set(found["column"])
    for one in found[found["column"] == "opened + sold"].itertuples():
        sold = rows["sold"] + (one.value - rows["opened"]).fillna(pd.Timedelta(0))
        changed = rows.assign(opened=one.value, sold=sold)
        kept = rows["opened"].notna()  # of a missing date no time is known
        curve = blend.partial_dependence(X=rows[kept], points=4)
        expected = float(np.mean(blend.predict(changed[kept])))
        at = (curve["column"] == "opened + sold") & (curve["value"] == one.value)
        assert curve["mean"][at].item() == pytest.approx(expected, abs=1e-6)
    spans = found.groupby("column")["mean"].agg(np.ptp)
    alone = blend.partial_dependence("opened", X=rows)["mean"]
    assert spans["opened + sold"] < 0.1 * np.ptp(alone)


def test_a_date_moves_with_one_that_is_missing(blend):
    rows = FRAME.iloc[:5].assign(opened=pd.NaT)
    found = blend.partial_dependence(X=pd.concat([FRAME.iloc[5:60], rows]), points=4)
    assert np.isfinite(found["mean"]).all()


@pytest.mark.parametrize("given", [None, FRAME])
def test_few_rows_have_nearly_the_mean_of_all(given):
    """Of a target with a long tail, whose mean few random rows miss."""
    y = np.exp(2.0 * Y)
    model = gpukfl.fit(FRAME[["size", "shop"]], y, target_transform="log", **OPTIONS)
    X = None if given is None else given[["size", "shop"]]
    whole = model.partial_dependence(X=X, max_time=None)
    few = [model.partial_dependence(X=X, max_rows=30, random_state=k) for k in range(4)]
    assert few[0].attrs["rows"] == 30
    at = whole["column"] == "shop"
    for one in few:
        np.testing.assert_allclose(one["mean"][at], whole["mean"][at], rtol=0.1)


def test_classes_have_a_curve_each_and_models_of_files_need_rows(tmp_path):
    labels = np.where(Y > 2.0, "high", np.where(Y > 0.5, "middle", "low"))
    model = gpukfl.fit(FRAME[["size", "shop"]], labels, **OPTIONS)
    found = model.partial_dependence("size")
    assert list(found["output"].unique()) == ["high", "low", "middle"]
    total = found.groupby("value")["mean"].sum()
    np.testing.assert_allclose(total, 1.0)
    model.save(tmp_path / "m", record=False)
    loaded = gpukfl.load(tmp_path / "m")
    with pytest.raises(ValueError, match="expected X, the rows that curves are averaged over"):
        loaded.partial_dependence()
    assert len(loaded.partial_dependence("shop", X=FRAME[["size", "shop"]])) == 9


def test_curves_of_a_single_method_have_its_bands():
    X, y = FRAME[["size", "noise"]].iloc[:100], Y[:100]
    model = gpukfl.fit(X, y, method="hkrr", ridge=1e-2, progress=False)
    assert model.partial_dependence(X=X)["lower"].isna().all()
    found = model.partial_dependence("size", X=X, y=y, points=5)
    assert (found["upper"] > found["lower"]).all()
    inside = (found["lower"] <= found["mean"]) & (found["mean"] <= found["upper"])
    assert inside.mean() > 0.5
    assert found["mean"].iloc[-1] - found["mean"].iloc[0] == pytest.approx(4.0, rel=0.35)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("nothing",), "expected columns by name"),
        ((6,), "expected columns by name"),
        (([],), "at least one column"),
    ],
)
def test_columns_that_are_not_there(blend, given, said):
    with pytest.raises(ValueError, match=said):
        blend.partial_dependence(*given)


def test_targets_without_rows_are_refused(blend):
    with pytest.raises(ValueError, match="expected X with y"):
        blend.partial_dependence(y=Y)


# ---------------------------------------------------------------------- report


def test_the_report_of_a_blend_has_curves_scores_and_whether_they_agree(blend, tmp_path):
    blend.report(tmp_path / "r.html", held_out=(FRAME.iloc[:50], Y[:50]))
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    places = [page.index(f"<h2>{one}") for one in ("What matters", "How predictions go", "Predict")]
    assert places == sorted(places)
    top = page[: places[0]]
    for text in ("Test: 50 held-out rows", f"Cross-validated: {N} rows in 3 folds", "RMSE"):
        assert text in top
    assert "The test R² is" in top
    assert "Mean prediction along: <bdi" in page


def test_a_report_that_cannot_be_written_fails_before_any_work(blend, monkeypatch):
    monkeypatch.setattr(gpukfl.Model, "describe", lambda _: pytest.fail("work was done"))
    with pytest.raises(OSError, match=r"a folder that exists, got /nodir/x\.html"):
        blend.report("/nodir/x.html")


# ---------------------------------------------------------------------- other libraries


def test_every_library_has_the_importances_and_curves_of_numpy(on):
    X = FRAME[["size", "noise"]].to_numpy()
    blend = gpukfl.fit(on.put(X), on.put(Y), **OPTIONS)
    other = gpukfl.fit(X, Y, **OPTIONS)
    pd.testing.assert_frame_equal(blend.importances(), other.importances(), rtol=1e-4, atol=1e-5)
    curves, expected = blend.partial_dependence(points=4), other.partial_dependence(points=4)
    pd.testing.assert_frame_equal(curves, expected, rtol=1e-4, atol=1e-4)
    single = gpukfl.fit(on.put(X), on.put(Y), method="hkrr", ridge=1e-2, progress=False)
    curve = single.partial_dependence("x0", X=on.put(X), points=4)
    assert curve["mean"].is_monotonic_increasing
