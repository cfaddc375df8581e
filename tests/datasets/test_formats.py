"""Workbooks, Parquet, Feather, and what is told by the first bytes only."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from gpukfl.datasets import load_frame, load_table

FRAME = pd.DataFrame(
    {
        "n": [1, 2, 3],
        "x": [0.5, np.nan, 2.25],
        "name": ["a", "b", "ü"],
        "when": pd.to_datetime(["2020-01-02", "2021-03-04", "2022-05-06"]),
    }
)
FRAME["when"] = FRAME["when"].astype("datetime64[us]")


def binary(frame, kind):
    """What a file of `kind` holds."""
    file = io.BytesIO()
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(file, index=False)
    else:
        pytest.importorskip("pyarrow")
        getattr(frame, f"to_{kind}")(file)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["xlsx", "parquet", "feather"])
@pytest.mark.parametrize("named", [True, False])
def test_what_is_written_is_read(tmp_path, kind, named):
    path = tmp_path / (f"t.{kind}" if named else "table")
    path.write_bytes(binary(FRAME, kind))
    found = load_frame(str(path))
    pd.testing.assert_frame_equal(found, FRAME, check_dtype=False)
    assert found["when"].dtype.kind == "M"
    assert load_table(str(path), "n").target == "n"


@pytest.mark.parametrize("kind", ["xlsx", "parquet", "feather", "csv", "gz", "bz2", "xz", "zip"])
def test_standard_input_is_told_by_its_first_bytes(monkeypatch, kind):
    frame = FRAME.drop(columns="when")
    text = frame.to_csv(index=False).encode()
    if kind == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("t.csv", text)
            archive.writestr("__MACOSX/t.csv", b"no table")
        raw = file.getvalue()
    elif kind in ("xlsx", "parquet", "feather"):
        raw = binary(frame, kind)
    else:
        pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "csv": bytes}[kind]
        raw = pack(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    pd.testing.assert_frame_equal(load_frame("-"), frame, check_dtype=False)


def test_a_pipe_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = FRAME.drop(columns="when").to_csv(index=False)
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writer.start()
    found = load_frame(str(tmp_path / "pipe"))
    writer.join()
    pd.testing.assert_frame_equal(found, FRAME.drop(columns="when"))


def test_arrays_on_standard_input_have_a_target(monkeypatch):
    file = io.BytesIO()
    np.savez(file, X=np.ones((3, 2)), y=np.arange(3.0))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.getvalue())))
    assert load_table("-").target == "y"


def test_an_index_with_a_name_is_a_column(tmp_path):
    pytest.importorskip("pyarrow")
    FRAME.set_index("name").to_parquet(tmp_path / "t.parquet")
    assert set(load_frame(str(tmp_path / "t.parquet")).columns) == set(FRAME.columns)
    FRAME.set_index(pd.Index([5, 6, 9])).to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(load_frame(str(tmp_path / "t.parquet")), FRAME)


# ---------------------------------------------------------------------- workbooks


def test_titles_gaps_and_other_sheets_of_a_workbook_are_said(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "empty"
    sheet = book.create_sheet("first")
    rows = [["A report"], [], [None, "n", 1990, "n"], [None, 1, "1 234,5", "?"]]
    rows += [[], [None, 2, "2,5", "-"], [None, 3, None, 7]]
    for row in rows:
        sheet.append(row)
    book.create_sheet("second").append(["b"])
    book.save(tmp_path / "t.xlsx")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        frame = load_frame(str(tmp_path / "t.xlsx"))
    assert frame.fillna(-1).to_dict("list") == {
        "n": [1, 2, 3],
        "1990": [1234.5, 2.5, -1],
        "n.1": [-1, -1, 7],
    }
    told = "; ".join(str(one.message) for one in said)
    for part in ("several sheets: only first is read, not second", "ignored: 'A report'"):
        assert part in told
    assert "another n is called n.1" in told
    assert "'-' in n.1; '?' in n.1" in told


def test_a_cell_that_is_no_number_is_named(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"a": [1, "x", 2], "b": [1, 2, 3]}).to_excel(tmp_path / "t.xlsx", index=False)
    assert load_frame(str(tmp_path / "t.xlsx"))["a"].tolist() == ["1", "x", "2"]
    pd.DataFrame({"a": ["1", "x", "2"], "b": 0}).to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.raises(ValueError, match="got 'x' in row 3 of sheet Sheet1"):
        load_frame(str(tmp_path / "t.xlsx"), kinds={"a": "numeric"})
    gap = pd.DataFrame({"a": ["1", None, "x"], "b": [0, None, 0]})
    gap.to_excel(tmp_path / "t.xlsx", index=False, startrow=2)
    with pytest.raises(ValueError, match="got 'x' in row 6 of sheet Sheet1"):
        load_frame(str(tmp_path / "t.xlsx"), kinds={"a": "numeric"})


def test_an_empty_workbook_is_named(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match="its sheets are empty"):
        load_frame(str(tmp_path / "t.xlsx"))
    FRAME[:0].to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.raises(ValueError, match="sheet Sheet1 has a header and no rows"):
        load_frame(str(tmp_path / "t.xlsx"))
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(ValueError, match=r"expected an Excel workbook in the format \.xlsx"):
        load_frame(str(tmp_path / "t.xls"))


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("t.xlsx", "openpyxl", "excel"), ("t.feather", "pyarrow", "parquet")],
)
def test_what_a_format_needs_is_named(tmp_path, monkeypatch, name, library, extra):
    for module in [library, *(m for m in sys.modules if m.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(ValueError, match=rf"needs {library}: `pip install 'gpukfl\[{extra}\]'`"):
        load_frame(str(tmp_path / name))
