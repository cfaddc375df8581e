"""All in one value, by the door of models and estimators, and in reports."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import gpukfl
from gpukfl import HKRRRegressor, Model
from gpukfl.inference import bands, conditional_importance, infer
from gpukfl.portfolio import AutoRegressor

plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(4)
X = RNG.uniform(-1.5, 1.5, (120, 3))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(120)


@pytest.fixture(scope="module")
def model():
    return Model.from_estimator(HKRRRegressor(1, criterion="evidence", random_state=0).fit(X, Y))


@pytest.fixture(scope="module")
def found(model):
    return model.inference(X, Y, features=[0, 1])


def test_it_says_what_may_be_concluded(found):
    text = found.summary()
    assert "HKRRRegressor, 120 rows" in text
    assert "The partial dependence of x0 is not constant." in text
    assert "A constant fits into the band" in text
    assert "one direction" in text
    assert set(found.frames()) >= {"bands", "subspace"}
    assert found.importance is None
    assert "Not tested: interactions." in text


def test_new_rows_are_tested_too(model):
    new = RNG.uniform(-1.5, 1.5, (100, 3))
    y = np.sin(2.0 * new[:, 0]) + 0.2 * RNG.standard_normal(100)
    found = model.inference(new, y, features=[0], held_out=True)
    assert set(found.frames()) == {"importance", "interactions", "bands", "subspace"}
    assert "beyond all others, at a false discovery rate of 10%: x0" in found.summary()
    assert len(found.plot()) >= 4
    assert found.plot("importance").get_title() == "Conditional importances"
    assert found.plot("interactions").get_title().startswith("Friedman's H")


@pytest.mark.parametrize("held_out", [False, True])
def test_a_target_is_a_column_of_the_frame(held_out):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fit = LinearRegression().fit(frame, Y)
    found = infer(fit, frame.assign(size=Y), "size", features=["a"], held_out=held_out)
    assert found.target == found.bands[0].output == "size"
    assert found.interactions.features == ("a", "b", "c")
    expected = infer(fit, frame, Y, features=["a"], held_out=held_out)
    np.testing.assert_array_equal(found.interactions.h, expected.interactions.h)


def test_several_targets_are_known_by_their_names():
    rows = pd.DataFrame(X, columns=list("abc"))
    both = pd.DataFrame({"height": Y, "width": 100.0 * X[:, 1] + np.arange(120) % 7})
    options = {"n_components": 1, "ridge": 1e-3, "progress": False}
    model = gpukfl.fit(rows[:70], both[:70], method="hkrr", **options)
    turned = both[["width", "height"]]
    given = [(rows, both[70:]), (rows, turned[70:]), (rows.join(turned), ["width", "height"])]
    for ask in (
        lambda *rows: bands(model, *rows, features=["a"], held_out=True, random_state=0),
        lambda *rows: conditional_importance(model, *rows, n_permutations=9, random_state=0),
    ):
        first, *others = (ask(A[70:], y).frame() for A, y in given)
        for other in others:
            pd.testing.assert_frame_equal(other, first)
    strange = both.rename(columns={"width": "depth"})
    with pytest.raises(ValueError, match="expected the targets height, width, got height, depth"):
        bands(model, rows, strange)


def test_rows_without_weight_or_target_are_in_no_part():
    fit, weights = LinearRegression().fit(X, Y), (np.arange(120) < 80) * 2.0
    y = np.where(np.arange(120) == 79, np.nan, Y)
    with pytest.warns(UserWarning, match="y is missing"):
        found = infer(fit, X, y, features=[0], held_out=True, sample_weight=weights)
    expected = infer(fit, X[:79], Y[:79], features=[0], held_out=True)
    assert found.interactions.n_rows == expected.interactions.n_rows
    np.testing.assert_array_equal(found.interactions.p_values, expected.interactions.p_values)


def test_estimators_have_it_too(model, found):
    other = model.estimator.inference(X, Y, features=[0, 1])
    assert np.array_equal(other.bands[0].center, found.bands[0].center)
    with pytest.raises(NotFittedError):
        HKRRRegressor().inference(X, Y)


def test_pictures_and_a_section_of_the_report(model, found, tmp_path, monkeypatch):
    assert len(found.plot()) >= 3
    _, ax = plt.subplots()
    assert found.plot("subspace", ax=ax) is ax
    model.report(tmp_path / "with.html", inference=found)
    page = (tmp_path / "with.html").read_text()
    assert "What may be concluded" in page
    assert "partial dependence of x0 is not constant" in page
    assert page.count('aria-label="x0: curves with bands') == 1
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    model.report(tmp_path / "without.html")
    assert "What may be concluded" not in (tmp_path / "without.html").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_a_report_of_its_own_has_no_empty_parts(found, tmp_path):
    found.report(tmp_path / "alone.html")
    page = (tmp_path / "alone.html").read_text()
    assert "The model</h2>" not in page
    assert re.search(r"<td[^>]*>target</td>\s*<td[^>]*>y</td>", page)


def test_a_model_without_directions_has_bands_alone():
    found = infer(LinearRegression().fit(X, Y), X, Y)
    assert found.subspace is None
    assert "10 fits" in found.summary()


def test_a_blend_is_asked_by_its_leading_member():
    blend = AutoRegressor(members=["agop"], n_folds=2, random_state=0).fit(X, Y)
    found = blend.inference(X, Y, features=["x0"])
    assert "first member of the blend" in found.summary()
    assert not found.bands["x0"].may_be_flat
    labels = found.bands.plot().get_legend_handles_labels()[1]
    assert "the member of the blend's own curve" in labels


@pytest.mark.few
@pytest.mark.each
@pytest.mark.parametrize("labels", [["low", "mid", "high"], ["no", "yes"], [1, 2, 5]])
@pytest.mark.parametrize("table", [False, True])
def test_a_blend_of_classes_is_asked_by_their_labels(labels, table):
    edges = np.quantile(Y, np.arange(1, len(labels)) / len(labels))
    y = np.array(labels)[np.digitize(Y, edges)]
    rows = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    rows = rows.assign(colour=np.where(X[:, 1] > 0, "red", "blue")) if table else rows
    options = {"members": ["laplace"], "n_folds": 2, "progress": False}
    model = gpukfl.fit(rows, y, task="classification", **options)
    found = infer(model, rows, y, features=["x0"])
    ordered = sorted(labels)
    shown = ordered if len(labels) > 2 else ordered[1:]
    assert [band.output for band in found.bands] == [f"class {one}" for one in shown]
    assert not all(band.may_be_flat for band in found.bands)
    with pytest.raises(ValueError, match="labels of the fit, got"):
        infer(model, rows, np.append(y[1:], y[0] * 2), features=["x0"])


@pytest.mark.parametrize(("transform", "unit"), [("log", "logarithm"), ("rank", "normal score")])
def test_a_blend_on_another_scale_is_asked_on_it(transform, unit):
    options = {"members": ["laplace"], "n_folds": 2, "random_state": 0}
    skewed = np.exp(2.0 * Y)
    blend = AutoRegressor(target_transform=transform, **options).fit(X, skewed)
    z = blend.target_transform_.forward(skewed[:, None])[:, 0]
    expected = infer(
        AutoRegressor(target_transform=None, **options).fit(X, z), X, z, features=["x0"]
    )
    (found,) = infer(blend, X, skewed, features=["x0"]).bands
    assert found.output == f"{unit} of y"
    np.testing.assert_allclose(found.center, expected.bands[0].center, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_estimators_ask_without_a_model():
    """In a process that has imported nothing else."""
    code = (
        "import numpy as np; from gpukfl.estimators import KernelRidgeRegressor as R;"
        "X = np.random.default_rng(0).uniform(size=(40, 2));"
        "print(R().fit(X, X[:, 0]).inference(X, X[:, 0]).bands[0].name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["x0"]


def test_names_with_line_breaks_and_dollars_leave_tables_in_line():
    names = ["a\nb", "price $", "c" * 40]
    frame = pd.DataFrame(X, columns=names)
    model = gpukfl.fit(frame, Y, method="hkrr", n_components=1, ridge=0.01)
    found = infer(model, frame, Y)
    table = found.bands.summary().splitlines()[1:5]
    assert len({line.rindex("flat line fits") for line in table[1:]}) == 1
    for text in (found.in_words(), found.in_numbers()):
        assert "a b" in text
        assert "\\$" not in text
