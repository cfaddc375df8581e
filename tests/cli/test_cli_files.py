"""What the command line reads and writes, and how it ends when it cannot."""

import errno
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run

import gpukfl

pytestmark = [
    pytest.mark.usefixtures("warnings_shown_as_before"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(RNG.uniform(-1, 1, (60, 3)), columns=["a", "b", "c"])
FRAME["price"] = np.abs(FRAME["a"]) + 0.1 * FRAME["b"]
QUICK = ["--method", "bkernn", "--ridge", "auto", "--particles", "8"]
LAUNCH = [sys.executable, "-m", "gpukfl"]


@pytest.fixture
def csv(tmp_path):
    FRAME.to_csv(tmp_path / "houses.csv", index=False)
    return str(tmp_path / "houses.csv")


@pytest.fixture
def model(tmp_path):
    gpukfl.fit(
        FRAME[["a", "b", "c"]], FRAME["price"], method="bkernn", ridge="auto", n_particles=8
    ).save(tmp_path / "m")
    return str(tmp_path / "m")


# ---------------------------------------------------------------------- writing


@pytest.mark.parametrize("option", ["--out", "--report"])
@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("missing/m", "an existing folder for the file of {}, got .*missing/m"),
        ("houses.csv/m", "an existing folder for the file of {}"),
        (".", "a file for {}, got the folder"),
        ("houses.csv", "{} to differ from the file that is read"),
    ],
)
def test_what_cannot_be_written_is_named_before_the_fit(
    capsys, csv, tmp_path, monkeypatch, option, path, match
):
    monkeypatch.setattr("gpukfl._fit.fit", lambda *_, **__: pytest.fail("fitted"))
    before = sorted(tmp_path.iterdir())
    status, out, err = run(capsys, "fit", csv, *QUICK, option, tmp_path / path)
    assert (status, out) == (2, "")
    assert re.fullmatch(f"gpukfl: expected {match.format(option)}.*\n", err)
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_may_not_be_written_is_named(capsys, csv, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, _, err = run(capsys, "fit", csv, *QUICK, "--out", tmp_path / "m")
    assert status == 2
    assert "expected a writable file for --out" in err


@pytest.mark.usefixtures("no_pictures")
def test_a_report_without_matplotlib_says_so(capsys, csv, tmp_path):
    status, out, _ = run(capsys, "fit", csv, *QUICK, "--report", tmp_path / "r.html")
    assert (status, "report written" in out) == (0, True)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "pip install &#x27;gpukfl[plot]&#x27;" in page
    assert "<svg" not in page
    assert "Compared with simple models" in page


@pytest.mark.usefixtures("no_pictures")
def test_a_full_disk_does_not_lose_the_summary(capsys, csv, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gpukfl.Model, "save", full)
    report = tmp_path / "r.html"
    status, out, err = run(capsys, "fit", csv, *QUICK, "--out", tmp_path / "m", "--report", report)
    assert status == 2
    assert "BKerNNRegressor for price" in out
    assert "test        R²" in out
    assert "model written" not in out
    assert f"report written to {report}" in out
    assert err == f"gpukfl: model not written to {tmp_path / 'm'}: No space left on device\n"


def test_predictions_into_a_missing_folder_are_refused(capsys, csv, model, tmp_path):
    status, _, err = run(capsys, "predict", model, csv, "--out", tmp_path / "no" / "p.csv")
    assert status == 2
    assert "an existing folder for the file of --out" in err
    status, _, err = run(capsys, "predict", model, csv, "--out", csv)
    assert status == 2
    assert "to differ from the file that is read" in err


@pytest.mark.slow
def test_output_that_nobody_reads_ends_quietly(model, tmp_path):
    # Predictions of several times what a pipe holds
    pd.concat([FRAME] * 300).to_csv(tmp_path / "long.csv", index=False)
    command = [*LAUNCH, "predict", model, str(tmp_path / "long.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"price\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.slow
def test_the_package_is_a_command():
    done = subprocess.run([*LAUNCH, "fit", "nothing.csv"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


# ---------------------------------------------------------------------- reading


def test_gaps_are_one_line_at_prediction(capsys, model, tmp_path):
    gaps = FRAME.copy()
    gaps.loc[:6, "a"] = np.nan
    gaps.loc[5:9, "c"] = np.nan
    gaps["price"] = np.nan
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    status, out, err = run(capsys, "predict", model, tmp_path / "gaps.csv")
    assert (status, out) == (2, "")
    assert re.fullmatch(
        r"gpukfl: expected no missing values, got NaN in a, c: .*the 10 of 60 rows\n", err
    )


@pytest.mark.filterwarnings("default:missing values in")
@pytest.mark.parametrize("named", [True, False])
def test_a_blend_predicts_rows_with_gaps(capsys, tmp_path, named):
    columns = FRAME[["a", "b", "c"]]
    members = {"members": ["linear", "laplace"], "n_folds": 2, "progress": False}
    blend = gpukfl.fit(columns if named else columns.to_numpy(), FRAME["price"], **members)
    blend.save(tmp_path / "blend")
    whole = columns.rename(columns=dict(zip("abc", blend.feature_names, strict=True)))[:3]
    gaps = whole.copy()
    gaps.iloc[1, 0], whole.iloc[1, 0] = np.nan, np.median(columns["a"])
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    status, out, err = run(capsys, "predict", tmp_path / "blend", tmp_path / "gaps.csv")
    found = [float(line) for line in out.splitlines()[1:]]
    assert (status, f"missing values in {blend.feature_names[0]}, which had none" in err) == (
        0,
        True,
    )
    np.testing.assert_allclose(found, blend.predict(whole if named else whole.to_numpy()))


def test_gaps_are_one_line_for_a_model_of_arrays(capsys, tmp_path):
    gpukfl.fit(
        FRAME[["a", "b"]].to_numpy(), FRAME["price"], method="bkernn", ridge="auto", n_particles=4
    ).save(tmp_path / "m")
    np.savez(tmp_path / "gaps.npz", X=np.array([[1.0, np.nan], [1.0, 2.0]]))
    status, _, err = run(capsys, "predict", tmp_path / "m", tmp_path / "gaps.npz")
    assert status == 2
    assert "got NaN in x1:" in err
    assert err.count("\n") == 1


def test_every_error_is_one_line(capsys, csv, monkeypatch):
    def fail(*_, **__):
        msg = "first\n  second\n\nthird"
        raise FloatingPointError(msg)

    monkeypatch.setattr("gpukfl._fit.fit", fail)
    assert run(capsys, "fit", csv)[::2] == (2, "gpukfl: first second third\n")


def test_columns_are_left_out(capsys, csv, tmp_path):
    drop = ["--drop", "b", "--drop", "price", "--out", tmp_path / "m"]
    status, out, _ = run(capsys, "fit", csv, *QUICK, *drop)
    assert status == 0
    assert "for c" in out
    model = gpukfl.load(tmp_path / "m")
    assert (model.feature_names, model.dropped) == (["a"], ["b", "price"])
    assert run(capsys, "predict", tmp_path / "m", csv)[::2] == (0, "")


def test_a_semicolon_table_is_fitted_and_predicted(capsys, tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig")
    status, out, err = run(capsys, "fit", tmp_path / "t.csv", *QUICK, "--out", tmp_path / "m")
    assert (status, err) == (0, "")
    assert "3 columns" in out
    status, out, _ = run(capsys, "predict", tmp_path / "m", tmp_path / "t.csv")
    assert (status, len(out.splitlines())) == (0, 61)


@pytest.mark.few
@pytest.mark.parametrize(
    ("values", "said"),
    [
        (FRAME["price"], "regression (floats)"),
        (np.where(FRAME["a"] > 0, "up", "down"), "classification of 2 classes (text)"),
        (np.arange(60) % 2, "classification of 2 classes (integers)"),
        (np.arange(60) % 2 == 0, "classification of 2 classes (booleans)"),
        (np.arange(60), "regression (integers)"),
    ],
)
def test_what_the_target_was_taken_for_is_printed(capsys, tmp_path, values, said):
    FRAME.assign(price=values).to_csv(tmp_path / "t.csv", index=False)
    status, out, err = run(capsys, "fit", tmp_path / "t.csv", *QUICK)
    assert (status, err) == (0, "")
    assert f"\n  task        {said}\n" in out


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (pd.date_range("2021-03-04", periods=60).strftime("%Y-%m-%d"), "dates as text such as"),
        ([f"id{k}" for k in range(60)], "60 different texts in 60 rows.*names or identifiers"),
    ],
)
def test_a_target_that_is_none_is_one_line(capsys, tmp_path, values, match):
    FRAME.assign(price=values).to_csv(tmp_path / "t.csv", index=False)
    status, out, err = run(capsys, "fit", tmp_path / "t.csv", *QUICK)
    assert (status, out) == (2, "")
    assert re.search(match, err)
    assert err.count("\n") == 1


def test_a_doubtful_target_is_fitted_with_one_line_of_warning(capsys, tmp_path):
    FRAME.assign(price=np.arange(60) % 6 + 3).to_csv(tmp_path / "t.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, out, err = run(capsys, "fit", tmp_path / "t.csv", *QUICK)
        assert status == 0
        assert "regression (integers)" in out
        assert re.fullmatch("gpukfl: warning: y holds 6 different integers from 3 to 8.*\n", err)
        said = run(capsys, "fit", tmp_path / "t.csv", *QUICK, "--task", "classification")
    assert (said[0], said[2]) == (0, "")
    assert "classification of 6 classes (integers)" in said[1]
