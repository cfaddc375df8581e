"""What an iteration of each method costs on CuPy is at most what its docstring says.

Counted are launches, waits for the device, uploads, the bytes that these copy and those that
launches read and write, by the difference of a longer and a shorter run. Where a budget is exceeded
something has been added to the loop: look there, by ``counted(sites=True)``, before the budget is
raised.
"""

from __future__ import annotations

import re
import warnings

import cupy
import numpy as np
import pytest
from cupy._counts import counted

import gpukfl
from gpukfl.kernels import Gaussian, ManhattanLaplace
from gpukfl.linalg import _factor, eigh
from gpukfl.methods import (
    DenseSelection,
    DenseSystem,
    ExactCriterion,
    FeatureSelection,
    NystromSystem,
    RegFeaL,
    Reweighting,
    RidgeSystem,
    fit_bkernn,
    fit_hkrr,
    permutation_threshold,
)
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel, CenteredKernel, KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS, ConjugateGradient, ProjectedGradient, ProximalGradient

BUDGET = re.compile(
    r"Budget on a GPU, an iteration: ([\d.]+) launches, ([\d.]+) waits, ([\d.]+) uploads of "
    r"([\d.]+) kB, ([\d.]+) MB read and written"
)
RIDGES = [float(ridge) for ridge in np.geomspace(1e-9, 1e2, 34)]
UNITS = np.array([1.0, 1.0, 1.0, 1e-3, 1e-6])


def budget(function):
    """Launches, waits, uploads and their kB, and MB moved, that a docstring allows."""
    found = BUDGET.search(" ".join(function.__doc__.split()))
    assert found, f"{function.__name__} has no budget"
    return np.array([float(number) for number in found.groups()])


def cost(run, short, long):
    """What an iteration takes of what `budget` counts."""
    spent = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # neither run converges
        for steps in (short, short, long):  # the first compiles the kernels
            with counted() as counts:
                done = run(steps)
            costs = counts.launches, counts.waits, counts.uploads, counts.uploaded, counts.moved
            spent.append([*costs, done or steps])
    *costs, steps = np.subtract(spent[2], spent[1])
    return np.array(costs) * UNITS / steps


def assert_within(run, short, long, function, of=0.7):
    allowed, got = budget(function), cost(run, short, long)
    assert np.all(got <= allowed), f"{got} an iteration, allowed are {allowed}"
    too_high = (got < of * allowed) & (got < allowed - 1.0)
    assert not too_high.any(), f"{got} an iteration: lower the budget of {allowed}"


def data(rng, n, d):
    X = rng.standard_normal((n, d))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("is_binned", [False, True])
def test_conjugate_gradients(rng, is_binned):
    X, Y, W = (cupy.asarray(rng.standard_normal(shape)) for shape in ((4000, 5), (4000, 1), (5, 8)))
    rows = Rows(X, X[:0, :])
    kernel = (
        BinnedBrownianKernel.build(rows, W, n_knots=64) if is_binned else BrownianKernel.build(X, W)
    )
    A = CenteredKernel(kernel, shift=0.1)
    target = RidgeSystem(Y, 1.0).target

    def run(steps):
        ConjugateGradient(rtol=0.0, max_iter=steps, check_every=10).solve(lambda V: A @ V, target)

    # The second is allowed as much, and reads and writes less
    assert_within(run, 11, 21, ConjugateGradient.solve, of=0.4 if is_binned else 0.7)


@pytest.mark.parametrize("knots", [None, 64])
def test_bkernn(rng, knots):
    X, y = data(rng, 3200, 6)

    def run(steps):
        optimizer = ProximalGradient(max_iter=steps, tol=0.0)
        settings = dict(knots=knots, ridge=1e-3, random_state=0, backend="cupy")
        model = gpukfl.BKerNNRegressor(50, optimizer=optimizer, **settings).fit(X, y)
        return len(model.history_.objective)

    assert_within(run, 4, 6, fit_bkernn, of=0.5)


def test_hkrr(rng):
    X, y = data(rng, 1000, 6)

    def run(steps):
        settings = dict(kernel="gaussian", ridge=1e-4, lengthscale=1.0, n_centers=50)
        optimizer = LBFGS(max_iter=steps, tol=0.0)
        gpukfl.HKRRRegressor(
            2, **settings, optimizer=optimizer, random_state=0, backend="cupy"
        ).fit(X, y)

    assert_within(run, 4, 8, fit_hkrr)


def test_regfeal(rng):
    X, y = data(rng, 500, 6)

    def run(steps):
        settings = dict(retrain=None, ridge=1e-2, strength=0.5, random_state=0, backend="cupy")
        gpukfl.RegFeaLRegressor(200, optimizer=Reweighting(steps), **settings).fit(X, y)

    assert_within(run, 1, 3, RegFeaL.run)


