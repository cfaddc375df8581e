"""What the self-test computes on the host, how it judges, and what is recorded."""

import math

import numpy as np
import pytest

from gpukfl.selftest import _checks, write_reference_results
from gpukfl.selftest import _checks as _recorded
from gpukfl.selftest._checks import CUPY, PRIMITIVES, Check, quick_checks, run

MOST = 2**20  # bytes that the package ships


EXPECTED = np.array([1.0, 2.0])


def check(actual, allowed=0.0):
    return Check("sum", "float64", CUPY, lambda: actual, lambda: (EXPECTED,), allowed)


def outcome(*args, **kwargs):
    ((found,), all_run) = run([check(*args, **kwargs)], seconds=math.inf)
    assert all_run
    return found


def test_equal_results_are_right():
    found = outcome((np.array([1.0, 2.0]),))
    assert (found.problem, found.error) == ("", 0.0)


def test_errors_are_relative_to_the_largest_value():
    found = outcome((np.array([1.5, 2.0]),), allowed=0.25)
    assert (found.problem, found.error) == ("", 0.25)
    found = outcome((np.array([1.5, 2.0]),), allowed=0.2)
    assert found.problem == "expected an error of at most 2.0e-01, got 2.5e-01"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_wrong(value):
    found = outcome((np.array([value, 2.0]),), allowed=1.0)
    assert found.problem
    assert found.error is None  # which JSON can say


def test_another_shape_is_wrong():
    assert "expected shape (2,), got (3,)" in outcome((np.zeros(3),)).problem


def test_what_raises_is_wrong_and_said():
    def fails():
        msg = "CUDA_ERROR_ILLEGAL_ADDRESS"
        raise RuntimeError(msg)

    broken = Check("sum", "float64", "brownian", fails, lambda: (np.zeros(1),), 0.0)
    (found, after), _ = run([broken, check((np.array([1.0, 2.0]),))], seconds=math.inf)
    assert found.problem == "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS"
    assert (found.part, found.error) == ("brownian", None)
    assert not after.problem


@pytest.mark.parametrize("place", [0, 1])
def test_nan_in_any_of_several_results_is_wrong(place):
    results = [np.ones(2), np.ones(2)]
    expected = tuple(results)
    results[place] = np.array([1.0, np.nan])
    one = Check("two", "float64", CUPY, lambda: tuple(results), lambda: expected, 1e-9)
    (found,), _ = run([one], seconds=math.inf)
    assert found.error is None
    assert "got nan" in found.problem


def test_no_room_says_nothing_of_results():
    def fails():
        msg = "Out of memory"
        raise MemoryError(msg)

    with pytest.raises(MemoryError, match="Out of memory"):
        run([Check("sum", "float64", CUPY, fails, lambda: (), 0.0)], seconds=math.inf)


def test_no_check_begins_after_the_time():
    checks = [check((np.array([1.0, 2.0]),))] * 3
    assert run(checks, seconds=-1.0) == ([], False)
    assert len(run(checks, seconds=math.inf)[0]) == 3


def test_array_operations_pass_on_every_place(on):
    """The half of the checks that needs no kernels."""
    if on.dtype_name == "float32":
        pytest.skip("the checks have both precisions")
    checks = [one for one in quick_checks(lambda x: on.put(x, x.dtype.name)) if one.part == CUPY]
    assert len(checks) > 2 * len(PRIMITIVES)
    outcomes, _ = run(checks, seconds=math.inf)
    assert {(found.what, found.problem) for found in outcomes if found.problem} == set()


def test_what_is_recorded_is_what_numpy_computes():
    for name, expected in _recorded.compute_reference_results().items():
        primitive, dtype, k = name.split("/")
        actual = _recorded.recorded_results(primitive, dtype)[int(k)]
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


def test_everything_is_recorded_and_small(tmp_path):
    names = {
        (name.split("/")[0], name.split("/")[1]) for name in _recorded.compute_reference_results()
    }
    assert names == {(one.name, dtype) for one in PRIMITIVES for dtype in _checks.DTYPES}
    assert write_reference_results(tmp_path).stat().st_size < MOST


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda one: one.name)
@pytest.mark.parametrize("dtype", _checks.DTYPES)
def test_exact_inputs_do_not_round(primitive, dtype):
    """In higher precision the results are the same bits."""
    if primitive.name == "sort_rows":
        pytest.skip("nothing is added up")
    inputs = primitive.inputs(dtype, exact=True)
    wide = [x.astype(np.longdouble) if is_float(x) else x for x in inputs]
    if primitive.name == "encode":
        wide = inputs  # rounds once on purpose, as its fixed point does
    for narrow, result in zip(primitive.form(*inputs), primitive.form(*wide), strict=True):
        np.testing.assert_array_equal(narrow, np.asarray(result).astype(narrow.dtype))


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"
