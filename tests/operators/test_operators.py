"""The laws that every operator obeys, on every place."""

import pathlib
import subprocess
import sys

import numpy as np
import oracles
import pytest
from registry import KERNELS, OPERATORS, Problem

import gpukfl
from gpukfl.operators import center

SOURCE = pathlib.Path(gpukfl.__file__).parents[1]
operators = pytest.mark.parametrize("case", OPERATORS, ids=str)
exact = pytest.mark.parametrize("case", [c for c in OPERATORS if c.dense], ids=str)
learning = pytest.mark.parametrize("case", [k for k in KERNELS if k.learns], ids=str)


def product(on, operator, V):
    """Centred host product: constants in each column are arbitrary."""
    return oracles.centered(on.host(operator @ on.put(V)).astype(np.float64))


def scale_of(p, V):
    """What rounding errors of products are relative to."""
    return np.max(np.abs(p.X)) * max(1.0, np.max(np.abs(p.W))) * np.sum(np.abs(V)) * 4


@pytest.mark.each
@operators
def test_product_is_that_of_its_dense_matrix(on, rng, case):
    p = Problem.draw(on, rng)
    operator = case.build(on, p)
    dense = operator.dense(on.reference)
    V = oracles.zero_sum(rng, len(p.X), 3)
    expected = oracles.centered(on.host(dense).astype(np.float64) @ V)
    several = product(on, operator, V)
    assert np.max(np.abs(several - expected)) <= 10 * on.eps * scale_of(p, V)
    alone = oracles.centered(on.host(operator @ on.put(V[:, 0]))[:, None])
    assert np.max(np.abs(alone[:, 0] - several[:, 0])) <= 10 * on.eps * scale_of(p, V)


@pytest.mark.each
@operators
def test_dense_matrix_lies_beside_its_reference(on, rng, case):
    dense = case.build(on, Problem.draw(on, rng)).dense(on.reference)
    on.assert_lives_here(dense)
    assert dense.shape == (60, 60)


@pytest.mark.pairs
@exact
@pytest.mark.parametrize("tied", [False, True])
def test_product_is_that_of_the_formula(on, rng, case, tied):
    for n in (1, 2, 60):
        p = Problem.draw(on, rng, tied=tied).taken(slice(n))
        V = oracles.zero_sum(rng, n, 2)
        expected = oracles.centered(case.dense(p) @ V)
        error = np.max(np.abs(product(on, case.build(on, p), V) - expected))
        assert error <= 10 * on.eps * scale_of(p, V)


@exact
def test_product_is_exact_to_eleven_digits(on_double, rng, case):
    p = Problem.draw(on_double, rng, n=400)
    V = oracles.zero_sum(rng, 400, 2)
    expected = oracles.centered(case.dense(p) @ V)
    actual = product(on_double, case.build(on_double, p), V)
    assert np.max(np.abs(actual - expected)) <= 1e-11 * np.max(np.abs(expected))


@pytest.mark.each
@operators
def test_operator_is_symmetric_and_positive_semidefinite_on_centred_vectors(on, rng, case):
    p = Problem.draw(on, rng, tied=True)
    V = oracles.zero_sum(rng, len(p.X), len(p.X) - 1)
    form = V.T @ product(on, case.build(on, p), V)
    slack = 10 * on.eps * scale_of(p, V) * np.max(np.abs(V))
    assert np.max(np.abs(form - form.T)) <= slack
    # Binned positions, in fixed point, are the same on both sides: no more slack is needed
    assert np.min(np.linalg.eigvalsh(form + form.T)) >= -slack


@pytest.mark.each
@operators
def test_permuting_samples_permutes_products(on, rng, case):
    p = Problem.draw(on, rng)
    V = oracles.zero_sum(rng, len(p.X), 2)
    order = rng.permutation(len(p.X))
    whole = product(on, case.build(on, p), V)
    permuted = product(on, case.build(on, p.taken(order)), V[order])
    # Projections may round otherwise, and with them the positions among knots
    slack = 100 * on.eps + (1e-7 if "binned" in case.name else 0.0)
    assert np.max(np.abs(permuted - whole[order])) <= slack * scale_of(p, V)


