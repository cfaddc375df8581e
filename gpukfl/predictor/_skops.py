"""Estimators of other libraries in model files, as bytes of skops with trusted types only.

Boosted trees inside them are stored as arrays, which are checked when they are read.
"""

from __future__ import annotations

import copy
import io
import json
import types
import zipfile
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import validate_data

from gpukfl.core._archive import (
    RefusedError,
    check_directory,
    check_json,
    check_members,
    refuse_unreadable,
)
from gpukfl.predictor import ArrayModel, Forest, array_model

_SCHEMA = "schema.json"
_MAX_SCHEMA_BYTES = 2**21  # skops makes an object of each list and dict of the schema


class _TreesOfTable(BaseEstimator):
    """Boosted trees of scikit-learn as checked arrays; `fit` changes nothing.

    Parameters
    ----------
    model : ArrayModel
        A model whose values are a `Forest`.
    """

    def __init__(self, model: ArrayModel) -> None:
        self.model = model

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:  # noqa: ARG002
        """Return the estimator unchanged, as `sklearn.frozen.FrozenEstimator` does."""
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of columns of rows."""
        return self.model.n_features_in_

    def predict(self, X: Any) -> np.ndarray:
        """Predict at rows (n, d)."""
        return self.model.predict(self._rows(X))

    def _rows(self, X: Any) -> np.ndarray:
        """Check rows as scikit-learn's trees do."""
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=False, reset=False)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Any:
        return self

    def __getstate__(self) -> dict[str, Any]:
        trees = self.model.values
        table = {field.name: getattr(trees, field.name) for field in fields(Forest)}
        return {"table": table, "labels": self.model.classes_}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the table from a state.

        Raises
        ------
        ValueError
            If the arrays are not valid trees.
        """
        labels = state["labels"] if is_classifier(self) else None
        self.model = ArrayModel(Forest(**state["table"]), labels, labels is None)
        self.model.check()


class TreesOfTableRegressor(RegressorMixin, _TreesOfTable):
    """Boosted trees that predict one target."""


class TreesOfTableClassifier(ClassifierMixin, _TreesOfTable):
    """Boosted trees that predict classes."""

    @property
    def classes_(self) -> np.ndarray | None:
        """Labels (k,)."""
        return self.model.classes_

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, k) of the classes at rows (n, d)."""
        return self.model.predict_proba(self._rows(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores (n, k) of the classes at rows (n, d); with two classes (n,), of the second."""
        trees: Any = self.model.values
        found = np.asarray(trees.raw(self._rows(X)))
        return found[:, 0] if found.shape[1] == 1 else found


_TRUSTED_TYPES = [
    f"{__name__}.{kind.__name__}" for kind in (TreesOfTableRegressor, TreesOfTableClassifier)
]


def _replace_trees(estimator: Any) -> Any:
    """Return a copy of an estimator with its boosted trees as arrays, or itself without trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kinds = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    made: dict[int, Any] = {}
    for one in _iterate_parts(estimator):
        found = array_model(one) if isinstance(one, kinds) else None
        if found is not None:
            of_classes = found.classes_ is not None
            made[id(one)] = (TreesOfTableClassifier if of_classes else TreesOfTableRegressor)(found)
    return copy.deepcopy(estimator, made) if made else estimator


def dump_estimator(estimator: Any, /) -> bytes:
    """Return the bytes of a fitted estimator.

    Raises
    ------
    TypeError
        If it contains types that are not trusted, which the message names, or is too large.
    """
    from skops.io import dumps, get_untrusted_types

    data = dumps(_replace_trees(estimator))
    unknown = [kind for kind in get_untrusted_types(data=data) if kind not in _TRUSTED_TYPES]
    if unknown:
        msg = (
            f"expected members of types that skops trusts, got {type(estimator).__name__} with "
            f"{', '.join(unknown)}: use pickle for others"
        )
        raise TypeError(msg)
    try:
        _check(data)
    except RefusedError as error:
        msg = (
            f"expected members that a model file supports, got {type(estimator).__name__}, {error}"
        )
        raise TypeError(msg) from error
    return data


def load_estimator(data: np.ndarray, /) -> Any:
    """Make an estimator from its bytes; refuse types that are not trusted.

    Raises
    ------
    RefusedError
        If the bytes are no estimator, contain other types, or unpack to more than their size.
    """
    from skops.io import load

    if data.dtype != np.uint8 or data.ndim != 1:
        msg = "which holds an estimator that is no bytes"
        raise RefusedError(msg)
    try:
        _check(data.data)
        found = load(io.BytesIO(data.data), trusted=_TRUSTED_TYPES)
        _check_indices(found)
    except RefusedError:
        raise
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        msg = f"which holds an estimator that cannot be read: {reason}"
        raise RefusedError(msg) from error
    return found


def _check(data: bytes | memoryview) -> None:
    """Raise RefusedError if an archive of skops unpacks to more than its own size."""
    stream, size = io.BytesIO(data), len(data)
    check_directory(stream, size, 0)
    with refuse_unreadable(), zipfile.ZipFile(stream) as archive:
        members = check_members(archive, size)
        if _SCHEMA not in members or members[_SCHEMA].file_size > _MAX_SCHEMA_BYTES:
            msg = (
                f"which holds an estimator without a {_SCHEMA} of at most {_MAX_SCHEMA_BYTES} bytes"
            )
            raise RefusedError(msg)
        text = archive.read(_SCHEMA)
        check_json(text, size)
        # skops reads an array once for each reference to it
        named = list(_iterate_file_names(json.loads(text)))
        if sum(members[name].file_size for name in named if name in members) > 2 * size:
            msg = "which holds an estimator that is larger than its bytes"
            raise RefusedError(msg)
        for name in set(named) & set(members):
            _check_array(archive, members[name], size)


def _iterate_file_names(node: Any) -> Iterator[str]:
    """Yield the names of the files in the description of an estimator."""
    if isinstance(node, dict):
        if isinstance(node.get("file"), str):
            yield node["file"]
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _iterate_file_names(one)


def _check_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> None:
    """Raise RefusedError unless an array, or an archive of arrays, has the declared size."""
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
    """Raise ValueError if indices point outside their arrays: compiled code does not check them."""
    from scipy.sparse import issparse
    from sklearn.svm._base import BaseLibSVM

    for one in _iterate_parts(found):
        if issparse(one):
            _check_sparse(one)
        elif isinstance(one, BaseLibSVM):
            _check_support(one)


def _iterate_parts(found: Any) -> Iterator[Any]:
    """Yield an object and everything inside it."""
    seen: set[int] = set()
    todo = [found]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, (list, tuple, set)):
            todo += one
        elif isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, np.ndarray) and one.dtype == object:
            todo += one.ravel().tolist()
        elif not isinstance(one, (type, types.ModuleType, types.FunctionType)):
            todo += getattr(one, "__dict__", {}).values()


def _check_sparse(matrix: Any) -> None:
    if matrix.format not in ("csr", "csc", "coo"):
        msg = f"a sparse matrix of format {matrix.format}"
        raise ValueError(msg)
    if matrix.format == "coo":
        matrix._check()
    else:
        matrix.check_format(full_check=True)


def _check_support(machine: Any) -> None:
    """Raise ValueError unless the arrays of a support vector machine have consistent lengths."""
    vectors, counts = machine.support_vectors_, machine.n_support_  # regressions have one count
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
