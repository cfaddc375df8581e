"""Numba compiles a twin once, for arrays that may be written to and for those that may not."""

import numpy as np
import pytest

from gpukfl._accel import cpu, cpu_bins, cpu_decay, cpu_differences, cpu_distances

RNG = np.random.default_rng(0)
X, Z, Q = RNG.normal(size=(9, 3)), RNG.normal(size=(7, 3)), RNG.normal(size=(9, 7))
VALUES, ORDER = cpu.sort_rows(X.T)
KNOTS, CURVES = np.sort(RNG.normal(size=(3, 5))), RNG.normal(size=(3, 5))
CODES = cpu_bins.encode(X.T, np.full(3, -3.0), np.full(3, 1.0), 8, 4)
TWINS = [
    (cpu.ridge_sums, cpu._ridge_sums, (VALUES, ORDER, X[:, :1])),
    (cpu.ridge_curves, cpu._ridge_curves, (VALUES, ORDER, X)),
    (cpu.sign_products, cpu._add_sign_products, (VALUES, ORDER, X[:, :1])),
    (cpu.absolute_differences, cpu._upper_differences, (X.T.copy(),)),
    (cpu.interpolate_knots, cpu._interpolate_knots, (X.T.copy(), KNOTS, CURVES[:, :, None])),
    (cpu.interpolate_columns, cpu._interpolate_columns, (X, KNOTS, CURVES)),
    (cpu.keep_knots, cpu._keep_knots, (KNOTS, CURVES[:, :, None], 0.1)),
    (cpu.sort_rows, cpu._pack, (X.T.copy(),)),
    (cpu_bins.encode, cpu_bins._encode, (X.T.copy(), np.full(3, -3.0), np.full(3, 1.0), 8, 4)),
    (cpu_bins.rescale, cpu_bins._rescale, (CODES, 0.5, 8, 3)),
    (cpu_bins.interpolate_bins, cpu_bins._interpolate_bins, (CODES, 4, RNG.normal(size=(3, 8, 1)))),
    (cpu_bins.pair_sums, cpu_bins._pair_sums, (CODES, 4, 8, np.ones((9, 1)), 3)),
    (cpu_bins.bin_sums, cpu_bins._bin_sums, (CODES, 4, 8, X)),
    (cpu_bins.bin_products, cpu_bins._bin_products, (CODES, 4, RNG.normal(size=(3, 8, 3)), X)),
    (cpu_differences.difference_sums, cpu_differences._difference_sums, (Q.T @ Q, Z)),
    (
        cpu_differences.factored_difference_sums,
        cpu_differences._add_factored_sums,
        (X, *cpu_differences.sort_columns(X)),
    ),
    (cpu_decay.decay, cpu_decay._decay, (abs(X), (1.0, 1.0), 3.0, True)),
    (cpu_distances.squares_of_few, cpu_distances._fill_few_rows, (X[:2], Z)),
    (cpu_distances.sign_sums, cpu_distances._sign_sums, (Q, X, Z)),
    (cpu_distances.power_sums, cpu_distances._power_sums, (Q, X, Z, 1.5)),
    (cpu_distances.distances, cpu_distances._fill_few_rows, (X[:2], Z, "manhattan")),
]


def read_only(given):
    if not isinstance(given, np.ndarray):
        return given
    copied = given.copy()
    copied.flags.writeable = False
    return copied


def name(one):
    return getattr(one, "__name__", "")


@pytest.mark.parametrize(("twin", "compiled", "args"), TWINS, ids=name)
def test_it_is_compiled_once_and_writes_nothing(twin, compiled, args):
    frozen = tuple(map(read_only, args))
    expected = twin(*frozen)
    known = len(compiled.signatures)
    given = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in args)
    np.testing.assert_array_equal(twin(*given), expected)
    assert len(compiled.signatures) == known > 0
    for one, before in zip(given, args, strict=True):
        np.testing.assert_array_equal(one, before)
