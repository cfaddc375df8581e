"""Model files of arrays and JSON, checked before they are read; nothing in them is executed."""

from __future__ import annotations

import dataclasses
import json
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from gpukfl._registry import TASKS, known_methods
from gpukfl._version import __version__
from gpukfl.core._archive import (
    DEEPEST,
    FAULTS,
    FORMAT,
    LARGEST_HEADER,
    VERSION,
    Archive,
    RefusedError,
    Stored,
    check_version,
    write_archive,
)
from gpukfl.core._array import Array, is_array, to_host
from gpukfl.core._files import atomic_write
from gpukfl.core._places import Backend
from gpukfl.core._results import History
from gpukfl.estimators._base import HostStored
from gpukfl.estimators._calibration import Calibration
from gpukfl.estimators._declared import (
    Declared,
    FeatureNames,
    Fields,
    Int,
    Items,
    MisfitError,
    Number,
    Text,
    check_attributes,
    check_values,
    declared_trials,
)
from gpukfl.estimators.scaling import SCALINGS, ColumnScaling
from gpukfl.instantiations import INSTANTIATIONS, RandomKitchenSinks
from gpukfl.kernels import KERNELS, ColumnBlock, Product, Scaled, Sum
from gpukfl.methods import ShapeFunctions
from gpukfl.portfolio._attributes import VALUES
from gpukfl.portfolio._base import AutoBase
from gpukfl.predictor import ArrayModel, ConstantValues, Forest, LinearValues, array_model
from gpukfl.predictor._skops import Foreign, dump_estimator, load_estimator
from gpukfl.tables._reader import TABLE_VALUES, Reader

_KERNELS = (*KERNELS.values(), Sum, Product, Scaled, ColumnBlock)
_INSTANTIATIONS = (*INSTANTIATIONS.values(), RandomKitchenSinks)
_LEARNED: tuple[Any, ...] = (
    *(ShapeFunctions, History, Backend, Calibration, *SCALINGS.values()),
    *(Reader, *TABLE_VALUES),
    *(ArrayModel, Forest, LinearValues, ConstantValues),
)
_WITH_ARRAYS = (  # records
    *(ShapeFunctions, ColumnScaling, Reader, *VALUES),
    *(ArrayModel, Forest, LinearValues, ConstantValues),
)
_PLAIN = (str, int, float, bool, type(None))
_KEYS = ("format", "version", "gpukfl", "model", "parameters", "fitted")
_MODEL: dict[str, Declared] = {  # beside the estimator, its tuning, and what names it
    "n_samples": Int("n_samples"),
    "feature_names": FeatureNames(),
    "target_name": Text(),
    "target_kind": Text(),
    "seconds": Number(),
    "reader": Fields(Reader, optional=True),
    "warnings_": Items(Text()),
}


def _kinds() -> dict[str, Any]:
    """Return the classes of estimators that a file may hold, by name."""
    kinds = [row.estimator_class(task) for row in known_methods().values() for task in TASKS]
    return {c.__name__: c for c in kinds}


def _records() -> dict[str, Any]:
    """Return the classes of values that a file may hold, by name: those of the methods too."""
    own = [value for kind in _kinds().values() for value in kind._values]
    return {c.__name__: c for c in [*_LEARNED, *_KERNELS, *_INSTANTIATIONS, *own]}


def write(path: str | Path, estimator: Any, about: dict[str, Any], /) -> None:
    """Write a fitted estimator to a file, which replaces an older one once it is complete.

    Parameters
    ----------
    path : str or Path
        The file.
    estimator : estimator of a method
        Fitted.
    about : dict
        The fields of `Model` beside it.

    Raises what `Model.save` does.
    """
    arrays: dict[str, np.ndarray] = {}
    header = _make_header(estimator, about, arrays)
    try:
        _check_header(header, arrays)
    except (RefusedError, MisfitError) as error:
        msg = f"expected a model as gpukfl.fit makes it, got one {error}"
        raise ValueError(msg) from error
    text = json.dumps(header).encode()
    if len(text) > LARGEST_HEADER:
        msg = f"expected names and histories of at most {LARGEST_HEADER} bytes, got {len(text)}"
        raise ValueError(msg)
    with atomic_write(path) as file:
        write_archive(file, text, arrays)


