"""Levels of selected variables are those of what was selected, also by error control."""

import numpy as np
import pytest

from gpukfl import KernelFeatureSelector
from gpukfl.estimators.selection import Knockoffs, Stability

N, P = 120, 6
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, P))
Y = X[:, 1] + X[:, 3] ** 2 + 0.2 * RNG.standard_normal(N)


@pytest.mark.each
@pytest.mark.parametrize(
    "control", [None, Knockoffs(draws=2), Stability(10)], ids=["none", "knockoffs", "stability"]
)
@pytest.mark.parametrize("sparsity", [0.0, "auto", 100.0])
@pytest.mark.filterwarnings("ignore:no variable")
def test_levels_are_of_the_selected_variables_alone(control, sparsity):
    """γ of 100 lets none in, and one of 0 all: what error control keeps is another thing."""
    model = KernelFeatureSelector(sparsity=sparsity, error_control=control, random_state=0)
    model.fit(X[:60, :4], Y[:60])
    np.testing.assert_array_equal(model.levels_ > 0, model.get_support())


def test_what_no_round_found_comes_after_the_rounds():
    control = Knockoffs(draws=2)
    model = KernelFeatureSelector(sparsity=100.0, error_control=control, random_state=0).fit(X, Y)
    assert model.get_support(indices=True).tolist() == [1, 3]
    assert [one["entered"] for one in model.rounds_] == [[]]
    assert model.levels_.tolist() == [0, 2, 0, 2, 0, 0]
    assert "2 of 6 variables, then" in str(model.describe().text)


def test_rounds_that_select_are_told():
    model = KernelFeatureSelector(sparsity=0.01, random_state=0).fit(X, Y)
    assert "2 of 6 variables in 1 round, then" in str(model.describe().text)
