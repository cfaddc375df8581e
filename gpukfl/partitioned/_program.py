"""What runs where the rows lie: a function that knows partitioned arrays by name, sent as bytes.

On the way every partitioned array becomes a number, and where it arrives a window on the rows that
lie there; every small array of floats and every array library becomes one of that place.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, is_array, is_host, like, to_host

_LIBRARY = "library"  # in a program: that of the place where it runs

Part = Callable[[int, int], Any]  # work on the rows from one up to another, which lie together


class Partitioned:
    """Something that each part of the rows has: computed there, and staying there.

    Attributes
    ----------
    key : int
        Names it wherever parts lie. Of two the later made has the larger.
    """

    key: int

    def __reduce__(self) -> Any:
        msg = "a partitioned value stays where its rows lie: expected none in what is pickled"
        raise TypeError(msg)


@dataclass(frozen=True, eq=False)
class Window:
    """The rows of a long array that lie here, under the numbers that they have in the whole."""

    block: Array
    start: int
    n_rows: int  # of the whole

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        return (self.n_rows, *self.block.shape[1:])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.block.ndim

    @property
    def dtype(self) -> Any:
        """Precision."""
        return self.block.dtype

    def __getitem__(self, key: Any) -> Array:
        rows, *columns = key if isinstance(key, tuple) else (key,)
        assert isinstance(rows, slice)
        here = slice(rows.start - self.start, rows.stop - self.start)
        return self.block[(here, *columns)]


def dumps(work: Any, /) -> tuple[bytes, set[int]]:
    """Bytes of what is to run, and the keys of what it reads."""
    buffer = io.BytesIO()
    pickler = _pickler()(buffer)
    pickler.dump(work)
    return buffer.getvalue(), pickler.reads


def loads(
    program: bytes, values: Mapping[int, Any], place: Array, rows: tuple[int, int, int], /
) -> Any:
    """Make of bytes what is to run on one part.

    Parameters
    ----------
    program : bytes
        From `dumps`.
    values : mapping of int to object
        What this part has, by key; it may grow while the program runs.
    place : array
        An empty array of the place to work on.
    rows : tuple of int
        First row of the part, the one after its last, and the number of all rows.
    """
    return _Unpickler(program, values, place, rows).load()


@functools.cache
def _pickler() -> Any:
    """Give the class of picklers, made when it is asked for: nothing else needs cloudpickle."""
    try:
        import cloudpickle
    except ImportError as error:
        msg = "rows that lie in parts need cloudpickle: `pip install 'gpukfl[dask]'`"
        raise ImportError(msg) from error

    class Pickler(cloudpickle.Pickler):
        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file)
            self.reads: set[int] = set()

        def persistent_id(self, value: Any) -> Any:
            if isinstance(value, Partitioned):
                self.reads.add(value.key)
                return value.key
            name = str(getattr(value, "__name__", ""))
            is_library = name == "gpukfl.partitioned" or name.startswith("array_api_compat.")
            return _LIBRARY if is_library else None

        def reducer_override(self, value: Any) -> Any:
            if is_array(value) and not isinstance(value, (type, np.generic)):
                host = np.ascontiguousarray(to_host(value))
                # Indices and labels on the host are for what is done there
                if host.dtype.kind == "f" or not (is_host(value) or host.dtype.kind not in "iub"):
                    return _Bytes, (host.tobytes(), host.dtype.str, host.shape)
            return super().reducer_override(value)

    return Pickler


class _Bytes:
    """Stands for an array in a pickle; never made: what makes one is where it is read."""


def _array_on(place: Array, data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    host = np.frombuffer(data, dtype=dtype).reshape(shape)
    return array_namespace(place).asarray(host, device=like(place)["device"])


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, program: bytes, values: Mapping[int, Any], place: Array, rows: tuple[int, int, int]
    ) -> None:
        super().__init__(io.BytesIO(program))
        self.values, self.place = values, place
        self.start, _, self.n_rows = rows

    def find_class(self, module: str, name: str) -> Any:
        # No method of this, which remembers what it finds: in a circle rows would stay in memory
        found = functools.partial(_array_on, self.place)
        return found if name == "_Bytes" else super().find_class(module, name)

    def persistent_load(self, key: Any) -> Any:
        if key == _LIBRARY:
            return array_namespace(self.place)
        value = self.values[key]
        return Window(value, self.start, self.n_rows) if is_array(value) else value
