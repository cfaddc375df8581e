"""Checks of a GPU: primitives and library functions, compared with the host."""

from __future__ import annotations

import functools
import importlib.resources
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpukfl._accel import (
    cuda,
    cuda_differences,
    cuda_distances,
    cuda_hermite,
    cuda_knots,
    cuda_vectors,
)
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    like,
    sample_dot,
    to_host,
)
from gpukfl.core._memory import is_out_of_memory
from gpukfl.linalg import (
    CholeskyFactor,
    _bins,
    _difference_sums,
    _distances,
    _hermite,
    _knots,
    _ridge_sums,
    _steps,
    eigh,
    eigvalsh,
    erf,
    orthonormal_range,
    svd,
)

# ------------------------------------------------------------------------------- libraries

# What CuPy's own functions must compute right: products, sums, factorisations, solves.


_SIZE, _ROWS = 60, 3000
_OF_SPECTRUM = 600  # rows of a matrix whose eigenvalues a GPU finds, and not the host


@dataclass(frozen=True)
class Operation:
    """A function of CuPy, and its expected results.

    Its arguments are A (n, n), positive definite, and B (rows, n), where they live.
    """

    name: str
    run: Callable[[Any, Any], Array]
    expected: Callable[[np.ndarray, np.ndarray], np.ndarray]  # of host arrays in float64
    rounding: float  # allowed units of the last place of the largest value


def draw_inputs(dtype: str, /) -> tuple[np.ndarray, np.ndarray]:
    """Draw a well-conditioned matrix (n, n), and rows (rows, n)."""
    rng = np.random.RandomState(19)
    B = rng.standard_normal((_ROWS, _SIZE))
    A = B[:_SIZE].T @ B[:_SIZE] / _SIZE + np.eye(_SIZE)
    return A.astype(dtype), B.astype(dtype)


def _sums(_: Array, B: Array) -> Array:
    xp = array_namespace(B)
    return xp.sum(B * B, axis=0, dtype=xp.float64)


def _running_sums(_: Array, B: Array) -> Array:
    xp = array_namespace(B)
    return xp.cumulative_sum(B, axis=0, dtype=xp.float64)


def _reference_erf(_: np.ndarray, B: np.ndarray) -> np.ndarray:
    from scipy.special import erf as reference

    return reference(B)


def _large(B: Array) -> Array:
    """Return a positive definite matrix from rows."""
    xp, few = array_namespace(B), B[:_OF_SPECTRUM, :]
    return few @ few.T / _SIZE + xp.eye(_OF_SPECTRUM, **like(B))


def _rebuild_by_eigenvectors(_: Array, B: Array) -> Array:
    s, Q = eigh(_large(B))
    return (Q * s[None, :]) @ Q.T


