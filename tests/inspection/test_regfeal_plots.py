"""Pictures of RegFeaL show what the model holds."""

import warnings

import numpy as np
import pytest
from brief import regfeal
from pictures import panels

import gpukfl
from gpukfl.inspection import plot_degrees, plot_eta, plot_model

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

N, D = 100, 10
RNG = np.random.default_rng(12)
X = RNG.standard_normal((N, D))
Y = X[:, 4] * X[:, 7] + X[:, 4]
R = 0.33


def fit(y=Y, samples=X, **options):
    few = {"n_random_features": 80, "degree_decay": 0.3, "strength": 0.1, "n_iter": 3, **options}
    return gpukfl.fit(samples, y, method="regfeal", **regfeal(**few))


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "features": fit(),
            "variables": fit(selection="variables", retrain=None),
            "degree": fit(max_degree=3, retrain=None),
            "classes": fit(np.where(X[:, 4] > 0, "up", "down"), retrain=None),
            "two targets": fit(np.column_stack([Y, X[:, 0]]), retrain=None),
            "one": fit(X[:, 0] ** 2, X[:, :1], n_iter=1),
            "constant": fit(np.ones(N)),
        }


KINDS = ["features", "variables", "degree", "classes", "two targets", "one", "constant"]


@pytest.fixture
def ax():
    return Figure().subplots()


def shares(model):
    values = model.estimator.eta_path_ ** (R / (2 - R))
    return values / values.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["features", "classes", "two targets", "constant"])
def test_every_direction_is_a_curve(models, kind, ax):
    model = models[kind]
    plot_eta(model, ax=ax)
    ax.figure.draw_without_rendering()
    d = len(model.estimator.eta_)
    curves, threshold = ax.lines[:-1], ax.lines[-1]
    assert len(curves) == d
    assert set(threshold.get_ydata()) == {1 / d}
    drawn = np.stack([line.get_ydata() for line in curves[::-1]], axis=1)
    order = np.argsort(-shares(model)[-1], kind="stable")
    np.testing.assert_allclose(drawn, shares(model)[:, order])
    np.testing.assert_array_equal(curves[0].get_xdata(), np.arange(model.estimator.n_iter_ + 1))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(names) == min(8, d)
    assert len(set(names)) == len(names)
    if kind == "variables":
        assert set(names[:2]) == {"x4", "x7"}
    else:
        assert names == [f"direction {k + 1}" for k in range(min(8, d))]


@pytest.mark.parametrize("kind", KINDS)
def test_degrees_are_counted(models, kind, ax):
    e = models[kind].estimator
    plot_degrees(models[kind], ax=ax)
    ax.figure.draw_without_rendering()
    degrees = e.multi_indices_.sum(axis=1)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, np.bincount(degrees) / len(degrees))
    assert heights[0] == 0.0
    variance = ax.lines[0].get_ydata()
    squares = np.bincount(degrees, weights=np.sum(e.coef_**2, axis=1))
    if kind == "constant":
        assert not variance.any()
    else:
        np.testing.assert_allclose(variance, squares / squares.sum())
        assert variance.sum() == pytest.approx(1.0)
    if kind == "degree":
        assert len(heights) <= 4


@pytest.mark.few
@pytest.mark.parametrize("kind", ["features", "classes", "constant"])
def test_every_model_has_its_panels(models, kind):
    learned = ["directions", "curves"] if kind != "constant" else []
    steps = ["objective"] if models[kind].estimator.n_iter_ > 1 else []
    assert panels(plot_model(models[kind])) == ["importances", *learned, *steps, "eta", "degrees"]


def test_models_of_torch_are_drawn(ax, torch):
    model = fit(torch.asarray(Y), torch.asarray(X), retrain=None)
    plot_eta(model, ax=ax)
    plot_degrees(model, ax=ax.figure.add_subplot())
    ax.figure.draw_without_rendering()
