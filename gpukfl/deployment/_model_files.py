"""Model files with a predictor and a record of the fit, both checked by their annotations.

Nothing in a file is executed. The runtime reads only the predictor.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from gpukfl._registry import TASKS, known_methods
from gpukfl._version import __version__
from gpukfl.core._annotations import Count, Length, Sometimes, find_mark, split_hint
from gpukfl.core._archive import (
    FAULTS,
    FORMAT,
    LARGEST_HEADER,
    VERSION,
    Archive,
    RefusedError,
    write_archive,
)
from gpukfl.core._files import atomic_write
from gpukfl.core._places import Backend
from gpukfl.estimators._base import HostStored
from gpukfl.estimators._fitted import record_hints
from gpukfl.instantiations import Instantiation
from gpukfl.kernels import Kernel
from gpukfl.losses import LOSSES
from gpukfl.penalties import PENALTIES, Penalty
from gpukfl.portfolio._base import AutoBase
from gpukfl.predictor import (
    ArrayModel,
    Blend,
    Function,
    Predictor,
    ValueFunction,
    array_model,
    weighted_medians,
)
from gpukfl.predictor._codec import PLAIN, Decoder, Encoder, MisfitError
from gpukfl.predictor._skops import dump_estimator, load_estimator
from gpukfl.runtime._reading import KINDS, RowReading, decode_predictor, open_model
from gpukfl.tables._reader import Reader
from gpukfl.tables._reference import Reference

_NEW_PARAMETERS = {"loss", "metric", "monotone", "n_jobs"}  # older files do not have them
_KEYS = ("format", "version", "gpukfl", "model", "parameters", "predictor", "reading", "record")
_ABOUT: dict[str, Any] = {  # annotations of the model's fields, without `tuning`
    "method": str,
    "task": str,
    "n_samples": Annotated[int, Count("n_samples")],
    "feature_names": Annotated[list[str], Length("n_features")],
    "target_name": str,
    "target_kind": str,
    "seconds": float,
    "warnings_": list[str],
    "dropped": list[str],
    "reference": Reference | None,
}


def _estimators() -> dict[str, Any]:
    """Return the classes of estimators that a file may hold, by name."""
    kinds = [row.estimator_class(task) for row in known_methods().values() for task in TASKS]
    return {c.__name__: c for c in kinds}


def _kinds() -> dict[Any, tuple[type, ...]]:
    """Return the concrete classes in files, by abstract class, with those of all methods."""
    own = tuple(value for kind in _estimators().values() for value in kind._values)
    functions = tuple(value for value in own if issubclass(value, Function))
    parameters = (*KINDS[Kernel], *KINDS[Instantiation], Backend, *LOSSES.values(), *own)
    functions = (*KINDS[ValueFunction], *functions)
    return {**KINDS, ValueFunction: functions, Penalty: tuple(PENALTIES.values()), Any: parameters}


# ---------------------------------------------------------------------- writing


def write(path: str | Path, estimator: Any, about: dict[str, Any], /) -> None:
    """Write a fitted estimator to a file; an existing file is replaced when this is complete.

    Parameters
    ----------
    path : str or Path
        The file.
    estimator : estimator of a method
        Fitted.
    about : dict
        The other fields of `Model`.

    Raises what `Model.save` does.
    """
    estimator._complete_record()
    header, arrays = make_header(estimator, about)
    try:
        _check_keys(header)
        _decode_model(header, Decoder(arrays, None, _kinds()))
    except (RefusedError, MisfitError) as error:
        msg = f"expected a model of gpukfl.fit, got one {error}"
        raise ValueError(msg) from error
    text = json.dumps(header).encode()
    if len(text) > LARGEST_HEADER:
        msg = f"expected names and histories of at most {LARGEST_HEADER} bytes, got {len(text)}"
        raise ValueError(msg)
    with atomic_write(path) as file:
        write_archive(file, text, arrays)


def make_header(
    estimator: Any, about: dict[str, Any], /
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a model's description in JSON, and its arrays."""
    encoder = Encoder(_kinds(), _encode_model)
    fields = {**about, "feature_names": list(about["feature_names"])}
    reader = fields.pop("reader")
    host = estimator.to_host()
    parts = {
        "model": encoder.encode_items(fields, "model"),
        **_encode_estimator(host, "", encoder),
        "predictor": encoder.encode(host.predictor_, "predictor"),
        "reading": encoder.encode(_row_reading(host, reader), "reading"),
    }
    header = {"format": FORMAT, "version": VERSION, "gpukfl": __version__}
    return header | {key: parts[key] for key in _KEYS if key in parts}, encoder.arrays


def _row_reading(host: Any, reader: Reader | None) -> RowReading:
    if reader is not None:
        return RowReading(reader.table, reader.encoding)
    if not isinstance(host, AutoBase):
        return RowReading()
    if host._table is not None:
        return RowReading(host._table)
    kept = host.out_of_fold_
    return RowReading(medians=weighted_medians(kept.rows, kept.weights))


