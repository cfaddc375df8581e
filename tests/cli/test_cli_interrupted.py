"""Commands that are ended from outside: what is finished, and what they say of it."""

import os
import signal
import subprocess
import sys
import threading

import command_line
import numpy as np
import pandas as pd
import pytest

import gpukfl
from gpukfl import _fit
from gpukfl.cli import main
from gpukfl.cli._files import exit_on_sigterm
from gpukfl.core._files import atomic_write

pytestmark = [
    pytest.mark.usefixtures("warnings_shown_as_before"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(os.name != "posix", reason="signals of other systems are others"),
]
QUICK = ["--method", "bkernn", "--ridge", "auto", "--particles", "4"]
SAVE = gpukfl.Model.save


@pytest.fixture
def csv(tmp_path):
    X = np.random.default_rng(5).uniform(-1, 1, (40, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(price=np.abs(X[:, 0]))
    frame.to_csv(tmp_path / "houses.csv", index=False)
    return str(tmp_path / "houses.csv")


def run(capsys, *arguments):
    """Exit status and errors."""
    return command_line.run(capsys, *arguments)[::2]


def pressed(times):
    """What presses Ctrl-C while a model is written."""

    def save(model, path):
        with atomic_write(path) as file:
            file.write(b"half")
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        SAVE(model, path)

    return save


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals come elsewhere"
)
@pytest.mark.parametrize(("times", "done"), [(1, "written"), (2, "not written")])
def test_a_model_is_written_before_ctrl_c_ends(capsys, csv, tmp_path, monkeypatch, times, done):
    monkeypatch.setattr(gpukfl.Model, "save", pressed(times))
    path = tmp_path / "m"
    status, err = run(capsys, "fit", csv, *QUICK, "--out", path)
    assert (status, err) == (130, f"gpukfl: interrupted; model {done} to {path}\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sorted(one.name for one in tmp_path.iterdir()) == ["houses.csv", "m"][: 3 - times]
    if done == "written":
        assert gpukfl.load(path).target_name == "price"


@pytest.mark.few
@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals come elsewhere"
)
@pytest.mark.parametrize("numbers", [[signal.SIGINT], 2 * [signal.SIGINT], [signal.SIGTERM]])
@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.csv.zip", "p.parquet"])
def test_predictions_are_written_whole_or_not_at_all(
    capsys, csv, tmp_path, monkeypatch, name, numbers
):
    model, path = tmp_path / "m", tmp_path / name
    assert run(capsys, "fit", csv, *QUICK, "--out", model)[0] == 0
    before = path.write_bytes(b"what was there before")
    of_name = {"p.csv": "csv", "p.parquet": "parquet"}.get(name, "csv")
    write = getattr(pd.DataFrame, f"to_{of_name}")

    def half(frame, file, **options):
        write(frame, file, **options)
        file.flush()
        for number in numbers:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(pd.DataFrame, f"to_{of_name}", half)
    if numbers == [signal.SIGTERM]:
        with pytest.raises(SystemExit):
            main(["predict", str(model), csv, "--out", str(path)])
        done = False
    else:
        status, err = run(capsys, "predict", model, csv, "--out", path)
        done = len(numbers) == 1
        said = "written" if done else "not written"
        assert (status, err) == (130, f"gpukfl: interrupted; predictions {said} to {path}\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["houses.csv", "m", name])
    if done:
        read = pd.read_parquet if of_name == "parquet" else pd.read_csv
        assert read(path).shape == (40, 1)
    else:
        assert path.stat().st_size == before


def test_predictions_go_to_a_pipe(capsys, csv, tmp_path):
    model, pipe = tmp_path / "m", tmp_path / "pipe"
    assert run(capsys, "fit", csv, *QUICK, "--out", model)[0] == 0
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert run(capsys, "predict", model, csv, "--out", pipe)[0] == 0
    reader.join()
    assert len(read[0].splitlines()) == 41


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("too large"), KeyError("k")])
def test_a_model_that_was_written_is_reported_as_written(capsys, csv, tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(gpukfl.Model, "_page", fail)
    paths = tmp_path / "m", tmp_path / "r.html"
    status, err = run(capsys, "fit", csv, *QUICK, "--out", paths[0], "--report", paths[1])
    assert status == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert f"model written to {paths[0]}" in err
    assert f"report written to {paths[1]}" not in err
    gpukfl.load(paths[0])


def test_ctrl_c_while_modules_are_imported_is_one_line(capsys, monkeypatch):
    class Pressed:
        def find_spec(self, name, path=None, target=None):
            if name == "gpukfl.cli._options":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "gpukfl.cli._options")
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    status, err = run(capsys, "info")
    assert (status, err) == (130, "gpukfl: interrupted; nothing was written\n")


def test_the_command_starts_before_libraries_are_imported():
    heavy = "numba", "sklearn", "scipy", "pandas"
    code = f"import sys, gpukfl.cli; print([n for n in {heavy} if n in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_command_that_is_terminated_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("gpukfl.core._files._open_unnamed", lambda _: None)  # as on other systems
    before = signal.getsignal(signal.SIGTERM)

    def end_while_writing():
        with exit_on_sigterm(), atomic_write(tmp_path / "m") as file:
            file.write(b"half of a model")
            assert [one.suffix for one in tmp_path.iterdir()] == [".part"]
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as ended:
        end_while_writing()
    assert ended.value.code == 143
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


def test_files_are_whole_where_they_cannot_be_named_later(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError

    monkeypatch.setattr(os, "link", refuse)
    with atomic_write(tmp_path / "m") as file:
        file.write(b"all of a model")
    assert (tmp_path / "m").read_bytes() == b"all of a model"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("no_pictures")
def test_a_fit_that_was_interrupted_is_not_followed_by_inference(
    capsys, csv, tmp_path, monkeypatch
):
    fit = _fit.fit

    def interrupted(*given, **options):
        model = fit(*given, **options)
        model.estimator.status_ = "INTERRUPTED"
        return model

    monkeypatch.setattr(_fit, "fit", interrupted)
    monkeypatch.setattr(gpukfl.Model, "inference", None)  # is not called
    path = tmp_path / "r.html"
    status, err = run(capsys, "fit", csv, *QUICK, "--report", path, "--inference")
    assert status == 130
    assert f"the fit was interrupted: {path} has no inference" in err
    assert path.stat().st_size > 0
