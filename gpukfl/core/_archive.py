"""The container of a model file: JSON and arrays in a zip archive, checked before they are read.

Arrays are deflated: centres, for example, are rows of a table, whose columns may have few different
values. Matrices are stored by columns if this deflates better. Files that unpack to more than a few
times their size are refused. A file ends with the SHA-256 of all bytes before, which is checked
before anything is parsed. Array headers must match a strict pattern. Nothing in a file is executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

import numpy as np

FORMAT, VERSION = "gpukfl-model", 13
_READABLE_VERSIONS = (10, 11, 12, VERSION)  # before 13, files have attributes of estimators
HEADER = "header.json"
LARGEST_HEADER = 2**25  # bytes, enough for names of a million features
DEEPEST = 200  # nested lists and objects in the header

_LABEL = b"gpukfl sha256 "  # before the checksum
_DIGEST = 64  # hexadecimal digits of the checksum
_CHUNK = 2**20  # bytes that are read or written at once
_MAX_DIMENSIONS, _MAX_ELEMENTS = 32, 2**48  # of an array; sizes of 0 are not counted
_END = struct.Struct("<4s4H2LH")  # the record at the end of an archive
_MEMORY_OF_MEMBERS = 16  # bytes of memory per byte of the list of members
_MEMORY_OF_VALUE = 100  # bytes of memory per value of JSON, with the object made of it
_FREE_BYTES = 2**26  # any file may unpack to so many bytes ...
_MAX_RATIO = 3  # ... and to so many more per byte of its size
_DEFLATE_LEVEL = 1  # higher levels take three times as long, for files a tenth smaller
_MIN_DEFLATED = 2**12  # bytes; smaller arrays are not deflated
_SAMPLE_BYTES = 2**24  # about so many bytes of a matrix decide whether it is stored by columns
_MAGIC = b"\x93NUMPY\x01\x00"
_MAX_ARRAY_HEADER = 1024  # bytes, enough for 32 dimensions
_ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<|][biufUS]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, )*\d{0,18},?)\), \} *\n"
)
_UNREADABLE = (  # errors of zipfile, zlib and json
    zipfile.BadZipFile,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
FAULTS = (  # errors on use of parts that do not fit together
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


class RefusedError(ValueError):
    """The reason that a file is not a model; the message continues "got PATH, "."""


@dataclass(frozen=True)
class Stored:
    """The header of an array in an archive."""

    dtype: np.dtype
    shape: tuple[int, ...]
    by_columns: bool  # whether a matrix is stored column by column
    member: zipfile.ZipInfo
    start: int  # bytes before its first element


# ---------------------------------------------------------------------- writing


def write_archive(file: BinaryIO, header: bytes, arrays: dict[str, np.ndarray], /) -> None:
    """Write JSON and arrays to an archive with a checksum at its end."""
    with zipfile.ZipFile(file, "w", compresslevel=_DEFLATE_LEVEL) as archive:
        archive.comment = _LABEL + b"0" * _DIGEST
        _write_member(archive, HEADER, memoryview(header))
        saved = 0
        for name, array in arrays.items():
            by_columns = _deflates_by_columns(array)
            ordered = array.T if by_columns else array
            flat = np.ascontiguousarray(ordered, dtype=array.dtype.newbyteorder("<")).reshape(-1)
            start, data = _array_header(flat.dtype, array.shape, by_columns), flat.view(np.uint8)
            # Even if the array deflates to nothing, readers must accept the file's ratio
            is_allowed = saved + data.nbytes <= (_MAX_RATIO - 1) * file.tell() + _FREE_BYTES
            deflated = is_allowed and data.nbytes >= _MIN_DEFLATED
            member = _write_member(archive, f"{name}.npy", start, data.data, deflated=deflated)
            saved += member.file_size - member.compress_size
    length = file.seek(0, os.SEEK_END) - _DIGEST
    digest = _sha256(file, length)
    file.seek(length)
    file.write(digest)


def _deflates_by_columns(array: np.ndarray) -> bool:
    """Whether a sample of columns of a matrix deflates better than a sample of rows."""
    if array.ndim != 2 or array.nbytes < _MIN_DEFLATED:
        return False
    ratios = []
    for lines in (array, array.T):
        count = max(_SAMPLE_BYTES * len(lines) // array.nbytes, 1)
        sample = np.ascontiguousarray(lines[:count]).reshape(-1).view(np.uint8).data
        ratios.append(len(zlib.compress(sample, _DEFLATE_LEVEL)) / len(sample))
    return ratios[1] < ratios[0]


def _array_header(dtype: np.dtype, shape: tuple[int, ...], by_columns: bool) -> memoryview:
    buffer = io.BytesIO()
    header = {"descr": dtype.str, "fortran_order": by_columns, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getbuffer()


def _write_member(
    archive: zipfile.ZipFile, name: str, *parts: memoryview, deflated: bool = False
) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)  # its date is fixed, so that equal models make equal files
    if deflated:
        member.compress_type = zipfile.ZIP_DEFLATED
    member.file_size = sum(len(part) for part in parts)
    with archive.open(member, "w") as out:
        for part in parts:
            for start in range(0, len(part), _CHUNK):
                out.write(part[start : start + _CHUNK])
    return member


def _sha256(file: BinaryIO, length: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (chunk := file.read(min(length, _CHUNK))):
        digest.update(chunk)
        length -= len(chunk)
    return digest.hexdigest().encode()


# ---------------------------------------------------------------------- reading


class Archive:
    """A model file, whose checksum, members and array headers are checked.

    Attributes
    ----------
    header : dict
        The JSON.
    arrays : dict of Stored
        Headers of the arrays, by their names.
    """

    def __init__(self, file: BinaryIO, /) -> None:
        size = os.fstat(file.fileno()).st_size
        _check_digest(file, size)
        check_directory(file, size, len(_LABEL) + _DIGEST)
        with refuse_unreadable():
            self._zip = zipfile.ZipFile(file)
            members = self._check_members(size)
            self.header = _parse_header(self._zip.read(members.pop(HEADER)), size)
            self.arrays = {
                name.removesuffix(".npy"): self._read_array_header(member)
                for name, member in members.items()
            }

    def _check_members(self, size: int) -> dict[str, zipfile.ZipInfo]:
        members = check_members(self._zip, size, deflated=True)
        if HEADER not in members or not all(n == HEADER or n.endswith(".npy") for n in members):
            msg = f"whose entries are not {HEADER} and arrays"
            raise RefusedError(msg)
        if members[HEADER].file_size > LARGEST_HEADER:
            msg = f"whose header has {members[HEADER].file_size} bytes"
            raise RefusedError(msg)
        return members

    def _read_array_header(self, member: zipfile.ZipInfo) -> Stored:
        with self._zip.open(member) as stream:
            magic, length = stream.read(len(_MAGIC)), stream.read(2)
            n_bytes = struct.unpack("<H", length)[0] if len(length) == 2 else 0
            text = stream.read(min(n_bytes, _MAX_ARRAY_HEADER))
        match = _ARRAY_HEADER.fullmatch(text)
        if magic != _MAGIC or match is None:
            msg = f"in which {member.filename} is not an array of numbers or text"
            raise RefusedError(msg)
        dtype = np.dtype(match[1].decode())
        shape = tuple(int(number) for number in re.findall(rb"\d+", match[3]))
        start = len(_MAGIC) + 2 + n_bytes
        n_elements = math.prod(shape)
        if len(shape) > _MAX_DIMENSIONS or math.prod(filter(None, shape)) > _MAX_ELEMENTS:
            msg = f"in which {member.filename} has a shape that no array has"
            raise RefusedError(msg)
        if not dtype.itemsize or n_elements * dtype.itemsize != member.file_size - start:
            msg = f"in which {member.filename} has another size than its shape {shape}"
            raise RefusedError(msg)
        by_columns = match[2] == b"True"
        if by_columns and len(shape) != 2:
            msg = f"in which {member.filename} has named columns, not numbers"
            raise RefusedError(msg)
        return Stored(dtype, shape, by_columns, member, start)

    def read(self, stored: Stored, /) -> np.ndarray:
        """Read one array."""
        array = np.empty(stored.shape, dtype=stored.dtype)
        with refuse_unreadable(), self._zip.open(stored.member) as stream:
            stream.read(stored.start)
            if stored.by_columns and array.size:
                n, d = array.shape
                step = max(_CHUNK // (n * array.itemsize), 1)
                for first in range(0, d, step):
                    columns = np.empty((min(step, d - first), n), dtype=stored.dtype)
                    _read_into(columns, stream, stored)
                    array[:, first : first + step] = columns.T
            else:
                _read_into(array, stream, stored)
        return array.astype(stored.dtype.newbyteorder("="), copy=False)


def _read_into(array: np.ndarray, stream: IO[bytes], stored: Stored) -> None:
    """Read the bytes of an array, or of some of its columns."""
    space, done = array.reshape(-1).view(np.uint8).data, 0
    while done < len(space) and (chunk := stream.read(min(_CHUNK, len(space) - done))):
        space[done : done + len(chunk)] = chunk
        done += len(chunk)
    if done != len(space):
        msg = f"in which {stored.member.filename} ends early"
        raise RefusedError(msg)


def check_members(
    archive: zipfile.ZipFile, size: int, /, *, deflated: bool = False
) -> dict[str, zipfile.ZipInfo]:
    """Return an archive's members by name; check that they are stored plainly or `deflated`.

    Raises
    ------
    RefusedError
        If some are encrypted, have the same name, overlap, are compressed in another way, or are
        far larger than the archive.
    """
    found = archive.infolist()
    members = {member.filename: member for member in found}
    if len(members) < len(found):
        msg = "which has two entries of the same name"
        raise RefusedError(msg)
    known = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if deflated else (zipfile.ZIP_STORED,)
    stored = [m for m in found if m.compress_type == zipfile.ZIP_STORED]
    packed = [m for m in found if m.compress_type not in known or m.flag_bits & 1]
    packed += [m for m in stored if m.file_size != m.compress_size]
    if packed or sum(member.compress_size for member in found) > size:
        expected = "stored or deflated" if deflated else "not compressed"
        msg = f"which has compressed entries: expected them {expected}"
        raise RefusedError(msg)
    if sum(member.file_size for member in found) > _MAX_RATIO * size + _FREE_BYTES:
        msg = "whose entries are far larger than the file"
        raise RefusedError(msg)
    return members


def check_directory(file: BinaryIO, size: int, comment: int, /) -> None:
    """Raise RefusedError if the list of members would take far more memory than the file.

    Parameters
    ----------
    file : file
        An archive.
    size, comment : int
        Bytes of the archive, and of the comment at its end.
    """
    end = size - comment - _END.size
    file.seek(max(end, 0))
    record = file.read(_END.size)
    if end < 0 or not record.startswith(b"PK\5\6"):
        msg = "which is not a readable archive"
        raise RefusedError(msg)
    n_bytes = _END.unpack(record)[5]
    file.seek(max(end - 20, 0))
    if file.read(4) == b"PK\6\7":  # archives of more than four gigabytes
        n_bytes = _zip64_directory_size(file, end)
    if _MEMORY_OF_MEMBERS * n_bytes > 2 * size + _FREE_BYTES:
        msg = f"whose list of entries has {n_bytes} bytes"
        raise RefusedError(msg)


def _zip64_directory_size(file: BinaryIO, end: int) -> int:
    """Return the size of the zip64 directory at an archive's end, in bytes."""
    file.seek(max(end - 76, 0))
    record = file.read(56)
    if not record.startswith(b"PK\6\6") or len(record) < 56:
        msg = "which is not a readable archive"
        raise RefusedError(msg)
    return int.from_bytes(record[40:48], "little")