def _encode_estimator(host: Any, key: str, encoder: Encoder) -> dict[str, Any]:
    """Encode parameters and record, without random states and inner estimators."""
    state, parameters = host.__getstate__(), host.get_params(deep=False)
    if not isinstance(parameters["random_state"], PLAIN):
        parameters["random_state"] = None
    if not _is_plain(parameters.get("members")):
        parameters["members"] = None
    others = {*parameters, "_sklearn_version", "predictor_", "_table"}
    record = {name: state[name] for name in sorted(state) if name not in others}
    return {
        "parameters": encoder.encode_items(parameters, f"{key}parameters"),
        "record": encoder.encode_items(record, f"{key}record"),
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN)


def _encode_model(value: Any, key: str, encoder: Encoder) -> Any:
    """Encode a model of a blend by its parts, its arrays, or as bytes; None for other values."""
    if key.split("/")[-3:-2] != ["_models"]:
        return None
    if isinstance(value, HostStored):
        inside = _encode_estimator(value, f"{key}/", encoder)
        return {"estimator": type(value).__name__, **inside}
    known = array_model(value)
    if known is not None:  # the predictor has its arrays
        return {"arrays": known.one_target}
    if not isinstance(value, BaseEstimator):
        return None
    encoder.arrays[key] = np.frombuffer(dump_estimator(value), dtype=np.uint8)
    return {"skops": key, "kind": type(value).__name__}


# ---------------------------------------------------------------------- reading


def read(path: str | Path, /) -> tuple[Any, dict[str, Any]]:
    """Read the estimator and the fields of the model that `write` wrote.

    Raises what `gpukfl.load` does.
    """
    with Path(path).open("rb") as file:
        try:
            archive = Archive(file)
            header, arrays = open_model(archive)
            _check_keys(header)
            model = _decode_model(header, Decoder(arrays, archive.read, _kinds()))
            _check_predictions(model[0])
            return model
        except (RefusedError, MisfitError) as error:
            msg = f"expected a gpukfl model file, got {path}, {error}"
            raise ValueError(msg) from error


def _check_keys(header: Mapping[str, Any]) -> None:
    parts = [header.get(key) for key in ("model", "parameters", "record")]
    if set(header) != set(_KEYS) or not all(isinstance(part, dict) for part in parts):
        msg = f"whose header lacks one of the keys {', '.join(_KEYS)}"
        raise RefusedError(msg)


def _decode_model(header: dict[str, Any], decoder: Decoder) -> tuple[Any, dict[str, Any]]:
    """Decode a model; raise RefusedError or MisfitError for parts that no fit makes."""
    try:
        predictor, reading = decode_predictor(header, decoder)
        kind = _estimator_class(header["model"])
        estimator = _EstimatorDecoder(decoder, reading).decode(kind, header, "", predictor)
        about = _decode_about(header["model"], kind, reading, estimator, decoder)
        decoder.finish()
    except (RefusedError, MisfitError):
        raise
    except FAULTS as error:
        msg = f"whose parts do not fit together: {error}"
        raise RefusedError(msg) from error
    return estimator, about


