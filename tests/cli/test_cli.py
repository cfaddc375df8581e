"""The command line, run in this process: what it prints, writes and returns."""

import os
import re
import signal
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run

import gpukfl
from gpukfl import __version__
from gpukfl.cli import main
from gpukfl.cli._fit import split_rows
from gpukfl.inference import _infer
from gpukfl.tables._target import read_target

pytestmark = [
    pytest.mark.usefixtures("warnings_shown_as_before"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]

RNG = np.random.default_rng(9)
FRAME = pd.DataFrame(RNG.uniform(-1, 1, (60, 3)), columns=["a", "b", "c"])
FRAME["price"] = np.abs(FRAME["a"]) + 0.1 * FRAME["b"]
QUICK = ["--method", "bkernn", "--ridge", "auto", "--particles", "8"]


@pytest.fixture
def csv(tmp_path):
    FRAME.to_csv(tmp_path / "houses.csv", index=False)
    return str(tmp_path / "houses.csv")


# ---------------------------------------------------------------------- fit


def test_fit_prints_a_summary_and_the_test_score(capsys, csv):
    status, out, err = run(capsys, "fit", csv, *QUICK)
    assert (status, err) == (0, "")
    assert "BKerNNRegressor for price" in out
    assert "48 rows, 3 columns" in out
    assert "8 particles" in out
    score = float(out.split("test        R² ")[1].split()[0])
    assert 0.5 < score <= 1
    assert "on 12 held-out rows" in out


def test_a_class_of_few_rows_is_fitted_and_tested():
    frame = FRAME.assign(price=["rare" if row < 4 else "common" for row in range(60)])
    for seed in range(5):
        inside, outside = split_rows(
            frame[["a", "b", "c"]], read_target(frame["price"]), 0.25, seed
        )
        assert [(frame["price"].iloc[rows] == "rare").sum() for rows in (inside, outside)] == [3, 1]


def test_a_row_that_is_given_twice_is_not_fitted_and_tested():
    twice = pd.concat([FRAME, FRAME.iloc[:30]], ignore_index=True)
    X, y = twice[["a", "b", "c"]], read_target(twice["price"])
    for seed in range(5):
        inside, outside = split_rows(X, y, 0.2, seed)
        assert len(inside) + len(outside) == 90
        assert len(outside) >= 12
        assert not set(X["a"].iloc[inside]) & set(X["a"].iloc[outside])


def test_the_test_score_is_of_rows_that_were_not_fitted(capsys, tmp_path):
    # Nothing to learn, but by heart
    frame = FRAME.assign(price=np.random.default_rng(0).permutation(FRAME["price"]))
    frame.to_csv(tmp_path / "noise.csv", index=False)
    model = tmp_path / "m.gpukfl"
    options = [
        "--method",
        "bkernn",
        "--ridge",
        1e-8,
        "--particles",
        30,
        "--test-fraction",
        0.5,
        "--out",
        model,
    ]
    _, out, _ = run(capsys, "fit", tmp_path / "noise.csv", *options)
    assert gpukfl.load(model).score(frame[["a", "b", "c"]], frame["price"]) < 0.9
    assert float(out.split("test        R² ")[1].split()[0]) < 0.3


def test_fit_writes_the_model_and_the_report(capsys, csv, tmp_path):
    model, report = tmp_path / "m.gpukfl", tmp_path / "r.html"
    status, out, _ = run(capsys, "fit", csv, *QUICK, "--out", model, "--report", report)
    assert status == 0
    assert f"model written to {model}" in out
    assert f"report written to {report}" in out
    assert gpukfl.load(model).feature_names == ["a", "b", "c"]
    page = report.read_text(encoding="utf-8")
    assert "Test: 12 held-out rows" in page
    assert "price" in page


@pytest.mark.usefixtures("no_pictures")
def test_the_report_says_what_may_be_concluded_when_asked(capsys, csv, tmp_path):
    report = tmp_path / "r.html"
    status, _, _ = run(capsys, "fit", csv, *QUICK, "--report", report, "--inference")
    assert status == 0
    assert "What may be concluded" in report.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_pictures")
def test_importances_and_interactions_are_tested_on_held_out_rows(capsys, csv, tmp_path):
    report = tmp_path / "r.html"
    given = ["--report", report, "--inference", "--test-fraction", "0.33"]
    status, _, _ = run(capsys, "fit", csv, *QUICK, *given)
    assert status == 0
    page = report.read_text(encoding="utf-8")
    assert "of 20 held-out rows, 1999 permutations" in page
    assert "Interactions, at a false discovery rate of 10%" in page


@pytest.mark.usefixtures("no_pictures")
def test_an_inference_that_fails_costs_neither_model_nor_report(capsys, csv, tmp_path, monkeypatch):
    def fails(*args, **options):
        msg = "too few rows"
        raise ValueError(msg)

    monkeypatch.setattr(gpukfl.Model, "inference", fails)
    model, report = tmp_path / "m.gpukfl", tmp_path / "r.html"
    given = ["--out", model, "--report", report, "--inference"]
    status, _, err = run(capsys, "fit", csv, *QUICK, *given)
    assert status != 0
    assert "no inference: too few rows" in err
    assert gpukfl.load(model).feature_names == ["a", "b", "c"]
    assert "What may be concluded" not in report.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(("number", "parts"), [(signal.SIGINT, 0), (signal.SIGTERM, 1)])
def test_a_signal_during_inference_leaves_a_report_with_what_is_done(
    capsys, csv, tmp_path, monkeypatch, number, parts
):
    model, report, before = tmp_path / "m.gpukfl", tmp_path / "r.html", []

    def struck(*args, **options):
        before.append("Test: " in report.read_text(encoding="utf-8") and model.exists())
        os.kill(os.getpid(), number)
        time.sleep(5)  # the signal comes before

    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(_infer, "interactions" if parts else "bands", struck)
    given = ["--out", model, "--report", report, "--inference"]
    status, out, err = run(capsys, "fit", csv, *QUICK, *given)
    page = report.read_text(encoding="utf-8")
    assert before == [True]
    assert status == 128 + number
    assert "inference was interrupted" in err
    assert f"report written to {report}" in out
    assert gpukfl.load(model).feature_names == ["a", "b", "c"]
    assert ("What may be concluded" in page) == bool(parts)
    assert ("The inference was interrupted, before interactions" in page) == bool(parts)
    assert handlers == [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]


def test_fit_tunes_by_default(capsys, csv):
    status, out, _ = run(capsys, "fit", csv, "--method", "bkernn", "--particles", 4)
    assert status == 0
    assert "held-out" in out
    assert "settings" in out


SAID = {  # options of methods, and what is said of their fits
    "hkrr": (["--components", 2, "--ridge", "1e-4"], ["HKRRRegressor", "kernel of 2 components"]),
    "rkhs_weighting": (["--ridge", "1e-3"], ["RKHSWeightingRegressor", "parameters"]),
    "regfeal": (["--max-time", 30], ["RegFeaLRegressor", "Hermite features", "held-out R² "]),
}


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("method", SAID)
def test_methods_are_fitted_reported_and_predict(capsys, csv, tmp_path, method):
    model, report = tmp_path / "m.gpukfl", tmp_path / "r.html"
    options, said = SAID[method]
    given = ["--method", method, *options, "--out", model, "--report", report]
    status, out, err = run(capsys, "fit", csv, *given)
    assert status == 0
    assert err == "" or (method == "regfeal" and "max_time was reached first" in err)
    for expected in [*said, "for price", "48 rows"]:
        assert expected in out
    assert float(out.split("test        R² ")[1].split()[0]) > 0.5
    assert "Test: 12 held-out rows" in report.read_text(encoding="utf-8")
    status, out, _ = run(capsys, "predict", model, csv)
    assert status == 0
    rows = np.array(out.splitlines()[1:], dtype=float)
    expected = gpukfl.load(model).predict(FRAME[["a", "b", "c"]])
    np.testing.assert_allclose(rows, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("hkrr", ["--components", 1, "--max-time", 1], "held-out explained Brier score"),
        ("rkhs_weighting", ["--max-time", 0.5], "score       held-out "),
    ],
)
def test_methods_tune_by_default_and_keep_to_their_time(capsys, method, options, said):
    status, out, _ = run(capsys, "fit", "iris", "--method", method, *options)
    assert status == 0
    assert "Classifier for target" in out
    assert said in out
    assert "accuracy" in out


