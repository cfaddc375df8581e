"""The self-test on kernels that a CPU emulation of CUDA runs: it passes them, and sees mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from emulation import emulate, replace_kernels

from gpukfl._accel import (
    cuda,
    cuda_differences,
    cuda_distances,
    cuda_hermite,
    cuda_knots,
    cuda_vectors,
)
from gpukfl.selftest._checks import PRIMITIVES, quick_checks, recorded_checks, run

pytestmark = pytest.mark.slow
SIZES = {
    "brownian": (cuda, {"THREADS": 8, "ITEMS": 2}),
    "distances": (cuda_distances, {"SIDE": 2, "EACH": 2, "DEPTH": 3}),
    "vectors": (cuda_vectors, {"THREADS": 8}),
    "differences": (cuda_differences, {"SIDE": 2, "EACH": 2, "DEPTH": 3}),
    "hermite": (cuda_hermite, {"THREADS": 8}),
    "knots": (cuda_knots, {"THREADS": 8}),
}


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    return {
        file: emulate(module.KERNELS, tmp_path_factory.mktemp(file), **sizes)
        for file, (module, sizes) in SIZES.items()
    }


@pytest.fixture
def emulated(libraries, monkeypatch):
    """Let all kernels run on NumPy arrays."""
    for file, (module, sizes) in SIZES.items():
        replace_kernels(monkeypatch, module.KERNELS, libraries[file])
        for name, size in sizes.items():
            monkeypatch.setattr(module, f"_{name}", size, raising=name != "DEPTH")
    return monkeypatch


def problems(checks):
    outcomes, all_run = run(checks, seconds=math.inf)
    assert all_run
    return {(found.part, found.what, found.dtype): found.problem for found in outcomes}


def here(x):
    return x


def kernels(checks):
    return (check for check in checks if check.part != "CuPy")


def test_right_kernels_pass(emulated):
    found = problems(kernels(quick_checks(here)))
    assert len(found) == 2 * len(PRIMITIVES)
    assert set(found.values()) == {""}


def test_right_kernels_have_the_recorded_bits(emulated):
    found = problems(recorded_checks(here))
    assert len(found) == 2 * len(PRIMITIVES)
    assert set(found.values()) == {""}


def off_by_an_ulp(function):
    """Let a twin's largest result be the next number."""

    def changed(*args):
        result = function(*args)
        at = np.unravel_index(np.argmax(np.abs(result)), result.shape)
        result[at] = np.nextafter(result[at], np.inf)
        return result

    return changed


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("module", "twin"),
    [
        (cuda, "ridge_sums"),
        (cuda, "sign_products"),
        (cuda, "bin_sums"),
        (cuda, "interpolate_bins"),
        (cuda, "bin_products"),
        (cuda, "pair_sums"),
        (cuda_distances, "distances"),
        (cuda_distances, "sign_sums"),
        (cuda_differences, "difference_sums"),
        (cuda_differences, "factored_difference_sums"),
        (cuda_hermite, "hermite_table"),
        (cuda_hermite, "row_products"),
        (cuda_knots, "interpolate_knots"),
    ],
)
def test_recorded_bits_see_one_wrong_bit(emulated, module, twin):
    emulated.setattr(module, twin, off_by_an_ulp(getattr(module, twin)))
    wrong = {key for key, problem in problems(recorded_checks(here)).items() if problem}
    assert wrong
    assert {(part, what.split(",")[0]) for part, what, _ in wrong} == {
        (module.KERNELS.file.removesuffix(".cu"), twin)
    }


def test_a_wrong_kernel_is_told_from_a_wrong_library(emulated):
    bin_sums = cuda.bin_sums
    emulated.setattr(cuda, "bin_sums", lambda *args: 1.001 * bin_sums(*args))
    wrong = {key for key, problem in problems(quick_checks(here)).items() if problem}
    assert {part for part, _, _ in wrong} == {"brownian"}
    assert {what.split(",")[0] for _, what, _ in wrong} == {"bin_sums"}