def _reference_eigenvalues(_: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(to_host(_large(B)))


def _twice(B: Array) -> Array:
    return array_namespace(B).concat([B, B], axis=0)


def _rebuild_by_singular_values(_: Array, B: Array) -> Array:
    U, s, Vt = svd(_twice(B))
    return (U * s[None, :]) @ Vt


def _project_rows(_: Array, B: Array) -> Array:
    Q = orthonormal_range(B)
    return Q @ (Q.T @ B)


COPIES = Operation(
    "copies there and back", lambda _, B: asarray_like(to_host(B), B), lambda _, B: B, 0
)
OPERATIONS = (
    COPIES,
    Operation("product", lambda A, B: B @ A, lambda A, B: B @ A, 200),
    Operation("sums over samples", _sums, lambda _, B: np.sum(B * B, axis=0), 200),
    Operation("running sums", _running_sums, lambda _, B: np.cumsum(B, axis=0), 200),
    Operation("erf", lambda _, B: erf(B), _reference_erf, 8),
    Operation(
        "Cholesky solves",
        lambda A, B: CholeskyFactor.factor(A).solve(B[:5, :].T),
        lambda A, B: np.linalg.solve(A, B[:5].T),
        4000,
    ),
    Operation("eigenvectors", _rebuild_by_eigenvectors, lambda _, B: to_host(_large(B)), 2000),
    Operation("eigenvalues", lambda _, B: eigvalsh(_large(B)), _reference_eigenvalues, 2000),
    Operation(
        "singular values", _rebuild_by_singular_values, lambda _, B: to_host(_twice(B)), 2000
    ),
    Operation("QR", _project_rows, lambda _, B: B, 2000),
)


# ------------------------------------------------------------------------------ primitives

# The primitives that have CUDA kernels: the kernels, what else computes the same, and inputs.
#
# Inputs are drawn from streams that NumPy has frozen. Those called exact are multiples of 2^-6 and
# 2^-8 and so small that no sum or product of a kernel rounds: their results are defined to the
# last bit, whatever the order of the terms and however products and sums are fused.


N, M, T = 2100, 3, 2  # samples (two blocks of a scan), rows, columns of weights
_POINTS, _CENTERS, _FEATURES = 70, 280, 19  # several tiles, slices of sums and depths
_KNOTS, _MANY_KNOTS, _FEW_KNOTS = 65, 7000, 9  # in shared memory, beyond it, of pairs
DTYPES = ("float32", "float64")
_EVEN = 2048  # samples, of which a mean is exact
_OVER, _SHIFT = 4, 0.25  # divisors and factors that are exact
_COARSE = 8  # bits of a share that leave room for exact sums
_SIZES = 90, 60, 7  # products that have a first, a second and a third factor
_DEGREES = 2, 12  # up to which only the last operation rounds, and another

Arrays = tuple[Array, ...]
Inputs = tuple[Any, ...]  # host arrays, and numbers


@dataclass(frozen=True)
class Primitive:
    """A primitive in both forms, which return a tuple of arrays."""

    name: str  # of the function of `gpukfl.linalg`
    file: str  # of its kernels, without the ending
    draw: Callable[[np.random.RandomState, str, bool], Inputs]  # (rng, dtype, exact) -> inputs
    form: Callable[..., Arrays]  # array operations
    twin: Callable[..., Arrays]  # the kernels

    def inputs(self, dtype: str, /, *, exact: bool) -> Inputs:
        """Return the fixed random inputs."""
        return self.draw(np.random.RandomState(17), dtype, exact)


# ---------------------------------------------------------------------- inputs


def _numbers(
    rng: np.random.RandomState, shape: tuple[int, ...], dtype: str, exact: bool
) -> np.ndarray:
    drawn = rng.randint(-2048, 2049, shape) / 256.0 if exact else rng.standard_normal(shape)
    return drawn.astype(dtype)


def _weights(rng: np.random.RandomState, n: int, dtype: str, exact: bool) -> np.ndarray:
    """Draw columns (n, T) that sum to zero."""
    if not exact:
        V = rng.standard_normal((n, T))
        return (V - V.mean(axis=0)).astype(dtype)
    V = rng.randint(-64, 65, (n, T)) / 64.0
    V[-1] = -V[:-1].sum(axis=0)
    return V.astype(dtype)


def _rows_and_weights(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    A = _numbers(rng, (M, N), dtype, exact)
    A[0, : N // 2] = np.round(A[0, : N // 2])  # many ties
    return A, _weights(rng, N, dtype, exact)


def _projections(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    A = _numbers(rng, (M, N), dtype, exact)
    low = A.min(axis=1).astype(np.float64) + 0.25  # some lie beyond the knots
    return A, low, (A.max(axis=1) - 0.25 - low) / (_KNOTS - 1)


def _codes(rng: np.random.RandomState, n_knots: int, exact: bool) -> np.ndarray:
    high = (n_knots - 1 << _shift(n_knots, exact)) + 1
    return rng.randint(0, high, (M, N)).astype(np.int32)


def _shift(n_knots: int, exact: bool) -> int:
    return _COARSE if exact else 31 - (n_knots - 1).bit_length()


def _codes_and_weights(n_knots: int) -> Callable[..., Inputs]:
    def draw(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
        return _shift(n_knots, exact), _codes(rng, n_knots, exact), _weights(rng, N, dtype, exact)

    return draw


def _codes_and_values(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    shift, codes, Z = _codes_and_weights(_KNOTS)(rng, dtype, exact)
    return shift, codes, _numbers(rng, (M, _KNOTS, T), "float64", exact), Z


def _codes_weights_and_gaps(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    given = _codes_and_weights(_KNOTS)(rng, dtype, exact)
    return *given, np.array([0.25, 2.0, 1.0]) if exact else rng.uniform(0.5, 2.0, M)


def _few_codes(rng: np.random.RandomState, _: str, exact: bool) -> Inputs:  # noqa: ARG001
    return (_codes(rng, _FEW_KNOTS, True),)


def _points(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    shapes = (_POINTS, _FEATURES), (_CENTERS, _FEATURES), (_POINTS, _CENTERS)
    X, Z, Q = (_numbers(rng, shape, dtype, exact) for shape in shapes)
    Z[:3] = X[:3]  # signs of 0
    return X, Z, Q


def _points_and_weights(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    A = _numbers(rng, (_POINTS, _POINTS), "float64", exact)
    return A + A.T, _numbers(rng, (_POINTS, _FEATURES), dtype, exact)


def _factor_and_columns(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    """Draw a factor (N, T) of weights, and columns (N, M): their order, and gaps."""
    X = rng.randint(-512, 513, (N, M)) / 64.0 if exact else rng.standard_normal((N, M))
    order = np.argsort(X.astype(dtype), axis=0, kind="stable").T
    gaps = np.diff(np.sort(X.astype(dtype), axis=0), axis=0).T
    return _weights(rng, N, dtype, exact), order, gaps


def _points_and_knots(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    """Draw points (M, N), some beyond the knots (M, q), of which the last is repeated; values."""
    if exact:
        A, knots = rng.randint(-600, 601, (M, N)) / 64.0, np.tile(np.arange(_KNOTS) / 4.0, (M, 1))
        knots -= 8.0
    else:
        A, knots = rng.standard_normal((M, N)), np.sort(rng.standard_normal((M, _KNOTS)), axis=1)
    knots[:, -1] = knots[:, -2]
    return A.astype(dtype), knots.astype(dtype), _numbers(rng, (M, _KNOTS, T), "float64", exact)


def _vectors(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    """Draw four arrays (N, T), and three numbers for each column, some with exact quotients."""
    four = [_numbers(rng, (N, T), dtype, exact) for _ in range(4)]
    rz, curvature = np.array([0.5, 3.0]), np.array([4.0 if exact else 3.0, 0.0])
    return *four, rz, curvature, np.array([0.25, 1.0])


def _points_and_degree(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    return _numbers(rng, (_POINTS, _FEATURES), dtype, exact), _DEGREES[0 if exact else 1]


def _table_rows_and_scales(rng: np.random.RandomState, _: str, exact: bool) -> Inputs:
    """Draw a table (r, n), rows of which up to three are multiplied, and numbers."""
    rows = rng.randint(0, _FEATURES, (len(_SIZES), _SIZES[0]))
    for f, size in enumerate(_SIZES):
        rows[f, size:] = -1
    table = _numbers(rng, (_FEATURES, _POINTS), "float64", exact)
    return table, rows, _numbers(rng, _SIZES[:1], "float64", exact)


def _product_and_columns(rng: np.random.RandomState, dtype: str, exact: bool) -> Inputs:
    """Draw columns with exact means, and others."""
    product = _weights(rng, _EVEN, "float64", exact)
    return product + 0.5, _numbers(rng, (_EVEN, T), dtype, exact)


# ---------------------------------------------------------------------- both forms


def _sort_results(A: Array, values: Array, order: Array, rank: Array) -> Arrays:
    """Return the results that do not depend on the order of ties."""
    xp = array_namespace(A)
    order, rank = xp.astype(order, xp.int64), xp.astype(rank, xp.int64)
    return values, xp.take_along_axis(A, order, axis=1), xp.take_along_axis(order, rank, axis=1)


def _sort_form(A: Array, _: Array) -> Arrays:
    rows = _ridge_sums._sort_rows(A)
    assert rows.rank is not None
    return _sort_results(A, rows.values, rows.order, rows.rank)


def _make_positions(shift: int, codes: Array, n_knots: int) -> _bins.Positions:
    return _bins.Positions(codes, shift, n_knots)


def _whole(shift: int, codes: Array) -> list[tuple[int, int, _bins.Positions]]:
    """Return all samples as one part."""
    return [(0, N, _make_positions(shift, codes, _KNOTS))]


def _run_record(write: Callable[..., None], *vectors: Array) -> Arrays:
    log = array_namespace(*vectors).zeros((2, 3, T), **double_like(vectors[0]))
    write(log, 1, *vectors)
    return (log,)


def _to_float64(x: Array) -> Array:
    xp = array_namespace(x)
    return xp.astype(x, xp.float64)


def _bin_sums(name: str, n_knots: int) -> Primitive:
    return Primitive(
        name,
        "brownian",
        _codes_and_weights(n_knots),
        lambda shift, codes, V: (_bins._bin_sums(_make_positions(shift, codes, n_knots), V),),
        lambda shift, codes, V: (cuda.bin_sums(codes, shift, n_knots, V),),
    )


def _distances_primitive(norm: str) -> Primitive:
    return Primitive(
        f"distances, {norm}",
        "distances",
        _points,
        lambda X, Z, _: (_distances._distances(X, Z, norm),),
        lambda X, Z, _: (cuda_distances.distances(X, Z, norm),),
    )


_UNIT = _shift(_KNOTS, exact=False)
PRIMITIVES = (
    Primitive(
        "sort_rows",
        "brownian",
        _rows_and_weights,
        _sort_form,
        lambda A, _: _sort_results(A, *cuda.sort_rows(A)),
    ),
    Primitive(
        "ridge_sums",
        "brownian",
        _rows_and_weights,
        lambda A, V: (_ridge_sums._ridge_sums(_ridge_sums._sort_rows(A), V),),
        lambda A, V: (cuda.ridge_sums(*cuda.sort_rows(A), V),),
    ),
    Primitive(
        "sign_products",
        "brownian",
        _rows_and_weights,
        lambda A, V: (_ridge_sums._sign_products(_ridge_sums._sort_rows(A), V),),
        lambda A, V: (cuda.sign_products(*cuda.sort_rows(A), V),),
    ),
    Primitive(
        "encode",
        "brownian",
        _projections,
        lambda A, low, gap: (_bins._encode(A, low, gap, _KNOTS, _UNIT),),
        lambda A, low, gap: (cuda.encode(A, low, gap, _KNOTS, _UNIT),),
    ),
    _bin_sums("bin_sums", _KNOTS),
    _bin_sums("bin_sums, many knots", _MANY_KNOTS),
    Primitive(
        "knot_levels",
        "brownian",
        _codes_weights_and_gaps,
        lambda shift, codes, V, gap: (
            _bins.levels_of_sums(
                _bins._bin_sums(_make_positions(shift, codes, _KNOTS), V), gap, _OVER
            ),
        ),
        lambda shift, codes, V, gap: (
            cuda.knot_levels(_whole(shift, codes), V, gap, _KNOTS, _OVER),
        ),
    ),
    Primitive(
        "interpolate_bins",
        "brownian",
        _codes_and_values,
        lambda shift, codes, U, _: (
            _bins._interpolate_bins(_make_positions(shift, codes, _KNOTS), U),
        ),
        lambda shift, codes, U, _: (cuda.interpolate_bins(codes, shift, U),),
    ),
    Primitive(
        "interpolate_knots",
        "knots",
        _points_and_knots,
        lambda A, knots, values: (
            _knots._interpolate_knots(_to_float64(A), _to_float64(knots), values),
        ),
        lambda A, knots, values: (cuda_knots.interpolate_knots(A, knots, values),),
    ),
    Primitive(
        "bin_products",
        "brownian",
        _codes_and_values,
        lambda shift, codes, S, Z: (
            _bins._bin_products(_make_positions(shift, codes, _KNOTS), S, Z),
        ),
        lambda shift, codes, S, Z: (cuda.bin_products(codes, shift, S, Z),),
    ),
    Primitive(
        "pair_sums",
        "brownian",
        _few_codes,
        lambda codes: (
            _bins._pair_sums(_make_positions(_COARSE, codes, _FEW_KNOTS), None, len(codes)),
        ),
        lambda codes: (cuda.pair_sums(codes, _COARSE, _FEW_KNOTS, len(codes)),),
    ),
    _distances_primitive("euclidean"),
    _distances_primitive("manhattan"),
    Primitive(
        "sign_sums",
        "distances",
        _points,
        lambda X, Z, Q: (_distances._sign_sums(Q, X, Z),),
        lambda X, Z, Q: (cuda_distances.sign_sums(Q, X, Z),),
    ),
    Primitive(
        "conjugate_step",
        "vectors",
        _vectors,
        _steps._conjugate_step,
        cuda_vectors.conjugate_step,
    ),
    Primitive(
        "conjugate_direction",
        "vectors",
        _vectors,
        lambda x, _r, p, _Ap, rz, old, _: (_steps._conjugate_direction(x, p, rz, old),),
        lambda x, _r, p, _Ap, rz, old, _: (cuda_vectors.conjugate_direction(x, p, rz, old),),
    ),
    Primitive(
        "column_dots",
        "vectors",
        _vectors,
        lambda u, v, plus, *_: (sample_dot(_to_float64(u + plus), _to_float64(v)),),
        lambda u, v, plus, *_: (cuda_vectors.column_dots(u, v, plus),),
    ),
    Primitive(
        "record",
        "vectors",
        _vectors,
        lambda *given: _run_record(_steps._record, *given[-3:]),
        lambda *given: _run_record(cuda_vectors.record, *given[-3:]),
    ),
    Primitive(
        "center_columns",
        "vectors",
        _product_and_columns,
        lambda product, V: (_steps._center_columns(product, V, _SHIFT),),
        lambda product, V: (cuda_vectors.center_columns(product, V, _SHIFT),),
    ),
    Primitive(
        "difference_sums",
        "differences",
        _points_and_weights,
        lambda A, X: (_difference_sums._difference_sums(A, X),),
        lambda A, X: (cuda_differences.difference_sums(A, X),),
    ),
    Primitive(
        "factored_difference_sums",
        "differences",
        _factor_and_columns,
        lambda V, *given: (
            _difference_sums._factored_difference_sums(V, _difference_sums.SortedColumns(*given)),
        ),
        lambda V, *given: (cuda_differences.factored_difference_sums(V, *given),),
    ),
    Primitive(
        "hermite_table",
        "hermite",
        _points_and_degree,
        lambda X, degree: (_hermite._hermite_table(X, degree),),
        lambda X, degree: (cuda_hermite.hermite_table(X, degree),),
    ),
    Primitive(
        "row_products",
        "hermite",
        _table_rows_and_scales,
        lambda table, rows, scales: (_hermite._row_products(table, rows, _SIZES, scales),),
        lambda *given: (cuda_hermite.row_products(*given),),
    ),
)


# -------------------------------------------------------------------------------- recorded

# Results of the kernels to the last bit, recorded on a host and kept with the package.


_FILE = "recorded.npz"


def compute_reference_results() -> dict[str, np.ndarray]:
    """Compute the reference results: exact inputs through array operations of NumPy."""
    found = {}
    for dtype in DTYPES:
        for primitive in PRIMITIVES:
            results = primitive.form(*primitive.inputs(dtype, exact=True))
            for k, result in enumerate(results):
                found[f"{primitive.name}/{dtype}/{k}"] = np.asarray(result)
    return found


def write_reference_results(folder: Path, /) -> Path:
    """Write the file of reference results."""
    path = folder / _FILE
    np.savez_compressed(path, allow_pickle=False, **compute_reference_results())
    return path


@functools.cache
def _read_reference_results() -> Mapping[str, np.ndarray]:
    source = importlib.resources.files(__package__).joinpath(_FILE)
    with importlib.resources.as_file(source) as path, np.load(path, allow_pickle=False) as file:
        return dict(file)


def recorded_results(name: str, dtype: str, /) -> tuple[np.ndarray, ...]:
    """Return the reference results of a primitive."""
    kept, key = _read_reference_results(), f"{name}/{dtype}/"
    return tuple(kept[f"{key}{k}"] for k in range(sum(found.startswith(key) for found in kept)))


# ---------------------------------------------------------------------------------- checks

# Checks of a GPU: what is computed there beside what the host says it must be.


CUPY = "CuPy"  # what is at fault where array operations are wrong
_SUMS = 4000 * float(np.finfo(np.float64).eps)  # long sums in float64, in another order

Put = Callable[[np.ndarray], Any]  # copies a host array to where it is tested


@dataclass(frozen=True)
class Check:
    """A computation to run on GPU and host."""

    what: str
    dtype: str
    part: str  # at fault where it is wrong: `CUPY`, or the file of kernels
    actual: Callable[[], Arrays]
    expected: Callable[[], Arrays]  # on the host
    allowed: float  # error relative to the largest value expected; 0 is every bit


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check."""

    what: str
    dtype: str
    part: str
    allowed: float
    error: float | None  # relative to the largest value expected; None where nothing was finite
    problem: str  # empty where nothing is wrong
    seconds: float


def quick_checks(put: Put, /) -> Iterator[Check]:
    """Yield the checks of CuPy, of every kernel, and of the device afterwards."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            yield _library_check(operation, dtype, put)
        for primitive in PRIMITIVES:
            yield _primitive_check(primitive, dtype, put, primitive.form, CUPY)
    for dtype in DTYPES:
        for primitive in PRIMITIVES:
            yield _primitive_check(primitive, dtype, put, primitive.twin, primitive.file)
    yield _library_check(COPIES, "float64", put)


def recorded_checks(put: Put, /) -> Iterator[Check]:
    """Yield the checks of kernels against recorded bits."""
    for dtype in DTYPES:
        for primitive in PRIMITIVES:
            yield Check(
                primitive.name,
                dtype,
                primitive.file,
                _make_computation(primitive, primitive.twin, dtype, put, exact=True),
                functools.partial(recorded_results, primitive.name, dtype),
                0.0,
            )


def run(checks: Iterable[Check], /, *, seconds: float) -> tuple[list[Outcome], bool]:
    """Run checks until the time is spent; return outcomes, and whether all were run.

    MemoryError says that there is no room for them, and nothing of the results.
    """
    begun = time.perf_counter()
    outcomes: list[Outcome] = []
    for check in checks:
        if time.perf_counter() - begun > seconds:
            return outcomes, False
        outcomes.append(_outcome(check))
    return outcomes, True


def _outcome(check: Check) -> Outcome:
    begun = time.perf_counter()
    error, problem = None, ""
    try:
        error, problem = _judge_check(check)
    except Exception as failure:  # a broken CUDA set-up may raise anything
        if is_out_of_memory(failure):
            raise MemoryError(str(failure)) from failure
        problem = " ".join(f"{type(failure).__name__}: {failure}".split())[:300]
    spent = time.perf_counter() - begun
    return Outcome(check.what, check.dtype, check.part, check.allowed, error, problem, spent)


def _judge_check(check: Check) -> tuple[float | None, str]:
    pairs = zip(check.actual(), check.expected(), strict=True)
    errors = [_error(to_host(actual), to_host(expected)) for actual, expected in pairs]
    error = float(np.max(errors, initial=0.0))  # NaN if one of them is, wherever it stands
    right = error <= check.allowed  # not of NaN
    told = f"expected an error of at most {check.allowed:.1e}, got {error:.1e}"
    return (error if math.isfinite(error) else None), "" if right else told


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    if actual.shape != expected.shape:
        msg = f"expected shape {expected.shape}, got {actual.shape}"
        raise ValueError(msg)
    actual, expected = (x.astype(np.float64) for x in (actual, expected))
    scale = float(np.max(np.abs(expected), initial=0.0)) or 1.0
    return float(np.max(np.abs(actual - expected), initial=0.0)) / scale


def _library_check(operation: Operation, dtype: str, put: Put) -> Check:
    def actual() -> Arrays:
        A, B = draw_inputs(dtype)
        return (operation.run(put(A), put(B)),)

    def host_results() -> Arrays:
        A, B = (x.astype(np.float64) for x in draw_inputs(dtype))
        return (operation.expected(A, B),)

    allowed = operation.rounding * float(np.finfo(dtype).eps)
    return Check(operation.name, dtype, CUPY, actual, host_results, allowed)


def _primitive_check(
    primitive: Primitive, dtype: str, put: Put, function: Callable[..., Arrays], part: str
) -> Check:
    allowed = _SUMS + (float(np.finfo(dtype).eps) if dtype == "float32" else 0.0)
    actual = _make_computation(primitive, function, dtype, put, exact=False)
    expected = _make_computation(primitive, primitive.form, dtype, lambda x: x, exact=False)
    return Check(primitive.name, dtype, part, actual, expected, allowed)


def _make_computation(
    primitive: Primitive, function: Callable[..., Arrays], dtype: str, put: Put, *, exact: bool
) -> Callable[[], Arrays]:
    def compute() -> Arrays:
        given = primitive.inputs(dtype, exact=exact)
        return function(*(put(x) if isinstance(x, np.ndarray) else x for x in given))

    return compute
