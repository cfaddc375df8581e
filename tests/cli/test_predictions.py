"""``gpukfl predict`` of folders and several files, with probabilities and intervals."""

import numpy as np
import pandas as pd
import pytest

import gpukfl
from gpukfl.cli import main

NAMES = ["p0.csv", "p1.csv.gz", "p2.tsv"]


def _table(k):
    rng = np.random.default_rng(k)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    frame["kind"] = rng.choice(["up", "down"], 40)
    frame["y"] = 2.0 * frame["a"] + (frame["kind"] == "up") + 0.1 * rng.normal(size=40)
    frame["class"] = np.array(["low", "mid", "top"])[np.digitize(frame["y"], [-0.5, 1.0])]
    return frame


TABLE = pd.concat([_table(k) for k in range(3)], ignore_index=True)


@pytest.fixture
def folder(tmp_path):
    for k, name in enumerate(NAMES):
        _table(k).drop(columns=["y", "class"]).to_csv(
            tmp_path / name, index=False, sep="\t" if "tsv" in name else ","
        )
    (tmp_path / "notes.md").write_text("of no interest")
    return tmp_path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Files of blends of numbers and of classes, and of one method."""
    where = tmp_path_factory.mktemp("models")
    options = {"members": ["linear"], "random_state": 0, "n_folds": 3}
    for name in ("y", "class"):
        made = gpukfl.fit(TABLE[["a", "b", "kind", name]], name, method="auto", **options)
        made.save(where / name)
    both = TABLE[["y"]].assign(b=np.cos(3.0 * TABLE["a"]))
    single = gpukfl.fit(TABLE[["a", "b"]], both, method="hkrr", n_components=1, ridge=1e-2)
    single.save(where / "single")
    return where


def _run(capsys, *arguments):
    status = main(["predict", *map(str, arguments)])
    return status, *capsys.readouterr()


def _read(out):
    from io import StringIO

    return pd.read_csv(StringIO(out))


def test_files_of_a_folder_follow_one_another(capsys, folder, models):
    status, out, err = _run(capsys, models / "y", folder)
    assert (status, err) == (0, "")
    expected = gpukfl.load(models / "y").predict(TABLE[["a", "b", "kind"]])
    np.testing.assert_allclose(_read(out)["y"], expected, rtol=1e-12)
    files = [folder / name for name in NAMES]
    assert _run(capsys, models / "y", *files) == (0, out, "")
    reverse = _read(_run(capsys, models / "y", *files[::-1])[1])["y"]
    np.testing.assert_allclose(reverse[80:], expected[:40], rtol=1e-12)


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_warning_of_several_files_is_said_once(capsys, folder, models):
    for name in NAMES[:2]:
        _table(0).to_csv(folder / name, index=False)
    err = _run(capsys, models / "y", folder / NAMES[0], folder / NAMES[1])[2]
    assert err.count("warning") == err.count("class") == 1


def test_probabilities_are_columns_by_the_names_of_classes(capsys, folder, models):
    status, out, _ = _run(capsys, models / "class", folder, "--probabilities")
    table, model = _read(out), gpukfl.load(models / "class")
    assert status == 0
    assert list(table) == ["class", "probability_low", "probability_mid", "probability_top"]
    X = TABLE[["a", "b", "kind"]]
    np.testing.assert_allclose(table.iloc[:, 1:], model.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(table["class"], model.predict(X))


def test_intervals_are_two_columns(capsys, folder, models):
    status, out, _ = _run(capsys, models / "y", folder, "--interval", "0.8")
    table, model = _read(out), gpukfl.load(models / "y")
    assert status == 0
    assert list(table) == ["y", "y_lower", "y_upper"]
    expected = model.predict_interval(TABLE[["a", "b", "kind"]], 0.8)
    np.testing.assert_allclose(table[["y_lower", "y_upper"]], expected, rtol=1e-12)


def test_intervals_of_several_targets_have_their_names(capsys, folder, tmp_path):
    options = {"members": ["linear"], "n_folds": 3, "random_state": 0}
    model = gpukfl.fit(TABLE[["a", "kind"]], TABLE[["y", "b"]], method="auto", **options)
    model.save(tmp_path / "two")
    status, out, _ = _run(capsys, tmp_path / "two", folder / NAMES[0], "--interval", "0.9")
    assert status == 0
    table, expected = _read(out), model.predict_interval(TABLE[["a", "kind"]][:40], 0.9)
    assert list(table) == ["y", "b", "y_lower", "y_upper", "b_lower", "b_upper"]
    np.testing.assert_allclose(table[["y_lower", "y_upper"]], expected["y"], rtol=1e-12)
    np.testing.assert_allclose(table[["b_lower", "b_upper"]], expected["b"], rtol=1e-12)


BAD = {
    "a folder without tables": (
        lambda folder: ["y", folder / "none"],
        "expected tables in the folder",
    ),
    "what a folder has": (lambda folder: ["y", folder / "other"], "got .md"),
    "probabilities of numbers": (
        lambda folder: ["y", folder, "--probabilities"],
        "expected a classification model",
    ),
    "intervals of classes": (lambda folder: ["class", folder, "--interval", "0.9"], "predict_set"),
    "intervals of one method": (
        lambda folder: ["single", folder / NAMES[0], "--interval", "0.9"],
        "predict_interval is for blends, got a model of method",
    ),
    "a coverage": (lambda folder: ["y", folder, "--interval", "1.5"], "expected coverage to be"),
    "a file that is read": (
        lambda folder: ["y", folder, "--out", folder / NAMES[1]],
        "to differ from the file that is read",
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_done_is_said(name, capsys, folder, models):
    make, words = BAD[name]
    for made in ("none", "other"):
        (folder / made).mkdir()
    (folder / "other" / "a.md").touch()
    model, *rest = make(folder)
    before = (folder / NAMES[1]).read_bytes()
    status, out, err = _run(capsys, models / model, *rest)
    assert (status, out) == (2, "")
    assert words in err
    assert (folder / NAMES[1]).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "no.model", "iris"], "gpukfl: No such file or directory: no.model"),
        (["fit", "iris", "--ridge", "much"], "expected tune, auto or a number, got 'much'"),
    ],
)
def test_what_is_wrong_is_said_in_words(capsys, arguments, words):
    try:
        status = main(arguments)
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert words in capsys.readouterr().err
