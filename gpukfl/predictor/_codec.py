"""Conversion of dataclasses to JSON and arrays, and back with checks by their annotations."""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from gpukfl.core._annotations import (
    AnyValue,
    Choice,
    Count,
    Labels,
    Length,
    Numbers,
    Texts,
    field_hints,
    find_mark,
    split_hint,
)
from gpukfl.core._archive import DEEPEST, FAULTS, RefusedError, Stored
from gpukfl.core._array import Array, is_array, to_host

Sizes = dict[str, Any]  # sizes by symbols of shapes; the symbol "precision" has a dtype's name
PLAIN = (str, int, float, bool, type(None))
_MAX_INTEGER = 2**53  # integers of JSON are smaller


class MisfitError(ValueError):
    """A value that does not match its annotation; the message continues "got PATH, "."""


# --------------------------------------------------------------------------------- writing


class Encoder:
    """A writer of values as JSON, which collects their arrays.

    Parameters
    ----------
    kinds : mapping of type to sequence of types
        The concrete classes of each abstract class that may be written.
    other : callable, optional
        Encodes a value, given with its key and this encoder; returns None for unknown values.

    Attributes
    ----------
    arrays : dict of host arrays
        Arrays of all values encoded so far, by their keys.
    """

    def __init__(
        self,
        kinds: Mapping[Any, Iterable[type]],
        other: Callable[[Any, str, Encoder], Any] | None = None,
    ) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._other = other
        abstract = {base: some for base, some in kinds.items() if inspect.isabstract(base)}
        self._abstract = {b: some for b, some in abstract.items() if not _is_protocol(b)}

    def encode(self, value: Any, key: str, /) -> Any:
        """Encode a value as JSON; keys of its arrays start with `key`.

        Raises
        ------
        TypeError
            If a value is not a number, text, None, array, list, dict or known dataclass.
        ValueError
            If values are nested too deeply.
        """
        if key.count("/") > DEEPEST // 3:  # a record has two or three brackets
            at_most = DEEPEST // 3
            msg = f"expected values at most {at_most} deep in a model, got more at {key[:60]}..."
            raise ValueError(msg)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, PLAIN):
            return value
        if is_array(value):
            return self._encode_array(to_host(value), key)
        found = None if self._other is None else self._other(value, key, self)
        if found is not None:
            return found
        if isinstance(value, (list, tuple)):
            return [self.encode(item, f"{key}/{k}") for k, item in enumerate(value)]
        if isinstance(value, dict):
            return {"dict": self.encode_items(value, key)}
        if dataclasses.is_dataclass(value) and self._is_known(value):
            kind: Any = type(value)
            inside = {name: getattr(value, name) for name in field_hints(kind)}
            if hasattr(value, "rounded"):
                inside |= value.rounded()
            return {"record": kind.__name__, "fields": self.encode_items(inside, key)}
        msg = f"expected arrays, numbers and text in a model, got {type(value).__name__} at {key}"
        raise TypeError(msg)

    def _is_known(self, value: Any) -> bool:
        """Whether a value's class is known, if it derives from an abstract class."""
        owners = [some for base, some in self._abstract.items() if isinstance(value, base)]
        return not isinstance(value, type) and all(type(value) in some for some in owners)

    def encode_items(self, values: Mapping[str, Any], key: str, /) -> dict[str, Any]:
        """Encode named values."""
        return {name: self.encode(value, f"{key}/{name}") for name, value in values.items()}

    def _encode_array(self, host: np.ndarray, key: str) -> dict[str, Any]:
        if host.dtype == object:
            return {"objects": [self.encode(item, key) for item in host.tolist()]}
        self.arrays[key] = host
        return {"array": key}


# --------------------------------------------------------------------------------- reading


