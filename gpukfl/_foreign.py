"""Estimators of other libraries in model files: as bytes of skops, of types that are trusted."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._archive import (
    RefusedError,
    check_directory,
    check_json,
    check_members,
    refusals,
)

_SCHEMA = "schema.json"
_LARGEST_SCHEMA = 2**21  # bytes: skops makes an object of each of its lists and dicts


@dataclass(frozen=True, eq=False)
class Foreign:
    """An estimator whose bytes have not been read yet."""

    array: Any


def bytes_of(estimator: Any, /) -> bytes:
    """Return the bytes of a fitted estimator.

    Raises
    ------
    TypeError
        If it holds types that are not trusted, names them; or is too large a structure.
    """
    from skops.io import dumps, get_untrusted_types

    data = dumps(estimator)
    unknown = get_untrusted_types(data=data)
    if unknown:
        msg = (
            f"expected members of types that skops trusts, got {type(estimator).__name__} with "
            f"{', '.join(unknown)}: pickle keeps others"
        )
        raise TypeError(msg)
    try:
        _check(data)
    except RefusedError as error:
        msg = f"expected members that a file may hold, got {type(estimator).__name__}, {error}"
        raise TypeError(msg) from error
    return data


def made_of(data: np.ndarray, /) -> Any:
    """Make an estimator of its bytes, an array; nothing that is not trusted is made.

    Raises
    ------
    RefusedError
        If the bytes are of something else, of other types, or would be larger than they are.
    """
    from skops.io import load

    if data.dtype != np.uint8 or data.ndim != 1:
        msg = "which holds an estimator that is no bytes"
        raise RefusedError(msg)
    try:
        _check(data.data)
        found = load(io.BytesIO(data.data), trusted=[])
        _check_indices(found)
    except RefusedError:
        raise
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        msg = f"which holds an estimator that cannot be read: {reason}"
        raise RefusedError(msg) from error
    return found


def _check(data: bytes | memoryview) -> None:
    """Raise RefusedError unless an archive of skops holds no more than its own size."""
    stream, size = io.BytesIO(data), len(data)
    check_directory(stream, size, 0)
    with refusals(), zipfile.ZipFile(stream) as archive:
        members = check_members(archive, size)
        if _SCHEMA not in members or members[_SCHEMA].file_size > _LARGEST_SCHEMA:
            msg = f"which holds an estimator without a {_SCHEMA} of at most {_LARGEST_SCHEMA} bytes"
            raise RefusedError(msg)
        text = archive.read(_SCHEMA)
        check_json(text, size)
        # An array that is named often would be read as often
        named = list(_named(json.loads(text)))
        if sum(members[name].file_size for name in named if name in members) > 2 * size:
            msg = "which holds an estimator that is larger than its bytes"
            raise RefusedError(msg)
        for name in set(named) & set(members):
            _check_array(archive, members[name], size)


def _named(node: Any) -> Iterator[str]:
    """Names of the files in the description of an estimator."""
    if isinstance(node, dict):
        if isinstance(node.get("file"), str):
            yield node["file"]
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _named(one)


def _check_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> None:
    """Raise RefusedError unless an array, or an archive of arrays, is as large as it tells."""
    with archive.open(member) as stream:
        if member.filename.endswith(".npz"):  # sparse matrices, which are always compressed
            with zipfile.ZipFile(stream) as inner:
                if sum(one.file_size for one in inner.infolist()) > size + 2**24:
                    msg = "which holds a sparse matrix that is larger than its bytes"
                    raise RefusedError(msg)
            return
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        shape, _, dtype = read[version](stream)
        left = member.file_size - stream.tell()
        if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize != left:
            msg = f"in which {member.filename} is not an array as large as its bytes"
            raise RefusedError(msg)


def _check_indices(found: Any) -> None:
    """Raise ValueError where compiled code would read what indices point to unchecked."""
    from scipy.sparse import issparse
    from sklearn.svm._base import BaseLibSVM

    seen: set[int] = set()
    todo = [found]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (list, tuple, set)):
            todo += one
        elif isinstance(one, dict):
            todo += one.values()
        elif issparse(one):
            _check_sparse(one)
        else:
            if isinstance(one, BaseLibSVM):
                _check_support(one)
            if isinstance(one, np.ndarray) and one.dtype == object:
                todo += one.tolist()
            todo += vars(one).values() if hasattr(one, "__dict__") else []


def _check_sparse(matrix: Any) -> None:
    if matrix.format not in ("csr", "csc", "coo"):
        msg = f"a sparse matrix of format {matrix.format}"
        raise ValueError(msg)
    if matrix.format == "coo":
        matrix._check()
    else:
        matrix.check_format(full_check=True)


def _check_support(machine: Any) -> None:
    """Raise ValueError unless the arrays of a support vector machine are as long as it reads."""
    vectors, counts = machine.support_vectors_, machine.n_support_  # of a regression the first
    n = vectors.shape[0]
    k = len(machine._n_support)
    pairs = k * (k - 1) // 2
    of_pairs = [machine._intercept_, machine.intercept_]
    probable = [one for one in (machine._probA, machine._probB) if len(one)]
    right = (
        vectors.ndim == 2
        and int(np.sum(counts)) == n
        and k == len(getattr(machine, "classes_", (0, 1)))
        and bool(np.all(counts >= 0))
        and machine.support_.shape == (n,)
        and all(a.shape == (k - 1, n) for a in (machine.dual_coef_, machine._dual_coef_))
        and all(len(one) == pairs for one in [*of_pairs, *probable])
        and machine.shape_fit_[1] == vectors.shape[1] == machine.n_features_in_
    )
    if not right:
        msg = "a support vector machine whose arrays do not fit together"
        raise ValueError(msg)