def check_json(text: bytes, size: int, /) -> None:
    """Raise RefusedError if the values of JSON would take far more memory than their file."""
    n_values = sum(map(text.count, (b",", b"[", b"{")))
    if _MEMORY_OF_VALUE * n_values + len(text) > 3 * size + _FREE_BYTES:
        msg = f"whose JSON holds {n_values} values in {len(text)} bytes"
        raise RefusedError(msg)


@contextlib.contextmanager
def refuse_unreadable() -> Iterator[None]:
    """Raise RefusedError in place of errors of zipfile, zlib and json."""
    try:
        yield
    except RefusedError:
        raise
    except (*_UNREADABLE, OSError) as error:
        # The only system error that the file can cause is a position before its start
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        msg = "which is not a readable archive"
        raise RefusedError(msg) from error


def _check_digest(file: BinaryIO, size: int) -> None:
    file.seek(max(size - _DIGEST - len(_LABEL), 0))
    tail = file.read(_DIGEST + len(_LABEL))
    if not tail.startswith(_LABEL):
        msg = "which is truncated, or not a gpukfl model file"
        if _is_version_1(file):
            msg = f"which has version 1: expected version {VERSION}; fit and save the model again"
        raise RefusedError(msg)
    if _sha256(file, size - _DIGEST) != tail.removeprefix(_LABEL):
        msg = "which is damaged: its checksum is wrong"
        raise RefusedError(msg)