def _check_predictions(estimator: Any) -> None:
    """Raise RefusedError unless the model predicts a row; for blends, a row of the record."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if not isinstance(estimator, AutoBase):
                estimator.predictor_.check_outputs()
                return
            found = estimator._outputs(estimator.out_of_fold_.rows[:1])
    except FAULTS as error:
        msg = f"whose parts do not fit together: {error}"
        raise RefusedError(msg) from error
    if found.shape != (1, estimator.out_of_fold_.truth.shape[1]):
        msg = f"whose members predict in shape {found.shape}"
        raise RefusedError(msg)


def _estimator_class(about: dict[str, Any]) -> type:
    method, task = about.get("method"), about.get("task")
    if method not in list(known_methods()) or task not in TASKS:
        msg = f"whose model is not of {', '.join(known_methods())}"
        raise RefusedError(msg)
    return known_methods()[str(method)].estimator_class(str(task))


def _decode_about(
    nodes: dict[str, Any], kind: type, reading: RowReading, estimator: Any, decoder: Decoder
) -> dict[str, Any]:
    """Decode the fields of the model, without its estimator."""
    hints = _ABOUT | {"tuning": record_hints(kind)["tuning_"]}
    # Older files do not have these fields
    nodes = {"warnings_": [], "dropped": [], "reference": None, **nodes}
    if set(nodes) != set(hints):
        msg = f"whose model is not of {', '.join(sorted(hints))}"
        raise RefusedError(msg)
    columns = estimator.n_features_in_ if reading.table is None else len(reading.table.columns)
    sizes = {"n_features": columns, "n_samples": estimator._n_samples}
    about = {
        name: decoder.decode(nodes[name], hint, f"model/{name}", sizes, any_value=name == "tuning")
        for name, hint in hints.items()
    }
    if any(trial["chosen"] and trial["score"] is None for trial in about["tuning"]):
        msg = "whose chosen setting has no score"
        raise RefusedError(msg)
    about["reader"] = None
    if reading.table is not None and reading.encoding is not None:
        about["reader"] = Reader(reading.table, reading.encoding)
    return about


class _EstimatorDecoder:
    """A decoder of estimators, whose predictors are decoded already."""

    def __init__(self, decoder: Decoder, reading: RowReading) -> None:
        self._decoder, self._reading = decoder, reading

    def decode(self, kind: type, parts: Any, key: str, predictor: Predictor, /) -> Any:
        """Decode the parameters and the record of an estimator with a predictor."""
        parameters = {
            name: self._decoder.decode(node, Any, f"{key}parameters/{name}", {})
            for name, node in parts["parameters"].items()
        }
        e = _make_estimator(kind, parameters)
        e.predictor_ = predictor
        record = self._decode_record(kind, parts["record"], f"{key}record", predictor)
        vars(e).update(record)
        if isinstance(e, AutoBase):
            e._table = self._reading.table
            e.members_ = e.members_  # its setter lets the predictor call models of other libraries
        for what, holds in e._rules():
            if not holds:
                msg = f"whose {kind.__name__} does not have {what}"
                raise MisfitError(msg)
        return e

    def _decode_record(
        self, kind: type, nodes: dict[str, Any], key: str, predictor: Predictor
    ) -> dict[str, Any]:
        nodes, hints = dict(nodes), record_hints(kind)
        for name in [name for name in nodes if _is_computed(getattr(kind, name, None))]:
            self._decoder.decode(nodes.pop(name), Any, f"{key}/{name}", {})  # in older files
        expected = {n for n, h in hints.items() if not find_mark(Sometimes, split_hint(h)[1])}
        if not expected <= set(nodes):
            lacking = ", ".join(sorted(expected - set(nodes)))
            msg = f"which has no {lacking} of a fitted {kind.__name__}"
            raise MisfitError(msg)
        if not set(nodes) <= set(hints):
            unknown = ", ".join(sorted(set(nodes) - set(hints)))
            msg = f"which has {unknown}, unknown to {kind.__name__}"
            raise MisfitError(msg)
        sizes: dict[str, Any] = {}
        if isinstance(predictor.values, Function):
            sizes["n_targets"] = predictor.values.intercept.shape[0]
        found = {}
        for name, hint in hints.items():
            if name == "_models":
                found[name] = self._decode_models(nodes[name], f"{key}/{name}", predictor.values)
            elif name in nodes:
                found[name] = self._decoder.decode(
                    nodes[name], hint, f"{key}/{name}", sizes, any_value=True
                )
        return found

    def _decode_models(self, nodes: Any, key: str, blend: Any) -> list[list[Any]]:
        """Decode the models of all members of a blend."""
        assert isinstance(blend, Blend)
        counts = [len(one.models) for one in blend.members]
        if not isinstance(nodes, list) or [len(some) for some in nodes] != counts:
            msg = "whose members have other models than their predictors"
            raise RefusedError(msg)
        return [
            [
                self._decode_model(node, f"{key}/{k}/{j}", one.models[j])
                for j, node in enumerate(nodes[k])
            ]
            for k, one in enumerate(blend.members)
        ]

    def _decode_model(self, node: Any, key: str, predictor: Predictor) -> Any:
        """Decode a model of a blend."""
        names = set(node) if isinstance(node, dict) else set()
        if names == {"arrays"} and isinstance(node["arrays"], bool):
            model = ArrayModel(predictor.values, predictor.labels, node["arrays"])  # type: ignore
            try:
                model.check()
            except ValueError as error:
                msg = f"which has a member of a blend that cannot predict: {error}"
                raise RefusedError(msg) from error
            return model
        if names == {"skops", "kind"}:
            return load_estimator(self._decoder.take_bytes(node["skops"], key))
        kind = _estimators().get(node["estimator"]) if "estimator" in names else None
        if kind is None or names != {"estimator", "parameters", "record"}:
            msg = f"whose {key} is not a known estimator"
            raise RefusedError(msg)
        return self.decode(kind, node, f"{key}/", predictor)


def _is_computed(attribute: Any) -> bool:
    return isinstance(attribute, property) and attribute.fset is None


def _make_estimator(kind: type, parameters: dict[str, Any]) -> Any:
    names = set(kind._get_param_names())  # type: ignore[attr-defined]
    given = set(parameters)
    if not given <= names <= given | _NEW_PARAMETERS:
        msg = f"whose parameters are not those of {kind.__name__}"
        raise RefusedError(msg)
    estimator = kind(**parameters)
    try:
        estimator._check_parameters()
        check_random_state(estimator.random_state)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"whose parameters do not fit: {error}"
        raise RefusedError(msg) from error
    return estimator
