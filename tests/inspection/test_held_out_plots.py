"""Pictures of held-out rows show the rows, their intervals, and how far probabilities are off."""

import itertools
import warnings

import numpy as np
import pytest
from pictures import panels, said
from sklearn.calibration import calibration_curve

from gpukfl.inspection import (
    Description,
    Predictions,
    Reliability,
    ResidualPlot,
    plot_model,
    plot_panel,
    plot_predictions,
    plot_reliability,
    plot_residuals,
)
from gpukfl.inspection._held_out import split_by_value

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402


@pytest.fixture
def ax():
    return Figure().subplots()


def regression(rng, n=200, t=1, ends=True):
    truth = rng.standard_normal((n, t))
    predicted = truth + 0.3 * rng.standard_normal((n, t))
    names = tuple(f"target {k}" for k in range(t))
    intervals = np.stack([predicted - 0.5, predicted + 0.5], axis=2) if ends else None
    held_out = Predictions(truth, predicted, names, intervals, 0.9 if ends else None)
    return Description(name="a model", panels=(held_out, ResidualPlot(truth, predicted, names)))


def classes(rng, n=4000, k=3, sharp=1.0):
    logits = rng.standard_normal((n, k))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    codes = (rng.uniform(size=(n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    shown = p**sharp / np.sum(p**sharp, axis=1, keepdims=True)
    panel = Reliability(shown, codes, tuple(f"class {c}" for c in range(k)))
    return Description(name="a model", panels=(panel,))


@pytest.mark.each
@pytest.mark.parametrize("t", [1, 2, 4, 8])
@pytest.mark.parametrize("ends", [False, True])
def test_every_picture_is_drawn_without_a_warning(rng, t, ends):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert panels(plot_model(regression(rng, t=t, ends=ends))) == ["predictions", "residuals"]
        if t > 1:
            assert panels(plot_model(classes(rng, k=t))) == ["reliability"]


def test_predictions_are_points_beside_the_diagonal(rng, ax):
    model = regression(rng)
    assert plot_predictions(model, ax=ax) is ax
    points, diagonal = ax.lines
    x, y = points.get_data()
    held_out = model.panels[0]
    order = np.argsort(held_out.predicted[:, 0])
    np.testing.assert_array_equal(x, held_out.predicted[order, 0])
    np.testing.assert_array_equal(y, held_out.truth[order, 0])
    np.testing.assert_array_equal(*diagonal.get_data())
    ends = np.array([bar[:, 1] for bar in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, held_out.intervals[order, 0])


def test_the_picture_says_how_many_intervals_hold_the_truth(rng, ax):
    model = regression(rng)
    plot_predictions(model, ax=ax)
    held_out = model.panels[0]
    share = np.mean(np.abs(held_out.truth - held_out.predicted) <= 0.5)
    expected = f"the intervals cover {100 * share:.0f} % (target 90 %)"
    assert any(expected in text for text in said(ax))
    assert ax.get_legend() is None  # which would hide points


def test_many_rows_are_thinned_out_evenly(rng, ax):
    model = regression(rng, n=50_000)
    plot_residuals(model, ax=ax)
    x, y = ax.lines[0].get_data()
    assert len(x) == 1000
    everything = np.sort(model.panels[1].predicted[:, 0])
    assert (x[0], x[-1]) == (everything[0], everything[-1])
    assert np.median(x) == pytest.approx(np.median(everything), abs=0.01)
    assert y.std() == pytest.approx(0.3, abs=0.03)


def test_residuals_show_where_nine_tenths_lie(rng, ax):
    plot_residuals(regression(rng, n=5000), ax=ax)
    median = next(line for line in ax.lines if line.get_label() == "median")
    assert len(median.get_xdata()) == 10
    band = ax.collections[0].get_paths()[0].vertices
    assert np.ptp(band[:, 1]) > 0.6


def test_one_target_of_several(rng, ax):
    model = regression(rng, t=3)
    plot_predictions(model, output="target 1", ax=ax)
    assert "true target 1" in said(ax)
    assert len(plot_residuals(model)) == 3
    with pytest.raises(ValueError, match="expected output to be one of target 0, target 1"):
        plot_residuals(model, output="no such")
    with pytest.raises(ValueError, match="or its number, got 3"):
        plot_predictions(model, output=3)


@pytest.mark.parametrize("k", [2, 3])
def test_reliability_is_scikit_learns(rng, k):
    panel = classes(rng, k=k).panels[0]
    for c in range(k):
        means, shares, rows = panel.curve(c)
        expected, at = calibration_curve(
            panel.codes == c, panel.probabilities[:, c], n_bins=10, strategy="quantile"
        )
        np.testing.assert_allclose(means, at, atol=2e-3)
        np.testing.assert_allclose(shares, expected, atol=2e-2)
        assert rows.sum() == 4000


def test_reliability_tells_right_from_sharpened_probabilities(rng):
    gaps = []
    for sharp in (1.0, 3.0):
        ax = Figure().subplots()
        plot_reliability(classes(rng, sharp=sharp), ax=ax)
        text = next(t for t in said(ax) if t.startswith("class 1, off by"))
        gaps.append(float(text.split("off by ")[1].split()[0]))
    assert gaps[0] < 0.03
    assert gaps[1] > 0.1


def test_of_two_classes_one_is_drawn_and_of_many_six(rng):
    for k, count in ((2, 1), (9, 6)):
        ax = Figure().subplots()
        plot_reliability(classes(rng, k=k), ax=ax)
        assert len(ax.containers) == count
    assert "Calibration of probabilities (the first 6 of 9)" in said(ax)


@pytest.mark.parametrize(
    ("n", "values"), [(3, 3), (12, 12), (1000, 1000), (1000, 2), (1000, 1), (47, 5)]
)
def test_parts_hold_every_row_once_and_keep_equal_values_together(rng, n, values):
    x = rng.integers(0, values, n).astype(float)
    parts = split_by_value(x)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    assert all(len(part) for part in parts)
    edges = [(x[part].min(), x[part].max()) for part in parts]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(edges))


def test_nothing_to_draw_is_said(rng):
    none = np.empty((0, 1))
    empty = Description(name="a model", panels=(Predictions(none, none, ("y",)),))
    with pytest.raises(ValueError, match="no rows were held out"):
        plot_predictions(empty)
    few = Description(name="a model", panels=(Reliability(np.eye(2), np.arange(2), ("a", "b")),))
    with pytest.raises(ValueError, match="too few rows were held out"):
        plot_reliability(few)
    with pytest.raises(ValueError, match="with reliability to draw"):
        plot_reliability(regression(rng))


def test_panels_are_drawn_by_name(rng, ax):
    assert plot_panel(regression(rng), "predictions", ax=ax) is ax
