"""Reading and checking of Dask collections on their workers."""

from __future__ import annotations

import contextlib
import functools
import itertools
import tempfile
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from gpukfl.core._array import Array, is_array, library_name, to_host
from gpukfl.core._frames import holds_float32, index_difference, kind_of_objects
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import available_memory
from gpukfl.core._random import draw_indices
from gpukfl.core._warnings import warn
from gpukfl.partitioned._array import PartitionedArray
from gpukfl.partitioned._dask import DaskHolders, compute_values
from gpukfl.partitioned._partitioning import Partitioning
from gpukfl.partitioned._program import Holder, ThreadHolders

# --------------------------------------------------------------------------------- reading

# Rows, targets and weights of a partition, read as host arrays and checked.


_TARGET_KINDS = {  # by pandas's names
    "string": "text",
    **dict.fromkeys(
        ("integer", "floating", "mixed-integer-float", "decimal", "boolean"), "numbers"
    ),
}

Read = Callable[[Any], np.ndarray]  # makes rows (m, d) of a partition of X


def read_part(
    read: Read,
    form: tuple[int, Any, int | None, bool],
    numbers_of: Sequence[int],
    X: Sequence[Any],
    y: Sequence[Any],
    weights: Sequence[Any] | None,
    /,
) -> dict[int, Any]:
    """Read the partitions of a part: rows, targets and weights, by keys 0, 1 and 2.

    Raises
    ------
    ValueError
        If a partition is invalid; the message has its number.
    """
    width, dtype, n_targets, labels = form
    blocks: list[list[np.ndarray]] = [[], [], []]
    for k, number in enumerate(numbers_of):
        with name_partition_in_errors(number):
            rows = np.asarray(read(X[k]))
            check_rows(rows, width)
            _check_precision(rows, dtype)
            targets = _check_targets(y[k], len(rows), n_targets, labels=labels)
            blocks[0].append(rows.astype(dtype, copy=False))
            blocks[1].append(targets)
            if weights is not None:
                blocks[2].append(_check_weights(weights[k], len(rows)))
    return {key: np.concatenate(found) for key, found in enumerate(blocks) if found}


@contextlib.contextmanager
def name_partition_in_errors(number: int, /) -> Iterator[None]:
    """Add the number of the partition to errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        msg = f"partition {number}: {error}"
        raise type(error)(msg) from error


def order_columns(names: Sequence[Any], number: int, partition: Any, /) -> Any:
    """Return a partition, a frame, with its columns in the order of the whole frame.

    Raises
    ------
    ValueError
        If it lacks columns, has others, or has several of the same name in another order.
    """
    own = list(partition.columns)
    if own == list(names):
        return partition
    if sorted(map(str, own)) != sorted(map(str, names)) or len(set(map(str, own))) < len(own):
        lacking = [str(one) for one in names if one not in own]
        other = [str(one) for one in own if one not in names]
        found = [
            f"{word} {', '.join(some[:10])}"
            for word, some in (("lacks", lacking), ("also has", other))
            if some
        ] or ["has several columns of the same name"]
        msg = (
            f"partition {number}: expected the {len(names)} columns of the frame, but it "
            f"{' and '.join(found)}: all partitions need the same columns"
        )
        raise ValueError(msg)
    index = {str(one): k for k, one in enumerate(own)}
    ordered = partition.iloc[:, [index[str(one)] for one in names]]
    return ordered.set_axis(list(names), axis=1)


def numeric_rows(partition: Any, /) -> np.ndarray:
    """Return the numbers (m, d) of a partition: an array, or a frame of numeric columns."""
    if is_array(partition):
        host = to_host(partition)
        return host.astype(np.float64) if host.dtype == object else host
    frame = partition.to_pandas() if hasattr(partition, "to_pandas") else partition
    wrong = [str(c) for c in frame.columns if not _holds_numbers(frame[c])]
    if wrong:
        msg = f"expected numeric columns, got others: {', '.join(wrong[:10])}"
        raise ValueError(msg)
    return frame.to_numpy(dtype=np.float32 if holds_float32(frame) else np.float64, na_value=np.nan)


def _holds_numbers(column: Any) -> bool:
    objects = column.dtype == object and kind_of_objects(column) == "numbers"
    return objects or column.dtype.kind in "fiub"


def check_rows(rows: np.ndarray, width: int, /) -> None:
    """Raise ValueError for rows of another width, or with values that are not finite."""
    if rows.ndim != 2 or rows.shape[1] != width:
        msg = f"expected rows of {width} columns as in the first partition, got {rows.shape}"
        raise ValueError(msg)
    if rows.dtype.kind == "c":
        msg = f"Complex data not supported: expected real numbers, got dtype {rows.dtype}"
        raise ValueError(msg)
    if not np.isfinite(rows).all():
        msg = "Input X contains NaN or infinity: expected finite values only"
        raise ValueError(msg)


def _check_precision(rows: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Raise ValueError for rows that float32 would round or overflow."""
    if dtype == np.float32 and rows.dtype != np.float32:
        msg = (
            f"expected float32 as in the first partition, got {rows.dtype}: convert all partitions "
            "to one dtype with astype"
        )
        raise ValueError(msg)


