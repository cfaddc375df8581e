"""The parts of a model file for predictions, read on access."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpukfl.core._archive import Archive, RefusedError
from gpukfl.estimators._calibration import Calibration
from gpukfl.estimators.scaling import SCALINGS
from gpukfl.instantiations import INSTANTIATIONS, RandomKitchenSinks
from gpukfl.kernels import KERNELS, Product, Scaled, Sum
from gpukfl.predictor import (
    ArrayModel,
    ConstantValues,
    Forest,
    LinearValues,
    LogTransform,
    Predictor,
    RankTransform,
    SeenRows,
    make_predictor,
    unknown_member,
)
from gpukfl.tables import Coded, Column, Encoding, Table
from gpukfl.tables._encoding import Imputation
from gpukfl.tables._fold_encodings import FoldEncodings
from gpukfl.tables._lookups import Lookup

_KINDS: tuple[Any, ...] = (
    *(*KERNELS.values(), Sum, Product, Scaled),
    *(*INSTANTIATIONS.values(), RandomKitchenSinks),
    *(*SCALINGS.values(), Calibration, LogTransform, RankTransform),
    *(Table, Column, Coded, Encoding, Lookup),
    *(ArrayModel, Forest, LinearValues, ConstantValues, SeenRows),
)
_RECORDS = {kind.__name__: kind for kind in _KINDS}
_PLAIN = (str, int, float, bool, type(None))
_HELD = ("ShapeFunctions", "Blended", "Reader", "OutOfFold")  # records that only hold parts
_IMPUTATION, _ENCODINGS = "Imputation", "Encodings"


class Parts:
    """A fitted estimator in a file: class name, attributes and parameters."""

    def __init__(self, kind: str, values: dict[str, Any], archive: Archive) -> None:
        self.kind = kind
        self._values, self._archive = values, archive

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__["_values"]
        if name not in values:
            msg = f"which has no {name} of a fitted {self.__dict__['kind']}"
            raise AttributeError(msg)
        found = self.__dict__[name] = decode_value(values[name], self.__dict__["_archive"])
        return found


@dataclass(frozen=True, eq=False)
class Encodings:
    """The encodings of a table's codes for the models of each fold."""

    table: Table
    by_fold: list[Encoding]
    some: list[int]

    @property
    def folds(self) -> FoldEncodings:
        """What makes rows for the models of every fold."""
        return FoldEncodings(self.by_fold, self.some)


class Alone:
    """An inner model without its estimator."""

    def __init__(self, parts: Parts, /) -> None:
        self._predictor = predictor_of_parts(parts)

    def predict(self, X: np.ndarray, /) -> Any:
        """Predict at rows (n, d)."""
        return self._predictor.decode(self._predictor.values(X))


def predictor_of_parts(parts: Any, /) -> Predictor:
    """Make the predictor of an estimator in a file, or take it of a model of arrays."""
    if isinstance(parts, ArrayModel):
        return parts.predictor_
    return make_predictor(parts, parts.kind, predictor_of_parts)


def read_parts(archive: Archive, kind: str, node: Any, /) -> Parts:
    """Read the parameters and fitted attributes of an estimator from a file's header."""
    parts = [node.get(name) for name in ("parameters", "fitted")]
    if not all(isinstance(part, dict) for part in parts):
        msg = f"which has no parameters and attributes of {kind}"
        raise RefusedError(msg)
    return Parts(kind, parts[0] | parts[1], archive)


def decode_value(value: Any, archive: Archive, /) -> Any:
    """Decode a value from JSON: plain values, arrays and records.

    Raises
    ------
    RefusedError
        If it is something else, which no prediction by NumPy needs.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        return [decode_value(item, archive) for item in value]
    make = _MAKERS.get(frozenset(value))
    if make is None:
        msg = f"which holds neither a value nor an array where one is needed: {str(value)[:80]}"
        raise RefusedError(msg)
    return make(value, archive)


def _array(value: Any, archive: Archive) -> np.ndarray:
    if value["array"] not in archive.arrays:
        msg = "which lacks an array"
        raise RefusedError(msg)
    return archive.read(archive.arrays[value["array"]])


def _objects(value: Any, _: Archive) -> np.ndarray:
    if not all(isinstance(item, _PLAIN) for item in value["objects"]):
        msg = "which holds labels that are neither text nor numbers"
        raise RefusedError(msg)
    return np.array(value["objects"], dtype=object)


def _record(value: Any, archive: Archive) -> Any:
    name, fields = value["record"], value["fields"]
    if name == _ENCODINGS:
        return Encodings(
            *(decode_value(fields[key], archive) for key in ("table", "by_fold", "some"))
        )
    made = {key: decode_value(item, archive) for key, item in fields.items()}
    if name in _HELD:
        return SimpleNamespace(**made)
    if name == _IMPUTATION:
        alone: Any = Alone(made["model"])
        return Imputation(made["column"], made["inputs"], alone)
    kind = _RECORDS.get(name)
    if kind is None or set(made) != {field.name for field in dataclasses.fields(kind)}:
        msg = f"which holds a {name} that the runtime does not know"
        raise RefusedError(msg)
    found = kind(**made)
    if isinstance(found, ArrayModel):
        found.check()
    return found


def _inner(value: Any, archive: Archive) -> Parts:
    return read_parts(archive, str(value["estimator"]), value)


def _foreign(value: Any, _: Archive) -> Any:
    raise unknown_member(str(value["kind"])[:80])


_MAKERS: dict[frozenset[str], Callable[[Any, Archive], Any]] = {
    frozenset({"array"}): _array,
    frozenset({"objects"}): _objects,
    frozenset({"record", "fields"}): _record,
    frozenset({"estimator", "parameters", "fitted"}): _inner,
    frozenset({"skops", "kind"}): _foreign,
}
