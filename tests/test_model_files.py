"""Model files hold what fits really make, and are replaced whole or not at all."""

import errno
import json
import os
import pickle
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import (
    CASES,
    SMALL,
    assert_as_before,
    data_of,
    fitted,
    parts_of,
    saved_bytes,
    with_checksum,
    zipped,
)

import gpukfl
from gpukfl._registry import METHODS, TASKS
from gpukfl.core import _archive
from gpukfl.core import _files as _replacing
from gpukfl.core._annotations import Sometimes, find_mark, split_hint
from gpukfl.core._archive import VERSION, Archive, RefusedError, write_archive
from gpukfl.estimators._fitted import record_hints

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]
ONLY_INTERRUPTED = ("validation_",)  # None where the user interrupts it
ELSEWHERE = {
    "bkernn": ("dual_coef_",),  # None where the rows lie in parts
    "hkrr": ("inner_factor_",),  # not None by the evidence of thousands of rows
}
REFUSED = r"expected a gpukfl model file, got .*model, "


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


# ---------------------------------------------------------------------- declarations


@pytest.mark.few
@pytest.mark.parametrize("name", CASES)
def test_what_a_fit_sets_is_declared_and_comes_back(name, path):
    model, data = fitted(name), data_of(name)
    model.save(path)
    loaded = gpukfl.load(path)
    header, arrays = parts_of(model)
    assert all(array.dtype.kind in "fiubU" for array in arrays.values())  # no objects, no pickles
    for twin in (loaded, pickle.loads(pickle.dumps(model))):  # of all parameters and attributes
        again, same = parts_of(twin)
        assert again == header
        for one, array in arrays.items():
            if array.dtype != np.uint8:  # archives of others' members, which say when they are made
                np.testing.assert_array_equal(same[one], array, strict=True)
        for ask in ("predict", "predict_proba") if model.task == "classification" else ("predict",):
            expected = getattr(model, ask)(data)
            found = getattr(twin, ask)(data)
            if twin is loaded and model.method in ("bkernn", "auto"):
                assert_as_before(found, expected)
            else:
                np.testing.assert_array_equal(found, expected, strict=True)
        assert twin.summary() == model.summary()
    known = {*record_hints(type(model.estimator)), "predictor_", "_table"}
    parameters = set(model.estimator.get_params(deep=False))
    assert set(vars(model.estimator)) - parameters <= known
    assert set(vars(loaded.estimator)) == set(vars(model.estimator))
    for made in (model, loaded):  # in another order products are rounded otherwise
        function = made.estimator.predictor_.values
        held = [getattr(function, one.name) for one in fields(function)]
        every = [*vars(made.estimator).values(), *held]
        arrays = [value for value in every if isinstance(value, np.ndarray)]
        assert all(value.flags.c_contiguous for value in arrays if value.ndim > 1)


@pytest.mark.few
@pytest.mark.parametrize(
    "name",
    [
        *("bkernn, thinned", "hkrr, kernels", "selection, two targets", "selection, two classes"),
        *("rkhs_weighting, sinks", "rkhs_weighting, pruned", "regfeal, variables", "hkrr, table"),
    ],
)
def test_a_loaded_model_can_be_fitted_again(name, path):
    model, (_, data, y, _) = fitted(name), CASES[name]
    model.save(path)
    again = gpukfl.load(path).fit(data, y)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))


@pytest.mark.slow
@pytest.mark.parametrize("method", SMALL)
def test_what_may_be_none_is_none_in_some_fits_and_not_in_others(method):
    fits = [vars(fitted(name).estimator) for name in CASES if name.startswith(method)]
    for kind in map(METHODS[method].estimator_class, TASKS):
        for name, hint in record_hints(kind).items():
            base, marks = split_hint(hint)
            values = [fit[name] for fit in fits if name in fit]
            rare = name in ONLY_INTERRUPTED or name in ELSEWHERE.get(method, ())
            if type(None) in get_args(base) and not rare:
                assert {value is None for value in values} == {True, False}, name
            assert values or find_mark(Sometimes, marks), name