@pytest.mark.slow
def test_variables_are_selected_reported_and_predict(capsys, tmp_path):
    model, report = tmp_path / "m.gpukfl", tmp_path / "r.html"
    method = ["--method", "selection", "--ridge", 0.01]
    status, out, err = run(capsys, "fit", "diabetes", *method, "--out", model, "--report", report)
    assert (status, err) == (0, "")
    for expected in ["KernelFeatureSelector for target", "354 rows, 10 columns", "of 10 vari"]:
        assert expected in out
    for name in ("bmi", "s5"):  # the two that every method finds
        assert re.search(rf"^    {name} +0\.\d{{3}}$", out, re.MULTILINE)
    assert float(out.split("test        R² ")[1].split()[0]) > 0.3
    page = report.read_text(encoding="utf-8")
    assert "Test: 88 held-out rows" in page
    assert "<td>selection by</td><td>ManhattanLaplace</td>" in page
    fitted = gpukfl.load(model)
    assert {"bmi", "s5"} <= set(fitted.estimator.get_feature_names_out())
    status, out, _ = run(capsys, "predict", model, "diabetes")
    assert (status, len(out.splitlines())) == (0, 443)


def test_selection_from_a_file_tunes(capsys, csv):
    status, out, err = run(capsys, "fit", csv, "--method", "selection", "--max-time", 60)
    assert status == 0
    assert "KernelFeatureSelector for price" in out
    assert re.search(r"score       held-out R² .* best of \d settings", out)
    assert err == ""