def test_selection(rng):
    X, y = data(rng, 400, 6)

    def run(steps):
        optimizer = ProjectedGradient(max_iter=steps, tol=0.0)
        settings = dict(sparsity=1e-4, n_centers=60, random_state=0, backend="cupy")
        gpukfl.KernelFeatureSelector(optimizer=optimizer, **settings).fit(X, y)

    assert_within(run, 4, 11, FeatureSelection.select)


def test_orders_of_a_threshold_are_read_together(rng):
    X, y = data(rng, 200, 6)
    objective = DenseSelection(ManhattanLaplace(), cupy.asarray(X), cupy.asarray(y[:, None]), 0.1)
    point, columns = objective.evaluate(np.zeros(6)), np.arange(6)
    objective.gradient(point, columns)  # sorts
    settings = dict(n_permutations=64, rng=np.random.RandomState(0))
    with counted() as counts:
        permutation_threshold(objective, point, columns, **settings)
    assert (counts.waits, counts.launches <= 2 * 12) == (2, True)


@pytest.fixture
def many(monkeypatch):
    """As if the samples, or the centres, were too many for a spectrum on the host."""
    monkeypatch.setattr(_factor, "_SMALL", 0)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("of_centers", "waits"), [(False, 2), (True, 3)])
def test_all_ridges_of_a_fold_are_read_together(rng, of_centers, waits):
    X, y = map(cupy.asarray, data(rng, 400, 3))
    kernel, rows, Y = Gaussian(1.0), Rows(X, X[:0, 0]), y[:, None]
    held = [np.arange(0, 100), np.arange(100, 200)], RIDGES
    if of_centers:
        system = NystromSystem.from_rows(KernelOperator(kernel, rows, X[:150, :]), Y, None)
        held = (Y, None, *held)
    else:
        system = DenseSystem.from_kernel(kernel(X, X), Y, None)
    with counted() as counts:
        system.held_out(*held)
    assert counts.waits == waits


@pytest.mark.usefixtures("many")
def test_ridges_on_centers_are_read_together(rng):
    X, y = map(cupy.asarray, data(rng, 400, 3))
    operator = KernelOperator(Gaussian(1.0), Rows(X, X[:0, 0]), X[:150, :])
    system = NystromSystem.from_rows(operator, y[:, None], None)
    for path, *given in ((system.path,), (system.leave_one_out, y[:, None], None)):
        with counted() as counts:
            path(*given, RIDGES)
        assert counts.waits <= 3  # for a factor, for eigenvalues, for the scores


@pytest.mark.parametrize(
    ("model", "launches", "waits"),
    [
        (gpukfl.KernelFeatureSelector(), 3940, 103),
        (gpukfl.RegFeaLRegressor(optimizer=Reweighting(3)), 6060, 233),
        (gpukfl.HKRRRegressor(), 17_250, 550),
    ],
)
def test_whole_fits_with_all_that_is_chosen(rng, model, launches, waits):
    X = rng.standard_normal((400, 6))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(400)
    for _ in range(2):  # the first compiles the kernels, and tests them
        with warnings.catch_warnings(), counted() as counts:
            warnings.simplefilter("ignore")
            model.set_params(random_state=0, backend="cupy").fit(X, y)
    assert counts.launches <= launches, counts
    assert counts.waits <= waits, counts


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_a_criterion_with_its_gradient_is_waited_for_once(rng, criterion):
    X, y = map(cupy.asarray, data(rng, 150, 3))
    of_map = ExactCriterion(Gaussian(1.0), X, y[:, None], criterion=criterion)
    with counted() as counts:
        of_map(cupy.ones(3), 0.1)
    assert counts.waits == 1


@pytest.mark.parametrize("rows", [100, 150])
def test_eigenvalues_are_waited_for_once(rng, rows):
    A = cupy.asarray(np.cov(rng.standard_normal((rows, 600))))
    with counted() as counts:
        eigh(A)
    assert counts.waits == 1
    assert (counts.launches == 0) is (rows <= 128)  # a few rows on the host


def test_a_spectrum_with_all_that_follows_is_one_transfer(rng):
    X, y = map(cupy.asarray, data(rng, 120, 3))
    w = cupy.asarray(rng.uniform(0.0, 1.0, (120, 1)))
    system = DenseSystem.from_kernel(Gaussian(1.0)(X, X), y[:, None], w)
    held = [np.arange(40), np.arange(40, 80)]
    with counted() as counts:
        near = system.near_spectrum()
        path = near.leave_one_out(RIDGES)
        folds = near.held_out(held, RIDGES)
        alpha, *_ = near.solve(1e-3)
        predicted = near.left_out(1e-3)
    assert (counts.waits, counts.uploads, counts.launches <= 10) == (1, 2, True)
    np.testing.assert_allclose(path.scores, system.leave_one_out(RIDGES).scores, rtol=1e-8)
    np.testing.assert_allclose(folds.scores, system.held_out(held, RIDGES).scores, rtol=1e-8)
    for found, expected in (alpha, system.solve(1e-3)[0]), (predicted, system.left_out(1e-3)):
        np.testing.assert_allclose(found.get(), expected.get(), rtol=1e-6)