@pytest.mark.parametrize("name", ["bkernn, one target", "regfeal, three classes"])
def test_an_attribute_that_is_not_declared_cannot_be_saved(name, path):
    model = fitted(name)
    model.estimator.new_ = 1.0
    try:
        with pytest.raises(
            ValueError, match=r"expected a model of gpukfl.fit, got one which has new_"
        ):
            model.save(path)
    finally:
        del model.estimator.new_
    assert not path.exists()


def test_a_model_whose_arrays_do_not_fit_cannot_be_saved(path):
    model = fitted("hkrr, one target")
    before = model.estimator.centers_
    model.estimator.centers_ = before[:, :2]
    try:
        with pytest.raises(ValueError, match=r"expected centers of shape \(60, 3\), got \(60, 2\)"):
            model.save(path)
    finally:
        model.estimator.centers_ = before


def test_a_second_fit_without_what_the_first_had_can_be_saved(path):
    data, y, _ = CASES["regfeal, two targets"][1:]
    model = gpukfl.fit(data, y, method="regfeal", **SMALL["regfeal"])
    model.estimator.set_params(retrain=None).fit(data, y[:, 0])
    model.save(path)
    np.testing.assert_array_equal(gpukfl.load(path).predict(data), model.predict(data))


def test_equal_models_are_equal_files(tmp_path):
    for name in "ab":
        fitted("hkrr, kernels").save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_labels_in_another_byte_order_come_back(path):
    X, codes = data_of("hkrr, two classes"), np.arange(60) % 3
    model = gpukfl.fit(X, codes.astype(">i4"), method="hkrr", **SMALL["hkrr"])
    model.save(path)
    np.testing.assert_array_equal(gpukfl.load(path).predict(X), model.predict(X))


# ---------------------------------------------------------------------- archives


def refuse(path, data, words):
    path.write_bytes(data)
    with pytest.raises(ValueError, match=REFUSED + words):
        gpukfl.load(path)


def members_of(data, tmp_path):
    (tmp_path / "members").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "members") as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


@pytest.fixture
def members(tmp_path):
    return members_of(saved_bytes("bkernn, two classes"), tmp_path)


def test_a_file_of_the_same_members_is_read(members, path):
    path.write_bytes(zipped(members))
    data = data_of("bkernn, two classes")
    expected = fitted("bkernn, two classes").predict(data)
    np.testing.assert_array_equal(gpukfl.load(path).predict(data), expected)


@pytest.mark.parametrize(
    ("compression", "told"),
    [
        (zipfile.ZIP_DEFLATED, "whose entries are far larger than the file"),
        (zipfile.ZIP_BZIP2, "which has compressed entries: expected them stored or deflated"),
    ],
)
def test_files_that_grow_too_much_are_refused_before_they_are_read(
    members, path, compression, told
):
    huge = [*members, ("predictor/huge.npy", bytes(2**27))]
    data = zipped(huge, compression=compression)
    tracemalloc.start()
    refuse(path, data, told)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_file_of_deflated_members_is_read(members, path):
    path.write_bytes(zipped(members, compression=zipfile.ZIP_DEFLATED))
    data = data_of("bkernn, two classes")
    expected = fitted("bkernn, two classes").predict(data)
    np.testing.assert_array_equal(gpukfl.load(path).predict(data), expected)


@pytest.mark.parametrize("missing", [1000, 4000])
def test_a_deflated_array_that_ends_early_is_refused(path, missing):
    array = np.concatenate([np.zeros(9_000), np.random.default_rng(0).random(1_000)])
    with path.open("w+b") as file:
        write_archive(file, b"{}", {"x": array})
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("x.npy")
        content = archive.read(member)
    assert member.compress_size < member.file_size // 5
    short = content[: len(content) - missing]
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed, crc = packer.compress(short) + packer.flush(), zlib.crc32(short)
    start = member.header_offset + 30 + len("x.npy")
    packed = packed.ljust(member.compress_size, b"\0")
    assert len(packed) == member.compress_size
    data[start : start + len(packed)] = packed
    data = data.replace(struct.pack("<L", member.CRC), struct.pack("<L", crc))
    path.write_bytes(with_checksum(bytes(data)))
    with path.open("rb") as file:
        archive = Archive(file)
        with pytest.raises(RefusedError, match="ends early"):
            archive.read(archive.arrays["x"])


