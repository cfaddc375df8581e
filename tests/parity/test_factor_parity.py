"""Factorisations are the same on every place, up to signs and rotations that none decides."""

import numpy as np
import pytest
from agreement import assert_agrees
from drawn import LAYOUTS, examples, lay
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.linalg import (
    CholeskyFactor,
    add_to_diagonal,
    eigh,
    eigh_and_measure,
    eigvalsh,
    mean_diagonal,
    orthonormal_range,
    solve_and_measure,
    svd,
)


@st.composite
def matrices(draw, *, definite=True):
    """Symmetric matrices (n, n) of some condition, right-hand sides (n, t), and a layout."""
    n, t = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    condition = draw(st.sampled_from([1.0, 30.0, 1e3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    s = np.geomspace(1.0, 1.0 / condition, n)
    if not definite:
        s = s * rng.choice([-1.0, 0.0, 1.0], n)
    A = (Q * s) @ Q.T
    return (A + A.T) / 2, rng.standard_normal((n, t)), draw(st.sampled_from(LAYOUTS)), condition


@given(matrices())
@examples(25)
def test_cholesky_factors(on, drawn):
    A, b, layout, condition = drawn

    def call(A, b):
        factor = CholeskyFactor.factor(A)
        symmetric = b @ b.T
        return (
            factor.L,
            factor.solve(b),
            factor.inverse(),
            factor.whiten(symmetric),
            factor.unwhiten(symmetric),
            factor.solve_lower(b),
            factor.solve_upper(b),
            mean_diagonal(A),
            *solve_and_measure(A + 0.0, b, lambda x: (x * x)[:, 0]),
        )

    def symmetric(A, b):
        return call((A + A.T) / 2, b)

    dtypes = [None] * 9 + ["host"]
    assert_agrees(on, symmetric, A, b, layout=layout, ulps=10 + condition, dtypes=dtypes)


@given(matrices(definite=False))
@examples(20)
def test_spectra(on, drawn):
    A, _, layout, _ = drawn

    def call(A):
        A = (A + A.T) / 2
        s, Q = eigh(A)
        _, _, read = eigh_and_measure(A, lambda s, _: s * s)
        return s, eigvalsh(A), (Q * s[None, :]) @ Q.T, Q.T @ Q, read

    dtypes = [None] * 4 + ["host"]
    assert_agrees(on, call, A, layout=layout, scale=1.0, dtypes=dtypes)


@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 2**32 - 1), st.sampled_from(LAYOUTS))
@examples(20)
def test_singular_values_and_bases(on, n, m, seed, layout):
    A = np.random.default_rng(seed).standard_normal((max(n, m), min(n, m)))

    def call(A):
        U, s, Vt = svd(A)
        basis = orthonormal_range(A)
        shifted = add_to_diagonal(A.T @ A, 0.5)
        return s, (U * s[None, :]) @ Vt, U @ U.T, Vt @ Vt.T, basis @ basis.T, shifted

    assert_agrees(on, call, A, layout=layout, ulps=1e3, scale=1.0)


@given(matrices(definite=False))
@examples(10)
def test_what_has_no_factor_has_none_anywhere(on, drawn):
    A, _, layout, _ = drawn
    A = A - (np.linalg.eigvalsh(A)[0] + 0.1) * np.eye(len(A))
    with pytest.raises(np.linalg.LinAlgError):
        CholeskyFactor.factor(lay(on, on.rounded(A), layout))


@pytest.mark.parametrize(
    "function", [eigh, eigvalsh, svd, orthonormal_range, CholeskyFactor.factor]
)
@given(st.integers(1, 5), st.sampled_from([np.nan, np.inf]), st.sampled_from(LAYOUTS))
@examples(5)
def test_what_is_not_finite_is_refused_everywhere(on, function, n, value, layout):
    A = np.eye(n)
    A[-1, -1] = value
    with pytest.raises(np.linalg.LinAlgError):
        function(lay(on, A, layout))
