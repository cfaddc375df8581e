"""Titles, headers, ragged rows and quotes: what a text holds, and where it is wrong."""

import re

import numpy as np
import pytest

from gpukfl.datasets import load_frame


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return str(path)


# ---------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("titles", "first"),
    [
        ("Sales report\n", "Sales report"),
        ("Sales report\n\n", "Sales report"),
        ("# made on Monday, by hand\n", "# made on Monday,by hand"),
        ("Table 3\nSource: somebody, somewhere\n\n", "Table 3"),
        ("Report of 2024,,\n", "Report of 2024"),  # as spreadsheets write it
        ("Report of 2024,,\n,,\nby me,,\n", "Report of 2024"),
    ],
)
def test_titles_are_left_out_and_said(tmp_path, titles, first):
    path = written(tmp_path, titles + "name,n,m\na,1,2\nb,3,4\nc,5,6\n")
    with pytest.warns(UserWarning, match=re.escape(f"the header of t.csv are ignored: {first!r}")):
        frame = load_frame(path)
    assert list(frame.columns) == ["name", "n", "m"]
    assert frame["m"].tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b,\n1,2,x\n3,4,y\n", ["a", "b", "Unnamed: 2"]),
        ("a,b,\nu,v,x\nr,s,y\n", ["a", "b", "Unnamed: 2"]),
        ("a,\n1,x\n2,y\n", ["a", "Unnamed: 1"]),
        ("a,b,,,,\n1,2,,,,\n3,,,,,\n", ["a", "b"]),
        ("a,b,c\n1,,\n2,,\n", ["a", "b", "c"]),
        ("name,\nann,yes\nbob,no\n", ["name", "Unnamed: 1"]),
    ],
)
def test_a_header_may_lack_names_at_its_end(tmp_path, text, names):
    frame = load_frame(written(tmp_path, text))
    assert (list(frame.columns), len(frame)) == (names, 2)


def test_a_stray_note_beside_a_table_does_not_hide_its_header(tmp_path):
    rows = [f"{k},{2 * k},{3 * k},,,," for k in range(20)]
    rows[12] = "12,24,36,,,check this,"
    frame = load_frame(written(tmp_path, "\n".join(["age,height,weight,,,,", *rows]) + "\n"))
    assert list(frame.columns)[:3] == ["age", "height", "weight"]
    assert len(frame) == 20


def test_what_excel_says_of_the_separator_is_no_title(tmp_path):
    frame = load_frame(written(tmp_path, "sep=|\na|b,c\n1,5|2\n"))
    assert list(frame.columns) == ["a", "b,c"]
    assert frame.iloc[0].tolist() == [1.5, 2]


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends_and_blank_lines_do_not_matter(tmp_path, end):
    lines = ["a,b", "", "1,x", "   ", "2,y", "", ""]
    frame = load_frame(written(tmp_path, end.join(lines)))
    assert frame.to_dict("list") == {"a": [1, 2], "b": ["x", "y"]}


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n", 3),
        ("39,State-gov,M\n50,Private,F\n38,State-gov,M\n", 3),
        ("1.5;2\n3;4\n", 2),
    ],
)
def test_a_first_row_of_values_is_no_header(tmp_path, text, n):
    with pytest.warns(UserWarning, match="the first line of t.csv has values"):
        frame = load_frame(written(tmp_path, text))
    assert list(frame.columns) == ["x0", "x1", "x2"][: frame.shape[1]]
    assert len(frame) == n


@pytest.mark.parametrize(
    "header", ["country,1990,1991", "x,1,2", "0,1,2", "a,b,c"], ids=lambda text: text
)
def test_a_header_may_hold_numbers(tmp_path, header):
    frame = load_frame(written(tmp_path, f"{header}\nA,5,6\nB,7,8\nA,9,10\n"))
    assert ",".join(frame.columns) == header


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("names", [["r1", "r2"], ["1", "2"]])
def test_rows_may_have_names_that_the_header_has_not(tmp_path, separator, names):
    """As the tables that R writes."""
    rows = [["x", "y"], [names[0], "2", "3.5"], [names[1], "3", "4.5"]]
    text = "\n".join(separator.join(f'"{cell}"' for cell in row) for row in rows)
    path = written(tmp_path, text)
    if names[0] == "1":
        with pytest.warns(UserWarning, match="first column has no name and a different number"):
            frame = load_frame(path)
        assert list(frame.columns) == ["x", "y"]
    else:
        frame = load_frame(path)
        assert frame.pop("Unnamed: 0").tolist() == names
    assert frame.to_dict("list") == {"x": [2, 3], "y": [3.5, 4.5]}


