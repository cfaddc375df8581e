"""Launches written to files, with all memory they may touch, to be repeated under sanitizers."""

from __future__ import annotations

import itertools
import os
import pathlib
from typing import Any

import numpy as np

FOLDER = os.environ.get("CUPY_STANDIN_RECORD")
_numbers = itertools.count()


def record(kernel: Any, sizes: tuple[int, ...], args: tuple[Any, ...], /) -> None:
    """Write the kernel's name, what it is launched with, and each array."""
    if FOLDER is None:
        return
    arrays = [x._memory for x in args if not isinstance(x, int)]
    owners = {id(owner): owner for owner in map(_owner, arrays)}
    places = {key: place for place, key in enumerate(owners)}
    spelt = [_spelt(x, places) for x in args]
    lines = [kernel.name, " ".join(map(str, sizes)), f"{len(spelt)} {len(owners)}", *spelt]
    lines += [str(owner.nbytes) for owner in owners.values()]
    folder = pathlib.Path(FOLDER) / _file_of(kernel)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}-{next(_numbers):06d}-{kernel.name}"
    content = ("\n".join(lines) + "\n").encode("ascii")
    path.write_bytes(content + b"".join(owner.tobytes() for owner in owners.values()))


def _owner(memory: np.ndarray) -> np.ndarray:
    """All of the allocation that an array lies in."""
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory


def _spelt(x: Any, places: dict[int, int]) -> str:
    """A number, or an allocation and the place in it."""
    if isinstance(x, int):
        return f"number {x}"
    owner = _owner(x._memory)
    return f"array {places[id(owner)]} {x._memory.ctypes.data - owner.ctypes.data}"


def _file_of(kernel: Any) -> str:
    """Key under which the source and its options are kept."""
    import hashlib

    text = kernel.code + repr(kernel.options)
    folder = pathlib.Path(str(FOLDER)) / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    (folder / f"{key}.cu").write_text(kernel.code, encoding="ascii")
    options = [option for option in kernel.options if option.startswith("-D")]
    (folder / f"{key}.options").write_text("\n".join(options), encoding="ascii")
    return key