def target_kind(y: np.ndarray, /) -> str | None:
    """Return the kind of the targets of a partition: "numbers", "text" or others; None if empty."""
    import pandas as pd

    if y.dtype.kind in "fiub":
        return "numbers"
    found = str(pd.api.types.infer_dtype(y.ravel(), skipna=True))
    if found == "empty":
        return None
    return _TARGET_KINDS.get(found, found)


def _check_targets(y: Any, n: int, n_targets: int | None, *, labels: bool) -> np.ndarray:
    host = to_host_array(y)
    if labels and host.shape[1:] == (1,):
        host = host[:, 0]
    shape = (n,) if labels or n_targets is None else (n, n_targets)
    if host.shape != shape:
        msg = f"expected targets of shape {shape}, as many as rows, got {host.shape}"
        raise ValueError(msg)
    if labels:
        _check_classes(host)
        return host
    host = host.astype(np.float64)
    if not np.isfinite(host).all():
        msg = "Input y contains NaN or infinity: expected finite targets only"
        raise ValueError(msg)
    return host


def _check_classes(labels: np.ndarray) -> None:
    """Raise ValueError for labels that are fractional numbers.

    scikit-learn does so too, but warns if few rows have many classes, as partitions may.
    """
    known = np.asarray(labels.tolist()) if labels.dtype == object else labels
    if known.dtype.kind != "f":
        return
    wrong = known[~np.isfinite(known) | (known != np.trunc(known))]
    if wrong.size:
        msg = f"Unknown label type: expected classes, got numbers such as {wrong.flat[0]:g}"
        raise ValueError(msg)


def _check_weights(weights: Any, n: int) -> np.ndarray:
    host = to_host_array(weights).astype(np.float64)
    if host.shape != (n,):
        msg = f"expected sample weights of shape ({n},), got {host.shape}"
        raise ValueError(msg)
    if not np.isfinite(host).all() or np.any(host < 0):
        msg = "expected finite sample weights of at least 0"
        raise ValueError(msg)
    return host


def to_host_array(x: Any, /) -> np.ndarray:
    """Return targets or weights of a partition as a host array."""
    if is_array(x):
        return to_host(x)
    host = np.asarray(x.to_pandas() if hasattr(x, "to_pandas") else x)
    return host.astype(object) if host.dtype.kind == "T" else host


# ---------------------------------------------------------------------------------- places

# The library and device that each worker computes on.


def make_place(backend: str, /) -> Callable[[], Array]:
    """Return a function that makes an empty array of a worker's library and device."""
    return partial(_backend_reference, backend)


def _backend_reference(backend: str) -> Array:
    if _uses_gpu(backend):
        import cupy

        return cupy.empty(0)
    return np.empty(0)


def _uses_gpu(backend: str) -> bool:
    from gpukfl.core._cuda import cupy_is_usable

    return backend == "cupy" or (backend == "auto" and cupy_is_usable())