class Decoder:
    """A reader of values, which checks them by annotations and uses each array once.

    Parameters
    ----------
    arrays : mapping of str to array or Stored
        Arrays, or headers of unread arrays, by their keys.
    read : callable, optional
        Reads the array of a header.
    kinds : mapping of type to sequence of types
        The concrete classes of each abstract class or protocol.

    Attributes
    ----------
    unused : dict
        The arrays that no decoded value has used.
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        read: Callable[[Any], np.ndarray] | None,
        kinds: Mapping[Any, Iterable[type]],
    ) -> None:
        self.unused, self._read = dict(arrays), read
        self._kinds = {base: {one.__name__: one for one in some} for base, some in kinds.items()}

    def decode(
        self, node: Any, hint: Any, key: str, sizes: Sizes, /, *, any_value: bool = False
    ) -> Any:
        """Decode a value of an annotated type.

        Parameters
        ----------
        node : object
            The value's JSON.
        hint : type
            The annotation.
        key : str
            The value's path in the file; keys of its arrays start with it.
        sizes : dict
            Sizes by symbols; new symbols are added.
        any_value : bool, default=False
            Whether all numbers may be infinite or NaN.

        Raises
        ------
        MisfitError, RefusedError
            If the value does not match the annotation.
        """
        base, marks = split_hint(hint)
        origin = get_origin(base)
        if origin in (types.UnionType, Union):
            return self._decode_union(node, base, marks, key, sizes, any_value)
        if base in PLAIN or base is None or origin is Literal:
            any_value = any_value or find_mark(AnyValue, marks) is not None
            if not _matches_plain(node, base, marks, sizes, any_value):
                raise _misfit_error(key, node, _plain_words(base, marks, sizes))
            found = node
        elif base in (Any, Array, np.ndarray):
            found = self._decode_array(node, base, marks, key, sizes, any_value)
        elif origin in (list, tuple):
            found = self._decode_items(node, base, marks, key, sizes, any_value)
        elif typing.is_typeddict(base) or origin is dict:
            found = self._decode_dict(node, base, key, sizes, any_value)
        else:
            found = self._decode_record(node, base, key)
        return found

    def finish(self) -> None:
        """Raise RefusedError if some arrays are unused."""
        if self.unused:
            names = ", ".join(list(self.unused)[:5])
            msg = f"which holds arrays that nothing is made of: {names}"
            raise RefusedError(msg)

    def take(self, node: Any, key: str, /) -> Any:
        """Return the array, or its header, at a key, and mark it used."""
        if not isinstance(node, str) or node != key or key not in self.unused:
            raise _missing_node_error(key)
        return self.unused.pop(key)

    def take_bytes(self, node: Any, key: str, /) -> np.ndarray:
        """Read the array of bytes at a key, and mark it used."""
        return self._read_stored(self.take(node, key))

    def _read_stored(self, stored: Any) -> np.ndarray:
        if self._read is None or isinstance(stored, np.ndarray):
            return np.asarray(stored)
        return self._read(stored)

    # ------------------------------------------------------------------ kinds of types

    def _decode_union(
        self, node: Any, base: Any, marks: Any, key: str, sizes: Sizes, any_value: bool
    ) -> Any:
        arms = [one for one in get_args(base) if one is not type(None)]
        if node is None and len(arms) < len(get_args(base)):
            return None
        if len(arms) > 1 and isinstance(node, dict) and "record" in node:
            arms = [one for one in arms if node["record"] in self._classes(one)] or arms[:1]
        failed = None
        for arm in arms:
            try:
                own = Annotated[(arm, *marks)] if marks else arm
                return self.decode(node, own, key, sizes, any_value=any_value)
            except (MisfitError, RefusedError) as error:
                failed = error
        assert failed is not None
        raise failed

    def _decode_array(
        self, node: Any, base: Any, marks: Any, key: str, sizes: Sizes, any_value: bool
    ) -> Any:
        labels, names = find_mark(Labels, marks), find_mark(Texts, marks)
        if isinstance(node, dict) and set(node) == {"objects"} and (labels or names):
            return _decode_objects(
                node["objects"], key, labels or names, sizes, text=names is not None
            )
        if base is Any and not (isinstance(node, dict) and set(node) == {"array"}):
            return self._decode_any(node, key)
        if not isinstance(node, dict) or set(node) != {"array"}:
            raise _missing_node_error(key)
        stored, numbers = self.take(node["array"], key), find_mark(Numbers, marks)
        if labels is not None:
            fits = stored.dtype.kind in "biufUS" and match_shape(
                (labels.symbol,), tuple(stored.shape), sizes
            )
            words = "labels of one shape"
        elif numbers is not None:
            fits = _matches_array(stored, numbers, sizes)
            words = _array_words(numbers, sizes)
        else:
            fits, words = stored.dtype.kind in "biufU", "an array"
        if not fits:
            raise _misfit_error(key, stored, words)
        found = self._read_stored(stored)
        checked = numbers is not None and not numbers.any_value and not any_value
        if checked and found.dtype.kind == "f" and not np.isfinite(found).all():
            msg = f"whose {node_name(key)} is not finite"
            raise MisfitError(msg)
        return found

    def _decode_any(self, node: Any, key: str) -> Any:
        """Decode a value without an annotation: plain, or a list, dict or known record."""
        if isinstance(node, PLAIN):
            return node
        if isinstance(node, list):
            return [self.decode(item, Any, f"{key}/{k}", {}) for k, item in enumerate(node)]
        if isinstance(node, dict) and set(node) == {"dict"} and isinstance(node["dict"], dict):
            inside = node["dict"].items()
            return {name: self.decode(item, Any, f"{key}/{name}", {}) for name, item in inside}
        return self._decode_record(node, Any, key)

    def _decode_items(
        self, node: Any, base: Any, marks: Any, key: str, sizes: Sizes, any_value: bool
    ) -> Any:
        length, args = find_mark(Length, marks), get_args(base)
        one_kind = get_origin(base) is list or (len(args) == 2 and args[1] is Ellipsis)
        expected = len(node) if one_kind and isinstance(node, list) else len(args)
        fits = isinstance(node, list) and len(node) == expected
        if not fits or (length and not match_shape((length.size,), (len(node),), sizes)):
            raise _misfit_error(
                key, node, "a list" if length is None else f"a list of {length.size}"
            )
        inner = [args[0]] * len(node) if one_kind else args
        loose = any_value or find_mark(AnyValue, marks) is not None
        found = [
            self.decode(item, hint, f"{key}/{k}", sizes, any_value=loose)
            for k, (item, hint) in enumerate(zip(node, inner, strict=True))
        ]
        return found if get_origin(base) is list else tuple(found)

    def _decode_dict(
        self, node: Any, base: Any, key: str, sizes: Sizes, any_value: bool
    ) -> dict[str, Any]:
        inside = node["dict"] if isinstance(node, dict) and set(node) == {"dict"} else None
        if not isinstance(inside, dict):
            raise _misfit_error(key, node, "a dict")
        if typing.is_typeddict(base):
            hints = typing.get_type_hints(base, include_extras=True)
            if set(inside) != set(hints):
                raise _misfit_error(key, inside, f"a dict of {', '.join(hints)}")
        else:
            hints = dict.fromkeys(inside, get_args(base)[1])
        return {
            name: self.decode(item, hints[name], f"{key}/{name}", sizes, any_value=any_value)
            for name, item in inside.items()
        }

    def _classes(self, base: Any) -> Mapping[str, type]:
        base = split_hint(base)[0]
        if base in self._kinds:
            return self._kinds[base]
        return {base.__name__: base} if dataclasses.is_dataclass(base) else {}  # type: ignore

    def _decode_record(self, node: Any, base: Any, key: str) -> Any:
        """Decode a dataclass; its symbols are separate from those around it."""
        if not isinstance(node, dict) or set(node) != {"record", "fields"}:
            raise _missing_node_error(key)
        name, inside, known = node["record"], node["fields"], self._classes(base)
        kind: Any = known.get(name) if isinstance(name, str) else None
        if kind is None or not isinstance(inside, dict):
            msg = f"whose {node_name(key)} is no {' or '.join(list(known)[:20])}"
            raise RefusedError(msg)
        hints, sizes = field_hints(kind), Sizes()
        missing = [f for f in dataclasses.fields(kind) if f.name in hints and f.name not in inside]
        if not set(inside) <= set(hints) or any(not _has_default(f) for f in missing):
            msg = f"whose {node_name(key)} has not the parts of a {name}: {', '.join(hints)}"
            raise RefusedError(msg)
        values = {
            field: self.decode(item, hints[field], f"{key}/{field}", sizes)
            for field, item in inside.items()
        }
        try:
            found = kind(**values)
            check = getattr(found, "check", None)
            if check is not None:
                check()
        except (RefusedError, MisfitError):
            raise
        except FAULTS as error:
            msg = f"whose {node_name(key)} is no {name}: {error}"
            raise RefusedError(msg) from error
        return found


def _is_protocol(base: Any) -> bool:
    return bool(getattr(base, "_is_protocol", False))


def _has_default(field: Any) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def node_name(key: str, /) -> str:
    """Return a key as messages show it: the path inside its part of the file."""
    return key.split("/", 1)[-1][:80]


# ------------------------------------------------------------------------------ plain values


def _matches_plain(node: Any, base: Any, marks: Any, sizes: Sizes, any_value: bool) -> bool:
    """Whether JSON matches a plain type."""
    if get_origin(base) is Literal:
        return any(type(node) is type(word) and node == word for word in get_args(base))
    if base in (int, float):
        return _matches_number(node, base, marks, sizes, any_value)
    choice = find_mark(Choice, marks)
    return type(node) is (base or type(None)) and (choice is None or node in choice.words)


def _matches_number(node: Any, base: Any, marks: Any, sizes: Sizes, any_value: bool) -> bool:
    if isinstance(node, bool) or not isinstance(node, (int, float)):
        return False
    if isinstance(node, int):
        return abs(node) < _MAX_INTEGER and (base is float or _matches_count(node, marks, sizes))
    if base is float:
        return any_value or math.isfinite(node)
    return node.is_integer() and abs(node) < _MAX_INTEGER and find_mark(Count, marks) is None


def _matches_count(node: int, marks: Any, sizes: Sizes) -> bool:
    count = find_mark(Count, marks)
    if count is None:
        return True
    return node >= 0 and (count.symbol is None or match_shape((count.symbol,), (node,), sizes))


def _plain_words(base: Any, marks: Any, sizes: Sizes) -> str:
    if get_origin(base) is Literal:
        return f"one of {', '.join(map(str, get_args(base)))}"
    choice, count = find_mark(Choice, marks), find_mark(Count, marks)
    if choice is not None:
        return f"one of {', '.join(choice.words)}"
    if count is not None and count.symbol in sizes:
        return str(sizes[count.symbol])
    return {bool: "True or False", str: "text", int: "an integer", float: "a number"}.get(
        base, "None"
    )


# ------------------------------------------------------------------------------------ arrays


def _matches_array(stored: Any, numbers: Numbers, sizes: Sizes) -> bool:
    dtype, shape = stored.dtype, tuple(stored.shape)
    if numbers.kinds == "precision":
        allowed = dtype.name in ("float32", "float64")
        same = allowed and sizes.setdefault("precision", dtype.name) == dtype.name
    elif numbers.kinds == "any":
        same = dtype.name in ("float32", "float64")
    else:
        same = dtype.kind in numbers.kinds and (dtype.kind == "b" or dtype.itemsize == 8)
    wanted = numbers.shape
    if numbers.or_shape is not None and len(shape) == len(numbers.or_shape):
        wanted = numbers.or_shape
    return same and match_shape(wanted, shape, sizes)


def match_shape(wanted: tuple[str | int, ...], shape: tuple[int, ...], sizes: Sizes, /) -> bool:
    """Whether a shape matches its annotation; a new symbol gets the size at its axis."""
    if len(wanted) != len(shape):
        return False
    for symbol, extent in zip(wanted, shape, strict=True):
        expected = symbol if isinstance(symbol, int) else sizes.setdefault(symbol, extent)
        if expected != extent:
            return False
    return True


def _decode_objects(values: Any, key: str, mark: Any, sizes: Sizes, *, text: bool) -> np.ndarray:
    kinds: Any = str if text else (str, bool, int, float)
    fits = isinstance(values, list) and all(isinstance(item, kinds) for item in values)
    if not fits or not match_shape((mark.symbol,), (len(values),), sizes):
        raise _missing_node_error(key)
    return np.array(values, dtype=object)


def _array_words(numbers: Numbers, sizes: Sizes) -> str:
    kinds = numbers.kinds
    if kinds == "precision":
        kinds = sizes.get("precision", "floats")
    known: dict[Any, Any] = sizes
    shapes = [one for one in (numbers.shape, numbers.or_shape) if one is not None]
    texts = (", ".join(str(known.get(s, s)) for s in shape) for shape in shapes)
    return f"an array ({kinds}) of shape {' or '.join(f'({text})' for text in texts)}"


def _misfit_error(key: str, value: Any, words: str) -> MisfitError:
    return MisfitError(f"whose {node_name(key)} is {_describe(value)}: expected {words}")


def _describe(value: Any) -> str:
    if isinstance(value, (Stored, np.ndarray)):
        return f"an array ({value.dtype}) of shape {tuple(value.shape)}"
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _missing_node_error(key: str) -> RefusedError:
    return RefusedError(f"which says of {key} neither a value nor an array that it holds")