@pytest.mark.parametrize("name", ["iris", "diabetes"])
def test_bundled_sets_are_fitted(capsys, name):
    status, out, _ = run(capsys, "fit", name, *QUICK)
    assert status == 0
    assert "for target" in out
    assert ("accuracy" in out) == (name == "iris")


def test_another_target(capsys, csv, tmp_path):
    status, out, _ = run(capsys, "fit", csv, "--target", "a", *QUICK, "--out", tmp_path / "m")
    assert status == 0
    assert "BKerNNRegressor for a" in out
    assert gpukfl.load(tmp_path / "m").feature_names == ["b", "c", "price"]


def test_parquet_is_fitted(capsys, tmp_path):
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(tmp_path / "houses.parquet")
    assert run(capsys, "fit", tmp_path / "houses.parquet", *QUICK)[0] == 0


def test_npz_is_fitted(capsys, tmp_path):
    samples = FRAME[["a", "b", "c"]].to_numpy()
    np.savez(tmp_path / "houses.npz", X=samples, y=FRAME["price"].to_numpy())
    status, out, _ = run(capsys, "fit", tmp_path / "houses.npz", *QUICK)
    assert status == 0
    assert "for y" in out
    np.savez(tmp_path / "houses.npz", X=samples)
    status, _, err = run(capsys, "fit", tmp_path / "houses.npz", *QUICK)
    assert status == 2
    assert "expected a target" in err


def test_nothing_is_held_out_when_asked(capsys, csv):
    status, out, _ = run(capsys, "fit", csv, *QUICK, "--test-fraction", 0)
    assert status == 0
    assert "60 rows" in out
    assert "held-out rows" not in out


