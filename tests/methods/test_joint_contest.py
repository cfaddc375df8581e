"""Which of two fits counts: the kernel's only where there is more than lines to find."""

import numpy as np
import pytest
from selection_signals import hierarchy, main_effects, objective_of

from gpukfl.core._results import Status
from gpukfl.knockoffs import GaussianKnockoffs, combine_weights, contest
from gpukfl.methods import (
    DenseSelection,
    FactoredSelection,
    FeatureSelection,
    competing_fits,
    competing_weights,
    linear_weights,
)
from gpukfl.methods import _selection_contest as _joint_contest

COPIES, P = 3, 12
ALGORITHM = FeatureSelection(anchor=0.9)


def lines(rng, n=200, p=P):
    X = rng.standard_normal((n, p))
    return X, X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(n)


def drawn(signal, seed=0):
    X, y = signal(np.random.default_rng(seed), n=200, p=P)
    copies = GaussianKnockoffs().of(X, COPIES).draw(np.random.RandomState(seed))
    return np.concatenate([X, copies], axis=1), y


def fits_of(columns, y, **options):
    objective = objective_of(columns, y, **options)
    return competing_fits(ALGORITHM, objective, P, rng=np.random.RandomState(0))[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("signal", "count"), [(lines, 1), (main_effects, 2), (hierarchy, 2)])
def test_the_kernel_counts_where_not_all_is_linear(signal, count, seed):
    columns, y = drawn(signal, seed)
    fits = fits_of(columns, y)
    assert len(fits) == count
    W = contest(combine_weights(*fits))
    assert W[:2].min() > np.abs(W[2:]).max()


def test_fits_are_those_of_each_alone():
    columns, y = drawn(main_effects)
    objective = objective_of(columns, y)
    rng = np.random.RandomState(0)
    expected = competing_weights(ALGORITHM, objective, P, rng=rng)[0]
    kernel, linear = fits_of(columns, y)
    np.testing.assert_array_equal(kernel, expected)
    alone = linear_weights(columns, objective.Y, objective.shares, P)
    np.testing.assert_array_equal(linear, alone)


@pytest.mark.parametrize("signal", [lines, hierarchy])
def test_changing_places_changes_neither_weights_nor_what_counts(signal):
    columns, y = drawn(signal)
    order = np.arange(columns.shape[1]).reshape(-1, P)
    order[[0, 2], np.array([[0], [5]])] = order[[2, 0], np.array([[0], [5]])]
    before, after = fits_of(columns, y), fits_of(columns[:, order.ravel()], y)
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other.ravel(), one.ravel()[order.ravel()], atol=1e-4)


def test_a_square_alone_needs_the_kernel():
    """A Lasso at its penalty may take no column at all."""
    columns, _ = drawn(lines)
    square = columns[:, 2] ** 2
    assert len(fits_of(columns, square)) == 2
    objective = objective_of(columns, square)
    beta = np.where(np.arange(columns.shape[1]) == 2, 0.9, 0.0)
    rng = np.random.RandomState(0)
    assert _joint_contest._explains_more(objective, beta, np.zeros(len(beta)), rng)


def test_what_lines_explain_whole_needs_no_kernel():
    columns, _ = drawn(lines)
    assert len(fits_of(columns, columns[:, 0] - 2.0 * columns[:, 1])) == 1


def test_targets_and_weights_count():
    columns, y = drawn(lines)
    square = columns[:, [2]] ** 2
    Y = np.concatenate([y[:, None], square], axis=1)
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    kernel = objective_of(columns, y).kernel
    for targets, count in ((Y, 2), (Y[:, [0, 0]], 1)):
        objective = DenseSelection(kernel, columns, targets, 0.01)
        fits, _ = competing_fits(ALGORITHM, objective, P, rng=np.random.RandomState(0))
        assert len(fits) == count
    line = np.where(np.arange(200)[:, None] < 100, square, Y[:, [0]])
    for heavy, count in ((slice(0, 100), 2), (slice(100, 200), 1)):
        weights = np.full((200, 1), 1e-6)
        weights[heavy] = 1.0
        centred = line - np.sum(weights * line) / weights.sum()
        objective = DenseSelection(kernel, columns, centred, 0.01, weights)
        fits, _ = competing_fits(ALGORITHM, objective, P, rng=np.random.RandomState(0))
        assert len(fits) == count


@pytest.mark.parametrize(("signal", "count"), [(lines, 1), (hierarchy, 2)])
def test_the_factored_form_agrees(signal, count):
    columns, y = drawn(signal)
    assert len(fits_of(columns, y, form=FactoredSelection, m=80)) == count


def test_an_interruption_ends_it(monkeypatch):
    columns, y = drawn(lines)
    stopped = np.zeros((COPIES + 1, P)), Status.INTERRUPTED
    monkeypatch.setattr(_joint_contest, "competing_weights", lambda *_, **__: stopped)
    objective = objective_of(columns, y)
    fits, status = competing_fits(ALGORITHM, objective, P, rng=np.random.RandomState(0))
    assert (len(fits), status) == (1, Status.INTERRUPTED)


def test_it_is_the_same_everywhere(on):
    for signal in (lines, hierarchy):
        columns, y = drawn(signal)
        columns, y = on.rounded(columns), on.rounded(y)
        expected, actual = fits_of(columns, y), fits_of(columns, y, on=on)
        assert len(actual) == len(expected)
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-3 if on.eps > 1e-10 else 1e-6)