def without_record(estimator: Any, /) -> Any:
    """Return a copy without the rows that its folds held out; other models have none."""
    if not isinstance(estimator, AutoBase):
        return estimator
    host = estimator.to_host()
    kept = host.out_of_fold_
    host.out_of_fold_ = kept.without_rows(has_gaps=host.encodings_ is not None)
    return host


def _make_header(
    estimator: Any, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Return a model's description in JSON, and collect its arrays."""
    parts = {"model": about, **_parts_of(estimator)}
    encoded = {part: _encode(values, part, arrays)["dict"] for part, values in parts.items()}
    return {"format": FORMAT, "version": VERSION, "gpukfl": __version__, **encoded}


def _parts_of(estimator: HostStored) -> dict[str, dict[str, Any]]:
    """Return parameters and fitted attributes, without random states and inner estimators."""
    state, parameters = estimator.__getstate__(), estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], _PLAIN):
        parameters["random_state"] = None
    if not _is_plain(parameters.get("members")):
        parameters["members"] = None
    fitted = {k: v for k, v in state.items() if k not in parameters and k != "_sklearn_version"}
    return {"parameters": parameters, "fitted": fitted}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def read(path: str | Path, /) -> tuple[Any, dict[str, Any]]:
    """Read the estimator and the fields of the model that `write` wrote.

    Raises what `gpukfl.load` does.
    """
    with Path(path).open("rb") as file:
        try:
            archive = Archive(file)
            check_version(archive.header)
            return _read_model(archive)
        except (RefusedError, MisfitError) as error:
            msg = f"expected a gpukfl model file, got {path}, {error}"
            raise ValueError(msg) from error


def _read_model(archive: Archive) -> tuple[Any, dict[str, Any]]:
    """Load the content of an archive; raise RefusedError where that fails."""
    try:
        estimator, about = _check_header(archive.header, archive.arrays)
        _fill_arrays(estimator, archive.read)
        about["reader"] = _fill_arrays(about["reader"], archive.read)
        _check_reader(about["reader"], estimator)
        if isinstance(estimator, AutoBase):
            _check_members(estimator)
    except (RefusedError, MisfitError):
        raise
    except FAULTS as error:
        msg = f"whose parts do not fit together: {error}"
        raise RefusedError(msg) from error
    return estimator, about


def _check_members(blend: AutoBase) -> None:
    """Check that every model can predict for a row that the fit has kept."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = blend._outputs(blend.out_of_fold_.rows[:1])
    if found.shape != (1, blend.out_of_fold_.truth.shape[1]):
        msg = f"whose members predict in shape {found.shape}"
        raise RefusedError(msg)


def _check_reader(reader: Reader | None, estimator: Any) -> None:
    if reader is not None and not reader.is_sound(estimator.n_features_in_):
        msg = "whose reader does not make rows for its estimator"
        raise RefusedError(msg)


def _check_header(header: dict[str, Any], arrays: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Check a header; return the estimator and the model's other fields.

    Arrays are those of `arrays`, read or not: only their dtypes and shapes are looked at.
    """
    if set(header) != set(_KEYS):
        msg = f"whose header has other keys than {', '.join(_KEYS)}"
        raise RefusedError(msg)
    unused = dict(arrays)
    about, parameters, fitted = (
        _decoded_part(header[part], part, unused) for part in ("model", "parameters", "fitted")
    )
    if unused:
        msg = f"which holds arrays that nothing is made of: {', '.join(list(unused)[:5])}"
        raise RefusedError(msg)
    about.setdefault("warnings_", [])  # older files say nothing of them
    kind = _estimator_class(about)
    estimator, sizes = _estimator(kind, parameters, fitted)
    reader = about.get("reader")
    if isinstance(reader, Reader):  # names are those of the table
        sizes = sizes | {"n_features": len(reader.table.columns)}
    for name, what in _MODEL.items():
        what.check(name, about.get(name), sizes)
    declared_trials(kind).check("tuning", about.get("tuning"), sizes)
    if any(trial["chosen"] and trial["score"] is None for trial in about["tuning"]):
        msg = "whose chosen setting has no score"
        raise RefusedError(msg)
    return estimator, about


