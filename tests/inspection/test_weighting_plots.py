"""Pictures of RKHS weightings show what the model holds."""

import warnings

import numpy as np
import pytest
from pictures import panels

import gpukfl
from gpukfl.inspection import Bound, plot_bound, plot_model, plot_sparsity, plot_stumps, plot_tuning
from gpukfl.instantiations import RandomKitchenSinks, Stumps

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

N, D, T = 120, 4, 40
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D))
Y = np.where(np.sin(2 * X[:, 1]) + 0.3 * RNG.standard_normal(N) > 0, "up", "down")


def fit(y=Y, **options):
    return gpukfl.fit(X, y, method="rkhs_weighting", n_parameters=T, **options)


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "stumps": fit(instantiation="stumps", learner="lasso"),
            "pruned": fit(instantiation="gaussian_sign", prune="error"),
            "three": fit(np.digitize(X[:, 0], [-0.5, 0.5]), instantiation="stumps"),
            "number": fit(X[:, 0] ** 2, ridge=1e-4, instantiation=Stumps()),
            "sinks": fit(instantiation=RandomKitchenSinks()),
            "nothing": fit(learner="lasso", ridge=1e6, instantiation=Stumps()),
        }


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.mark.few
@pytest.mark.parametrize("name", ["stumps", "pruned", "three", "number", "sinks", "nothing"])
def test_every_model_is_drawn_without_a_warning(models, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = panels(plot_model(models[name]))
    curves = "stumps" if name in ("stumps", "three", "number") else "curves"
    more = {
        "stumps": ["tuning", "bound"],
        "pruned": ["tuning", "bound"],
        "three": ["tuning"],
        "sinks": ["tuning"],
    }
    if name == "nothing":  # no parameter is left
        assert drawn == ["importances", "bound"]
    else:
        assert drawn == ["importances", "directions", curves, "sparsity", *more.get(name, [])]


def test_stumps_are_the_parts_that_predictions_add_up(models, ax):
    model = models["stumps"]
    plot_stumps(model, ax=ax)
    curves = {line.get_label(): line for line in ax.get_lines() if len(line.get_xdata()) == 301}
    e = model.estimator
    used = {f"x{int(k) - 1}" for k in e.parameters_[:, 0] if k > 0}
    assert set(curves) == used
    # The sum of the curves is f, up to the stumps on the column of ones
    points = np.linspace(-2.0, 2.0, 5)
    x = np.tile(points[:, None], (1, D))
    total = sum(np.interp(points, *line.get_data()) for line in curves.values())
    f = e.decision_function(x * e.scaling_.scale + e.scaling_.mean)
    np.testing.assert_allclose(np.diff(total), np.diff(f), atol=1e-3)


def test_thresholds_are_ticks_of_each_feature(models, ax):
    model = models["stumps"]
    plot_stumps(model, ax=ax)
    ticks = [line for line in ax.get_lines() if line.get_marker() == "|"]
    shown = np.sort(np.concatenate([line.get_xdata() for line in ticks]))
    e = model.estimator
    known = np.sort(e.parameters_[e.parameters_[:, 0] > 0, 1])
    np.testing.assert_allclose(shown, known)


def test_sparsity_says_how_many_parameters_are_left(models, ax):
    model = models["pruned"]
    plot_sparsity(model, ax=ax)
    e = model.estimator
    assert f"{e.n_parameters_} of {T}" in ax.get_title()
    shares = ax.get_lines()[0].get_ydata()
    assert len(shares) == e.n_parameters_
    assert shares[-1] == pytest.approx(1.0)
    twin = ax.figure.axes[1]
    assert len(twin.get_lines()[0].get_xdata()) == len(e.pruning_)


def test_tuning_marks_the_chosen_ridge(models, ax):
    model = models["pruned"]
    plot_tuning(model, ax=ax)
    chosen = next(trial for trial in model.tuning if trial["chosen"])
    marked = ax.get_lines()[-1]
    assert marked.get_xdata()[0] == pytest.approx(chosen["ridge"])
    assert marked.get_ydata()[0] == pytest.approx(chosen["score"])


def test_a_given_ridge_is_said_not_to_be_tuned(models, ax):
    with pytest.raises(ValueError, match="got RKHSWeightingRegressor: ridge was not tuned; it has"):
        plot_tuning(models["number"], ax=ax)


def test_bound_is_drawn_beside_what_held_out_folds_show(models, ax):
    model = models["pruned"]
    plot_bound(model, ax=ax)
    e = model.estimator
    values = [bar.get_width() for bar in ax.patches][::-1]
    known = e.validation_
    assert values[:3] == pytest.approx([known["error"], known["risk"], known["training_risk"]])
    assert values[4] >= values[3] > known["training_risk"]
    assert values[4] == pytest.approx(e.bound(X, Y), rel=1e-6)


def test_only_two_classes_with_a_theta_have_a_bound(models):
    has = {
        name: any(isinstance(panel, Bound) for panel in model.describe().panels)
        for name, model in models.items()
    }
    assert has == {
        "stumps": True,
        "pruned": True,
        "three": False,
        "number": False,
        "sinks": False,
        "nothing": True,
    }
