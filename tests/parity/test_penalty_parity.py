"""Penalties and their proximal operators are the same on every place."""

import numpy as np
from agreement import assert_agrees
from drawn import LAYOUTS, examples, of_numpy_numbers, spoiled, with_each
from hypothesis import given
from hypothesis import strategies as st
from registry import PENALTIES

from gpukfl.linalg import map_singular_values
from gpukfl.penalties import ConcaveFeature, Feature

FLAWS = ("none", "constant column", "repeated columns", "repeated rows", "zero rows", "zero")


@st.composite
def particles(draw):
    """Matrices that are wide, square and tall, of any rank: W (d, m), and a layout."""
    d, m = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    flaw, seed = draw(st.sampled_from(FLAWS)), draw(st.integers(0, 2**32 - 1))
    W = spoiled(np.random.default_rng(seed).standard_normal((d, m)), flaw)
    if "zero" in flaw:
        W[:: 1 if flaw == "zero" else 2] = 0.0
    return W, draw(st.sampled_from(LAYOUTS))


def root(on):
    """Units of the precision in the root of that of float64, which singular values near 0 have."""
    return np.finfo(np.float64).eps ** 0.5 / on.eps


# Shares of the largest column, row or singular value: nothing is left, all is left, some is
strengths = st.sampled_from([0.0, 1e-3, 0.1, 0.5, 0.9, 2.0])
ORDINARY = np.random.default_rng(0).standard_normal((3, 8)), "columns"


@with_each(PENALTIES, ORDINARY, 0.5)
@given(st.sampled_from(PENALTIES), particles(), strengths)
@examples(40)
def test_values_and_proximal_operators(on, penalty, drawn, share):
    W, layout = drawn
    strength = 2.0 * share * W.shape[1] ** 0.5 * np.linalg.norm(W, 2)  # a number of NumPy
    penalty = of_numpy_numbers(penalty)
    assert_agrees(on, lambda W: penalty.prox(W, strength), W, layout=layout)
    by_singular_values = isinstance(penalty, Feature | ConcaveFeature)
    assert_agrees(on, penalty.value, W, layout=layout, ulps=100 + by_singular_values * root(on))


@given(particles(), strengths)
@examples(30)
def test_maps_of_singular_values(on, drawn, share):
    W, layout = drawn
    cut = float(share * np.linalg.norm(W, 2))

    def call(W):
        mapped, s = map_singular_values(W, lambda s: s * s / (s + cut) if cut else s)
        return mapped, s * s

    assert_agrees(on, call, W, layout=layout)
