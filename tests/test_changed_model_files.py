"""Whatever is changed in a model file, it is refused in one way or works.

A changed byte is always noticed. Where the checksum is made anew, a file that is taken must hold a
whole model: it predicts for the same rows, and has a summary.
"""

import json
import os
import warnings

import numpy as np
import pytest
from model_files import SMALL, data_of, fitted, opened, saved_bytes, with_checksum

import gpukfl
import gpukfl.runtime
from gpukfl._archive import write_archive

NAMES = [
    f"{method}, {task}"
    for method in SMALL
    for task in ("two targets", "two classes", "object labels")
]
NAMES += ["bkernn, table", "auto, table"]
TIMES = int(os.environ.get("GPUKFL_CHANGES", "20"))  # of each kind, for each model
METHODS = ("predict", "fit", "_predict", "summary", "transform", "__class__", "__dict__")
ODD = (None, True, 0, -1, 3, 2.5, 10**400, float("nan"), "text", [], [[1.0]], {}, {"dict": {}})


def outcome(path, name):
    """Give "refused", "same" or "other": what the file of a changed model does."""
    model, X = fitted(name), data_of(name)
    try:
        loaded = gpukfl.load(path)
    except ValueError as error:
        assert str(error).startswith(f"expected a gpukfl model file, got {path}, ")  # noqa: PT017
        return "refused"
    assert loaded.summary()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            predicted = loaded.predict(X)
        except ValueError as error:
            assert "not finite" in str(error)  # noqa: PT017
            return "other"
    expected = model.predict(X)
    assert predicted.shape == expected.shape
    return "same" if np.array_equal(predicted, expected) else "other"


def containers(value):
    """Every list and object in JSON."""
    if isinstance(value, (list, dict)) and value:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def drawn(rng, header):
    """Some list or object of the header, and a key of it."""
    places = list(containers(header))
    place = places[rng.integers(len(places))]
    keys = list(place) if isinstance(place, dict) else range(len(place))
    return place, keys[rng.integers(len(keys))]


def drop(rng, header, arrays):
    place, key = drawn(rng, header)
    del place[key]


def retype(rng, header, arrays):
    place, key = drawn(rng, header)
    place[key] = ODD[rng.integers(len(ODD))]


def rename(rng, header, arrays):
    place = header["fitted"]
    key = list(place)[rng.integers(len(place))]
    place[METHODS[rng.integers(len(METHODS))]] = place.pop(key)


def call(rng, header, arrays):
    header["fitted"][METHODS[rng.integers(len(METHODS))]] = ODD[rng.integers(len(ODD))]


def swap_references(rng, header, arrays):
    where = [place for place in containers(header) if isinstance(place, dict) and "array" in place]
    one, other = rng.choice(len(where), 2, replace=False)
    one, other = where[one], where[other]
    one["array"], other["array"] = other["array"], one["array"]


def swap_values(rng, header, arrays):
    one, other = rng.choice(list(arrays), 2, replace=False)
    arrays[one], arrays[other] = arrays[other], arrays[one]


def reshape(rng, header, arrays):
    name = rng.choice(list(arrays))
    array = arrays[name]
    ways = [array.reshape(-1), array[None], array.T, array[:-1], np.concatenate([array, array])]
    arrays[name] = ways[rng.integers(len(ways))]


def recast(rng, header, arrays):
    name = rng.choice(list(arrays))
    dtypes = ("float32", "float64", "float16", "int64", "int8", "bool", "U9", "S4", "uint64")
    if arrays[name].dtype.kind != "U":
        with np.errstate(all="ignore"):
            arrays[name] = arrays[name].astype(dtypes[rng.integers(len(dtypes))])


def deepen(rng, header, arrays):
    place, key = drawn(rng, header)
    for _ in range(rng.integers(1, 60)):
        place[key] = [place[key]] if rng.integers(2) else {"dict": {"a": place[key]}}


def recount(rng, header, arrays):
    place, key = drawn(rng, header)
    if isinstance(place[key], (int, float)):
        place[key] = type(place[key])(place[key] * rng.choice([0, 2, -1, 1000]))


def spoil(rng, header, arrays):
    name = rng.choice(list(arrays))
    array = arrays[name].copy().reshape(-1)
    if array.size and array.dtype.kind in "fi":
        odd = [-1, 10**6] if array.dtype.kind == "i" else [np.nan, np.inf, -1.0, 1e30]
        array[rng.integers(array.size)] = odd[rng.integers(len(odd))]
    arrays[name] = array.reshape(arrays[name].shape)


CHANGES = [
    drop,
    retype,
    rename,
    call,
    swap_references,
    swap_values,
    reshape,
    recast,
    deepen,
    recount,
    spoil,
]
STRUCTURAL = (drop, rename, call, swap_references, deepen)


def parts(name, path):
    path.write_bytes(saved_bytes(name))
    header, arrays = opened(path)
    return header, arrays


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_are_refused(name, tmp_path):
    path, rng = tmp_path / "model", np.random.default_rng(1)
    original = np.frombuffer(saved_bytes(name), dtype=np.uint8)
    for _ in range(TIMES):
        data = original.copy()
        where = rng.integers(len(data), size=rng.integers(1, 4))
        data[where] ^= rng.integers(1, 256, size=len(where), dtype=np.uint8)
        path.write_bytes(data.tobytes())
        assert outcome(path, name) == ("same" if np.array_equal(data, original) else "refused")


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_with_a_new_checksum_are_refused_or_work(name, tmp_path):
    path, rng = tmp_path / "model", np.random.default_rng(2)
    original = saved_bytes(name)
    ends = len(original) - 800, len(original) - 64  # the list of members
    for k in range(TIMES):
        data = bytearray(original)
        first, last = ends if k % 2 else (0, ends[1])
        for place in rng.integers(first, last, size=rng.integers(1, 4)):
            data[place] = rng.integers(256)
        path.write_bytes(with_checksum(bytes(data)))
        outcome(path, name)


def test_a_model_of_all_samples_is_told_from_those_of_folds(tmp_path):
    path = tmp_path / "model"
    header, arrays = parts("auto, refitted", path)
    header["fitted"]["whole_"] = False
    with path.open("w+b") as file:
        write_archive(file, json.dumps(header).encode(), arrays)
    with pytest.raises(ValueError, match="models of its folds"):
        gpukfl.load(path)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_changed_headers_are_refused_or_work(name, change, tmp_path):
    path, rng = tmp_path / "model", np.random.default_rng(3)
    for _ in range(max(TIMES // 8, 1)):
        header, arrays = parts(name, path)
        change(rng, header, arrays)
        with path.open("w+b") as file:
            write_archive(file, json.dumps(header).encode(), arrays)
        found = outcome(path, name)
        assert found in ("refused", "same") or change not in STRUCTURAL
        data = path.read_bytes()
        if data != saved_bytes(name):
            path.write_bytes(data[:-64] + saved_bytes(name)[-64:])
            assert outcome(path, name) == "refused"
