"""Tables as they come, from the command line: text, gaps, dates, and what is said of them."""

import io
import json
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run

import gpukfl
from gpukfl.cli._fit import split_rows
from gpukfl.tables._target import read_target

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(3)
N = 80
FRAME = pd.DataFrame(
    {
        "id": np.arange(N),
        "area": RNG.uniform(20, 200, N).round(2),
        "town": RNG.choice(["Ulm", "Köln", "Bonn"], N),
        "sold": pd.date_range("2020-01-03", periods=N, freq="9D").strftime("%d.%m.%Y"),
        "zip": RNG.choice(["01067", "50667", "53111"], N),
    }
)
FRAME["price"] = (3 * FRAME["area"] + 100 * (FRAME["town"] == "Ulm")).round(2)
QUICK = ["--target", "price", "--method", "bkernn", "--ridge", "auto", "--particles", "8"]


@pytest.fixture(autouse=True)
def every_warning(warnings_shown_as_before):
    warnings.simplefilter("always")


@pytest.fixture
def csv(tmp_path):
    """A table as offices in Germany write it."""
    FRAME.to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    return str(tmp_path / "t.csv")


def given_on_input(monkeypatch, raw):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


# ---------------------------------------------------------------------- describe


def test_every_column_is_described_in_a_line(capsys, csv):
    status, out, err = run(capsys, "describe", csv, "--target", "price")
    assert status == 0
    encoding, zeros = err.splitlines()
    assert encoding == "gpukfl: warning: t.csv is not UTF-8: it is read as Windows-1252"
    assert "begin with a zero are read as text: '01067' in zip" in zeros
    lines = out.splitlines()
    assert lines[0] == "80 rows, 6 columns"
    kinds = {line.split()[0]: line.split()[1] for line in lines[2:]}
    assert kinds == {
        "id": "identifier",
        "area": "numeric",
        "town": "category",
        "sold": "date",
        "zip": "category",
        "price": "target",
    }
    assert re.search(r"id +identifier +dropped: a different integer in every row", out)
    assert re.search(r"town +category +3 different texts: .*Köln", out)
    assert re.search(r"price +target +regression \(floats\)", out)


def test_without_a_target_the_last_column_is_one_like_others(capsys, csv):
    out = run(capsys, "describe", csv, "--drop", "id", "--columns", "zip=category")[1]
    assert out.startswith("80 rows, 5 columns")
    assert re.search(r"price +numeric", out)
    assert re.search(r"zip +category +as told: .*01067", out)
    assert " id " not in out


def test_tables_of_numbers_are_described_as_a_fit_takes_them(capsys, tmp_path):
    FRAME[["id", "area", "price"]].dropna().to_csv(tmp_path / "t.csv", index=False)
    described = ["describe", tmp_path / "t.csv", "--target", "price"]
    assert re.search(r"id +numeric", run(capsys, *described)[1])
    assert re.search(r"id +identifier", run(capsys, *described, "--columns", "area=numeric")[1])


def test_gaps_and_a_target_that_is_none_are_told(capsys, tmp_path):
    frame = FRAME.assign(town=FRAME["town"].where(FRAME["id"] % 4 > 0))
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = run(capsys, "describe", tmp_path / "t.csv", "--target", "sold")[1]
    assert re.search(r"town +category +25.0% +3 different texts", out)
    assert re.search(r"sold +target +none that can be predicted: .*dates as text", out)


def test_names_and_levels_with_line_ends_stay_in_their_line(capsys, tmp_path):
    frame = FRAME[["area", "town", "price"]].replace({"town": {"Ulm": "Ulm\nDonau"}})
    frame.rename(columns={"area": "living\narea [m]"}).to_csv(tmp_path / "t.csv", index=False)
    out = run(capsys, "describe", tmp_path / "t.csv")[1]
    assert len(out.splitlines()) == 5
    assert "living area [m]" in out
    assert "Ulm Donau" in out


# ---------------------------------------------------------------------- fit and predict


def test_a_table_is_fitted_and_its_rows_predicted_as_they_come(capsys, csv, tmp_path):
    model = tmp_path / "m"
    status, out, _ = run(capsys, "fit", csv, *QUICK, "--columns", "zip=category", "--out", model)
    assert status == 0
    assert "64 rows, 5 columns" in out
    assert "dropped: id (a different integer in every row)" in " ".join(out.split())
    fitted = gpukfl.load(model)
    expected = fitted.predict(FRAME.drop(columns=["price"]))

    # Other columns, another order, another notation and another format
    new = FRAME[["sold", "zip", "town", "area"]].assign(other="text", price="?")
    new.to_csv(tmp_path / "new.csv", index=False)
    status, out, err = run(capsys, "predict", model, tmp_path / "new.csv")
    assert status == 0
    assert re.search("^gpukfl: warning: columns .* ignored: other$", err, re.MULTILINE)
    np.testing.assert_allclose(np.array(out.splitlines()[1:], dtype=float), expected, rtol=1e-12)
    one = run(capsys, "predict", model, written(tmp_path, new.iloc[[7]]))[1]
    np.testing.assert_allclose(float(one.splitlines()[1]), expected[7], rtol=1e-9)


def written(tmp_path, frame):
    frame.to_csv(tmp_path / "one.csv", index=False)
    return tmp_path / "one.csv"


def test_what_is_no_number_at_prediction_is_named(capsys, csv, tmp_path):
    model = tmp_path / "m"
    assert run(capsys, "fit", csv, *QUICK, "--out", model)[0] == 0
    bad = FRAME.astype({"area": object})
    bad.loc[4, "area"] = "large"
    status, out, err = run(capsys, "predict", model, written(tmp_path, bad))
    assert (status, out) == (2, "")
    assert "expected numbers of one unit in column area, got 'large' in line 6" in err
    status, _, err = run(capsys, "predict", model, written(tmp_path, FRAME.drop(columns="town")))
    assert status == 2
    assert re.search("expected columns .*town", err)
    status, _, err = run(capsys, "predict", model, written(tmp_path, FRAME[:0]))
    assert status == 2
    assert "a header and no rows" in err


