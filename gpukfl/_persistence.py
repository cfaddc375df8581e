"""Model files: arrays and JSON in a zip archive, nothing that executes."""

from __future__ import annotations

import dataclasses
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl._fit import METHODS
from gpukfl._model import Model
from gpukfl._results import History
from gpukfl._version import __version__
from gpukfl.instantiations import INSTANTIATIONS, RandomKitchenSinks
from gpukfl.kernels import KERNELS, Product, Scaled, Sum
from gpukfl.methods import ShapeFunctions

FORMAT, VERSION = "gpukfl-model", 1
_CLASSES = {c.__name__: c for tasks in METHODS.values() for c in tasks.values()}
_KERNELS = (*KERNELS.values(), Sum, Product, Scaled)
_INSTANTIATIONS = (*INSTANTIATIONS.values(), RandomKitchenSinks)
_LEARNED: tuple[Any, ...] = (ShapeFunctions, History)
_RECORDS: dict[str, Any] = {c.__name__: c for c in _LEARNED + _KERNELS + _INSTANTIATIONS}
_PLAIN = (str, int, float, bool, type(None))


def save(model: Model, path: str | Path, /) -> None:
    """Write `model` to one file.

    Raises
    ------
    TypeError
        If the model holds something that is neither an array nor JSON.
    """
    arrays: dict[str, np.ndarray] = {}
    state = model.estimator.__getstate__()
    parameters = model.estimator.get_params()
    if not isinstance(parameters["random_state"], _PLAIN):
        parameters["random_state"] = None
    fitted = {key: value for key, value in state.items() if key not in parameters}
    fitted = {key: value for key, value in fitted.items() if key != "_sklearn_version"}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "gpukfl": __version__,
        "class": type(model.estimator).__name__,
        "parameters": _encode(parameters, "parameters", arrays),
        "fitted": _encode(fitted, "fitted", arrays),
        "names": sorted(fitted),
        "model": _model_fields(model),
    }
    with Path(path).open("wb") as file:
        np.savez_compressed(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]


def _model_fields(model: Model) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(model) if f.name != "estimator"]
    return {name: getattr(model, name) for name in names}


def load(path: str | Path, /) -> Model:
    """Read a model that `Model.save` wrote; it predicts for NumPy arrays on any machine.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Model
        Ready to predict. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, not a gpukfl model, or of a newer version.
    OSError
        If it cannot be read.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            arrays = {key: archive[key] for key in archive.files if key != "header"}
    except (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError) as error:
        msg = f"expected a gpukfl model file, got {path}, which is truncated or something else"
        raise ValueError(msg) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        msg = f"expected a gpukfl model file, got {path}, which is something else"
        raise ValueError(msg)
    version = header.get("version")
    if isinstance(version, int) and version > VERSION:
        msg = (
            f"expected a model file of version {VERSION} or older, got version {version} written "
            f"by gpukfl {header.get('gpukfl')}: upgrade gpukfl"
        )
        raise ValueError(msg)
    try:
        return _rebuild(header, arrays)
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"expected a gpukfl model file, got {path}, whose contents do not fit together"
        raise ValueError(msg) from error


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    if header["version"] != VERSION:
        raise KeyError(header["version"])
    estimator = _CLASSES[header["class"]](**_decode(header["parameters"], arrays))
    fitted = _decode(header["fitted"], arrays)
    if sorted(fitted) != header["names"] or not fitted:
        raise KeyError(header["names"])
    for name, value in fitted.items():
        setattr(estimator, name, value)
    return Model(estimator=estimator, **header["model"])


def _encode(value: Any, key: str, arrays: dict[str, np.ndarray]) -> Any:
    """Turn `value` into JSON, with the arrays set aside under their keys."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if is_array(value):
        host = to_host(value)
        if host.dtype == object:
            return {"objects": [_encode(item, key, arrays) for item in host.tolist()]}
        arrays[key] = host
        return {"array": key}
    if _RECORDS.get(type(value).__name__) is type(value):
        names = [f.name for f in dataclasses.fields(value)]
        inside = {n: _encode(getattr(value, n), f"{key}/{n}", arrays) for n in names}
        return {"record": type(value).__name__, "fields": inside}
    if isinstance(value, (list, tuple)):
        return {"list": [_encode(v, f"{key}/{k}", arrays) for k, v in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": {k: _encode(v, f"{key}/{k}", arrays) for k, v in value.items()}}
    msg = f"expected arrays, numbers and text in a model, got {type(value).__name__} at {key}"
    raise TypeError(msg)


def _decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "objects" in value:
        return np.array([_decode(item, arrays) for item in value["objects"]], dtype=object)
    if "record" in value:
        fields = {name: _decode(item, arrays) for name, item in value["fields"].items()}
        return _RECORDS[value["record"]](**fields)
    if "list" in value:
        return [_decode(item, arrays) for item in value["list"]]
    return {name: _decode(item, arrays) for name, item in value["dict"].items()}
