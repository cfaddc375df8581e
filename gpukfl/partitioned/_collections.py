"""Dask collections in: what their partitions hold, as arrays whose rows lie in parts."""

from __future__ import annotations

import contextlib
import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._array import is_array, library_of, to_host
from gpukfl._draws import drawn
from gpukfl._memory import available_memory
from gpukfl.partitioned._array import PartitionedArray
from gpukfl.partitioned._dask import DaskHolders
from gpukfl.partitioned._holder import Holder
from gpukfl.partitioned._partitioning import Partitioning
from gpukfl.partitioned._places import check_workers, make_place
from gpukfl.partitioned._threads import ThreadHolders

_PART_ROWS = 2**17  # partitions are put together to parts of so many rows, ...
_SHARE = 0.25  # of the memory that may be used, for the rows of all parts in this process
_PARTS = 16  # ... or of an even share of so many parts, if that is less

Read = Callable[[Any], np.ndarray]  # rows (m, d) of a partition of X


def is_dask(x: object, /) -> bool:
    """Whether `x` is a Dask array, frame or series."""
    return library_of(x) == "dask" and hasattr(x, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class Parts:
    """What a fit reads, its rows in parts.

    Attributes
    ----------
    X, y, weights : PartitionedArray
        Rows (n, d), targets or labels (n,) or (n, t), and weights (n,), or None.
    """

    X: PartitionedArray
    y: PartitionedArray
    weights: PartitionedArray | None


@dataclass(frozen=True, eq=False)
class Collections:
    """Rows, targets and weights partition by partition, as they are given.

    Attributes
    ----------
    X, y, weights : list
        What Dask computes a partition of each from, or host arrays; None without weights.
    lengths : list of int
        Rows of each partition.
    n_targets : int or None
        Columns of y; None where it has one axis.
    names : list of str or None
        Of the columns of a frame.
    """

    X: list[Any]
    y: list[Any]
    weights: list[Any] | None
    lengths: list[int]
    n_targets: int | None
    names: list[str] | None = None

    @classmethod
    def of(cls, X: Any, y: Any, weights: Any = None, /) -> Collections:
        """Look at what is given; lengths that are not known are computed, once.

        Raises
        ------
        TypeError
            If `X` is no Dask collection.
        ValueError
            If shapes or partitions do not go together.
        """
        if y is None:
            msg = "requires y to be passed, but the target y is None: expected (n,) or (n, t)"
            raise ValueError(msg)
        if not is_dask(X):
            msg = f"expected a Dask collection for X, as for other arguments, got {_kind(X)}"
            raise TypeError(msg)
        if X.ndim != 2:
            msg = f"Expected 2D array, got {X.ndim}D array. Reshape your data"
            raise ValueError(msg)
        X = _whole_rows(X)
        lengths = _lengths(X)
        names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
        n_targets = None if y.ndim == 1 else int(y.shape[1])
        of_weights = None if weights is None else _beside("sample_weight", weights, lengths)
        return cls(_partitions(X), _beside("y", y, lengths), of_weights, lengths, n_targets, names)

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return sum(self.lengths)

    def sample(self, rng: np.random.RandomState, count: int, /) -> tuple[Any, Any, Any]:
        """Bring some rows here, in their order: X as its partitions are, y, and weights or None."""
        import dask
        from dask import delayed

        n = self.n_rows
        index = np.arange(n) if count >= n else np.sort(drawn(rng, n, count))
        edges, found = np.cumsum([0, *self.lengths]), []
        for k, (start, stop) in enumerate(itertools.pairwise(edges)):
            low, high = np.searchsorted(index, [start, stop])
            if low < high:
                weights = None if self.weights is None else self.weights[k]
                rows = index[low:high] - start
                found.append(delayed(_rows_of, pure=False)(self.X[k], self.y[k], weights, rows))
        if not found:
            msg = "Found array with 0 sample(s) while a minimum of 2 is required."
            raise ValueError(msg)
        X, y, weights = zip(*dask.compute(*found), strict=True)
        return _joined(X), _joined(y), None if self.weights is None else _joined(weights)

    def parts(self) -> list[list[int]]:
        """Put neighbouring partitions together to parts that are worth a task; none is empty.

        They are as even as partitions allow, so that workers have as much to do as each other,
        and a power of two if all partitions are small: sums are added up by halves.
        """
        there = [k for k, length in enumerate(self.lengths) if length]
        if not there:
            msg = "Found array with 0 sample(s) while a minimum of 2 is required."
            raise ValueError(msg)
        n = self.n_rows
        count = max(_PARTS, 2 ** (-(-n // _PART_ROWS) - 1).bit_length())
        middles = np.cumsum(self.lengths) - np.array(self.lengths) / 2
        found: dict[int, list[int]] = {}
        for k in there:
            found.setdefault(int(middles[k] * count / n), []).append(k)
        return list(found.values())


@contextlib.contextmanager
def in_parts(
    given: Collections, client: Any, backend: str, /, *, labels: bool, read: Read | None = None
) -> Iterator[Parts]:
    """Read partitions where they are to lie, for as long as the ``with`` block.

    Parameters
    ----------
    given : Collections
        What to read.
    client : distributed.Client or None
        Of the cluster that holds the parts; without one they lie in this process.
    backend : str
        Library that workers are to compute with.
    labels : bool
        Whether `y` are labels, which may be anything that can be sorted.
    read : callable, optional
        Makes rows (m, d) of a partition of X; by default its numbers, which must be finite.

    Raises
    ------
    TypeError, ValueError
        If a partition does not hold what it should: says which.
    """
    from dask import delayed

    parts = given.parts()
    sizes = [sum(given.lengths[i] for i in part) for part in parts]
    width, dtype = _format(given, read or numbers)
    form = (width, dtype, given.n_targets, labels)
    # One object of the graph: arguments would be looked through for collections in every task
    reading = delayed(functools.partial(read_part, read or numbers, form), pure=False)

    def load(part: int) -> Any:
        chosen = parts[part]
        weights = None if given.weights is None else [given.weights[i] for i in chosen]
        blocks = [given.X[i] for i in chosen], [given.y[i] for i in chosen], weights
        return reading(chosen, *blocks)

    reference = np.empty(0)
    if client is None:
        holders: Any = _in_process(sizes, load)
    else:
        check_workers(client, backend)
        holders = DaskHolders(client, sizes, load, make_place(backend))
    try:
        rows = Partitioning(holders, reference)
        X = PartitionedArray(rows, None, (width,), dtype)
        columns = () if given.n_targets is None else (given.n_targets,)
        y = PartitionedArray(rows, None, columns, object if labels else np.float64)
        weights = None
        if given.weights is not None:
            weights = PartitionedArray(rows, None, (), np.float64)
        yield Parts(X, y, weights)
    finally:
        holders.close()


def _in_process(sizes: Sequence[int], load: Callable[[int], Any]) -> ThreadHolders:
    import dask

    holders = ThreadHolders([Holder(np.empty(0), _threads())], sizes)
    for part in range(len(sizes)):
        (values,) = dask.compute(load(part))
        for key, value in values.items():
            is_large = key == 0 and value.nbytes * len(sizes) > _SHARE * available_memory(value)
            holders.put(part, key, _on_disk(value) if is_large else value)
    return holders


def _on_disk(rows: np.ndarray) -> np.ndarray:
    """Move rows to a file, of which memory holds what is being read; it goes with the array."""
    with tempfile.TemporaryFile() as file:
        moved = np.memmap(file, rows.dtype, "w+", shape=rows.shape)
    moved[...] = rows
    moved.flush()
    return moved


def _threads() -> int:
    from gpukfl._accel.threads import n_threads

    return n_threads()


def read_part(
    read: Read,
    form: tuple[int, Any, int | None, bool],
    numbers_of: Sequence[int],
    X: Sequence[Any],
    y: Sequence[Any],
    weights: Sequence[Any] | None,
    /,
) -> dict[int, Any]:
    """Read partitions that make a part: rows, targets, and weights, by their keys.

    Raises
    ------
    ValueError
        If one does not hold what it should: says which of all partitions.
    """
    width, dtype, n_targets, labels = form
    blocks: list[list[np.ndarray]] = [[], [], []]
    for k, number in enumerate(numbers_of):
        with partition_named(number):
            rows = np.asarray(read(X[k]))
            check_rows(rows, width)
            targets = _targets(y[k], len(rows), n_targets, labels=labels)
            blocks[0].append(rows.astype(dtype, copy=False))
            blocks[1].append(targets)
            if weights is not None:
                blocks[2].append(_weights(weights[k], len(rows)))
    return {key: np.concatenate(found) for key, found in enumerate(blocks) if found}


@contextlib.contextmanager
def partition_named(number: int, /) -> Iterator[None]:
    """Say of errors which of all partitions they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        msg = f"partition {number}: {error}"
        raise type(error)(msg) from error


def numbers(partition: Any, /) -> np.ndarray:
    """Give the numbers (m, d) of a partition: an array, or a frame of numeric columns."""
    if is_array(partition):
        return to_host(partition)
    frame = partition.to_pandas() if hasattr(partition, "to_pandas") else partition
    wrong = [str(c) for c in frame.columns if frame[c].dtype.kind not in "fiub"]
    if wrong:
        msg = f"expected columns of numbers, got others: {', '.join(wrong[:10])}"
        raise ValueError(msg)
    floats = {frame[c].dtype.name.lower() for c in frame.columns} == {"float32"}
    return frame.to_numpy(dtype=np.float32 if floats else np.float64, na_value=np.nan)


def check_rows(rows: np.ndarray, width: int, /) -> None:
    """Raise ValueError for rows of another width, or that are not finite."""
    if rows.ndim != 2 or rows.shape[1] != width:
        msg = f"expected rows of {width} columns as in the first partition, got {rows.shape}"
        raise ValueError(msg)
    if rows.dtype.kind == "c":
        msg = f"Complex data not supported: expected real numbers, got dtype {rows.dtype}"
        raise ValueError(msg)
    if not np.isfinite(rows).all():
        msg = "Input X contains NaN or infinity: expected finite values only"
        raise ValueError(msg)


def _rows_of(X: Any, y: Any, weights: Any, rows: np.ndarray) -> list[Any]:
    """Give some rows of a partition."""
    given = (X, y, weights)
    return [x if x is None else x.iloc[rows] if hasattr(x, "iloc") else x[rows] for x in given]


def _joined(blocks: Sequence[Any]) -> Any:
    if is_array(blocks[0]):
        return np.concatenate([to_host(block) for block in blocks])
    import pandas as pd

    return pd.concat(blocks, ignore_index=True)


def _targets(y: Any, n: int, n_targets: int | None, *, labels: bool) -> np.ndarray:
    host = _host(y)
    shape = (n,) if n_targets is None else (n, n_targets)
    if host.shape != shape:
        msg = f"expected targets of shape {shape}, as many as rows, got {host.shape}"
        raise ValueError(msg)
    if not labels:
        host = host.astype(np.float64)
    missing = host != host  # noqa: PLR0124 - NaN, of any type
    if host.dtype == object:
        missing = missing | np.equal(host, np.array(None, dtype=object))
    if np.any(missing) or (host.dtype.kind == "f" and not np.isfinite(host).all()):
        msg = "Input y contains NaN or infinity: expected a target in every row"
        raise ValueError(msg)
    return host


def _weights(weights: Any, n: int) -> np.ndarray:
    host = _host(weights).astype(np.float64)
    if host.shape != (n,):
        msg = f"expected sample weights of shape ({n},), got {host.shape}"
        raise ValueError(msg)
    if not np.isfinite(host).all() or np.any(host < 0):
        msg = "expected finite sample weights of at least 0"
        raise ValueError(msg)
    return host


def _host(x: Any) -> np.ndarray:
    if is_array(x):
        return to_host(x)
    host = np.asarray(x.to_pandas() if hasattr(x, "to_pandas") else x)
    return host.astype(object) if host.dtype.kind == "T" else host


def _format(given: Collections, read: Read) -> tuple[int, np.dtype[Any]]:
    """Width and precision of rows, by the first partition that has any."""
    import dask

    first = next(i for i, length in enumerate(given.lengths) if length)
    (partition,) = dask.compute(given.X[first])
    rows = np.asarray(read(partition[:2]))
    narrow = rows.dtype == np.float32
    return rows.shape[1], np.dtype(np.float32 if narrow else np.float64)


# ---------------------------------------------------------------------- partitions


def _whole_rows(X: Any) -> Any:
    """Give an array whose chunks are of rows only; frames are so."""
    return X if hasattr(X, "npartitions") and hasattr(X, "columns") else X.rechunk({1: -1})


def _lengths(X: Any) -> list[int]:
    if not hasattr(X, "columns") and not np.isnan(X.chunks[0]).any():
        return list(X.chunks[0])
    import dask
    from dask import delayed

    return [int(n) for n in dask.compute(*(delayed(len)(part) for part in _partitions(X)))]


def _partitions(x: Any) -> list[Any]:
    # Optimised, frames of few columns have fewer partitions than others of the same file
    found = x.to_delayed(optimize_graph=not hasattr(x, "npartitions") or hasattr(x, "chunks"))
    return list(found) if isinstance(found, list) else found.ravel().tolist()


def _beside(name: str, x: Any, lengths: Sequence[int]) -> list[Any]:
    """Cut targets or weights as the rows are cut."""
    n = sum(lengths)
    if not is_dask(x):
        host = np.asarray(x)
        if host.shape[:1] != (n,):
            msg = f"expected {name} of {n} rows, as X has, got shape {host.shape}"
            raise ValueError(msg)
        edges = np.cumsum([0, *lengths])
        return [host[a:b] for a, b in itertools.pairwise(edges)]
    if not hasattr(x, "chunks") or hasattr(x, "columns"):  # a frame or a series
        parts = _partitions(x)
    else:
        known = not np.isnan(x.chunks[0]).any()
        if known and sum(x.chunks[0]) != n:
            msg = f"expected {name} of {n} rows, as X has, got shape {x.shape}"
            raise ValueError(msg)
        whole = x.rechunk({k: -1 for k in range(1, x.ndim)})
        parts = _partitions(whole.rechunk({0: tuple(lengths)}) if known else whole)
    if len(parts) != len(lengths):
        msg = f"expected {name} in {len(lengths)} partitions, as X has, got {len(parts)}"
        raise ValueError(msg)
    return parts


def _kind(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__name__}"
