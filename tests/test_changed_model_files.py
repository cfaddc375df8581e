"""Whatever is changed in a model file, it is refused in one way or works.

A changed byte is always noticed. Where the checksum is made anew, a file that is taken must hold a
whole model: it predicts for the same rows, and has a summary.
"""

import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_files import HOSTILE, SMALL, data_of, fitted, opened, saved_bytes, with_checksum, zipped

import gpukfl
import gpukfl.runtime
from gpukfl.core._archive import write_archive

TASKS = ("two targets", "two classes", "object labels")
NAMES = [f"{method}, {TASKS[k % 3]}" for k, method in enumerate(SMALL)]
NAMES += ["bkernn, table", "auto, table", "auto, both", "auto, own"]
TIMES = int(os.environ.get("GPUKFL_CHANGES", "16"))  # of each kind, for each model
METHODS = ("predict", "fit", "_predict", "summary", "transform", "__class__", "__dict__")
ODD = (None, True, 0, -1, 3, 2.5, 10**400, float("nan"), "text", [], [[1.0]], {}, {"dict": {}})


def outcome(path, name):
    """Give "refused", "same" or "other": what the file of a changed model does."""
    read_alone(path, name)
    model, X = fitted(name), data_of(name)
    loaded = read(gpukfl.load, path)
    if loaded is None:
        return "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that are not finite
        assert loaded.summary()
    predicted = predictions(loaded, X)
    if predicted is None:
        return "other"
    expected = model.predict(X)
    assert predicted.shape == expected.shape
    return "same" if np.array_equal(predicted, expected) else "other"


def read(load, path):
    """Read a model; None where it is refused, in one way."""
    try:
        return load(path)
    except ValueError as error:
        assert str(error).startswith(f"expected a gpukfl model file, got {path}, ")  # noqa: PT017
        return None


def read_alone(path, name):
    """Read a model by NumPy alone, which looks at what predictions need only."""
    light = read(gpukfl.runtime.load, path)
    if light is not None:
        predictions(light, data_of(name))


def predictions(model, X):
    """Predict; None where that is refused in the words of predictions."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return model.predict(X)
        except ValueError as error:
            if isinstance(model, gpukfl.Model):
                assert "not finite" in str(error)  # noqa: PT017
            return None


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
    place = header["record"]
    key = list(place)[rng.integers(len(place))]
    place[METHODS[rng.integers(len(METHODS))]] = place.pop(key)


def call(rng, header, arrays):
    header["record"][METHODS[rng.integers(len(METHODS))]] = ODD[rng.integers(len(ODD))]


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


@pytest.mark.slow
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


@pytest.mark.few
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
    blend = header["predictor"]["fields"]["values"]["fields"]
    blend["blending"]["fields"]["whole"] = False
    with path.open("w+b") as file:
        write_archive(file, json.dumps(header).encode(), arrays)
    with pytest.raises(ValueError, match="models of its folds"):
        gpukfl.load(path)


@pytest.mark.few
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


# ---------------------------------------------------------------------- the bytes of members


def members_of(name):
    """Names and bytes of the members of a model's file."""
    with zipfile.ZipFile(io.BytesIO(saved_bytes(name))) as archive:
        return {one: archive.read(one) for one in archive.namelist()}


def start_of(array):
    """Bytes of the header of an array."""
    return 10 + int.from_bytes(array[8:10], "little")


def with_header(array, text):
    """Bytes of an array under another header."""
    padded = text + b" " * ((-len(text) - 11) % 64) + b"\n"
    return array[:8] + struct.pack("<H", len(padded)) + padded + array[start_of(array) :]


HEADERS = {
    b"False": [b"True", b"None", b"0"],
    b"'<f8'": [b"'<f4'", b"'>f8'", b"'|O'", b"'<c16'", b"'<U999999999'", b"[('a', '<f8')]", b"'x'"],
    b"'<i4'": [b"'<u4'", b"'<f4'", b"'>i4'"],
    b"'<i8'": [b"'<u8'", b"'<f8'", b"'<M8[s]'"],
    b"(": [
        b"(1, ",
        b"(0, ",
        b"(-1, ",
        b"(1000000000000, ",
        b"(0, 999999999999999999, ",
        b"((",
        b"",
    ],
    b",)": [b", 1)", b", 2)", b", 0)", b")", b",) + (1,)"],
    b"}": [b"", b", 'a': 1}", b"}}"],
    b"{": [b"[", b"{'shape': (3,), "],
}


def change_header(draw, array):
    """Put another word into the header of an array."""
    text = array[10 : start_of(array)].rstrip()
    old = draw(st.sampled_from([one for one in HEADERS if one in text]))
    return with_header(array, text.replace(old, draw(st.sampled_from(HEADERS[old])), 1))


