"""One fixture, `on`: a place (library, device, precision) where a test puts its arrays.

Code that names array libraries is tested on every library in both precisions, and on NumPy's arrays
that may be written to in one of them, on those that may not in the other: Numba would compile its
code for each anew, where twins did not see them alike. Models that move between libraries are seen
on NumPy in both precisions, on the others in one. The rest cannot know where it runs: there
read-only NumPy in float64 and array-api-strict in float32 show what every place would, and torch
and CuPy are looked at once. `--every-place` asks for all of them.

A test marked `pairs` runs where every two values of its parameters, places among them, meet: three
that count only together are looked for with `--every-place`. One marked `each` runs until every
value of each parameter has occurred, with places where torch is missing first. Of the cases of one
marked `few`, of one law for many methods or kinds of data, one of three is quick, one slow, and one
weekly.
"""

from __future__ import annotations

import functools
import gc
import importlib
import itertools
import os
import signal
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from array_api_compat import array_namespace, device, to_device

from gpukfl.core._array import device_context, library_name
from gpukfl.core._places import cupy_is_usable

# Other work on a machine, and what is compiled when it is first called, make no test fail;
# where a change is judged, it meets the same draws whenever it is
hypothesis.settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("untimed")


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
        return array_namespace(importlib.import_module(self.package).empty(0))

    @property
    def device(self) -> Any:
        """The device, as creation functions take it."""
        if self.package == "array_api_strict":
            return self.xp.Device(self.device_name)
        return int(self.device_name) if self.package == "cupy" else self.device_name

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
        assert library_name(actual) == self.package
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


@functools.cache
def places(cupy_device: int) -> list[Place]:
    """All places; that of CuPy only where there is a GPU, or a stand-in has been put."""
    libraries = [
        ("numpy", "cpu", True),
        ("numpy", "cpu", False),  # inputs a function must not write to
        ("array_api_strict", "device1", True),  # not the default device, on purpose
        ("torch", "cpu", True),
        *([("cupy", str(cupy_device), True)] if cupy_is_usable() else []),
    ]
    return [
        Place(*library[:2], dtype, library[2])
        for library in libraries
        for dtype in ("float32", "float64")
    ]


TESTS = Path(__file__).parent
os.environ.setdefault("MPLBACKEND", "agg")  # no test opens a window


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Let no figure stay, which pyplot would keep, and warn of when there are many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def _knows_libraries(path: Path) -> bool:
    """Whether a file tests code that names array libraries."""
    inside = path.relative_to(TESTS)
    return inside.parts[0] in ("accel", "linalg", "parity", inside.name)


def _is_most(place: Place, precisions: tuple[str, ...]) -> bool:
    """Whether a place is among those for code that names array libraries."""
    if place.package == "numpy" and len(precisions) > 1:
        return place.writeable == (place.dtype_name == precisions[-1])
    return True


def _is_some(place: Place, precisions: tuple[str, ...]) -> bool:
    """Whether a place is among those for models that are moved between libraries."""
    return (
        _is_most(place, precisions) if place.package == "numpy" else _is_enough(place, precisions)
    )


def _is_enough(place: Place, precisions: tuple[str, ...]) -> bool:
    """Whether a place is among those for code that cannot know where it runs."""
    if place.package == "numpy":
        return not place.writeable and place.dtype_name == precisions[-1]
    return place.dtype_name == precisions[0]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the stand-in's own tests to where it is put, and look for none in its packages."""
    standin = TESTS / "cupy_standin"
    if standin not in collection_path.parents:
        return None
    is_test = collection_path.name.startswith("test_") and config.getoption("cupy_standin")
    return None if is_test else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `on` or `on_double` on the places that its file calls for."""
    asked = metafunc.config.getoption("every_place")
    chosen = _is_enough
    if _knows_libraries(metafunc.definition.path):
        chosen = _is_most
    elif metafunc.definition.path.stem.endswith("_places"):
        chosen = _is_some
    cupy_device = metafunc.config.getoption("cupy_device")
    for name, precisions in [("on", ("float32", "float64")), ("on_double", ("float64",))]:
        if name in metafunc.fixturenames:
            enough = [
                place
                for place in places(cupy_device)
                if place.dtype_name in precisions and (asked or chosen(place, precisions))
            ]
            metafunc.parametrize(name, enough, ids=str, indirect=True)


def _values(item: pytest.Item) -> list[tuple]:
    """What a test is given, one entry a parametrization, as objects to compare."""
    parameters = item.callspec.params
    named = [mark.args[0] for mark in item.iter_markers("parametrize")]
    together = [name.replace(",", " ").split() if isinstance(name, str) else name for name in named]
    alone = parameters.keys() - set(itertools.chain(*together))
    return [
        (name := tuple(names), *(id(parameters[one]) for one in name))
        for names in [*together, *([name] for name in sorted(alone))]
    ]


def _fewest(items: list[pytest.Item], size: int) -> list[pytest.Item]:
    """Few of the tests in which every `size` values meet that meet in any.

    The first where many do, and single values where torch is missing before those where it is not.
    """
    met = {item: set(itertools.combinations(_values(item), size)) for item in items}
    without = [item for item in items if size > 1 or not _needs_torch(item)]
    kept = []
    for among in (without, items):
        missing = set().union(*(met[item] for item in among))
        missing -= set().union(*(met[item] for item in kept))
        while missing:
            best = max(among, key=lambda item: len(met[item] & missing))
            missing -= met[best]
            kept.append(best)
    return kept or items


def _leave_few(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave of each test marked `pairs` or `each` the combinations that it needs."""
    marked = defaultdict(list)
    for item in items:
        for size, name in ((1, "each"), (2, "pairs")):
            if item.get_closest_marker(name):
                marked[item.parent, item.originalname, size].append(item)
    dropped = set()
    for (*_, size), combinations in marked.items():
        dropped |= set(combinations) - set(_fewest(combinations, size))
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=list(dropped))