def test_gaps_are_predicted(capsys, csv, tmp_path):
    model = tmp_path / "m"
    assert run(capsys, "fit", csv, *QUICK, "--out", model)[0] == 0
    gaps = FRAME.astype(object)
    gaps.loc[3, "area"], gaps.loc[5, "town"], gaps.loc[7, "sold"] = "unknown", "Rom", None
    status, out, err = run(capsys, "predict", model, written(tmp_path, gaps))
    assert status == 0
    assert "words are read as missing values: 'unknown' in area" in err
    assert np.isfinite(np.array(out.splitlines()[1:], dtype=float)).all()


def test_new_columns_beside_those_of_a_model_of_numbers_are_ignored(capsys, tmp_path):
    numbers = FRAME[["area", "id", "price"]].rename(columns={"id": "n"})
    gpukfl.fit(numbers.sample(frac=1, random_state=0), "price", method="bkernn", ridge="auto").save(
        tmp_path / "m"
    )
    new = numbers.assign(town="x")[["price", "town", "n", "area"]]
    status, out, err = run(capsys, "predict", tmp_path / "m", written(tmp_path, new))
    assert (status, len(out.splitlines())) == (0, 1 + N)
    assert err == "gpukfl: warning: columns that were not in the fit are ignored: town\n"


def test_rows_without_a_target_are_left_out(capsys, tmp_path):
    frame = FRAME.assign(price=FRAME["price"].where(FRAME["id"] % 8 > 0))
    status, out, err = run(capsys, "fit", written(tmp_path, frame), *QUICK)
    assert status == 0
    assert "gpukfl: warning: 10 of 80 rows have no price, and are dropped\n" in err
    assert "56 rows" in out


def test_prices_are_numbers(capsys, tmp_path):
    frame = FRAME.assign(price=[f"${value:,.2f}" for value in 1000 * FRAME["price"]])
    status, out, _ = run(capsys, "fit", written(tmp_path, frame), *QUICK)
    assert status == 0
    assert "regression (floats)" in out


def test_standard_input_is_fitted_and_predicted(capsys, csv, tmp_path, monkeypatch):
    raw = FRAME.to_csv(index=False).encode()
    given_on_input(monkeypatch, raw)
    status, out, _ = run(capsys, "fit", "-", *QUICK, "--out", tmp_path / "m")
    assert status == 0
    assert "64 rows" in out
    given_on_input(monkeypatch, raw)
    status, out, _ = run(capsys, "predict", tmp_path / "m", "-")
    assert (status, len(out.splitlines())) == (0, 1 + N)
    given_on_input(monkeypatch, b"")
    status, _, err = run(capsys, "describe", "-")
    assert (status, "the file is empty" in err) == (2, True)


def test_a_decimal_mark_is_told(capsys, tmp_path):
    text = "area;town;price\n" + "".join(f"{k},{k}00;x;{k}\n" for k in range(1, 10))
    (tmp_path / "t.csv").write_text(text)
    err = run(capsys, "describe", tmp_path / "t.csv")[2]
    assert "'1,100' in area is read as 1.1" in err
    status, _, err = run(capsys, "describe", tmp_path / "t.csv", "--decimal", ".")
    assert (status, err) == (0, "")


def test_effort_is_told_to_the_blend(capsys, csv, monkeypatch):
    given = {}

    def stop(*_, **options):
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("gpukfl._fit.fit", stop)
    assert run(capsys, "fit", csv, "--effort", "quick", "--columns", "zip=category")[0] == 130
    assert (given["effort"], given["columns"]) == ("quick", {"zip": "category"})
    run(capsys, "fit", csv)
    assert given["columns"] is None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            ["--columns", "zip"],
            "expected --columns NAME=KIND, with a kind of numeric, .* got 'zip'",
        ),
        (["--columns", "zip=colour"], "expected --columns NAME=KIND"),
        (["--columns", "zap=category"], r"got 'zap' \(did you mean zip\?\)"),
        (
            ["--columns", "town=numeric"],
            "expected numbers of one unit in column town, .* in line 2",
        ),
        (["--drop", "zap"], r"got 'zap' \(did you mean zip\?\)"),
        (["--method", "bkernn", "--effort", "quick"], "--effort only with --method auto"),
    ],
)
def test_mistakes_are_named(capsys, csv, options, match):
    commands = ["fit"] if "--effort" in options else ["fit", "describe"]
    for command in commands:
        status, out, err = run(capsys, command, csv, *options)
        assert (status, out) == (2, "")
        assert re.search(match, err)


# ---------------------------------------------------------------------- held-out rows


def test_copies_of_a_row_with_text_and_gaps_are_on_one_side():
    gaps = FRAME.drop(columns="id").astype({"area": object})
    gaps.loc[::5, ["area", "town"]] = None
    gaps["list"] = [[k, None] for k in range(N)]
    twice = pd.concat([gaps, gaps.iloc[:30]], ignore_index=True)
    target = read_target(twice.pop("price"))
    for seed in range(3):
        inside, outside = split_rows(twice, target, 0.2, seed)
        both = {json.dumps(row) for row in twice.iloc[inside].values.tolist()} & {
            json.dumps(row) for row in twice.iloc[outside].values.tolist()
        }
        assert (len(inside) + len(outside), both) == (N + 30, set())
        assert len(outside) >= 12