def check_places(client: Any, backend: str, /) -> None:
    """Raise an error if a worker, or this process, lacks the backend.

    Raises
    ------
    ValueError
        If partitioned rows do not support the backend.
    RuntimeError
        If the backend needs a GPU, and none can be used.
    """
    if backend == "torch":
        msg = "expected backend 'auto', 'numpy' or 'cupy' for Dask collections, got 'torch'"
        raise ValueError(msg)
    if backend != "cupy":
        return
    if client is None:
        why = _cupy_problem()
        if why is not None:
            msg = f"backend='cupy' needs a GPU that CuPy can use here, or a Dask client: {why}"
            raise RuntimeError(msg)
        return
    answers = client.run(_cupy_problem)
    without = {address: why for address, why in answers.items() if why is not None}
    if without:
        address, why = next(iter(without.items()))
        msg = (
            f"backend='cupy' needs a GPU on every worker: {len(without)} of {len(answers)} have "
            f"none, such as {address}: {why}"
        )
        raise RuntimeError(msg)


def _cupy_problem() -> str | None:
    from gpukfl.core._cuda import cupy_is_usable, cupy_problem, is_installed

    if not is_installed("cupy"):
        return "CuPy is not installed"
    return None if cupy_is_usable() else cupy_problem()


# ----------------------------------------------------------------------------- collections

# Dask collections as partitioned arrays.


_PART_ROWS = 2**17  # largest number of rows of a part, to which partitions are combined
_MIN_PARTS = 16  # the rows are divided into at least so many parts
_MEMORY_SHARE = 0.25  # of available memory, for rows of all parts in this process