def _mark_slow_cases(items: list[pytest.Item]) -> None:
    """Mark two cases of three of tests marked `few` as slow, and one of them as weekly.

    Those that need torch stay as they are.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few") and not _needs_torch(item):
            cases[item.parent, item.originalname].append(item)
    for k, item in itertools.chain(*map(enumerate, cases.values())):
        for name in ((), ("slow",), ("slow", "weekly"))[(k + k // 3) % 3]:  # also of pairs
            item.add_marker(name)


def _needs_torch(item: pytest.Item) -> bool:
    """Whether a test asks for torch, or runs on a place of it."""
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    return "torch" in getattr(item, "fixturenames", ()) or any(
        isinstance(value, Place) and value.package == "torch" for value in parameters
    )


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave what pairs need, and mark what needs torch, and is skipped without it."""
    if not config.getoption("every_place"):
        _leave_few(items, config)
    for item in items:
        if _needs_torch(item):
            item.add_marker(pytest.mark.torch)
    _mark_slow_cases(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let the collector rest while modules and tests are made, which all stay: a quarter less."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note where generators of modules are, and keep what stays out of the collector's sight."""
    for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
        _generators(module)
    gc.collect()
    gc.freeze()


@functools.cache
def _generators(module: Any) -> list[tuple[np.random.Generator, dict]]:
    """Generators that a module has, and their states when all modules are imported."""
    found = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
    return [(generator, generator.bit_generator.state) for generator in found]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let what a test draws by its module's generator not depend on the tests before it."""
    if isinstance(item, pytest.Function):
        for generator, state in _generators(item.module):
            generator.bit_generator.state = state


def _enter(request: pytest.FixtureRequest):
    place = request.param
    library = pytest.importorskip(place.package)
    if place.package == "array_api_strict":
        with library.ArrayAPIStrictFlags(
            api_version="2024.12", boolean_indexing=False, data_dependent_shapes=False
        ):
            yield place
    elif request.node.get_closest_marker("entered"):
        with device_context(place.reference):
            yield place
    else:
        yield place


@pytest.fixture
def on(request: pytest.FixtureRequest):
    """A place, in either precision."""
    yield from _enter(request)


@pytest.fixture
def on_double(request: pytest.FixtureRequest):
    """A float64 place, for laws that float32 could not show."""
    yield from _enter(request)


@pytest.fixture
def torch() -> Any:
    """The library, for tests that need it; the others must not import it."""
    return pytest.importorskip("torch")


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
    library = importlib.import_module("torch")
    library.set_warn_always(True)
    yield
    library.set_warn_always(False)


LOW = (  # folders whose tests know no blend
    *("accel", "cupy_standin", "datasets", "instantiations", "kernels", "knockoffs", "linalg"),
    *("methods", "mutants", "operators", "parity", "penalties", "solvers"),
)


@pytest.fixture(scope="session", autouse=True)
def _trees_of_few_steps(request):
    """Let boosted trees take as few steps as of many features, or they take most of the time."""
    paths = [item.path for item in request.session.items]
    if all(TESTS in path.parents and path.relative_to(TESTS).parts[0] in LOW for path in paths):
        yield
        return
    from gpukfl.portfolio import _members as _candidates

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_candidates, "_STEPS_TIMES_FEATURES", 0)
        yield


@pytest.fixture
def warnings_shown_as_before(monkeypatch):
    """Put back afterwards how warnings are shown, which the command line changes."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


@pytest.fixture
def no_pictures(monkeypatch):
    """Let reports have no pictures, as without matplotlib: drawing takes most of their time."""
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def all_steps(monkeypatch):
    """Let boosted trees take all their steps."""
    from gpukfl.portfolio import _members as _candidates

    monkeypatch.setattr(_candidates, "_STEPS_TIMES_FEATURES", 400_000)


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_interrupts():
    """Let Ctrl-C interrupt, also where a shell has started the tests in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests(tmp_path_factory):
    """Keep what a GPU's self-test finds, or a planted fault, out of the user's folder."""
    os.environ["GPUKFL_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
