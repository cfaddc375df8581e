"""``gpukfl selftest`` where there is no GPU, and its options."""

import json

import pytest

from gpukfl.cli import main


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("gpukfl.selftest._report.missing_reason", lambda: "there is no driver")


def test_the_reason_is_said_without_a_gpu(no_gpu, capsys, tmp_path):
    out = tmp_path / "report.json"
    assert main(["selftest", "--full", "--out", str(out)]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert (found["right"], found["reason"]) == (None, "there is no driver")


def test_missing_cupy_is_a_reason(monkeypatch, capsys):
    monkeypatch.setattr("gpukfl.selftest._report.is_installed", lambda _: False)
    assert main(["selftest"]) == 2
    assert "pip install 'gpukfl[cuda13]'" in json.loads(capsys.readouterr().out)["reason"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--samples", "-1"], "expected --samples of at least 0, got -1"),
        (["--out", "/nowhere/report.json"], "expected an existing folder for the file of --out"),
    ],
)
def test_bad_options_are_refused_before_anything_is_tested(monkeypatch, capsys, options, message):
    monkeypatch.setattr("gpukfl.selftest.report", lambda **_: pytest.fail("tested"))
    assert main(["selftest", *options]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