def _estimator(
    kind: type, parameters: dict[str, Any], fitted: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Make a fitted estimator; also return the values of the symbols in its shapes."""
    estimator = _make_estimator(kind, parameters)
    # Older files hold what is now computed when it is asked for
    fitted = {k: v for k, v in fitted.items() if not isinstance(getattr(kind, k, None), property)}
    sizes = check_attributes(kind, fitted)
    vars(estimator).update(fitted)
    return estimator, sizes


def _estimator_class(about: dict[str, Any]) -> type:
    known = {*_MODEL, "method", "task", "tuning"}
    method, task = about.get("method"), about.get("task")
    if set(about) != known or method not in list(known_methods()) or task not in TASKS:
        msg = f"whose model is not of {', '.join(known_methods())} with {', '.join(sorted(known))}"
        raise RefusedError(msg)
    return known_methods()[str(method)].estimator_class(str(task))


def _make_estimator(kind: type, parameters: dict[str, Any]) -> Any:
    names = kind._get_param_names()  # type: ignore[attr-defined]
    if set(parameters) != set(names):
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


def _fill_arrays(value: Any, read: Callable[[Stored], np.ndarray]) -> Any:
    """Replace placeholders by their arrays."""
    if isinstance(value, Stored):
        return read(value)
    if isinstance(value, Foreign):
        return load_estimator(_fill_arrays(value.array, read))
    if isinstance(value, dict):
        return {key: _fill_arrays(item, read) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fill_arrays(item, read) for item in value]
    if isinstance(value, HostStored):
        for name, item in vars(value).items():
            setattr(value, name, _fill_arrays(item, read))
        check_values(value)
        value._keep_predictor()
    if isinstance(value, _WITH_ARRAYS):
        fields = {
            f.name: _fill_arrays(getattr(value, f.name), read) for f in dataclasses.fields(value)
        }
        value = dataclasses.replace(value, **fields)
    if isinstance(value, ArrayModel):
        _check_model(value)
    return value


def _check_model(model: ArrayModel) -> None:
    try:
        model.check()
    except ValueError as error:
        msg = f"which holds a member of a blend that cannot predict: {error}"
        raise RefusedError(msg) from error


# ---------------------------------------------------------------------- JSON


def _encode(value: Any, key: str, arrays: dict[str, np.ndarray]) -> Any:
    """Encode `value` as JSON, and collect its arrays under keys."""
    if key.count("/") > DEEPEST // 3:  # a record is two or three brackets
        msg = f"expected values at most {DEEPEST // 3} deep in a model, got more at {key[:60]}..."
        raise ValueError(msg)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if is_array(value):
        return _encoded_array(to_host(value), key, arrays)
    if _records().get(type(value).__name__) is type(value):
        names = [f.name for f in dataclasses.fields(value)]
        inside = {n: _encode(getattr(value, n), f"{key}/{n}", arrays) for n in names}
        return {"record": type(value).__name__, "fields": inside}
    if isinstance(value, BaseEstimator) and not _is_parameter(key):
        return _encoded_estimator(value, key, arrays)
    if isinstance(value, (list, tuple)):
        return [_encode(v, f"{key}/{k}", arrays) for k, v in enumerate(value)]
    if isinstance(value, dict):
        return {"dict": {k: _encode(v, f"{key}/{k}", arrays) for k, v in value.items()}}
    msg = f"expected arrays, numbers and text in a model, got {type(value).__name__} at {key}"
    raise TypeError(msg)


def _is_parameter(key: str) -> bool:
    """Whether a key belongs to a parameter."""
    return key.split("/")[-2] == "parameters"


def _encoded_array(host: np.ndarray, key: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if host.dtype == object:
        return {"objects": [_encode(item, key, arrays) for item in host.tolist()]}
    arrays[key] = host
    return {"array": key}


def _encoded_estimator(value: Any, key: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Encode an inner estimator by its parts, its arrays, or as bytes."""
    if not isinstance(value, HostStored):
        known = array_model(value)
        if known is not None:
            return _encode(known, key, arrays)
        arrays[key] = np.frombuffer(dump_estimator(value), dtype=np.uint8)
        return {"skops": key, "kind": type(value).__name__}
    parts = _parts_of(value)
    inside = {part: _encode(v, f"{key}/{part}", arrays)["dict"] for part, v in parts.items()}
    return {"estimator": type(value).__name__, **inside}


def _decoded_part(value: Any, key: str, arrays: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"whose {key} is not an object"
        raise RefusedError(msg)
    return {name: _decode(item, f"{key}/{name}", arrays) for name, item in value.items()}


def _decode(value: Any, key: str, arrays: dict[str, Any]) -> Any:
    """Decode a value from JSON; remove the arrays that it uses from `arrays`."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        return [_decode(item, f"{key}/{k}", arrays) for k, item in enumerate(value)]
    make = _MAKERS.get(frozenset(value))
    if make is None:
        raise _neither(key)
    return make(value, key, arrays)


def _neither(key: str) -> RefusedError:
    return RefusedError(f"which says of {key} neither a value nor an array that it holds")


def _take_array(name: Any, key: str, arrays: dict[str, Any]) -> Any:
    """Remove and return an array that was not used yet."""
    if name != key or key not in arrays:
        raise _neither(key)
    return arrays.pop(key)


def _objects(value: Any, key: str) -> np.ndarray:
    if not _is_plain_list(value):
        raise _neither(key)
    return np.array(value, dtype=object)


def _inner(value: dict[str, Any], key: str, arrays: dict[str, Any]) -> Any:
    """Decode an inner estimator."""
    kind = _kinds().get(value["estimator"]) if isinstance(value["estimator"], str) else None
    if kind is None:
        msg = f"whose {key} is no estimator that is known"
        raise RefusedError(msg)
    parts = (_decoded_part(value[p], f"{key}/{p}", arrays) for p in ("parameters", "fitted"))
    return _estimator(kind, *parts)[0]


def _is_plain_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, _PLAIN) for item in value)


def _record(name: Any, values: dict[str, Any], key: str) -> Any:
    kind = _records().get(name) if isinstance(name, str) else None
    known = () if kind is None else dataclasses.fields(kind)
    missing = [f for f in known if f.name not in values]  # older files lack what has a default
    if (
        kind is None
        or not set(values) <= {f.name for f in known}
        or any(f.default is dataclasses.MISSING for f in missing)
    ):
        msg = f"whose {key} is no record that is known"
        raise RefusedError(msg)
    hints = get_type_hints(kind)
    wrong = [field for field, value in values.items() if not _matches_hint(value, hints[field])]
    if wrong:
        msg = f"whose {key} has no {kind.__name__} for {', '.join(wrong)}"
        raise RefusedError(msg)
    try:
        return kind(**values)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"whose {key} is no {kind.__name__}: {error}"
        raise RefusedError(msg) from error


def _matches_hint(value: Any, hint: Any) -> bool:
    """Whether a value has the annotated type of its field."""
    if hint in (Any, Array, np.ndarray):  # an array, whose declaration says more
        return True
    if isinstance(hint, types.UnionType):
        return any(_matches_hint(value, one) for one in get_args(hint))
    if get_origin(hint) in (list, tuple):
        inner = get_args(hint)[0]
        return isinstance(value, list) and all(_matches_hint(item, inner) for item in value)
    if hint is int:
        return type(value) is int or (type(value) is float and value.is_integer())
    return type(value) in (int, float) if hint is float else isinstance(value, hint)


_MAKERS: dict[frozenset[str], Callable[[Any, str, dict[str, Any]], Any]] = {
    frozenset({"dict"}): lambda v, key, arrays: _decoded_part(v["dict"], key, arrays),
    frozenset({"array"}): lambda v, key, arrays: _take_array(v["array"], key, arrays),
    frozenset({"skops", "kind"}): lambda v, key, arrays: Foreign(
        _take_array(v["skops"], key, arrays)
    ),
    frozenset({"objects"}): lambda v, key, _: _objects(v["objects"], key),
    frozenset({"estimator", "parameters", "fitted"}): _inner,
    frozenset({"record", "fields"}): lambda v, key, arrays: _record(
        v["record"], _decoded_part(v["fields"], key, arrays), key
    ),
}