@settings(max_examples=8)
@given(
    sizes=st.lists(st.sampled_from([0, 10, 2**12, 2**18]), max_size=4),
    random=st.booleans(),
)
def test_arrays_come_back_from_a_file_that_is_smaller(sizes, random, tmp_path_factory):
    rng = np.random.default_rng(0)
    arrays = {
        f"x{k}": rng.random(size) if random else rng.integers(0, 3, size) + 0.5
        for k, size in enumerate(sizes)
    }
    path = tmp_path_factory.mktemp("files") / "archive"
    with path.open("w+b") as file:
        write_archive(file, b"{}", arrays)
    with path.open("rb") as file:
        archive = Archive(file)
        for name, array in arrays.items():
            np.testing.assert_array_equal(archive.read(archive.arrays[name]), array)
    total = sum(array.nbytes for array in arrays.values())
    assert path.stat().st_size <= (total if random else total // 4) + 2**16


def test_no_file_is_written_that_is_refused_for_its_size(path, monkeypatch):
    monkeypatch.setattr(_archive, "_FREE_BYTES", 2**12)
    arrays = {f"x{k}": np.zeros(2**16) for k in range(4)}
    with path.open("w+b") as file:
        write_archive(file, b"{}", arrays)
    with path.open("rb") as file:
        archive = Archive(file)
        for name, array in arrays.items():
            np.testing.assert_array_equal(archive.read(archive.arrays[name]), array)


def test_two_members_of_one_name_are_refused(members, path):
    refuse(path, zipped([*members, members[-1]]), "which has two entries of the same name")


@pytest.mark.parametrize("name", ["more.npy", "../../escape.npy", "predictor/values/W2.npy"])
def test_a_member_too_many_is_refused(members, path, name):
    refuse(path, zipped([*members, (name, members[-1][1])]), "which holds arrays that nothing is")


def test_members_that_are_no_arrays_are_refused(members, path):
    refuse(path, zipped([*members, ("script.py", b"1")]), "whose entries are not header.json and")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"'<f8'", b"'|O8'"),
        (b"'<f8'", b"'<f2'"),
        (b"'<f8'", b"'<c8'"),
        (b"False", b"false"),
        (b"'shape'", b"'shap('"),
        (b"(3, 6)", b"(6, 6)"),
        (b"(3, 6)", b"(-3,6)"),
        (b"(3, 6)", b"(3, 6"),
        (b"{", b"("),
        (b"\x93NUMPY\x01", b"\x93NUMPY\x02"),
    ],
)
def test_another_array_header_is_refused(members, path, old, new):
    changed = [
        (name, content.replace(old, new, 1) if name == "predictor/values/W.npy" else content)
        for name, content in members
    ]
    assert changed != members
    refuse(
        path, zipped(changed), r"in which predictor/values/W.npy (is not an array|has another size)"
    )


def test_only_matrices_are_stored_by_columns(members, path):
    changed, vectors = [], 0
    for name, content in members:
        turned = re.sub(rb"False, ('shape': \(\d+,\), })", rb"True, \1 ", content[:256])
        vectors += turned != content[:256]
        changed.append((name, turned + content[256:]))
    assert vectors
    refuse(path, zipped(changed), "in which .*has named columns, not numbers")


@pytest.mark.parametrize("extra", [-8, -1, 1, 8])
def test_an_array_of_another_size_than_its_shape_is_refused(members, path, extra):
    changed = [
        (
            name,
            (content + bytes(8))[: len(content) + extra]
            if name == "predictor/values/W.npy"
            else content,
        )
        for name, content in members
    ]
    refuse(path, zipped(changed), "in which predictor/values/W.npy has another size")


