"""Pictures of selections show what the model holds."""

import warnings

import numpy as np
import pytest
from brief import selection
from sklearn.metrics import roc_auc_score, roc_curve

import gpukfl
from gpukfl.inspection import plot_path, plot_roc, plot_rounds
from gpukfl.inspection._style import level_color

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

N, P = 80, 18
RNG = np.random.default_rng(12)
X = RNG.standard_normal((N, P))
Y = X[:, 4] + X[:, 4] * X[:, 9] + 0.1 * RNG.standard_normal(N)


def fit(**options):
    few = selection(**{"ridge": 0.01, "n_permutations": 9, **options})
    return gpukfl.fit(X, Y, method="selection", **few)


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "rounds": fit(),
            "path": fit(sparsity="tune", n_sparsities=4, hierarchical=False),
            "nothing": fit(sparsity=1e9),
            "constant": gpukfl.fit(X, np.ones(N), method="selection", ridge=0.01),
        }


@pytest.fixture
def ax():
    return Figure().subplots()


def drawn(ax):
    ax.figure.draw_without_rendering()


def test_rounds_show_scores_and_thresholds(models, ax):
    model = models["rounds"]
    e = model.estimator
    assert e.levels_[[4, 9]].tolist() == [1, 2]
    plot_rounds(model, ax=ax)
    drawn(ax)
    labels = [tick.get_text() for tick in ax.get_yticklabels()][::-1]
    assert labels[:2] == ["x4", "x9"]  # by round, the first on top
    assert len(labels) == min(15, np.count_nonzero(e.scores_ > 0))
    shown = [int(name[1:]) for name in labels]
    points = ax.collections[0].get_offsets()[::-1]
    np.testing.assert_allclose(points[:, 0], e.scores_[shown])
    rest = e.scores_[shown[int(e.get_support().sum()) :]]
    assert np.all(np.diff(rest) <= 0)
    colors = [to_hex(color) for color in ax.collections[0].get_facecolors()[::-1]]
    assert colors[0] != colors[1]
    assert set(colors[2:]) <= {"#bbbbbb"}
    lines = {line.get_label(): line.get_xdata()[0] for line in ax.lines}
    gammas = {k: one["sparsity"] for k, one in enumerate(e.rounds_, 1) if one["sparsity"] > 0}
    assert lines == {f"γ of round {k}": gamma for k, gamma in gammas.items()}
    assert ax.get_xscale() == "log"


def test_rounds_are_drawn_where_nothing_was_selected(models, ax):
    plot_rounds(models["nothing"], ax=ax)
    drawn(ax)
    points = ax.collections[0].get_offsets()
    assert (len(points), len(ax.lines)) == (15, 1)
    leading = np.sort(models["nothing"].estimator.scores_)[-15:]
    np.testing.assert_allclose(points[:, 0], leading)
    assert {to_hex(color) for color in ax.collections[0].get_facecolors()} == {"#bbbbbb"}


def test_there_is_nothing_to_draw_without_scores(models, ax):
    with pytest.raises(ValueError, match=r"to draw, got .*: no variable has a score"):
        plot_rounds(models["constant"], ax=ax)


def test_many_rounds_have_colors():
    colors = [level_color(level) for level in range(8)]
    assert len(set(colors)) == 6
    assert colors[5] == colors[7]


def test_a_path_shows_weights_and_scores(models, ax):
    model = models["path"]
    path = model.estimator.path_
    plot_path(model, ax=ax)
    drawn(ax)
    curves = {line.get_label(): line for line in ax.lines if line.get_label().startswith("x")}
    assert 1 <= len(curves) <= 8
    assert "x4" in curves
    for name, line in curves.items():
        np.testing.assert_array_equal(line.get_xdata(), path["sparsity"])
        np.testing.assert_array_equal(line.get_ydata(), path["beta"][:, int(name[1:])])
    with_weight = np.count_nonzero(path["beta"].any(axis=0))
    assert len(ax.lines) == with_weight + 1  # and the chosen gamma
    assert ax.lines[-1].get_xdata()[0] == model.estimator.sparsity_
    twin = next(other for other in ax.figure.axes if other is not ax)
    np.testing.assert_array_equal(twin.lines[0].get_ydata(), path["score"])


@pytest.mark.parametrize("kind", ["rounds", "nothing", "constant"])
def test_a_model_without_a_path_is_named(models, kind, ax):
    with pytest.raises(
        ValueError, match="expected a model with path to draw, got KernelFeatureSelector, which"
    ):
        plot_path(models[kind], ax=ax)


def test_the_area_is_that_of_scikit_learn(models, ax):
    truth = np.isin(np.arange(P), [4, 9])
    scores = models["rounds"].estimator.scores_
    assert plot_roc(scores, truth, ax=ax) is ax
    assert roc_auc_score(truth, scores) == 1.0
    noise = np.round(RNG.standard_normal(P), 1)  # with ties
    plot_roc(noise, truth, label="noise", ax=ax)
    area = roc_auc_score(truth, noise)
    drawn(ax)
    assert [line.get_label() for line in ax.lines] == ["area 1.000", f"noise, area {area:.3f}"]
    false_rate, true_rate, _ = roc_curve(truth, noise)
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), false_rate)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), true_rate)


def test_every_library_has_a_roc_curve(on, ax):
    scores = np.array([3.0, -1.0, 2.0, 0.5])
    truth = on.xp.asarray([True, False, False, True], device=on.device)
    plot_roc(on.put(scores), truth, ax=ax)
    plot_roc(scores.tolist(), [1, 0, 0, 1], ax=ax)
    assert [line.get_label() for line in ax.lines] == ["area 0.750"] * 2


@pytest.mark.parametrize(("truth", "count"), [([True] * 4, 4), ([False] * 4, 0)])
def test_truths_of_one_kind_are_named(ax, truth, count):
    with pytest.raises(ValueError, match=f"some true and some false variables, got {count} of 4"):
        plot_roc(np.arange(4.0), truth, ax=ax)


def test_models_of_torch_are_drawn(ax, torch):
    model = gpukfl.fit(
        *(torch.asarray(a) for a in (X, Y)),
        method="selection",
        **selection(ridge=0.01, sparsity="tune", n_sparsities=3),
    )
    plot_rounds(model, ax=ax)
    plot_path(model, ax=ax.figure.add_subplot())
    area = plot_roc(model.estimator.scores_, np.isin(np.arange(P), [4, 9]))
    assert float(area.lines[0].get_label().split()[1]) > 0.9
    drawn(ax)
