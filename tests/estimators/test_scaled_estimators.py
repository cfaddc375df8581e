"""Every estimator with every scaling: what a change of the features does to its predictions."""

import numpy as np
import pytest
from test_wild_values import MAKERS, NEW, UNITS, X, Y, spoiled

from gpukfl.estimators.scaling import RobustScaling, StandardScaling

FEW, NEAR = X[:120], NEW[:50]
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge:UserWarning"),
    pytest.mark.filterwarnings("ignore:at a ridge of .* or float64 data:UserWarning"),
]


@pytest.mark.each
@every
@pytest.mark.parametrize("scaling", ["robust", "quantile"])
def test_a_wild_row_is_predicted_for_and_changes_no_other(make, scaling):
    model = make(scaling=scaling).fit(FEW.astype("float32"), Y[:120])
    new = NEAR.astype("float32")
    expected, found = model.predict(new), model.predict(spoiled(new, (3, 1), 1e30))
    assert abs(found[3]) < 10 * np.abs(Y).max()
    others = np.arange(len(new)) != 3
    np.testing.assert_array_equal(found[others], expected[others])


@pytest.mark.few
@every
def test_heavy_tails_are_bounded_by_default_but_in_two_methods(make, request):
    heavy = np.column_stack([FEW, np.where(np.arange(120) == 3, 12.0, FEW[::-1, 0])])
    standard = any(name in request.node.callspec.id for name in ("selection", "weighting"))
    kind = StandardScaling if standard else RobustScaling
    assert isinstance(make().fit(heavy, Y[:120]).scaling_, kind)


@pytest.mark.few
@pytest.mark.each
@every
@pytest.mark.parametrize("scaling", ["robust", "quantile"])
def test_units_of_features_change_no_prediction(make, scaling):
    shift, unit = UNITS
    expected = make(scaling=scaling).fit(FEW, Y[:120]).predict(NEAR)
    found = make(scaling=scaling).fit(FEW * unit + shift, Y[:120]).predict(NEAR * unit + shift)
    np.testing.assert_allclose(found, expected, atol=0.02)  # steps of solvers magnify rounding


@pytest.mark.few
@every
def test_a_monotone_map_of_a_feature_changes_no_prediction_from_its_scores(make):
    def change(samples):
        return np.column_stack([np.exp(samples[:, 0]), samples[:, 1] ** 3, samples[:, 2:]])

    expected = make(scaling="quantile").fit(FEW, Y[:120]).predict(FEW)
    found = make(scaling="quantile").fit(change(FEW), Y[:120]).predict(change(FEW))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.each
@every
@pytest.mark.parametrize("scaling", ["standard", "robust", "quantile"])
def test_missing_values_are_refused(make, scaling):
    with pytest.raises(ValueError, match="NaN"):
        make(scaling=scaling).fit(spoiled(FEW, (3, 1), np.nan), Y[:120])


@pytest.mark.parametrize("name", ["weighting", "regfeal"])
def test_profiles_are_predictions_at_rows_that_scale_to_them(name):
    model = MAKERS[name](scaling="robust").fit(FEW, Y[:120])
    t, values = model.profiles(2, 9)
    inside = np.array(model._middle) + t[:, :, None] * model.components_[:2, None, :]
    assert np.abs(inside).max() < 2.9
    by = model.scaling_
    raw = by.median + inside / np.sqrt(1.0 - (inside / by.bound) ** 2) / by.factor
    expected = model.predict(raw.reshape(-1, raw.shape[-1]))
    np.testing.assert_allclose(values.ravel(), expected, atol=1e-6)
