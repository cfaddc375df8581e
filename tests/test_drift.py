"""Which columns of new rows are unlike those of the fit."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

import gpukfl
from gpukfl.cli import main
from gpukfl.inference._drift import holm
from gpukfl.tables._reference import Reference

pytestmark = pytest.mark.filterwarnings("ignore")


def _table(n, seed):
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2024-01-01")
    return pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "rooms": rng.integers(1, 5, n).astype(float),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "town": rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2]),
            "built": day + pd.to_timedelta(rng.integers(0, 500, n), "D"),
        }
    )


FRAME = _table(300, 0)
PRICE = FRAME["size"] + (FRAME["town"] == "u")
NEW = _table(200, 1)


@pytest.fixture(scope="module")
def model():
    return gpukfl.fit(FRAME, PRICE, members=["linear"], n_folds=2)


def _row(found, name):
    return found[found["column"] == name].iloc[0]


def test_each_sort_of_change_is_found_and_said(model):
    calm = model.drift(NEW)
    assert calm["p_value"].min() > 0.01
    assert sorted(calm["column"]) == sorted(FRAME.columns)
    found = model.drift(
        NEW.assign(
            size=NEW["size"] + 1.0,
            gaps=NEW["gaps"].fillna(0.0),
            town=NEW["town"].replace("w", "x"),
            built=NEW["built"] + pd.Timedelta(200, "D"),
        )
    )
    moved = set(found["column"][found["p_value"] < 0.01])
    assert moved == {"size", "gaps", "town", "built"}
    assert found["p_value"].is_monotonic_increasing
    assert "new levels: x" in _row(found, "town")["change"]
    assert "median 2024-" in _row(found, "built")["change"]
    assert "missing" in _row(found, "gaps")["change"]
    assert _row(found, "gaps")["missing_now"] == 0.0
    assert (found["p_value"] >= found["p_alone"]).all()


def test_statistics_are_those_of_scipy_and_of_shares(model):
    found = model.drift(NEW)
    expected = ks_2samp(FRAME["size"], NEW["size"])
    assert _row(found, "size")["statistic"] == pytest.approx(expected.statistic)
    assert _row(found, "size")["p_alone"] == pytest.approx(expected.pvalue)
    expected = ks_2samp(FRAME["rooms"], NEW["rooms"])
    assert _row(found, "rooms")["statistic"] == pytest.approx(expected.statistic)
    assert _row(found, "rooms")["p_alone"] <= expected.pvalue + 0.02  # which ties make larger
    shares = [one["town"].value_counts(normalize=True) for one in (FRAME, NEW)]
    apart = 0.5 * (shares[0] - shares[1]).abs().sum()
    assert _row(found, "town")["statistic"] == pytest.approx(apart)


def test_p_is_uniform_where_nothing_changed(model):
    many = _table(400 * 60, 5)
    alone, least = [], []
    for k in range(60):
        then, now = many[400 * k : 400 * k + 200], many[400 * k + 200 : 400 * (k + 1)]
        model.reference = Reference.draw(then, model.table, model.feature_names)
        found = model.drift(now)
        alone += found["p_alone"].tolist()
        least.append(found["p_value"].min())
    alone = np.array(alone)
    for level in (0.05, 0.2, 0.5, 0.8):
        share, spread = np.mean(alone <= level), np.sqrt(level * (1 - level) / len(alone))
        assert share < level + 3.5 * spread
        assert share > level - 5.0 * spread - 0.03  # few values make p a little larger
    assert np.mean(np.array(least) <= 0.1) < 0.1 + 3.5 * np.sqrt(0.09 / 60)


def test_holm_is_that_of_the_definition():
    p = np.array([0.04, 0.01, 0.03, 0.5])
    np.testing.assert_allclose(holm(p), [0.09, 0.04, 0.09, 0.5])


def test_arrays_files_and_errors(tmp_path, model):
    X = np.random.default_rng(2).normal(size=(150, 3))
    numbers = gpukfl.fit(X, X[:, 0], method="bkernn", ridge="auto")
    found = numbers.drift(X[:50] + np.array([0.0, 2.0, 0.0]))
    assert found["column"][0] == "x1"
    model.save(tmp_path / "whole")
    pd.testing.assert_frame_equal(gpukfl.load(tmp_path / "whole").drift(NEW), model.drift(NEW))
    model.save(tmp_path / "bare", record=False)
    with pytest.raises(ValueError, match="record=False"):
        gpukfl.load(tmp_path / "bare").drift(NEW)
    with pytest.raises(ValueError, match="town"):
        model.drift(NEW.drop(columns="town"))
    named = gpukfl.fit(pd.DataFrame(X, columns=list("abc")), X[:, 0], method="bkernn", ridge="auto")
    gaps = pd.DataFrame(X, columns=list("abc")).mask(X > 0.5)[["c", "b", "a"]]
    assert (named.drift(gaps)["missing_now"] > 0.1).all()
    auto = gpukfl.AutoRegressor(["linear"], n_folds=2).fit(X, X[:, 0])
    assert gpukfl.Model.from_estimator(auto).drift(X)["p_value"].min() == 1.0


def test_tensors_are_compared_as_arrays(torch):
    X = torch.rand(120, 2, dtype=torch.float64)
    model = gpukfl.fit(X, X[:, 0], method="bkernn", ridge="auto")
    pd.testing.assert_frame_equal(model.drift(X[:50] + 1.0), model.drift(X[:50].numpy() + 1.0))


def test_the_command_line_prints_it(tmp_path, model, capsys):
    model.save(tmp_path / "model.gpukfl")
    NEW.assign(rooms=9.0).to_csv(tmp_path / "new.csv", index=False)
    assert main(["drift", str(tmp_path / "model.gpukfl"), str(tmp_path / "new.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("rooms,")
