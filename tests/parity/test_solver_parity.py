"""Conjugate gradients for several right-hand sides take the same steps on every place."""

import numpy as np
import pytest
from agreement import assert_agrees
from drawn import LAYOUTS, examples
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.core._results import Status
from gpukfl.linalg import CholeskyFactor, add_to_diagonal
from gpukfl.solvers import ConjugateGradient, NystromPreconditioner


@st.composite
def systems(draw):
    """Roots G (n, n) of positive definite matrices, right-hand sides (n, t), and a layout."""
    n, t = draw(st.integers(1, 15)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    G, b = rng.standard_normal((n, n)) / n**0.5, rng.standard_normal((n, t))
    if draw(st.booleans()):
        b[:, 0] = 0.0  # solved at once, while the others go on
    return G, b, draw(st.sampled_from(LAYOUTS))


@pytest.mark.parametrize("preconditioned", [False, True])
@given(systems(), st.integers(1, 4), st.booleans())
@examples(15)
def test_iterates_of_conjugate_gradients(on, preconditioned, drawn, steps, started):
    G, b, layout = drawn

    def call(G, b, start):
        A = add_to_diagonal(G @ G.T, 1.0)
        inverse = CholeskyFactor.factor(A + G @ G.T).solve if preconditioned else None
        solver = ConjugateGradient(rtol=0.0, max_iter=steps, check_every=2)
        found = solver.solve(lambda V: A @ V, b, start=start, precondition=inverse)
        assert found.n_iter <= steps
        return found.x, found.residual

    # Rounding of a step is that of the first direction times the condition of the matrix
    start = 0.5 * b[:, ::-1] if started else None
    steps = min(steps, len(G))
    assert_agrees(on, call, G, b, start, layout=layout, ulps=2e3, scale=1.0)


@given(systems(), st.booleans())
@examples(15)
def test_solutions_of_conjugate_gradients(on, drawn, sketched):
    G, b, layout = drawn
    rtol = 1e3 * on.eps

    def call(G, b):
        def product(V):
            return G @ (G.T @ V)

        inverse = None
        if sketched:
            rng = np.random.RandomState(0)
            inverse = NystromPreconditioner.from_operator(product, b, shift=1.0, rank=3, rng=rng)
        solver = ConjugateGradient(rtol=rtol, max_iter=500)
        found = solver.solve(lambda V: product(V) + V, b, precondition=inverse)
        assert found.status is Status.CONVERGED
        return found.x

    condition = 1.0 + np.linalg.norm(G, 2) ** 2
    assert_agrees(on, call, G, b, layout=layout, ulps=2e3 * condition, scale=1.0)
