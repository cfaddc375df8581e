"""Standard streams that are missing, closed, full or lack letters; threads that cannot start."""

import _thread
import io
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl import BKerNNRegressor
from gpukfl._accel.compiled import _keep_if_possible
from gpukfl._accel.pool import Pool, map_in_threads
from gpukfl.cli import main
from gpukfl.core._results import History
from gpukfl.core._streams import is_terminal, try_write_line, write_line
from gpukfl.estimators import _progress
from gpukfl.solvers import ProximalGradient

RNG = np.random.default_rng(0)
FEW_STEPS = ProximalGradient("auto", 2, 1.0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)


class Full(io.StringIO):
    """A terminal on which nothing can be written."""

    def write(self, _):
        raise OSError(28, "No space left on device")

    def isatty(self):
        return True


class Logger:
    """What takes lines, and has nothing else of a stream."""

    def write(self, _):
        pass


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {
    "none": lambda: None,
    "closed": closed,
    "full": Full,
    "of a logger": Logger,
    "ASCII": lambda: io.TextIOWrapper(io.BytesIO(), "ascii"),
}
EVERY = pytest.mark.parametrize("name", STREAMS)


@EVERY
@pytest.mark.parametrize("progress", [None, True])
def test_a_fit_goes_on_whatever_standard_error_is(monkeypatch, name, progress):
    monkeypatch.setattr(sys, "stderr", STREAMS[name]())
    model = gpukfl.fit(
        X, Y, method="rkhs_weighting", n_parameters=10, ridge=1e-2, progress=progress
    )
    assert model.score(X, Y) > 0.5


@EVERY
@pytest.mark.filterwarnings("ignore:BKerNN:sklearn.exceptions.ConvergenceWarning")
def test_a_live_line_and_verbose_fits_are_written_as_far_as_possible(monkeypatch, name):
    monkeypatch.setattr(sys, "stderr", STREAMS[name]())
    with _progress.report_progress(True) as report:
        report("fit of R²", 0, History(objective=[0.5], seconds=[0.1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        BKerNNRegressor(4, ridge=1e-2, optimizer=FEW_STEPS, verbose=True).fit(X, Y)
    try_write_line("R²", sys.stderr)
    assert is_terminal(sys.stderr) == (name == "full")


@given(text=st.text(), encoding=st.sampled_from(["ascii", "latin-1", "cp1252", "utf-8"]))
def test_lines_keep_the_letters_that_a_stream_has(text, encoding):
    text = text.encode("utf-8", "ignore").decode()
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding, newline="")
    write_line(text, stream)
    stream.flush()
    found = raw.getvalue().decode(encoding)
    assert found.endswith("\n")
    if text.isascii() or encoding == "utf-8":
        assert found == f"{text}\n"


def test_letters_that_a_stream_has_not_are_replaced():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii", newline="")
    write_line("R² of größe ± λ", stream)
    stream.flush()
    assert raw.getvalue() == b"R2 of gro??e +/- lambda\n"


@pytest.fixture
def command(tmp_path):
    file, model = tmp_path / "rows.csv", tmp_path / "model"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).to_csv(file, index=False)
    options = ["--method", "rkhs_weighting", "--parameters", "10", "--ridge", "0.01"]
    return ["fit", str(file), "--target", "y", "--out", str(model), *options], model


@EVERY
def test_a_model_that_was_written_is_reported_as_written(monkeypatch, capsys, command, name):
    arguments, model = command
    stream = STREAMS[name]()
    monkeypatch.setattr(sys, "stdout", stream)
    status = main(arguments)
    assert gpukfl.load(model).method == "rkhs_weighting"
    if name in ("none", "ASCII", "of a logger"):
        assert status == 0
        if name == "ASCII":
            stream.flush()
            said = stream.buffer.getvalue().decode()
            assert "R2 " in said
            assert f"model written to {model}" in said
    else:
        assert status == 2
        err = capsys.readouterr().err
        assert f"model written to {model}; standard output cannot be written to: " in err


def test_predictions_without_an_output_are_refused(monkeypatch, capsys, command):
    arguments, model = command
    assert main(arguments) == 0
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["predict", str(model), arguments[1]]) == 2
    assert "standard output is closed: pass --out" in capsys.readouterr().err


# ---------------------------------------------------------------------- threads and disks


@pytest.fixture
def no_threads(monkeypatch):
    def refuse(*_, **__):
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.usefixtures("no_threads")
def test_work_is_done_where_no_thread_can_be_started(monkeypatch):
    assert Pool(lambda: None).map(3, pow, [2, 3, 4], [1, 2, 3]) == [2, 9, 64]
    assert list(map_in_threads(3, pow, [2, 3, 4], [1, 2, 3])) == [2, 9, 64]
    monkeypatch.setattr(sys, "stderr", Full())
    with _progress.report_progress(True) as report:
        report("fit", 0, History(objective=[0.5], seconds=[0.1]))


@given(numbers=st.lists(st.integers(-99, 99), max_size=8), left=st.integers(0, 5))
def test_the_threads_that_there_are_do_the_work(numbers, left):
    begun = []
    start = threading.Thread.start

    def some(thread):
        begun.append(thread)
        if len(begun) > left:
            msg = "can't start new thread"
            raise RuntimeError(msg)
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", some)
        assert list(map_in_threads(4, abs, numbers)) == list(map(abs, numbers))


def test_compiled_code_that_cannot_be_kept_is_used():
    numba = pytest.importorskip("numba")
    triple = numba.njit(lambda x: 3 * x)

    class FullDisk:
        def load_overload(self, *_):
            raise OSError(13, "Permission denied")

        def save_overload(self, *_):
            raise OSError(28, "No space left on device")

    triple._cache = FullDisk()
    assert _keep_if_possible(triple)(4) == 12