def test_a_random_state_repeats_the_run(capsys, csv):
    def score(*more):
        out = run(capsys, "fit", csv, *QUICK, *more)[1]
        return out.split("test        R² ")[1]

    assert score("--random-state", 3) == score("--random-state", 3)
    assert score("--random-state", 3) != score("--random-state", 4)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["nothing.csv"], "the file 'nothing.csv' was not found."),
        (["CSV", "--target", "colour"], "one of a, b, c, price, got 'colour'"),
        (["CSV", "--backend", "jax"], "expected backend to be one of .* got 'jax'"),
        (
            ["CSV", "--method", "forest"],
            "one of auto, bkernn, hkrr, selection, rkhs_weighting, regfeal, got 'forest'",
        ),
        (["CSV", "--task", "ranking"], "expected task to be one of"),
        (["CSV", "--method", "bkernn", "--penalty", "lasso"], "expected penalty to be one of"),
        (["CSV", "--method", "bkernn", "--ridge", "-1"], "expected ridge to be"),
        (["CSV", "--method", "bkernn", "--scaling", "log"], "expected scaling to be one of"),
        (["CSV", "--method", "bkernn", "--particles", "0"], "expected n_particles to be"),
        (["CSV", "--method", "hkrr", "--components", "0"], "expected n_components to be"),
        (
            ["CSV", "--method", "hkrr", "--components", "4"],
            "at most 3 components, as X has 3 features",
        ),
        (["CSV", "--method", "hkrr", "--penalty", "basic"], "no penalty with method 'hkrr'"),
        *(
            (["CSV", "--method", name, *option], match)
            for name in ("selection", "regfeal", "rkhs_weighting")
            for option, match in (
                (["--penalty", "basic"], f"no penalty with method '{name}'"),
                (["--components", "2"], "only with --method hkrr"),
                (["--ridge", "-1"], "expected ridge to be"),
            )
        ),
        (["CSV", "--method", "hkrr", "--particles", "3"], "--particles only with --method bkernn"),
        (["CSV", "--components", "3"], "--components only with --method hkrr, got --method auto"),
        (["CSV", "--max-time", "0"], "expected max_time to be"),
        (["CSV", "--inference"], "expected one table, and --report"),
        (["CSV", "--inference-time", "0"], "expected --inference-time above 0"),
        (["CSV", "--test-fraction", "1"], "expected --test-fraction"),
        (["CSV", "--test-fraction", "nan"], "expected --test-fraction .* got nan"),
        (
            ["CSV", "--test-fraction", "0.999"],
            r"--test-fraction of at most 0\.966, which leaves 2 of 60 different rows to fit, got 0",
        ),
        (["CSV", "--out", "no/such/folder/m", *QUICK], "no/such/folder/m"),
    ],
)
def test_mistakes_are_named_with_status_two(capsys, csv, arguments, match):
    arguments = [csv if argument == "CSV" else argument for argument in arguments]
    status, _, err = run(capsys, "fit", *arguments)
    assert status == 2
    assert err.startswith("gpukfl: ")
    assert re.search(match, err)
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [[], ["fly"], ["fit"], ["fit", "iris", "--ridge", "much"]])
def test_unknown_commands_and_options_exit_with_two(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: gpukfl" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "expected"), [("--version", __version__), ("--help", "fit")])
def test_help_and_version_exit_with_zero(capsys, option, expected):
    with pytest.raises(SystemExit) as ended:
        main([option])
    assert ended.value.code == 0
    assert expected in capsys.readouterr().out


def test_an_interruption_exits_with_130(capsys, csv, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpukfl._fit.fit", interrupted)
    status, _, err = run(capsys, "fit", csv)
    assert status == 130
    assert "interrupted" in err


def test_a_warning_is_one_line(capsys, csv):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, err = run(capsys, "fit", csv, *QUICK, "--max-time", "1e-6")
    assert status == 0
    assert re.fullmatch("gpukfl: warning: BKerNNRegressor after .*: max_time was .*\n", err)


def test_the_caller_keeps_its_own_warnings(capsys):
    before = warnings.showwarning
    run(capsys, "info")
    assert warnings.showwarning is before


# ---------------------------------------------------------------------- predict


@pytest.fixture
def model(capsys, csv, tmp_path):
    assert run(capsys, "fit", csv, *QUICK, "--out", tmp_path / "m")[0] == 0
    return str(tmp_path / "m")


def test_predictions_are_a_column_a_row(capsys, model, tmp_path):
    shuffled = FRAME[["price", "c", "a", "b"]].iloc[::-1]
    shuffled.to_csv(tmp_path / "new.csv", index=False)
    status, out, err = run(
        capsys, "predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv"
    )
    assert (status, out, err) == (0, "", "")
    written = pd.read_csv(tmp_path / "p.csv")
    assert list(written.columns) == ["price"]
    expected = gpukfl.load(model).predict(FRAME[["a", "b", "c"]])[::-1]
    np.testing.assert_allclose(written["price"], expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["p.parquet", "p.csv.gz", "p.CSV", "p"])
def test_predictions_are_written_as_the_name_says(capsys, model, csv, tmp_path, name):
    if name == "p.parquet":
        pytest.importorskip("pyarrow")
    assert run(capsys, "predict", model, csv, "--out", tmp_path / name)[0] == 0
    read = pd.read_parquet if name == "p.parquet" else pd.read_csv
    expected = gpukfl.load(model).predict(FRAME[["a", "b", "c"]])
    np.testing.assert_allclose(read(tmp_path / name)["price"], expected, rtol=1e-12)


def test_names_of_other_files_are_refused_before_anything_is_read(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, match in (
        ("p.xlsx", "expected a file .csv, .csv.gz or .parquet for --out, got .*p.xlsx"),
        ("p.parquet.gz", "expected a file .csv, .csv.gz or .parquet for --out"),
        ("p.parquet", r"writing .parquet needs pyarrow: `pip install 'gpukfl\[parquet\]'`"),
    ):
        status, out, err = run(capsys, "predict", "nothing", "nothing", "--out", tmp_path / name)
        assert (status, out) == (2, "")
        assert re.search(match, err)
        assert not (tmp_path / name).exists()


def test_predictions_go_to_standard_output(capsys, model, csv):
    status, out, _ = run(capsys, "predict", model, csv)
    assert status == 0
    assert out.splitlines()[0] == "price"
    assert len(out.splitlines()) == 1 + len(FRAME)


def test_labels_are_predicted(capsys, tmp_path):
    assert run(capsys, "fit", "iris", *QUICK, "--out", tmp_path / "m")[0] == 0
    status, out, _ = run(capsys, "predict", tmp_path / "m", "iris")
    assert status == 0
    assert out.splitlines()[0] == "target"
    assert set(out.splitlines()[1:]) == {"setosa", "versicolor", "virginica"}
    assert len(out.splitlines()) == 151


def test_a_model_of_arrays_predicts_from_a_file(capsys, tmp_path):
    samples, y = FRAME[["a", "b", "c"]].to_numpy(), FRAME[["price", "a"]].to_numpy()
    fitted = gpukfl.fit(samples, y, method="bkernn", ridge="auto", n_particles=8)
    fitted.save(tmp_path / "m")
    np.savez(tmp_path / "new.npz", X=samples)
    status, out, _ = run(capsys, "predict", tmp_path / "m", tmp_path / "new.npz")
    assert status == 0
    assert out.splitlines()[0] == "y 0,y 1"
    rows = np.array([line.split(",") for line in out.splitlines()[1:]], dtype=float)
    expected = gpukfl.load(tmp_path / "m").predict(samples)
    np.testing.assert_allclose(rows, expected, rtol=1e-12)


def test_what_cannot_be_predicted_is_named(capsys, model, csv, tmp_path):
    FRAME[["a", "b"]].to_csv(tmp_path / "new.csv", index=False)
    status, _, err = run(capsys, "predict", model, tmp_path / "new.csv")
    assert status == 2
    assert "expected columns a, b, c, got no column 'c'" in err
    status, _, err = run(capsys, "predict", csv, csv)
    assert status == 2
    assert "expected a gpukfl model file" in err
    status, _, err = run(capsys, "predict", tmp_path / "nothing", csv)
    assert status == 2
    assert "nothing" in err


# ---------------------------------------------------------------------- info


def test_info_prints_the_libraries(capsys):
    status, out, _ = run(capsys, "info")
    assert status == 0
    for expected in [
        __version__,
        np.__version__,
        *("numpy", "scipy", "scikit-learn", "numba", "CuPy", "torch"),
        "CUDA devices",
        "GiB free",
        "backend='auto'",
    ]:
        assert expected in out


def test_info_says_how_to_install_cupy(capsys, monkeypatch):
    monkeypatch.setattr("gpukfl.cli._options._installed_version", lambda _: "not installed")
    assert "pip install 'gpukfl[cuda13]'" in run(capsys, "info")[1]
