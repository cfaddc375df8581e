"""Programs that run on the parts, holders of the parts, and sums in a fixed order."""

from __future__ import annotations

import functools
import io
import itertools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    device_context,
    is_array,
    is_host,
    like,
    to_host,
)

# --------------------------------------------------------------------------------- program

# Functions of partitioned arrays, which are sent to the rows as bytes.
#
# In the bytes, a partitioned array is its key. The receiver replaces it by a window on its local
# rows. Small arrays of floats, and array libraries, are replaced by the receiver's own.


_LIBRARY = "library"  # stands in a program for the array library of the receiver

Part = Callable[[int, int], Any]  # a function of the first row of a part and the row after its last


class Partitioned:
    """A value of each part, which is computed and kept there.

    Attributes
    ----------
    key : int
        Identifies the value in all holders; later values have larger keys.
    """

    key: int

    def __reduce__(self) -> Any:
        msg = "a partitioned value stays where its rows lie: expected none in what is pickled"
        raise TypeError(msg)


@dataclass(frozen=True, eq=False)
class Window:
    """The local rows of a partitioned array, which are indexed by their global numbers."""

    block: Array
    start: int
    n_rows: int  # of the whole array

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
    """Serialise a program; return its bytes and the keys that it reads."""
    buffer = io.BytesIO()
    pickler = _pickler()(buffer)
    pickler.dump(work)
    return buffer.getvalue(), pickler.reads


def loads(
    program: bytes, values: Mapping[int, Any], place: Array, rows: tuple[int, int, int], /
) -> Any:
    """Deserialise a program for one part.

    Parameters
    ----------
    program : bytes
        From `dumps`.
    values : mapping of int to object
        The part's values by key; it may grow while the program runs.
    place : array
        An empty array of the library and device of the computation.
    rows : tuple of int
        First row of the part, the row after its last, and the number of all rows.
    """
    return _Unpickler(program, values, place, rows).load()


@functools.cache
def _pickler() -> Any:
    """Return the pickler class, made on first use because it needs cloudpickle."""
    try:
        import cloudpickle
    except ImportError as error:
        msg = "partitioned data need cloudpickle: `pip install 'gpukfl[dask]'`"
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
                # Host arrays of indices and labels stay on the host
                if host.dtype.kind == "f" or not (is_host(value) or host.dtype.kind not in "iub"):
                    return _Bytes, (host.tobytes(), host.dtype.str, host.shape)
            return super().reducer_override(value)

    return Pickler


class _Bytes:
    """A stand-in for an array in a pickle."""


