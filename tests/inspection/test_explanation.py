"""Numbers and pictures of explained rows."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import said

from gpukfl.inspection import Explanation
from gpukfl.inspection._style import number_text

RNG = np.random.default_rng(0)


def make(n=5, p=12, t=1):
    parts = RNG.standard_normal((n, p, t)) * np.linspace(2.0, 0.1, p)[:, None]
    baseline = np.arange(t) + 100.0
    whole = baseline + parts.sum(axis=1)
    errors = np.full(parts.shape, 0.05)
    values = np.full((n, p), None, dtype=object)
    values[:, 0], values[:, 1], values[:, 2] = np.arange(n) * 1.5, "red", 24.0
    names = tuple(f"c{k}" for k in range(p))
    if t == 1:
        parts, errors, whole, baseline = parts[..., 0], errors[..., 0], whole[:, 0], 100.0
    outputs = tuple(f"class {k}" for k in range(t)) if t > 1 else ("price",)
    unit = "log odds" if t > 1 else "price"
    return Explanation(names, outputs, unit, parts, errors, None, baseline, whole, values, 32, 32)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_bars_lead_from_the_baseline_to_the_prediction():
    of = make()
    ax = of.plot_row(1)
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    starts, ends = np.transpose(bars)
    assert len(bars) == 10  # the others are one
    np.testing.assert_allclose(starts[0], 100.0)
    np.testing.assert_allclose(starts[1:], ends[:-1])
    np.testing.assert_allclose(ends[-1], of.prediction[1])
    texts = said(ax)
    assert "c1 = red" in texts
    assert "c2 = 24" in texts
    assert "3 other columns" in texts
    assert "Contributions to one prediction" in texts


@pytest.mark.parametrize("t", [1, 2])
def test_numbers_lie_beside_no_name(t):
    of = make(t=t)
    low = -np.abs(of.contributions)  # whose bars end at the names
    low = replace(
        of, contributions=low, columns=tuple(f"a name that is long {k}" for k in range(12))
    )
    axes = np.atleast_1d(low.plot_row(0, figsize=(4.8 * t, 3.5)))
    figure = axes[0].get_figure(root=True)
    renderer = figure.canvas.get_renderer()
    figure.draw_without_rendering()
    for ax in axes:
        names = [text.get_window_extent(renderer) for text in ax.get_yticklabels()]
        numbers = [text.get_window_extent(renderer) for text in ax.texts]
        assert len(numbers) == 10
        assert not any(one.overlaps(other) for one in names for other in numbers)
        assert min(one.x0 for one in numbers) >= ax.get_window_extent(renderer).x1


def test_words_say_the_leading_columns():
    of = make(n=1)
    order = np.argsort(-np.abs(of.contributions[0]))
    words = of.row(0).words
    places = [words.index(f"c{k} ") for k in order[:5]]
    assert places == sorted(places)
    assert f"price {number_text(of.prediction[0])} from a mean of 100.0" in words
    assert "mean absolute contributions to 1 prediction:" in of.summary().words
    assert repr(of.summary()) == of.summary().words
    assert len(repr(make(t=3).summary()).splitlines()) == 3


def test_a_summary_has_a_point_for_each_row_and_column():
    of = make(n=7)
    ax = of.plot_summary()
    points = [one.get_offsets() for one in ax.collections]
    assert sum(map(len, points)) == 7 * 12
    found = np.sort(np.concatenate(points)[:, 0])
    np.testing.assert_allclose(found, np.sort(of.contributions.ravel()))
    least = np.argmin(np.abs(of.contributions).mean(axis=0))
    assert ax.get_yticklabels()[0].get_text() == of.columns[least]


@pytest.mark.parametrize("kind", ["plot_row", "plot_summary"])
def test_a_picture_is_its_axes(kind):
    assert isinstance(getattr(make(), kind)(), plt.Axes)
    _, ax = plt.subplots()
    assert getattr(make(), kind)(ax=ax) is ax


@pytest.mark.parametrize("kind", ["plot_row", "plot_summary"])
def test_each_output_has_a_picture(kind):
    of = make(t=3)
    cells = getattr(of, kind)()
    assert len(cells) == 3
    assert [cell.get_title() for cell in cells] == list(of.outputs)
    one = getattr(of, kind)(output="class 1")
    assert "log odds of class 1" in one.get_xlabel()
    with pytest.raises(ValueError, match="output to be one of class 0, class 1, class 2"):
        getattr(of, kind)(output="class 7")


def test_rows_that_are_not_there():
    with pytest.raises(IndexError, match="one of 5 rows, got 5"):
        make().plot_row(5)
    last = make()
    np.testing.assert_array_equal(last.row(-1).prediction[0], last.prediction[-1:])


def test_columns_that_say_nothing():
    of = replace(make(n=1, p=3), contributions=np.zeros((1, 3)), prediction=np.array([100.0]))
    assert len(of.plot_row().patches) == 3
    assert of.plot_summary() is not None


def test_frames_of_one_output_and_of_several():
    one, several = make(), make(t=2)
    np.testing.assert_array_equal(one.to_frame().to_numpy(), one.contributions)
    assert several.to_frame().shape == (5, 24)
    frame = one.to_frame(totals=True)
    np.testing.assert_allclose(frame.iloc[:, :-1].sum(axis=1), frame["prediction"])
    assert (frame["baseline"] == one.baseline).all()
    second = several.to_frame(totals=True)["class 1"]
    np.testing.assert_array_equal(second["prediction"], several.prediction[:, 1])
    assert (second["baseline"] == several.baseline[1]).all()
    np.testing.assert_array_equal(several.to_frame()["class 1"], several.contributions[:, :, 1])


@pytest.mark.parametrize(
    ("value", "text"),
    [(26110.0, "26 110"), (0.03123456, "0.03123"), (-8.6612, "−8.661"), (0.0, "0"),
     (1.5e-6, "1.5e−06"), (3.2e9, "3.2e+09"), (float("nan"), "nan")],
)  # fmt: skip
def test_numbers_are_written_as_people_do(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(("output", "name"), [(2, "2"), ("2", "2"), (-1, "3"), (0, "1")])
def test_a_label_that_is_a_number_is_the_label(output, name):
    of = replace(make(t=3), outputs=("1", "2", "3"))
    assert of.row(0).of(output).outputs[0] == name