@pytest.mark.parametrize("text", ["a,b\n1,2,\n3,4,\n", "a,b,\n1,2\n3,4\n", "a,b,\n1,2,\n3,4\n"])
def test_separators_may_end_rows(tmp_path, text):
    assert load_frame(written(tmp_path, text)).to_dict("list") == {"a": [1, 3], "b": [2, 4]}


def test_columns_of_one_name_are_told_apart(tmp_path):
    with pytest.warns(
        UserWarning, match=r"same name: another a is called a.2, another a is called a.3"
    ):
        frame = load_frame(written(tmp_path, "a,b,a,a,a.1\n1,2,3,4,5\n"))
    assert frame.iloc[0].to_dict() == {"a": 1, "b": 2, "a.2": 3, "a.3": 4, "a.1": 5}


def test_a_very_long_header_is_read_whole(tmp_path):
    names = [f"{k:>07}" + "x" * 300 for k in range(5_000)]
    text = "\n".join([";".join(names), ";".join("2" for _ in names), ""])
    frame = load_frame(written(tmp_path, text))
    assert list(frame.columns) == names
    assert (frame == 2).all(axis=None)


# ---------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("a,b,c\n", "a header and no rows"),
        ("a,b,c\n1,2,3\n4,5\n6,7,8\n", "expected 3 fields, got 2 in line 3: '4,5'"),
        ("a,b,c\n\n1,2,3\n4,5,6,7\n", "expected 3 fields, got 4 in line 4: '4,5,6,7'"),
        ("a,b,c\n1,2,3,4\n4,5,6\n4,5,6\n", "expected 3 fields, got 4 in line 2"),
        ("a;b\r\n1;2\r\n3\r\n", "expected 2 fields, got 1 in line 3"),
        ('a,b\n"two\nlines",1\n3\n', "expected 2 fields, got 1 in line 4"),
        ("a b c\n" + "1 2 3\n" * 30 + "7 8 9 9\n", "expected 3 fields, got 4 in line 32"),
        ('a,b\n1,2\n3,"x\n4,5\n', "a quote that opens in line 3 is never closed"),
        ("a,b\n" + "x" * 70 + "\n1,2\n3,4\n", r"in line 2: 'x{60}\.\.\.'"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(tmp_path, text, match):
    with pytest.raises(ValueError, match=f"table, got '.*t.csv': .*{match}"):
        load_frame(written(tmp_path, text))


def test_a_ragged_row_far_down_is_named(tmp_path):
    rows = "".join(f"{k},{k}\n" for k in range(100_000))
    with pytest.raises(ValueError, match="got 3 in line 100002: '1,2,3'"):
        load_frame(written(tmp_path, "a,b\n" + rows + "1,2,3\n"))


def test_blanks_may_stand_before_quotes(tmp_path):
    frame = load_frame(written(tmp_path, 'a, b\n1, "x, y"\n2, z\n'))
    assert frame.to_dict("list") == {"a": [1, 2], "b": ["x, y", "z"]}


def test_long_documents_are_no_unclosed_quotes(tmp_path):
    text = "word, " * 50_000
    frame = load_frame(written(tmp_path, f'a,b\n"{text}",1\nshort,\n'))
    assert frame["a"].tolist() == [text.strip(), "short"]
    with pytest.raises(ValueError, match="a quote that opens in line 2 is never closed"):
        load_frame(written(tmp_path, f'a,b\n"{text}\n1,2\n'))


def test_gaps_at_the_end_of_rows_are_no_short_rows(tmp_path):
    frame = load_frame(written(tmp_path, 'a,b\n1,\n2,""\n3,4\n'))
    assert frame["b"].isna().tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("n,age\n1,12\n\n2,abc\n", "of one unit in column age, got 'abc' in line 4"),
        ('n,age\n"a\nb",12\n2,abc\n', "got 'abc' in line 4"),
        ("n,age\n1,$5\n2,€6\n", r"numbers of one unit in column age, got '\$5' in line 2"),
    ],
)
def test_what_is_told_to_be_numbers_and_is_not_is_named(tmp_path, text, match):
    with pytest.raises(ValueError, match=match):
        load_frame(written(tmp_path, text), kinds={"age": "numeric"})


def test_what_is_told_to_be_numbers_may_be_gaps(tmp_path):
    with pytest.warns(UserWarning, match="read as missing values: '-' in age; 'none' in age"):
        frame = load_frame(written(tmp_path, "n,age\n1,-\n2,none\n"), kinds={"age": "numeric"})
    assert frame["age"].dtype == np.float64
    assert frame["age"].isna().all()


def test_what_is_told_to_be_a_category_is_read_as_written(tmp_path):
    path = written(tmp_path, "zip,n\n01234,1\n?,2\n00501,3\n")
    with pytest.warns(UserWarning, match=r"'\?' in zip"):
        frame = load_frame(path, kinds={"zip": "category"})
    assert frame["zip"].fillna("gap").tolist() == ["01234", "gap", "00501"]
