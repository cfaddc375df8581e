"""What files' readers lose: words that may be missing values, zeros before codes, long integers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpukfl.cli import main
from gpukfl.datasets import load_frame, load_table
from gpukfl.tables import Table
from gpukfl.tables._files import MISSING

drawn = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
padded = pytest.mark.filterwarnings("ignore:digits that begin with a zero:UserWarning")
taken = pytest.mark.filterwarnings("ignore:words are read as missing values:UserWarning")


def written(tmp_path, columns, separator=","):
    path = tmp_path / "t.csv"
    rows = [columns, *zip(*columns.values(), strict=True)]
    path.write_text("\n".join(separator.join(row) for row in rows) + "\n", encoding="utf-8")
    return str(path)


def column(tmp_path, values, separator=",", **options):
    columns = {"a": list(values), "b": ["x"] * len(values)}
    return load_frame(written(tmp_path, columns, separator), **options)["a"]


# ---------------------------------------------------------------------- words


@taken
@drawn
@given(st.sampled_from(["None", "none", "-", "unknown", "NA", "null", "?"]), st.data())
def test_the_column_decides_what_a_word_is(tmp_path, word, data):
    others = data.draw(
        st.sampled_from([["Brk", "Stone"], ["1", "2.5"], ["2020-01-02", "2021-03-04"], ["True"]])
    )
    values = data.draw(st.permutations([word, word, *others * 2]))
    found = column(tmp_path, values)
    missing = word in MISSING or others != ["Brk", "Stone"]
    assert found.isna().tolist() == [value == word and missing for value in values]


@taken
@drawn
@given(st.lists(st.sampled_from(["None", "NA", "?", "red", ""]), min_size=2, max_size=8), st.data())
def test_na_values_choose_the_words_of_text(tmp_path, words, data):
    words = [*words, "blue"]
    chosen = data.draw(st.lists(st.sampled_from(["None", "NA", "?", "red"]), unique=True))
    expected = [not word or word in chosen for word in words]
    assert column(tmp_path, words, na_values=chosen).isna().tolist() == expected
    assert column(tmp_path, words, na_values={"a": chosen}).isna().tolist() == expected
    usual = [not word or word in MISSING for word in words]
    assert column(tmp_path, words, na_values={"b": chosen}).isna().tolist() == usual


def test_na_values_are_missing_numbers_beside_the_usual_words(tmp_path):
    found = column(tmp_path, ["1.5", "-999", "NA", ""], na_values=["-999"])
    assert found.isna().tolist() == [False, True, True, True]
    with pytest.raises(TypeError, match=r"expected na_values to be a list of words, got 'None'"):
        column(tmp_path, ["1"], na_values="None")


@taken
def test_a_frame_names_the_words_that_were_missing(tmp_path):
    columns = {"a": ["NA", "x", "y"], "b": ["None", "1", "2"], "c": ["None", "x", "y"]}
    frame = load_frame(written(tmp_path, columns))
    assert frame.attrs["missing_words"] == {"a": ["NA"], "b": ["None"]}
    assert frame["c"].tolist() == columns["c"]


def test_a_class_may_be_called_none(tmp_path):
    columns = {"a": ["1", "2", "3", "4"], "veneer": ["None", "Brk", "None", "Brk"]}
    assert load_table(written(tmp_path, columns)).y.tolist() == columns["veneer"]


def test_workbooks_keep_the_word_too(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame(
        {
            "a": ["None", "Brk", "NA", "Brk"],
            "b": [1.5, "NA", 2.5, 3.5],
            "c": ["020", *"123"],
        }
    )
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.warns(
        UserWarning, match="digits that begin with a zero are read as text: '020' in c"
    ):
        found = load_frame(str(tmp_path / "t.xlsx"))
    assert found["a"].fillna("missing").tolist() == ["None", "Brk", "missing", "Brk"]
    assert found["b"].fillna(-1).tolist() == [1.5, -1, 2.5, 3.5]
    assert found["c"].tolist() == ["020", *"123"]


def test_the_command_line_says_and_chooses(tmp_path, capsys):
    columns = {
        "veneer": ["None", "Brk", "None", "Stone"] * 10,
        "alley": ["NA", "Grvl", "Pave", "Pave"] * 10,
        "y": [f"{k / 7:.3f}" for k in range(40)],
    }
    path = written(tmp_path, columns)
    assert main(["describe", path]) == 0
    printed = capsys.readouterr().out
    assert "'None' is a level (--na None makes it missing)" in printed
    assert "2 different texts: Pave, Grvl; missing values are written 'NA'" in printed
    assert main(["describe", path, "--na", "None"]) == 0
    printed = capsys.readouterr().out
    assert "50.0%    2 different texts: Brk, Stone; missing values are written 'None'" in printed
    assert "'NA' is a level" in printed


@taken
@pytest.mark.parametrize("na", [[], ["--na", "None"], ["--na", ""]])
def test_predictions_read_words_as_the_fit_did(tmp_path, capsys, na):
    rng = np.random.default_rng(0)
    veneer, alley = rng.choice(["None", "Brk", ""], 90), rng.choice(["NA", "Grvl"], 90)
    effects = {"None": 2.0, "Brk": 0.0, "": -2.0, "NA": 1.0, "Grvl": 0.0}
    y = [
        effects[a] + effects[b] + 0.01 * e
        for a, b, e in zip(veneer, alley, rng.random(90), strict=True)
    ]
    columns = {"veneer": veneer, "alley": alley, "x": [f"{v:.4f}" for v in rng.random(90)]}
    path = written(tmp_path, {**columns, "y": [f"{value:.5f}" for value in y]})
    model = str(tmp_path / "m.gpukfl")
    assert main(["fit", path, "--method", "hkrr", "--out", model, *na]) == 0
    capsys.readouterr()
    assert main(["predict", model, path, "--out", str(tmp_path / "p.csv")]) == 0
    predictions = pd.read_csv(tmp_path / "p.csv")["y"]
    groups = pd.DataFrame({"v": veneer, "a": alley, "p": predictions}).groupby(["v", "a"])["p"]
    merged = abs(groups.mean()["None", "NA"] - groups.mean()["", "NA"]) < 0.5
    assert merged == (na == ["--na", "None"])


# ---------------------------------------------------------------------- digits


@padded
@drawn
@given(
    st.lists(st.integers(0, 999), min_size=2, max_size=8),
    st.sampled_from([",", ";", "\t", " "]),
    st.booleans(),
)
def test_codes_keep_their_zeros_in_files_as_in_frames(tmp_path, numbers, separator, quoted):
    codes = [f"{number:03d}" for number in numbers] + ["007"]
    texts = [f'"{code}"' for code in codes] if quoted else codes
    assert column(tmp_path, texts, separator).tolist() == codes
    as_numbers = column(tmp_path, texts, separator, kinds={"a": "numeric"})
    assert as_numbers.tolist() == [int(code) for code in codes]
    frame = load_frame(written(tmp_path, {"a": codes * 9, "b": ["x"] * 9 * len(codes)}))
    table = Table.learn(frame)
    assert table.columns[0] == Table.learn(pd.DataFrame({"a": codes * 9})).columns[0]
    if len(set(codes)) > 1:
        assert table.columns[0].kind == "category"


@padded
@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (["020", "105", ""], True),
        (["020", "?", "105"], True),
        (["105", "20", "0"], False),
        (["0.5", "00.25", "1"], False),
        (["-0.5", "0", "10"], False),
    ],
)
@taken
def test_only_digits_after_a_zero_make_codes(tmp_path, values, kept):
    found = column(tmp_path, values)
    assert (found.dtype.kind == "O") == kept
    if kept:
        assert found[0] == "020"


def test_the_zeros_of_codes_are_said(tmp_path):
    said = r"text: '020' in a\. For numbers, use load_frame\(\.\.\., kinds={'a': 'numeric'}\)"
    with pytest.warns(UserWarning, match=said):
        column(tmp_path, ["105", "020"])


@taken
@drawn
@given(
    st.lists(st.integers(2**53, 2**70), min_size=2, max_size=6, unique=True),
    st.sampled_from(["", "NA", "?", "-"]),
)
def test_long_integers_keep_their_digits(tmp_path, numbers, word):
    for values in ([*numbers], [*numbers, word]):
        found = column(tmp_path, list(map(str, values)))
        kept = found[found.notna()].tolist()
        assert list(map(int, kept)) == numbers
        table = Table.learn(found.to_frame(), columns={"a": "category"})
        assert sorted(map(int, table.columns[0].levels)) == sorted(numbers)


@drawn
@given(st.lists(st.integers(0, 999), min_size=2, max_size=6), st.sampled_from([",", ";"]))
def test_no_group_of_thousands_begins_with_a_zero(tmp_path, thousandths, separator):
    texts = [f'"0,{number:03d}"' for number in thousandths]
    found = column(tmp_path, [*texts, '"1,234"'], separator)
    assert found.tolist() == [*(number / 1000 for number in thousandths), 1.234]
