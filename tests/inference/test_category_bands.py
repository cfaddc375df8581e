"""Of a category there is one curve, with a step for each level."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gpukfl
from gpukfl import KernelRidgeRegressor
from gpukfl.inference import bands

RNG = np.random.default_rng(0)
N = 240
EFFECTS = {"flat": 0.0, "house": 1.0, "barn": -1.0, None: 0.4}
KIND = RNG.choice(list(EFFECTS), N, p=[0.4, 0.3, 0.15, 0.15])
SIZE = RNG.uniform(20.0, 200.0, N)
FRAME = pd.DataFrame({"size": SIZE, "kind": KIND})
PRICE = 0.01 * SIZE + np.array([EFFECTS[k] for k in KIND]) + 0.2 * RNG.standard_normal(N)


@pytest.fixture(scope="module")
def model():
    return gpukfl.fit(FRAME, PRICE, method="hkrr", criterion="evidence", progress=False)


@pytest.mark.parametrize("kind", ["partial_dependence", "accumulated_effects"])
def test_effects_of_levels_are_in_the_band(model, kind):
    band = bands(model, FRAME, PRICE, kind=kind, features=["kind"], coverage=0.999)["kind"]
    truth = np.array([EFFECTS[level if level != "missing" else None] for level in band.labels])
    assert sorted(band.labels) == ["barn", "flat", "house", "missing"]
    assert band.holds(truth - truth.mean())
    assert not band.may_be_flat


def test_columns_of_a_category_name_it(model):
    found = bands(model, FRAME, PRICE, features=["kind=flat", "kind missing", "kind", 1, "size"])
    assert [one.name for one in found] == ["kind", "size"]
    assert [one.name for one in bands(model, FRAME, PRICE)] == ["kind", "size"]


def test_frames_and_pictures_tell_levels(model):
    found = bands(model, FRAME, PRICE, features=["kind"])
    assert list(found.frame()["at"]) == list(found[0].labels)
    ax = found.plot()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(found[0].labels)
    plt.close("all")


def test_numbers_that_are_categories_go_with_their_level():
    rooms = RNG.choice([3.0, 1.0, 2.0, np.nan], N, p=[0.4, 0.3, 0.2, 0.1])
    frame = pd.DataFrame({"size": SIZE, "rooms": rooms})
    y = 0.01 * SIZE + np.isin(rooms, [1.0, 3.0]) + 0.1 * RNG.standard_normal(N)
    given = {"criterion": "evidence", "columns": {"rooms": "code"}, "progress": False}
    fit = gpukfl.fit(frame, y, method="hkrr", **given)
    band = bands(fit, frame, y, features=["rooms"], coverage=0.999)[0]
    assert band.labels == ("1", "2", "3", "missing")
    assert band.holds(np.array([0.5, -0.5, 0.5, -0.5]))


def test_levels_that_the_fit_has_not_seen_are_one_more(model):
    new = FRAME.assign(kind=np.where(KIND == "barn", "tent", KIND))
    band = bands(model, new, PRICE, features=["kind"], held_out=True)[0]
    assert set(band.labels) == {"flat", "house", "missing", "another"}


def test_a_blend_and_classes_have_such_curves():
    label = np.array(["cheap", "dear"])[(PRICE - np.median(PRICE) > 0).astype(int)]
    fit = gpukfl.fit(FRAME, label, effort="quick", members=["manhattan_laplace"], progress=False)
    band = bands(fit, FRAME, label)["kind"]
    height = dict(zip(band.labels, band.center, strict=True))
    assert height["house"] > height["flat"] > height["barn"]


def test_without_importances_those_that_move_predictions_lead():
    X = RNG.uniform(-1.0, 1.0, (100, 8))
    y = 2.0 * X[:, 6] + X[:, 7] + 0.1 * RNG.standard_normal(100)
    fit = KernelRidgeRegressor().fit(X, y)
    assert [one.name for one in bands(fit, X, y)][:2] == ["x6", "x7"]