def is_dask(x: object, /) -> bool:
    """Whether `x` is a Dask array, frame or series."""
    return library_name(x) == "dask" and hasattr(x, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class Parts:
    """The data of a fit with partitioned rows.

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
    """Rows, targets and weights as lists of partitions.

    Attributes
    ----------
    X, y, weights : list
        Lazy partitions of Dask, or host arrays; `weights` may be None.
    lengths : list of int
        Numbers of rows of the partitions.
    n_targets : int or None
        Number of columns of y; None if it has one axis.
    names : list of str or None
        Names of the columns of a frame.
    """

    X: list[Any]
    y: list[Any]
    weights: list[Any] | None
    lengths: list[int]
    n_targets: int | None
    names: list[str] | None = None

    @classmethod
    def from_inputs(cls, X: Any, y: Any, weights: Any = None, /) -> Collections:
        """Read collections, and drop rows of weight 0, or with a warning without a target.

        Lengths that are not known are computed, once.

        Raises
        ------
        TypeError
            If `X` is no Dask collection.
        ValueError
            If shapes or partitions do not go together, or no row has a target.
        """
        _check_kinds(X, y)
        if not (hasattr(X, "npartitions") and hasattr(X, "columns")):
            X = X.rechunk({1: -1})
        parts = _order_partitions(X, _partitions(X))
        lengths = None if _is_cut(X) else list(X.chunks[0])  # None: unknown until X is read
        if lengths is None and not (_is_cut(y) and (weights is None or _is_cut(weights))):
            lengths = _compute_each(len, parts)
        names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
        n_targets = None if y.ndim == 1 else int(y.shape[1])
        of_y = _cut_like_rows("y", y, lengths, len(parts))
        of_weights = None
        if weights is not None:
            of_weights = _cut_like_rows("sample_weight", weights, lengths, len(parts))
        sizes, counted, gaps, differences = _inspect_partitions(lengths or parts, of_y, of_weights)
        for difference in differences.values():
            warn(difference)
        found = cls(parts, of_y, of_weights, sizes, n_targets, names)
        if gaps and gaps == counted:
            msg = f"expected targets, got NaN or None in all {gaps} rows"
            raise ValueError(msg)
        if gaps:
            warn(f"y is missing in {gaps} of {counted} rows, which are dropped")
        is_weighted = counted == found.n_rows or counted < 2  # too few rows raise an error later
        return found if is_weighted and not gaps else found.only(_has_target)

    def only(self, which: Callable[[np.ndarray], np.ndarray], /) -> Collections:
        """Return the rows with positive weight for which ``which(y)`` is true.

        ``which`` takes the targets of a partition as an array.
        """
        from dask import delayed

        weights = self.weights or [None] * len(self.y)
        choose = delayed(_choose_rows, pure=False)
        kept = [choose(which, y, w) for y, w in zip(self.y, weights, strict=True)]
        take = delayed(_index_rows, pure=False)

        def select_rows(parts: Sequence[Any]) -> list[Any]:
            return [take(x, rows) for x, rows in zip(parts, kept, strict=True)]

        taken = None if self.weights is None else select_rows(self.weights)
        lengths = _compute_each(len, kept)
        return replace(
            self, X=select_rows(self.X), y=select_rows(self.y), weights=taken, lengths=lengths
        )

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return sum(self.lengths)

    def sample(self, rng: np.random.RandomState, count: int, /) -> tuple[Any, Any, Any]:
        """Gather some rows in their order: X, y, and weights or None.

        Index labels of frames and series are the numbers of rows.
        """
        from dask import delayed

        n = self.n_rows
        index = np.arange(n) if count >= n else np.sort(draw_indices(rng, n, count))
        edges, found = np.cumsum([0, *self.lengths]), []
        for k, (start, stop) in enumerate(itertools.pairwise(edges)):
            low, high = np.searchsorted(index, [start, stop])
            if low < high:
                weights = None if self.weights is None else self.weights[k]
                rows = index[low:high] - start
                found.append(
                    delayed(_take_partition_rows, pure=False)(self.X[k], self.y[k], weights, rows)
                )
        if not found:
            msg = "Found array with 0 sample(s) while a minimum of 2 is required."
            raise ValueError(msg)
        X, y, weights = zip(*compute_values(*found), strict=True)
        return (
            _concat_blocks(X, index),
            _concat_blocks(y, index),
            None if self.weights is None else _concat_blocks(weights, index),
        )

    def parts(self) -> list[list[int]]:
        """Return groups of consecutive partitions, one for each task.

        Groups have about the same number of rows. If all partitions are small, the number of groups
        is a power of two, because sums are added up by halves.
        """
        there = [k for k, length in enumerate(self.lengths) if length]
        if not there:
            msg = "Found array with 0 sample(s) while a minimum of 2 is required."
            raise ValueError(msg)
        n = self.n_rows
        count = max(_MIN_PARTS, 2 ** (-(-n // _PART_ROWS) - 1).bit_length())
        middles = np.cumsum(self.lengths) - np.array(self.lengths) / 2
        found: dict[int, list[int]] = {}
        for k in there:
            found.setdefault(int(middles[k] * count / n), []).append(k)
        return list(found.values())

    of = OldName("from_inputs")


@contextlib.contextmanager
def read_partitions(
    given: Collections, client: Any, backend: str, /, *, labels: bool, read: Read | None = None
) -> Iterator[Parts]:
    """Read partitions on their workers for the duration of the block.

    Parameters
    ----------
    given : Collections
        The partitions.
    client : distributed.Client or None
        Client of the cluster that holds the parts; without one, this process holds them.
    backend : str
        Library that computes on the workers, or in this process, where "auto" is NumPy.
    labels : bool
        Whether `y` are labels, of any type that can be sorted.
    read : callable, optional
        Makes rows (m, d) of a partition of X; by default its numbers, which must be finite.

    Raises
    ------
    TypeError, ValueError
        If a partition is invalid; the message has its number.
    RuntimeError
        If the backend is not available.
    """
    from dask import delayed

    check_places(client, backend)
    parts = given.parts()
    sizes = [sum(given.lengths[i] for i in part) for part in parts]
    width, dtype = _row_format(given, read or numeric_rows)
    form = (width, dtype, given.n_targets, labels)
    # As one object of the graph; Dask would search arguments for collections in every task
    reading = delayed(functools.partial(read_part, read or numeric_rows, form), pure=False)

    def load(part: int) -> Any:
        chosen = parts[part]
        weights = None if given.weights is None else [given.weights[i] for i in chosen]
        blocks = [given.X[i] for i in chosen], [given.y[i] for i in chosen], weights
        return reading(chosen, *blocks)

    reference = np.empty(0)
    if client is None:
        holders: Any = _load_into_threads(sizes, load, backend)
    else:
        holders = DaskHolders(client, sizes, load, make_place(backend))
    try:
        rows = Partitioning(holders, reference)
        X = PartitionedArray(rows, None, (width,), dtype)
        columns = () if labels or given.n_targets is None else (given.n_targets,)
        y = PartitionedArray(rows, None, columns, object if labels else np.float64)
        weights = None
        if given.weights is not None:
            weights = PartitionedArray(rows, None, (), np.float64)
        yield Parts(X, y, weights)
    finally:
        holders.close()


def _load_into_threads(
    sizes: Sequence[int], load: Callable[[int], Any], backend: str
) -> ThreadHolders:
    from gpukfl._accel.threads import n_threads

    on_gpu = backend == "cupy"  # one thread is enough for one device
    place = make_place("cupy" if on_gpu else "numpy")()
    holders = ThreadHolders([Holder(place, 1 if on_gpu else n_threads())], sizes)
    for part in range(len(sizes)):
        (values,) = compute_values(load(part))
        for key, value in values.items():
            is_large = key == 0 and value.nbytes * len(sizes) > _MEMORY_SHARE * available_memory(
                value
            )
            holders.put(part, key, _move_to_disk(value) if is_large else value)
    return holders


def _move_to_disk(rows: np.ndarray) -> np.ndarray:
    """Move rows to a memory-mapped file, which is deleted with the array."""
    with tempfile.TemporaryFile() as file:
        moved = np.memmap(file, rows.dtype, "w+", shape=rows.shape)
    moved[...] = rows
    moved.flush()
    return moved


def _take_partition_rows(X: Any, y: Any, weights: Any, rows: np.ndarray) -> list[Any]:
    """Return some rows of a partition."""
    return [None if x is None else _index_rows(x, rows) for x in (X, y, weights)]


def _index_rows(x: Any, rows: np.ndarray) -> Any:
    return x.iloc[rows] if hasattr(x, "iloc") else x[rows]


def _choose_rows(which: Callable[[np.ndarray], np.ndarray], y: Any, weights: Any) -> np.ndarray:
    return np.flatnonzero(which(to_host_array(y)) & _has_weight(weights))


def _has_weight(weights: Any) -> np.ndarray | bool:
    """Return which rows (n,) have a nonzero weight."""
    return True if weights is None else to_host_array(weights) != 0


def _has_target(y: np.ndarray) -> np.ndarray:
    """Return which rows (n,) have a target."""
    import pandas as pd

    missing = pd.isna(y)
    return ~(missing.any(axis=1) if missing.ndim > 1 else missing)


def _concat_blocks(blocks: Sequence[Any], labels: np.ndarray) -> Any:
    if is_array(blocks[0]):
        return np.concatenate([to_host(block) for block in blocks])
    import pandas as pd

    return pd.concat(blocks, ignore_index=True).set_axis(labels)


def _row_format(given: Collections, read: Read) -> tuple[int, np.dtype[Any]]:
    """Return width and dtype of the rows, from the first partition with rows."""
    first = next(i for i, length in enumerate(given.lengths) if length)
    (partition,) = compute_values(given.X[first])
    rows = np.asarray(read(partition[:2]))
    narrow = rows.dtype == np.float32
    return rows.shape[1], np.dtype(np.float32 if narrow else np.float64)


# ---------------------------------------------------------------------- partitions


def _check_kinds(X: Any, y: Any) -> None:
    if y is None:
        msg = "requires y to be passed, but the target y is None: expected (n,) or (n, t)"
        raise ValueError(msg)
    if not is_dask(X):
        msg = f"expected a Dask collection for X, as for other arguments, got {_type_name(X)}"
        raise TypeError(msg)
    if X.ndim != 2:
        msg = f"Expected 2D array, got {X.ndim}D array. Reshape your data"
        raise ValueError(msg)


def _is_cut(x: Any) -> bool:
    """Whether the partitions are fixed: of frames, or of arrays with unknown chunks."""
    return is_dask(x) and (
        hasattr(x, "columns") or not hasattr(x, "chunks") or np.isnan(x.chunks[0]).any()
    )


def _compute_each(of: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    from dask import delayed

    return list(compute_values(*(delayed(of, pure=False)(part) for part in parts)))


def _inspect_partitions(
    rows: Sequence[Any], y: Sequence[Any], weights: Sequence[Any] | None
) -> tuple[list[int], int, int, dict[str, str]]:
    """Return the rows of each partition, and counts of all with a weight and without a target.

    Last come warnings, by name, about targets or weights with another index than the rows.
    """
    from dask import delayed

    beside = [y] if weights is None else [y, weights]
    look: Any = _inspect_partition
    if not all(isinstance(x, np.ndarray) for parts in beside for x in parts):
        look = delayed(_inspect_partition, pure=False)
    looks = [look(*one) for one in zip(range(len(rows)), rows, *beside, strict=True)]
    sizes, counted, gaps, differences, kinds = zip(*compute_values(*looks), strict=True)
    _check_one_kind(kinds)
    return list(sizes), sum(counted), sum(gaps), dict(ChainMap(*differences))


def _check_one_kind(kinds: Sequence[str | None]) -> None:
    """Raise ValueError for targets that are text in one partition, and numbers in another."""
    known = [k for k, kind in enumerate(kinds) if kind is not None]
    for k in known:
        if kinds[k] != kinds[known[0]]:
            msg = (
                f"partition {k}: expected targets that are {kinds[known[0]]}, as in partition "
                f"{known[0]}, got {kinds[k]}: convert all partitions to one type with astype"
            )
            raise ValueError(msg)


def _inspect_partition(
    number: int, rows: Any, y: Any, weights: Any = None
) -> tuple[int, int, int, dict[str, str], str | None]:
    n = int(rows) if isinstance(rows, Integral) else len(rows)
    with name_partition_in_errors(number):
        for name, x in (("targets", y), ("sample weights", weights)):
            if x is not None and len(x) != n:
                msg = f"expected as many {name} as rows, {n}, got {len(x)}"
                raise ValueError(msg)
    host = to_host_array(y)
    weighted = np.broadcast_to(_has_weight(weights), n)
    gaps = weighted & ~_has_target(host)
    pairs = ("y", y), ("sample_weight", weights)
    found = {name: index_difference(rows, x, name) for name, x in pairs}
    differences = {name: text for name, text in found.items() if text}
    kind = target_kind(host)
    return n, int(np.count_nonzero(weighted)), int(np.count_nonzero(gaps)), differences, kind


def _partitions(x: Any) -> list[Any]:
    # Optimisation would leave fewer partitions for few columns of a file than for many
    found = x.to_delayed(optimize_graph=not hasattr(x, "npartitions") or hasattr(x, "chunks"))
    return list(found) if isinstance(found, list) else found.ravel().tolist()


def _order_partitions(x: Any, parts: list[Any]) -> list[Any]:
    """Order the columns of each partition as in the frame."""
    from dask import delayed

    if x.ndim != 2 or not hasattr(x, "columns"):
        return parts
    # As one object of the graph; Dask would search a list for collections in every task
    in_order = delayed(functools.partial(order_columns, list(x.columns)), pure=False)
    return [in_order(number, part) for number, part in enumerate(parts)]


def _cut_like_rows(name: str, x: Any, lengths: Sequence[int] | None, count: int) -> list[Any]:
    """Divide targets or weights into the same partitions as the rows.

    `lengths` may be None for Dask collections with their own partitions.
    """
    if _is_cut(x):
        parts = _partitions(x if hasattr(x, "columns") or x.ndim == 1 else x.rechunk({1: -1}))
        parts = _order_partitions(x, parts)
        if len(parts) != count:
            msg = f"expected {name} in {count} partitions, as X has, got {len(parts)}"
            raise ValueError(msg)
        return parts
    assert lengths is not None
    n = sum(lengths)
    given = x if is_dask(x) else np.asarray(x)
    if given.shape[:1] != (n,):
        msg = f"expected {name} of {n} rows, as X has, got shape {given.shape}"
        raise ValueError(msg)
    if is_dask(x):
        return _partitions(x.rechunk({0: tuple(lengths), **{k: -1 for k in range(1, x.ndim)}}))
    edges = np.cumsum([0, *lengths])
    return [given[a:b] for a, b in itertools.pairwise(edges)]


def _type_name(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__name__}"