def _is_version_1(file: BinaryIO) -> bool:
    """Whether the file is from before the first release, without a checksum."""
    try:
        file.seek(0)
        with zipfile.ZipFile(file) as archive, archive.open("header.npy") as stream:
            start = stream.read(_MAX_ARRAY_HEADER)
    except (*_UNREADABLE, KeyError, OSError):
        return False
    return '"format": "gpukfl-model", "version": 1'.encode("utf-32-le") in start


def _parse_header(text: bytes, size: int) -> dict[str, Any]:
    check_json(text, size)
    if nesting_depth(text) > DEEPEST:
        msg = f"whose header is nested more than {DEEPEST} deep"
        raise RefusedError(msg)
    header = json.loads(text)
    if not isinstance(header, dict):
        msg = "whose header is not an object"
        raise RefusedError(msg)
    return header


def nesting_depth(text: bytes, /) -> int:
    """Return the depth of nested lists and objects of JSON, without recursion."""
    depth = largest = 0
    for token in _NESTING.finditer(text):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
            largest = max(largest, depth)
        elif first in b"]}":
            depth -= 1
    return largest


def check_version(header: dict[str, Any], /) -> None:
    """Raise RefusedError unless a header is of a model, with a readable version."""
    version = header.get("version")
    if header.get("format") != FORMAT or not isinstance(version, int):
        msg = "which is another kind of file"
        raise RefusedError(msg)
    if version not in _READABLE_VERSIONS:
        advice = "upgrade gpukfl" if version > VERSION else "fit and save the model again"
        msg = f"which has version {version}: expected version {VERSION}; {advice}"
        raise RefusedError(msg)