def change_bytes(draw, data):
    """Put other bytes in, take some out, or cut the end off."""
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(len(data) - 1, 0)))
        stop = start + draw(st.sampled_from([0, 1, 1, 8, 10**9]))
        data[start:stop] = draw(st.binary(max_size=4))
    return bytes(data)


def change_numbers(draw, array):
    """Put a number into an array that is none of those that were there."""
    start, text = start_of(array), array[: start_of(array)]
    kind = next((one for one in ("f8", "i8", "i4", "u4", "f4") if one.encode() in text), "u1")
    values = np.frombuffer(array[start:], kind).copy()
    if not values.size:
        return array
    limits = [np.nan, np.inf, -1e308, 0] if kind[0] == "f" else [-1, 0, 1, 7, 10**9, 2**31 - 1]
    with np.errstate(all="ignore"):
        values[draw(st.integers(0, len(values) - 1))] = np.array(draw(st.sampled_from(limits)))
    return text + values.tobytes()


def change_inner(draw, array):
    """Change an archive inside an array, or how it is packed."""
    start = start_of(array)
    with zipfile.ZipFile(io.BytesIO(array[start:])) as archive:
        parts = [(one, archive.read(one)) for one in archive.namelist()]
    k = draw(st.integers(0, len(parts) - 1))
    name, data = parts[k]
    how = draw(st.sampled_from(["deflate", "twice", "none", "bytes", "header", "numbers"]))
    if how == "twice":
        parts.append(parts[k])
    elif how == "none":
        del parts[k]
    elif how in ("header", "numbers") and name.endswith(".npy"):
        change = change_header if how == "header" else change_numbers
        parts[k] = name, change(draw, data)
    elif how != "deflate":
        parts[k] = name, change_bytes(draw, data)
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if how == "deflate" else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")
        for one in parts:
            archive.writestr(*one)
    return array_of(buffer.getvalue())


def array_of(data):
    """Bytes of an array of bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.frombuffer(data, np.uint8), (1, 0))
    return buffer.getvalue()


def changed_members(draw, name):
    """Bytes of a model's file of which one member is another."""
    members = members_of(name)
    how = draw(st.sampled_from(CHANGES_OF_MEMBERS))
    some = [one for one in members if one.endswith(".npy") or how is change_bytes]
    if how is change_inner:
        some = [one for one in some if b"PK\3\4" in members[one][:140]] or some[:0]
    if not some:
        how, some = change_bytes, list(members)
    one = draw(st.sampled_from(some))
    return zipped([*(members | {one: how(draw, members[one])}).items()])


CHANGES_OF_MEMBERS = [change_header, change_bytes, change_numbers, change_inner]
KINDS = ["hkrr, table", "regfeal, three classes", "selection, knockoffs", "rkhs_weighting, pruned"]
KINDS += ["bkernn, binned", "auto, table", "auto, both", "auto, own"]


def check_changed(draw):
    """Read a changed file: it is refused in one way, or holds a model that predicts."""
    name = draw(st.sampled_from(KINDS))
    data = changed_members(draw, name)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model"
        path.write_bytes(data)
        outcome(path, name)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_members_are_refused_or_work(data):
    check_changed(data.draw)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_many_changed_members_are_refused_or_work(data):
    check_changed(data.draw)


# ---------------------------------------------------------------------- in a process of their own


def changed_files(folder, n):
    """Write unchanged files, files that are made to take memory, and n that are changed."""
    for name in KINDS:
        (folder / f"{name};").write_bytes(saved_bytes(name))
    for what, make in HOSTILE.items():
        (folder / f"{KINDS[0]};{what}").write_bytes(make())

    @settings(max_examples=n, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(data=st.data())
    def write(data):
        name = data.draw(st.sampled_from(KINDS))
        made = changed_members(data.draw, name)
        (folder / f"{name};{zlib.crc32(made)}").write_bytes(made)

    write()


def read_in_limits(folder):
    """Read files in another process; return its exit status, and what it says of each."""
    here = pathlib.Path(__file__).parent
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(here.parent), str(here)])
    command = [sys.executable, "-X", "faulthandler", str(here / "load_in_limits.py"), str(folder)]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=1_000, check=False
    )
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_no_file_ends_the_process_hangs_or_takes_much_memory(tmp_path):
    changed_files(tmp_path, 500)
    status, lines, errors = read_in_limits(tmp_path)
    wrong = [line for line in lines if not line.endswith(" right")]
    assert (status, wrong) == (0, []), f"{lines[-1]}: {errors[:2_000]}"
    assert len(lines) == 2 * len([*tmp_path.iterdir()])
