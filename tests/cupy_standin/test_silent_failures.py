"""What CuPy gets wrong without a word: the stand-in does too, or stops. Files are CuPy 14.2.0's."""

import cupy
import cupyx
import numpy as np
import pytest
from cupyx.scipy.linalg import solve_triangular

INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]
NAN = [[1.0, np.nan], [np.nan, 1.0]]


# cupy/linalg/_util.py, _check_cusolver_dev_info_if_synchronization_allowed; cupyx/_ufunc_config.py
def test_a_factor_of_an_indefinite_matrix_is_finite_rubbish():
    L = cupy.linalg.cholesky(cupy.asarray(INDEFINITE))
    assert np.all(np.isfinite(L.get()))
    assert not np.allclose((L @ L.T).get(), INDEFINITE)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "svd"])
def test_eigenvalues_and_singular_values_of_nan_are_nan(name):
    found = getattr(cupy.linalg, name)(cupy.asarray(NAN))
    for part in found if isinstance(found, tuple) else (found,):
        assert np.all(np.isnan(part.get()))


@pytest.mark.parametrize(
    ("name", "matrix"),
    [("cholesky", INDEFINITE), ("eigh", NAN), ("eigvalsh", NAN), ("svd", NAN)],
)
def test_they_are_errors_only_where_that_is_asked_for(name, matrix):
    assert cupyx.geterr()["linalg"] == "ignore"
    with (
        cupyx.errstate(linalg="raise"),
        pytest.raises(np.linalg.LinAlgError, match="reported by"),
    ):
        getattr(cupy.linalg, name)(cupy.asarray(matrix))
    assert cupyx.geterr()["linalg"] == "ignore"


def test_a_singular_matrix_is_solved_with():
    x = cupy.linalg.solve(cupy.ones((2, 2)), cupy.ones((2, 1)))
    assert not np.any(np.isfinite(x.get()))


# cupyx/scipy/linalg/_solve_triangular.py calls trsm, which looks at nothing
def test_a_triangle_with_a_zero_on_its_diagonal_is_solved_with():
    L = cupy.asarray([[1.0, 0.0], [1.0, 0.0]])
    assert not np.all(np.isfinite(solve_triangular(L, cupy.ones((2, 1)), lower=True).get()))


# cupy/_core/core.pyx, empty: what was there before
def test_memory_that_was_not_written_is_poison():
    assert np.all(np.isnan(cupy.empty(5).get()))
    assert np.all(cupy.empty(5, dtype="int32").get() == -1)


# cupy/_core/_routines_indexing.pyx, _take: indices wrap around; no algorithm may rely on it
@pytest.mark.parametrize("index", [[5], [-6]])
def test_indices_out_of_range_stop_the_test(index):
    with pytest.raises(AssertionError, match="wrap"):
        cupy.take(cupy.arange(5), cupy.asarray(index))


# cupy/_core/_kernel.pyx: division by zero, overflow and NaN raise no warning
def test_no_arithmetic_warns():
    with np.errstate(all="raise"):
        x = cupy.asarray([0.0, 1e308])
        assert not np.any(np.isfinite((1.0 / x[:1]).get()))
        assert not np.any(np.isfinite((10.0 * x[1:]).get()))


# array_api_compat/common/_aliases.py, clip and sign: assignments by masks, each of which waits
def test_clip_of_the_compatibility_layer_waits():
    import array_api_compat.cupy as xp
    from cupy._counts import counted

    with counted() as counts:
        xp.clip(cupy.zeros(3), 0.0, 1.0)
    assert counts.waits >= 2