@pytest.mark.each
@operators
def test_small_memory_changes_no_product(on, rng, case):
    p = Problem.draw(on, rng)
    V = oracles.zero_sum(rng, len(p.X), 2)
    whole = product(on, case.build(on, p), V)
    with gpukfl.memory_budget(2000):
        pieces = product(on, case.build(on, p), V)
    slack = 10 * on.eps + (1e-7 if "binned" in case.name else 0.0)
    assert np.max(np.abs(pieces - whole)) <= slack * scale_of(p, V)


@pytest.mark.each
@operators
def test_wrong_shapes_are_named(on, rng, case):
    operator = case.build(on, Problem.draw(on, rng))
    assert operator.shape == (60, 60)
    for shape in ((59,), (59, 2), (60, 2, 1), ()):
        with pytest.raises(ValueError, match=r"expected \(60,\) or \(60, t\), got") as caught:
            operator @ on.put(np.ones(shape))
        assert str(shape) in str(caught.value)


@pytest.mark.each
@operators
def test_inputs_are_left_alone(on, rng, case):
    p = Problem.draw(on, rng)
    given = []

    class Recorder:
        reference = on.reference

        def put(self, a):
            given.append((on.put(a), np.array(a)))
            return given[-1][0]

    recorder = Recorder()
    operator = case.build(recorder, p)
    V = recorder.put(oracles.zero_sum(rng, len(p.X), 2))
    operator @ V
    operator.dense(on.reference)
    for placed, host in given:
        on.assert_close(placed, host, ulps=0)


@learning
def test_products_and_gradients_keep_place(on, rng, case):
    p = Problem.draw(on, rng)
    V = on.put(oracles.zero_sum(rng, len(p.X), 2))
    kernel = case.build(on, p)
    on.assert_lives_here(kernel @ V, "float64")
    on.assert_lives_here(kernel.quadratic_gradient(V))
    positions, values = kernel.curves(V)
    assert tuple(values.shape) == (*positions.shape, 2)
    on.assert_lives_here(values, "float64")


@pytest.mark.parametrize("weighted", [False, True])
def test_centring_is_a_projection_orthogonal_to_the_roots(on, rng, weighted):
    s = on.rounded(rng.uniform(0.5, 2.0, (40, 1)))
    V = on.rounded(rng.standard_normal((40, 3)))
    root = on.put(s) if weighted else None
    expected = oracles.centered(V, s if weighted else None)
    once = center(on.put(V), root)
    on.assert_close(once, expected, ulps=10)
    on.assert_close(center(once, root), expected, ulps=10)
    root = on.put(s if weighted else np.ones((40, 1)))
    on.assert_close(center(root, root if weighted else None), np.zeros((40, 1)), ulps=10)


NOT_FINITE = """
import sys
import numpy as np
from gpukfl.partitioned._rows import Rows
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
X = np.random.default_rng(0).standard_normal((50, 3))
v = np.ones((50, 1)) * np.array([1.0, -1.0] * 25)[:, None]
for value in ("nan", "inf"):
    W = np.full((3, 2), float(value))
    if sys.argv[1] == "binned":
        kernel = BinnedBrownianKernel.build(Rows(X, X[:0]), W, n_knots=16)
    else:
        kernel = BrownianKernel.build(X, W)
    with np.errstate(all="ignore"):
        print(np.isfinite(kernel @ v).all(), np.isfinite(kernel.quadratic_gradient(v)).all())
"""


@learning
def test_particles_that_are_not_finite_show_and_neither_hang_nor_crash(case):
    command = [sys.executable, "-W", "ignore", "-c", NOT_FINITE, case.name]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=20, check=True, cwd=SOURCE
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["False", "False"]
