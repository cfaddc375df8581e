"""What inference fits again leaves out whole groups."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from gpukfl.estimators import HKRRRegressor
from gpukfl.inference import bands, subspace

GROUPS = np.repeat(np.arange(20), 6)
RNG = np.random.default_rng(0)
X = np.column_stack([np.arange(120.0), RNG.normal(size=20)[GROUPS], RNG.normal(size=120)])
Y = X[:, 1] + 0.5 * X[:, 2] + RNG.normal(size=20)[GROUPS] + 0.1 * RNG.normal(size=120)


class Recorder(LinearRegression):
    """A linear model that records the numbers of the rows that it fits."""

    fitted: list = []  # noqa: RUF012 - shared by clones

    def fit(self, X, y, sample_weight=None):
        Recorder.fitted.append(X[:, 0].astype(int))
        return super().fit(X, y, sample_weight)


def test_bands_leave_out_whole_groups_and_are_wider():
    model = Recorder().fit(X, Y)
    plain = bands(model, X, Y, features=[1])
    Recorder.fitted.clear()
    found = bands(model, X, Y, features=[1], row_groups=GROUPS)
    assert len(Recorder.fitted) == 10
    for rows in Recorder.fitted:
        left = set(range(120)) - set(rows.tolist())
        assert not set(GROUPS[list(left)]) & set(GROUPS[rows])
    assert found.curves[0].width.max() > 1.3 * plain.curves[0].width.max()


def test_directions_have_no_more_folds_than_groups():
    few = GROUPS // 5
    model = HKRRRegressor(n_components=1, random_state=0).fit(X[:, 1:], Y, groups=few)
    found = subspace(model, X[:, 1:], Y, row_groups=few)
    assert found.n_folds == 4


def test_bad_groups_are_one_error():
    with pytest.raises(ValueError, match="groups of 120 rows"):
        bands(Recorder().fit(X, Y), X, Y, row_groups=GROUPS[:-1])
