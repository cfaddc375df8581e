"""One fixture, `on`: a place (library, device, precision) where a test puts its arrays."""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # read when scipy is first imported

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace, device, to_device

from gpukfl._array import library_of
from gpukfl._places import cupy_is_usable


@dataclass(frozen=True)
class Place:
    """Where a test puts its arrays."""

    package: str
    device_name: str | None
    dtype_name: str
    writeable: bool = True

    def __str__(self) -> str:
        return f"{self.package}-{self.dtype_name}" + ("" if self.writeable else "-readonly")

    @cached_property
    def xp(self) -> Any:
        """The array namespace."""
        return array_namespace(pytest.importorskip(self.package).empty(0))

    @property
    def device(self) -> Any:
        """The device, as creation functions take it."""
        if self.package == "array_api_strict":
            return self.xp.Device(self.device_name)
        return self.device_name

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number."""
        return float(np.finfo(self.dtype_name).eps)

    @property
    def reference(self) -> Any:
        """An empty array that lives here."""
        return self.put(np.empty(0))

    def rounded(self, a: Any) -> np.ndarray:
        """Give the float64 host array that this precision represents exactly."""
        return np.asarray(a, dtype=self.dtype_name).astype(np.float64)

    def put(self, a: Any, dtype: str | None = None) -> Any:
        """Copy host data here."""
        name = dtype or self.dtype_name
        host = np.array(a, dtype=name)  # a copy: torch would warn of read-only input
        out = self.xp.asarray(host, dtype=getattr(self.xp, name), device=self.device, copy=True)
        if not self.writeable:
            out.flags.writeable = False
        return out

    def host(self, a: Any) -> np.ndarray:
        """Copy to NumPy, by other means than the library's own."""
        if self.package == "cupy":
            return a.get()
        if self.package == "array_api_strict":
            a = to_device(a, self.xp.Device("CPU_DEVICE"))
        return np.asarray(a)

    def assert_lives_here(self, actual: Any, dtype: str | None = None) -> None:
        """Same library, device and dtype."""
        assert library_of(actual) == self.package
        assert device(actual) == device(self.reference)
        assert actual.dtype == getattr(self.xp, dtype or self.dtype_name)

    def assert_close(
        self,
        actual: Any,
        expected: Any,
        *,
        ulps: float = 100.0,
        scale: float | None = None,
        dtype: str | None = None,
    ) -> None:
        """Same library, device, dtype and shape; values within `ulps` of `scale`.

        `scale` is the largest entry of `expected` unless given; `dtype` the place's unless given.
        """
        self.assert_lives_here(actual, dtype)
        expected = np.asarray(expected, dtype=np.float64)
        assert tuple(actual.shape) == expected.shape
        if scale is None:
            scale = float(np.max(np.abs(expected), initial=0.0)) or 1.0
        eps = float(np.finfo(dtype or self.dtype_name).eps)
        error = float(np.max(np.abs(self.host(actual) - expected), initial=0.0))
        assert error <= ulps * eps * scale, f"{error / (eps * scale):.3g} ulps of {scale:.3g}"


PLACES = [
    Place(library, device_name, dtype, writeable)
    for library, device_name, writeable in [
        ("numpy", "cpu", True),
        ("numpy", "cpu", False),  # inputs a function must not write to
        ("array_api_strict", "device1", True),  # not the default device, on purpose
        ("torch", "cpu", True),
        *([("cupy", None, True)] if cupy_is_usable() else []),
    ]
    for dtype in ("float32", "float64")
]


def _enter(place: Place):
    if place.package == "array_api_strict":
        strict = pytest.importorskip("array_api_strict")
        with strict.ArrayAPIStrictFlags(
            api_version="2024.12", boolean_indexing=False, data_dependent_shapes=False
        ):
            yield place
    else:
        yield place


@pytest.fixture(params=PLACES, ids=str)
def on(request: pytest.FixtureRequest):
    """Every place."""
    yield from _enter(request.param)


@pytest.fixture(params=[place for place in PLACES if place.dtype_name == "float64"], ids=str)
def on_double(request: pytest.FixtureRequest):
    """Every float64 place, for laws that float32 could not show."""
    yield from _enter(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20240501)


@pytest.fixture
def warning_again(on):
    """Torch gives some warnings once a process; here, every time."""
    if on.package != "torch":
        yield
        return
    import torch

    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)
