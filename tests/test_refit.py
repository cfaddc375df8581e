"""A fitted model is fitted to other rows: the same members and settings, without a search."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from brief import hkrr
from sklearn.base import clone
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl import AutoRegressor, Model
from gpukfl.cli import main

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(7)
N = 160
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "town": RNG.choice(list("uvw"), N),
        "built": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), "D"),
    }
)
SIZE = FRAME["size"].fillna(0.0)
PRICE = pd.Series(SIZE**2 + 2.0 * (FRAME["town"] == "u") + 0.1 * RNG.normal(size=N), name="price")
NUMBERS = RNG.uniform(-1.0, 1.0, (N, 3))
WAVE = np.sin(3.0 * NUMBERS[:, 0]) + 0.1 * RNG.normal(size=N)
BLEND = {"members": ["linear", "manhattan_laplace", "scales_quantile"], "n_folds": 2}


@pytest.fixture(scope="module")
def blend():
    return gpukfl.fit(FRAME, PRICE, **BLEND)


def test_a_blend_keeps_members_and_follows_the_new_rows(tmp_path, blend):
    before = blend.predict(FRAME)
    later = 100.0 + 5.0 * PRICE
    found = blend.refit(FRAME, later)
    assert found is not blend
    np.testing.assert_array_equal(blend.predict(FRAME), before)
    ours = {one.name for one in found.estimator.members_}
    assert ours <= {one.name for one in blend.estimator.members_}
    fresh = gpukfl.fit(FRAME, later, **BLEND)
    assert found.score(FRAME, later) > fresh.score(FRAME, later) - 0.02
    ends = found.predict_interval(FRAME, 0.8)
    assert np.mean((later >= ends["lower"]) & (later <= ends["upper"])) > 0.7
    blend.save(tmp_path / "old")
    loaded = gpukfl.load(tmp_path / "old")
    loaded.estimator.n_jobs = 1
    again = loaded.refit(FRAME, later)
    np.testing.assert_allclose(again.predict(FRAME), found.predict(FRAME), rtol=1e-9)
    again.save(tmp_path / "new")
    np.testing.assert_allclose(
        gpukfl.load(tmp_path / "new").predict(FRAME), again.predict(FRAME), rtol=1e-12
    )


def test_a_model_of_the_users_stays_so_under_a_name_of_ours(tmp_path):
    model = gpukfl.fit(NUMBERS, WAVE, members=[("laplace", Ridge())], n_folds=2, random_state=0)
    model.save(tmp_path / "m")
    for one in (model, gpukfl.load(tmp_path / "m")):
        (member,) = one.refit(NUMBERS, WAVE).estimator.members_
        assert (member.name, type(member.models[-1])) == ("laplace", Ridge)
    again = gpukfl.load(tmp_path / "m").refit(NUMBERS, WAVE).leaderboard()
    assert dict(zip(again["member"], again["model"], strict=True))["laplace"] == "Ridge"


def test_columns_are_those_of_the_fit(blend):
    with pytest.raises(ValueError, match="town"):
        blend.refit(FRAME.drop(columns="town"), PRICE)
    moved = FRAME.assign(town=FRAME["town"].replace("w", "new"))[["built", "town", "size"]]
    found = blend.refit(moved.assign(price=PRICE), "price")
    assert found.feature_names == list(FRAME.columns)
    assert found.table == blend.table
    assert found.target_name == "price"
    assert found.score(moved, PRICE) > 0.5
    with pytest.raises(ValueError, match="expected 1 target"):
        blend.refit(FRAME, np.stack([PRICE, PRICE], axis=1))
    one = gpukfl.fit(NUMBERS, WAVE, method="bkernn", ridge="auto")
    with pytest.raises(ValueError, match="the 3 columns of the fit"):
        one.refit(NUMBERS[:, :2], WAVE)


@pytest.mark.parametrize("criterion", ["hold_out", "evidence"])
def test_a_single_method_starts_from_its_map(tmp_path, criterion):
    options = hkrr() | {"criterion": criterion}
    model = gpukfl.fit(FRAME, PRICE, method="hkrr", **options)
    model.save(tmp_path / "model")
    found = gpukfl.load(tmp_path / "model").refit(FRAME, PRICE)
    assert found.tuning == []
    assert found.method == "hkrr"
    assert found.score(FRAME, PRICE) > model.score(FRAME, PRICE) - 0.1


def test_classes_and_calibration_are_those_of_the_new_rows():
    y = np.array(["low", "high"])[(WAVE > 0).astype(int)]
    model = gpukfl.fit(NUMBERS, y, method="hkrr", criterion="evidence")
    new = np.array(["low", "mid", "high"])[np.digitize(WAVE, [-0.4, 0.4])]
    found = model.refit(NUMBERS, new, np.ones(N))
    assert list(found.classes_) == ["high", "low", "mid"]
    assert found.score(NUMBERS, new) > 0.7
    np.testing.assert_allclose(found.predict_proba(NUMBERS).sum(axis=1), 1.0)


def test_estimators_are_fitted_again_by_their_model():
    auto = AutoRegressor(["linear"], n_folds=2, random_state=0).fit(NUMBERS, WAVE)
    found = Model.from_estimator(auto).refit(NUMBERS, 3.0 * WAVE).estimator
    whole = (
        clone(auto).set_params(refit="both").fit(NUMBERS, 3.0 * WAVE)
    )  # a linear one has no start
    np.testing.assert_allclose(found.predict(NUMBERS), whole.predict(NUMBERS), rtol=1e-9)


def test_tensors_are_fitted_again(torch):
    X, y = torch.tensor(NUMBERS), torch.tensor(WAVE)
    model = gpukfl.fit(X, y, method="hkrr", criterion="evidence")
    again = model.refit(X, y)
    assert isinstance(again.predict(X), torch.Tensor)
    assert again.score(X, y) > model.score(X, y) - 0.02


@pytest.mark.slow
def test_it_takes_much_less_time_than_a_fit():
    gpukfl.fit(FRAME, PRICE, members=["linear"])  # imports take time too
    begun = time.process_time()
    model = gpukfl.fit(FRAME, PRICE, n_jobs=1)
    first = time.process_time()
    model.refit(FRAME, PRICE)
    assert time.process_time() - first < 0.5 * (first - begun)


def test_the_command_line_refits(tmp_path, blend, capsys):
    blend.save(tmp_path / "old.gpukfl")
    FRAME.assign(price=PRICE + 7.0).to_csv(tmp_path / "later.csv", index=False)
    files = [str(tmp_path / name) for name in ("old.gpukfl", "later.csv", "new.gpukfl")]
    assert main(["refit", *files[:2], "--out", files[2]]) == 0
    assert "blend" in capsys.readouterr().out.lower()
    moved = gpukfl.load(files[2]).predict(FRAME) - blend.predict(FRAME)
    assert abs(np.mean(moved) - 7.0) < 0.5
    assert main(["refit", *files[:2], "--target", "prize", "--out", files[2]]) == 2
    assert "prize" in capsys.readouterr().err


@pytest.mark.usefixtures("warnings_shown_as_before")
def test_the_command_line_reads_later_rows_as_those_of_the_fit(tmp_path, capsys):
    frame = FRAME.assign(zip=["02139", "10001"] * (N // 2))
    gpukfl.fit(frame, PRICE, members=["linear"], n_folds=2).save(tmp_path / "old.gpukfl")
    later = frame.assign(price=PRICE.astype(object).where(PRICE.index > 0, "unsold"))
    later.to_csv(tmp_path / "later.csv", index=False)
    files = [str(tmp_path / name) for name in ("old.gpukfl", "later.csv", "new.gpukfl")]
    warnings.simplefilter("always")
    assert main(["refit", *files[:2], "--na", "unsold", "--out", files[2]]) == 0
    assert "begin with a zero" not in capsys.readouterr().err
    assert gpukfl.load(files[2]).n_samples == N - 1


def test_arrays_of_cupy_are_fitted_again_and_compared():
    cupy = pytest.importorskip("cupy")
    X, y = cupy.asarray(NUMBERS), cupy.asarray(WAVE)
    model = gpukfl.fit(X, y, members=["linear", "manhattan_laplace"], n_folds=2, backend="cupy")
    again = model.refit(X, y)
    assert isinstance(again.predict(X), cupy.ndarray)
    assert again.score(X, y) > 0.8
    assert again.drift(X + 1.0)["p_value"].max() < 1e-6