def _make_array(place: Array, data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
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
        # A bound method would make a circle with the unpickler, which would keep rows in memory
        found = functools.partial(_make_array, self.place)
        return found if name == "_Bytes" else super().find_class(module, name)

    def persistent_load(self, key: Any) -> Any:
        if key == _LIBRARY:
            return array_namespace(self.place)
        value = self.values[key]
        return Window(value, self.start, self.n_rows) if is_array(value) else value


# ------------------------------------------------------------------------------------ tree

# Sums in a fixed order of the parts, which does not depend on their holders.


T = TypeVar("T")

Totals = dict[tuple[int, int], T]  # totals of parts, by the first part and the one after the last


def add_halves(known: Totals[T], start: int, stop: int, combine: Callable[[T, T], T], /) -> None:
    """Combine the totals of two halves in place, if both are known.

    The order of sums depends on `start` and `stop` only, not on the holders. Halves are equal, so
    that a holder of half of the parts has one total.
    """
    if (start, stop) in known or stop - start < 2:
        return
    middle = (start + stop) // 2
    add_halves(known, start, middle, combine)
    add_halves(known, middle, stop, combine)
    left, right = (start, middle), (middle, stop)
    if left in known and right in known:
        known[start, stop] = combine(known.pop(left), known.pop(right))


def add_part(known: Totals[T], part: int, count: int, combine: Callable[[T, T], T], /) -> None:
    """Add the total of one of `count` parts, and combine completed halves, in place.

    Totals may be large, so they are combined as soon as possible.
    """
    start, stop, halves = 0, count, []
    while stop - start > 1:
        middle = (start + stop) // 2
        halves.append((start, middle, stop))
        start, stop = (start, middle) if part < middle else (middle, stop)
    for first, middle, last in reversed(halves):
        left, right = (first, middle), (middle, last)
        if left not in known or right not in known:
            return
        known[first, last] = combine(known.pop(left), known.pop(right))


# ---------------------------------------------------------------------------------- holder

# Holders of parts of the rows, which run programs on them and keep results.


Combine = Callable[[Any, Any], Any]


class HolderLostError(LookupError):
    """The holder of some rows is lost, with all its values."""


@dataclass(frozen=True)
class Pass:
    """A program for each part of the rows, as bytes.

    Attributes
    ----------
    made : tuple of (int, bytes)
        Keys and programs of the values to compute, in order of dependence.
    asked : bytes or None
        A pair of functions: one returns a tuple of values of a part, one combines two values.
    kept : frozenset of int
        Keys of the computed values that the parts keep.
    reads : frozenset of int
        Keys of all values that the programs read.
    replaced : frozenset of int
        Keys of values that a part frees once its own work is done.
    """

    made: tuple[tuple[int, bytes], ...]
    asked: bytes | None
    kept: frozenset[int]
    reads: frozenset[int]
    replaced: frozenset[int] = frozenset()

    @property
    def n_bytes(self) -> int:
        """The size of the program in bytes."""
        return sum(len(step) for _, step in self.made) + len(self.asked or b"")


class Holder:
    """A holder of some parts on one place.

    Parameters
    ----------
    place : array
        An empty array of the library and device of the computation.
    n_threads : int
        Number of parts that are processed in parallel.
    """

    def __init__(self, place: Array, n_threads: int = 1) -> None:
        self.place, self.n_threads = place, n_threads
        self.values: dict[int, dict[int, Any]] = {}  # of each part, by key

    def put(self, part: int, key: int, value: Any, /) -> None:
        """Store a value of one part, on the place if it is numeric."""
        self.values.setdefault(part, {})[key] = self._place_value(value)

    def _place_value(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            return value
        return array_namespace(self.place).asarray(value, device=like(self.place)["device"])

    def drop(self, parts: Iterable[int], /) -> None:
        """Drop parts."""
        for part in parts:
            self.values.pop(part, None)

    def free(self, keys: Iterable[int], /) -> None:
        """Free values that are not needed again."""
        for part in self.values:
            self._free(part, keys)

    def _free(self, part: int, keys: Iterable[int]) -> None:
        values = self.values[part]
        self.let_go(sum(n_bytes(values.pop(key, None)) for key in keys))

    def let_go(self, count: int, /) -> None:
        """Do nothing after `count` bytes were freed; subclasses may."""

    def run(self, work: Pass, parts: Sequence[int], edges: Sequence[int], /) -> Totals[Any]:
        """Run a pass over the local parts, and return totals over them.

        `edges` are the first rows of all parts, local or not, and the number of rows. After an
        error, values of this pass may remain until they are freed.
        """
        from gpukfl._accel.pool import map_in_threads
        from gpukfl._accel.threads import use_one_thread

        if missing := [part for part in parts if part not in self.values]:
            msg = f"the parts {missing} are not held here"
            raise HolderLostError(msg)

        def one(part: int) -> tuple[dict[int, Any], tuple[Any, ...] | None, Combine]:
            with use_one_thread(), device_context(self.place):
                return self._run_pass(work, part, edges)

        known: Totals[Any] = {}
        results = map_in_threads(self.n_threads, one, parts)
        for part, (made, result, combine) in zip(parts, results, strict=True):
            self.values[part].update(made)
            self._free(part, work.replaced)
            if result is not None:
                known[part, part + 1] = result
                add_part(known, part, len(edges) - 1, partial(combine_tuples, combine))
        return known

    def _run_pass(
        self, work: Pass, part: int, edges: Sequence[int]
    ) -> tuple[dict[int, Any], tuple[Any, ...] | None, Combine]:
        values, rows = dict(self.values[part]), (edges[part], edges[part + 1], edges[-1])
        for key, step in work.made:
            values[key] = self._place_value(loads(step, values, self.place, rows)(*rows[:2]))
        made = {key: values[key] for key in work.kept}
        if work.asked is None:
            return made, None, _first
        ask, combine = loads(work.asked, values, self.place, rows)
        result = tuple(to_host(x) if is_array(x) else x for x in ask(*rows[:2]))
        return made, result, combine


def combine_tuples(combine: Combine, a: tuple[Any, ...], b: tuple[Any, ...], /) -> tuple[Any, ...]:
    """Combine two tuples elementwise."""
    return tuple(combine(x, y) for x, y in zip(a, b, strict=True))


def _first(a: Any, _: Any) -> Any:
    return a


def n_bytes(value: Any, /) -> int:
    """Return the bytes of all arrays in a nested structure."""
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    if isinstance(value, (tuple, list)):
        return sum(map(n_bytes, value))
    return int(getattr(value, "nbytes", 0))


# --------------------------------------------------------------------------------- threads

# Parts in this process, on one device or on several with a thread each.


class ThreadHolders:
    """Holders in threads of this process.

    Parameters
    ----------
    holders : sequence of Holder
        Holders, each with its place.
    sizes : sequence of int
        Rows of each part; consecutive parts are divided among the holders.
    """

    def __init__(self, holders: Sequence[Holder], sizes: Sequence[int]) -> None:
        self.holders, self.sizes, n_parts = holders, list(sizes), len(sizes)
        self._edges = [0, *itertools.accumulate(sizes)]
        each = -(-n_parts // len(holders))
        self.parts = [range(n_parts)[i * each : (i + 1) * each] for i in range(len(holders))]

    def put(self, part: int, key: int, value: Any, /) -> None:
        """Store a value of one part in its holder."""
        (holder,) = (h for h, parts in zip(self.holders, self.parts, strict=True) if part in parts)
        holder.put(part, key, value)

    def close(self) -> None:
        """Release everything."""
        for holder in self.holders:
            holder.values.clear()

    def run(self, work: Pass, freed: frozenset[int], /) -> Totals[Any]:
        """Run a pass over all parts, and free values; return totals of consecutive parts."""
        from gpukfl._accel.pool import map_in_threads

        def one(holder: Holder, parts: Sequence[int]) -> Totals[Any]:
            holder.free(freed)
            return holder.run(work, parts, self._edges) if parts else {}

        if len(self.holders) == 1:
            return one(self.holders[0], self.parts[0])
        known: Totals[Any] = {}
        for found in map_in_threads(len(self.holders), one, self.holders, self.parts):
            known |= found
        return known