@pytest.mark.parametrize("depth", [250, 900, 10**5])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_json_is_refused(members, path, depth, brackets):
    opening = '{"a":' if brackets == "{}" else "["
    deep = opening * depth + "1" + brackets[1] * depth
    header = members[0][1][:-1] + b', "extra": ' + deep.encode() + b"}"
    refuse(path, zipped([("header.json", header), *members[1:]]), "whose header is nested")


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff", b'"x"', b"1e999", b"9" * 5000])
def test_a_header_that_is_no_object_is_refused(members, path, text):
    refuse(path, zipped([("header.json", text), *members[1:]]), "wh(ich|ose) ")


def test_a_long_header_is_refused(members, path, monkeypatch):
    monkeypatch.setattr(_archive, "LARGEST_HEADER", 1000)
    refuse(path, zipped(members), "whose header has [0-9]+ bytes")


def test_brackets_in_text_are_no_nesting():
    text = json.dumps({"a": "[[[[" * 100 + '"\\', "b": [[1], {"c": []}]})
    assert _archive.nesting_depth(text.encode()) == 4


def test_a_file_of_version_1_says_so(path):
    header = json.dumps({"format": "gpukfl-model", "version": 1, "gpukfl": "0.1"})
    with path.open("wb") as file:
        np.savez_compressed(file, header=np.array(header), W_=np.zeros(3))
    refuse(
        path, path.read_bytes(), f"which has version 1: expected version {VERSION}; fit and save"
    )


def test_the_checksum_is_that_of_all_bytes_before_it(path):
    data = saved_bytes("selection, one target")
    assert with_checksum(data) == data
    for place in range(0, len(data) - 78, 97):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        refuse(path, changed, "which is damaged: its checksum")


# ---------------------------------------------------------------------- replacing an old file


@pytest.fixture
def old(path):
    """A file with an old model, and what it predicts."""
    fitted("hkrr, one target").save(path)
    return path.read_bytes()


def only_the_old_is_there(path, old):
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == old
    gpukfl.load(path)


def test_a_full_disk_leaves_the_old_file(path, old, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        fitted("bkernn, one target").save(path)
    only_the_old_is_there(path, old)


def test_a_file_beyond_the_limit_leaves_the_old_one(path, old):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            fitted("bkernn, one target").save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    only_the_old_is_there(path, old)


def test_ctrl_c_while_writing_leaves_the_old_file(path, old, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_archive, "_sha256", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted("bkernn, one target").save(path)
    monkeypatch.undo()
    only_the_old_is_there(path, old)


STUCK = """
import sys, time
from gpukfl.core._files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half of a model")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_the_old_file(path, old):
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
    nameless = _replacing._open_unnamed(path.parent)  # on Linux, of most file systems
    if nameless is not None:
        nameless.close()
        only_the_old_is_there(path, old)
    assert path.read_bytes() == old
    gpukfl.load(path)
    fitted("bkernn, one target").save(path)  # what the killed process left is not in the way
    assert gpukfl.load(path).method == "bkernn"


def test_what_a_link_points_to_is_replaced(path, old, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    fitted("bkernn, one target").save(link)
    assert link.is_symlink()
    assert gpukfl.load(path).method == "bkernn"


def test_a_link_to_nothing_is_written_through(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    fitted("bkernn, one target").save(link)
    assert link.is_symlink()
    assert path.is_file()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_of_the_old_file_is_kept(path, old, mode):
    path.chmod(mode)
    fitted("bkernn, one target").save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_usual_mode(path, tmp_path):
    (tmp_path / "other").touch()
    fitted("bkernn, one target").save(path)
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(path, old):
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="got a read-only one"):
        fitted("bkernn, one target").save(path)
    only_the_old_is_there(path, old)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected an existing folder .*nowhere") as error:
        fitted("bkernn, one target").save(tmp_path / "nowhere" / "model")
    assert error.value.filename == str(tmp_path / "nowhere")


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(IsADirectoryError, match="expected the name of a file"):
        fitted("bkernn, one target").save(tmp_path)


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected the name of a file"):
        fitted("bkernn, one target").save(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
