"""Where a computation runs: detection never raises, and errors say what to do."""

import numpy as np
import pytest
from array_api_compat import device, is_numpy_namespace

from gpukfl.core import _places
from gpukfl.core._places import GPU_PAYS_FROM, Place, resolve_place

LITTLE = GPU_PAYS_FROM - 1


@pytest.fixture(autouse=True)
def no_preference(monkeypatch):
    monkeypatch.delenv("GPUKFL_BACKEND", raising=False)


@pytest.fixture
def machine(monkeypatch):
    """Pretend what is installed and usable."""

    def pretend(*, installed=(), cupy_usable=False, torch_cuda=False):
        monkeypatch.setattr(_places, "is_installed", lambda library: library in installed)
        monkeypatch.setattr(_places, "cupy_is_usable", lambda: cupy_usable)
        monkeypatch.setattr(_places, "torch_cuda_is_usable", lambda: torch_cuda)

    return pretend


def resolve(backend, X=None, work=LITTLE, dtype="float64"):
    return resolve_place(backend, np.ones((2, 2)) if X is None else X, dtype=dtype, work=work)


def test_auto_stays_with_the_input(on, machine):
    machine()
    place = resolve("auto", on.put([[1.0]]), dtype="float32")
    on.assert_lives_here(place.reference, "float32")


def test_own_library_stays_on_its_device(on, machine):
    machine()
    if on.package != "array_api_strict":  # not a backend that can be asked for
        on.assert_lives_here(resolve(on.package, on.put([[1.0]])).reference, "float64")


@pytest.mark.parametrize(
    ("usable", "work", "chosen"),
    [
        (True, GPU_PAYS_FROM, "cupy"),
        (True, LITTLE, "numpy"),
        (False, GPU_PAYS_FROM, "numpy"),
    ],
)
def test_auto_moves_numpy_to_a_usable_gpu_when_it_pays(monkeypatch, machine, usable, work, chosen):
    machine(installed=("cupy",), cupy_usable=usable)
    monkeypatch.setattr(_places, "_cupy_place", lambda dtype: ("cupy", dtype))
    place = resolve("auto", work=work)
    assert (place == ("cupy", "float64")) == (chosen == "cupy")
    assert chosen == "cupy" or is_numpy_namespace(place.xp)


def test_auto_does_not_look_for_a_gpu_that_would_not_pay(monkeypatch):
    monkeypatch.setattr(_places, "cupy_is_usable", lambda: pytest.fail("looked"))
    assert is_numpy_namespace(resolve("auto").xp)


def test_environment_overrides_auto_only(monkeypatch, machine, torch):
    machine(installed=("torch",))
    monkeypatch.setenv("GPUKFL_BACKEND", "torch")
    assert resolve("auto").device == torch.device("cpu")
    assert is_numpy_namespace(resolve("numpy").xp)


@pytest.mark.parametrize("by_environment", [False, True])
def test_unknown_backend_names_the_known_ones(monkeypatch, by_environment):
    monkeypatch.setenv("GPUKFL_BACKEND", "jax")
    with pytest.raises(ValueError, match="one of auto, numpy, cupy, torch, got 'jax'"):
        resolve("auto" if by_environment else "jax")


@pytest.mark.parametrize(("backend", "extra"), [("cupy", "cuda13"), ("torch", "torch")])
def test_missing_library_says_what_to_install(machine, backend, extra):
    machine()
    with pytest.raises(RuntimeError, match=rf"pip install 'gpukfl\[{extra}\]'") as caught:
        resolve(backend)
    assert "backend='numpy' works" in str(caught.value)


def test_missing_gpu_says_what_to_check(monkeypatch, machine):
    machine(installed=("cupy",))
    monkeypatch.setattr(_places, "cuda_devices", lambda: 0)
    monkeypatch.setattr(_places, "cupy_problem", lambda: "there is no driver")
    with pytest.raises(RuntimeError, match=r"\(0 CUDA devices found\): there is no driver; back"):
        resolve("cupy")


def test_numpy_can_be_asked_for_from_anywhere(on):
    assert is_numpy_namespace(resolve("numpy", on.put([[1.0]])).xp)


@pytest.mark.parametrize("cuda", [False, True])
def test_torch_prefers_its_gpu(machine, cuda, torch):
    machine(installed=("torch",), torch_cuda=cuda)
    assert resolve("torch").device == torch.device("cuda" if cuda else "cpu")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_put_copies_from_every_place(on, dtype, rng):
    source = on.rounded(rng.standard_normal((3, 2)))
    for target in (on, resolve("numpy")):
        place = Place(target.xp, target.device, dtype)
        placed = place.put(on.put(source))
        assert type(placed) is type(place.reference)
        assert placed.dtype == place.reference.dtype
        assert device(placed) == device(place.reference)
        assert np.allclose(np.asarray(on.host(placed) if target is on else placed), source)


def test_put_takes_read_only_arrays_without_a_warning(on, warning_again):
    source = np.ones((2, 2), dtype=on.dtype_name)
    source.flags.writeable = False
    on.assert_close(Place(on.xp, on.device, on.dtype_name).put(source), source, ulps=0)


def test_installed_is_known_without_importing():
    assert _places.is_installed("numpy")
    assert not _places.is_installed("a_library_that_does_not_exist")
