"""Estimators of other libraries in a model file, which skops has written: read, never made.

Their bytes are a zip archive of arrays and of JSON that names classes and attributes. Nothing of
what it names is looked up: attributes are given by name, and arrays are read as they lie.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gpukfl._archive import RefusedError, refusals

_SCHEMA = "schema.json"
_START = 10  # bytes of an array before its description: magic, version, and length


class Kept:
    """An estimator, or a part of one: its class's name, and attributes by name."""

    def __init__(self, node: dict[str, Any], archive: zipfile.ZipFile) -> None:
        self.kind = str(node["__class__"])
        if not str(node["__module__"]).startswith("sklearn."):
            self.kind = f"{node['__module__']}.{self.kind}"
        inside = node["content"]
        if not isinstance(inside, dict) or inside.get("__loader__") != "DictNode":
            msg = f"which holds a {self.kind} without attributes"
            raise RefusedError(msg)
        self._nodes, self._archive = inside["content"], archive

    def __getattr__(self, name: str) -> Any:
        nodes = self.__dict__.get("_nodes", {})
        if name not in nodes:
            msg = f"which has no {name} of a fitted {self.__dict__.get('kind')}"
            raise AttributeError(msg)
        return _made(nodes[name], self.__dict__["_archive"])


def kept_of(data: np.ndarray, /) -> Kept:
    """Read the bytes of an estimator.

    Raises
    ------
    RefusedError
        If they are something else.
    """
    with refusals():
        archive = zipfile.ZipFile(io.BytesIO(data.tobytes()))
        if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
            msg = "which holds an estimator with compressed members"
            raise RefusedError(msg)
        return Kept(json.loads(archive.read(_SCHEMA)), archive)


def _made(node: dict[str, Any], archive: zipfile.ZipFile) -> Any:
    make = _MAKERS.get(node["__loader__"])
    if make is None:
        msg = f"which holds a {node['__loader__']} where predictions need a value"
        raise RefusedError(msg)
    return make(node, archive)


def _array(node: dict[str, Any], archive: zipfile.ZipFile) -> Any:
    if node["type"] != "numpy":
        msg = "which holds an array of objects where predictions need numbers"
        raise RefusedError(msg)
    try:
        member = archive.getinfo(node["file"])
    except KeyError as error:
        msg = "which lacks an array of an estimator"
        raise RefusedError(msg) from error
    with refusals():
        data = archive.read(member)
    start = _START + int.from_bytes(data[8:_START], "little")
    shape, columns_first, dtype = _described(data[:start])
    flat = np.frombuffer(data, dtype, offset=start)
    found = flat.reshape(shape[::-1]).T if columns_first else flat.reshape(shape)
    return found if node["__class__"] == "ndarray" else found[()]


@lru_cache(1024)
def _described(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and dtype of an array; the same for many trees."""
    stream = io.BytesIO(header)
    if np.lib.format.read_magic(stream) != (1, 0):
        msg = "which holds an array of another version"
        raise RefusedError(msg)
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject:
        msg = "which holds objects where predictions need numbers"
        raise RefusedError(msg)
    return shape, columns_first, dtype


_MAKERS: dict[str, Callable[[dict[str, Any], zipfile.ZipFile], Any]] = {
    "JsonNode": lambda node, _: json.loads(node["content"]),
    "ListNode": lambda node, archive: [_made(one, archive) for one in node["content"]],
    "TupleNode": lambda node, archive: tuple(_made(one, archive) for one in node["content"]),
    "NdArrayNode": _array,
    "ObjectNode": Kept,
}
