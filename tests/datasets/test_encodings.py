"""Encodings of a text: told by a mark, by its bytes, or taken with a warning."""

import numpy as np
import pandas as pd
import pytest

from gpukfl.datasets import load_frame

FRAME = pd.DataFrame({"größe": [1.5, 2.0, 3.25], "straße": ["Nürnberg", "Łódź", "東京"]})
WESTERN = FRAME.assign(straße=["Nürnberg", "Zürich", "5 € – ja"])


def written(tmp_path, frame, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes(frame.to_csv(index=False).encode(encoding))
    return str(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_what_is_marked_or_utf_8_is_read_without_a_word(tmp_path, encoding):
    pd.testing.assert_frame_equal(load_frame(written(tmp_path, FRAME, encoding)), FRAME)


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("cp1252", "Windows-1252"), ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16")],
)
def test_what_is_not_is_said(tmp_path, encoding, name):
    with pytest.warns(UserWarning, match=f"t.csv is not UTF-8: it is read as {name}"):
        frame = load_frame(written(tmp_path, WESTERN, encoding))
    pd.testing.assert_frame_equal(frame, WESTERN)


def test_bytes_that_windows_has_not_are_latin_1(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\nx\x81,1\n\xfc,2\n")
    with pytest.warns(UserWarning, match="read as Latin-1"):
        assert list(load_frame(str(path))["a"]) == ["x\x81", "ü"]


def test_a_letter_at_the_end_of_a_chunk_is_not_torn(tmp_path):
    text = "ü" * ((1 << 20) + 3)
    for begin in ("a\n", "ab\n"):  # letters begin at even places, or at odd ones
        (tmp_path / "t.csv").write_bytes((begin + text + "\n").encode())
        assert load_frame(str(tmp_path / "t.csv")).iloc[0, 0] == text


def test_a_mark_that_lies_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\n\xff,1\n")
    with pytest.raises(
        ValueError, match="begins with the byte-order mark of UTF-8-SIG, but is not"
    ):
        load_frame(str(tmp_path / "t.csv"))


@pytest.mark.parametrize(("rows", "line"), [(0, 3), (300_000, 300_003)])
def test_a_nul_byte_is_named_with_its_line(tmp_path, rows, line):
    body = b"a,b\n1,2\n" + b"1,2\n" * rows + b"3,\0\n"
    (tmp_path / "t.csv").write_bytes(body)
    with pytest.raises(ValueError, match=f"line {line} has a NUL byte: the file is not text"):
        load_frame(str(tmp_path / "t.csv"))


def test_zeros_between_letters_are_found_at_any_length(tmp_path):
    frame = pd.DataFrame({"a": np.arange(5), "b": list("vwxyz")})
    for encoding in ("utf-16-le", "utf-16-be"):
        with pytest.warns(UserWarning, match="UTF-16"):
            pd.testing.assert_frame_equal(load_frame(written(tmp_path, frame, encoding)), frame)
