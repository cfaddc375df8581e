"""Text tables as they come: separators, decimal commas, marks, encodings, compression."""

import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest

from gpukfl.datasets import load_table

FRAME = pd.DataFrame(
    {
        "weight": [1.5, -2.25, 30.0, 4.125],
        "name, full": ["a;b", 'say "c"', "d\te", "f|g"],
        "count": [1, 2, 3, 4],
    }
)


def written(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return str(path)


def read(path):
    table = load_table(path)
    return table.X.assign(**{table.target: table.y})


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tab", "t.txt", "t"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path, separator, name):
    FRAME.to_csv(tmp_path / name, sep=separator, index=False)
    pd.testing.assert_frame_equal(read(str(tmp_path / name)), FRAME)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("height, cm;weight\n1.5;2\n3;4\n", ["height, cm", "weight"]),
        ("a;b,c,d;e\n1;2;3\n", ["a", "b,c,d", "e"]),
        ('"a,b,c";d\n1;2\n', ["a,b,c", "d"]),
        ('"two\nlines";d\n1;2\n', ["two\nlines", "d"]),
        ("a b\n1 2\n3  4\n", ["a", "b"]),
        ("a, b ,c\n1, 2, 3\n", ["a", "b", "c"]),
        ("\n\na,b\n1,2\n", ["a", "b"]),
        ("0,1,2\n5,6,7\n8,9,10\n", ["0", "1", "2"]),
        ("a;b;\n1;2;\n3;4;\n", ["a", "b"]),
    ],
)
def test_headers_are_read(tmp_path, text, columns):
    table = load_table(written(tmp_path, text))
    assert [*table.X.columns, table.target] == columns
    assert table.y.dtype.kind in "if"


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_are_read(tmp_path, separator):
    numbers = pd.DataFrame({"a": [1.5, -2.25, np.nan], "b": [1, 2, 3], "c": [0.125, 1e-3, 7.0]})
    numbers.to_csv(tmp_path / "t.csv", sep=separator, decimal=",", index=False)
    pd.testing.assert_frame_equal(read(str(tmp_path / "t.csv")), numbers)


def test_a_mark_at_the_beginning_is_no_part_of_a_name(tmp_path):
    table = load_table(written(tmp_path, "a;b\n1;2\n", encoding="utf-8-sig"))
    assert list(table.X.columns) == ["a"]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.bz2", "t.csv.xz", "t.zip"])
def test_compressed_tables_are_read(tmp_path, name):
    FRAME.to_csv(tmp_path / name, sep=";", index=False)
    pd.testing.assert_frame_equal(read(str(tmp_path / name)), FRAME)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.zip"])
def test_a_broken_archive_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"no archive")
    with pytest.raises(ValueError, match=f"expected a CSV, .*{name}"):
        load_table(str(tmp_path / name))


def test_a_truncated_archive_is_named(tmp_path):
    rows = "".join(f"{k},{k * k}\n" for k in range(9999))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(("a,b\n" + rows).encode())[:-900])
    with pytest.raises(ValueError, match="expected a CSV, "):
        load_table(str(tmp_path / "t.csv.gz"))
    with zipfile.ZipFile(tmp_path / "t.zip", "w"):
        pass
    with pytest.raises(ValueError, match="expected one file in the archive, got 0"):
        load_table(str(tmp_path / "t.zip"))


def test_numbers_in_the_first_line_are_a_row(tmp_path):
    with pytest.warns(
        UserWarning, match="first line of t.csv has values, not names: columns are na"
    ):
        table = load_table(written(tmp_path, "1.5,2,-3e4\n4,5,6\n"))
    assert ([*table.X.columns], table.target, len(table.X)) == (["x0", "x1"], "x2", 2)
    with pytest.warns(UserWarning, match="columns are named"):
        table = load_table(written(tmp_path, "0,5;2\n4,5;3\n"))
    np.testing.assert_array_equal(table.X["x0"], [0.5, 4.5])


@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_without_a_name_are_left_out(tmp_path, first):
    frame = FRAME.set_index(pd.RangeIndex(first, first + 4))
    frame.to_csv(tmp_path / "t.csv")
    with pytest.warns(
        UserWarning, match="first column has no name and a different number in every"
    ):
        table = load_table(str(tmp_path / "t.csv"))
    assert list(table.X.columns) == ["weight", "name, full"]


def test_a_first_column_of_text_without_a_name_stays(tmp_path):
    table = load_table(written(tmp_path, ",a,b\nx,1,2\ny,3,4\n"))
    assert list(table.X.columns) == ["Unnamed: 0", "a"]


# ---------------------------------------------------------------------- columns


def test_columns_are_dropped(tmp_path):
    path = written(tmp_path, "a,b,c,d\n1,2,3,4\n5,6,7,8\n")
    table = load_table(path, drop=["b", "d"])
    assert ([*table.X.columns], table.target) == (["a"], "c")
    assert list(load_table(path, "a", drop=["b"]).X.columns) == ["c", "d"]
    with pytest.raises(ValueError, match="each column to drop to be one of a, b, c, d, got 'e'"):
        load_table(path, drop=["e"])


def test_the_nearest_column_is_named(tmp_path):
    path = written(tmp_path, "Price,colour,Size\n1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match=r"got 'price' \(did you mean Price\?\)"):
        load_table(path, "price")
    with pytest.raises(ValueError, match=r"got 'color' \(did you mean colour\?\)"):
        load_table(path, drop=["color"])
    with pytest.raises(ValueError, match=r"got 'zzz'$"):
        load_table(path, "zzz")


def test_many_columns_are_not_all_listed(tmp_path):
    names = [f"column{k}" for k in range(99)]
    path = written(tmp_path, f"{','.join(names)}\n{','.join('1' * 99)}\n")
    with pytest.raises(ValueError, match=r"column19 and 79 more, got 'colum98' \(did .*column98"):
        load_table(path, "colum98")


def test_arrays_of_other_names_are_listed(tmp_path):
    np.savez(tmp_path / "t.npz", X_train=np.ones((3, 2)), y_train=np.ones(3))
    with pytest.raises(
        ValueError, match="expected arrays X and y in the file, got X_train, y_train"
    ):
        load_table(str(tmp_path / "t.npz"))
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), y=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"expected y of shape \(n,\), got \(3, 2\)"):
        load_table(str(tmp_path / "t.npz"))
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), y=np.ones((3, 1)))
    assert load_table(str(tmp_path / "t.npz")).y.shape == (3,)
