"""Several labels a row: a model of two classes for each, as one model and one file."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputClassifier

import gpukfl
from gpukfl import MultiLabelModel
from gpukfl.cli import main

pytestmark = pytest.mark.filterwarnings("ignore")
N = 160
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"])
FRAME["town"] = RNG.choice(["u", "v"], N)
Y = pd.DataFrame(
    {"warm": FRAME["a"] > 0.0, "wet": (FRAME["town"] == "u") | (FRAME["b"] > 1.0)}
).astype(int)
OPTIONS = {"members": ["linear", "matern52"], "n_folds": 2, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return gpukfl.fit(FRAME, Y, task="classification", **OPTIONS)


def test_each_label_is_a_problem_of_two_classes(model):
    assert isinstance(model, MultiLabelModel)
    assert model.labels == ["warm", "wet"]
    assert model.score(FRAME, Y) > 0.85
    found, proba = model.predict(FRAME), model.predict_proba(FRAME)
    assert list(found.columns) == ["warm", "wet"]
    assert found.index.equals(FRAME.index)
    assert proba.shape == (N, 2)
    np.testing.assert_array_equal(found, proba > 0.5)
    alone = gpukfl.fit(FRAME, Y["wet"] == 1, **OPTIONS)
    np.testing.assert_array_equal(proba[:, 1], alone.predict_proba(FRAME)[:, 1])
    assert model.score(FRAME, Y[["wet", "warm"]]) == model.score(FRAME, Y)
    assert "label wet" in model.summary()
    assert list(model.set_output(predict="pandas").predict_proba(FRAME).columns) == model.labels
    model.set_output(predict="auto")


def test_targets_by_name_arrays_and_what_is_no_several_labels():
    both = FRAME.join(Y.astype(bool))
    named = gpukfl.fit(both, ["warm", "wet"], task="classification", **OPTIONS)
    assert named.labels == ["warm", "wet"]
    numbers = FRAME[["a", "b"]].to_numpy()
    found = gpukfl.fit(numbers, Y.to_numpy(), task="classification", **OPTIONS)
    assert found.labels == ["y 0", "y 1"]
    assert isinstance(found.predict(numbers), np.ndarray)
    one_kind = np.stack([Y["warm"], 1 - Y["warm"]], axis=1)
    with pytest.raises(ValueError, match="argmax"):
        gpukfl.fit(FRAME, one_kind, task="classification", **OPTIONS)
    with pytest.raises(ValueError, match="expected one target of classes"):
        gpukfl.fit(FRAME, Y + 1, task="classification", **OPTIONS)
    with pytest.warns(UserWarning, match="fits a model to each column"):
        as_numbers = gpukfl.fit(FRAME, Y, **OPTIONS)
    assert as_numbers.task == "regression"
    with pytest.raises(ValueError, match="takes a column of 0 and 1 for each of several labels"):
        gpukfl.AutoClassifier(["linear"]).fit(numbers, Y)
    advised = MultiOutputClassifier(gpukfl.AutoClassifier(**OPTIONS)).fit(numbers, Y)
    shares = np.stack([one[:, 1] for one in advised.predict_proba(numbers)], axis=1)
    np.testing.assert_allclose(shares, found.predict_proba(numbers), atol=1e-12)
    with pytest.raises(ValueError, match="a column for each of 2 labels"):
        found.score(numbers, Y.to_numpy()[:, :1])


def test_a_label_that_no_row_has_is_never_predicted():
    y = np.stack([Y["warm"], np.zeros(N), np.ones(N)], axis=1).astype(int)
    found = gpukfl.fit(FRAME, y, task="classification", **OPTIONS)
    assert found.predict_proba(FRAME)[:, 1].max() == 0.0
    assert found.predict_proba(FRAME)[:, 2].min() == 1.0
    sets = found.predict_set(FRAME).to_numpy()
    assert (sets[:, 2:] == [True, False, False, True]).all()
    assert found.explain(FRAME[:2]).outputs == ("y 0",)
    assert set(found.partial_dependence("a")["label"]) == {"y 0"}


def test_frames_of_labels_are_those_of_their_models(model):
    def of(found, label):
        part = found[found["label"] == label].drop(columns="label")
        return part.reset_index(drop=True)

    asked = {"leaderboard": (), "importances": (), "partial_dependence": ("a",)}
    for name, given in asked.items():
        found = getattr(model, name)(*given)
        assert found["label"].unique().tolist() == model.labels
        for label in model.labels:
            alone = getattr(model.model_of(label), name)(*given)
            pd.testing.assert_frame_equal(of(found, label), alone, check_dtype=False)
    board = model.leaderboard(FRAME, Y[["wet", "warm"]])
    wet = model.model_of("wet").leaderboard(FRAME, Y["wet"] == 1)
    pd.testing.assert_frame_equal(of(board, "wet"), wet)
    told = model.explain(FRAME[:3])
    assert told.outputs == ("warm", "wet")
    wet = model.model_of("wet").explain(FRAME[:3])
    np.testing.assert_array_equal(told.contributions[:, :, 1], wet.contributions)
    sums = told.baseline + told.contributions.sum(axis=1)
    np.testing.assert_allclose(sums, told.prediction, atol=1e-9)
    sets = model.predict_set(FRAME, 0.8)
    assert sets.columns.tolist() == [(a, b) for a in model.labels for b in (False, True)]
    np.testing.assert_array_equal(sets["wet"], model.model_of("wet").predict_set(FRAME, 0.8))


def test_rows_of_validation_judge_each_label():
    both = FRAME.join(Y)
    inside, outside = both[:100], both[100:]
    model = gpukfl.fit(
        inside, ["warm", "wet"], task="classification", validation=outside, **OPTIONS
    )
    given = {"X": inside[FRAME.columns], "y": inside["wet"] == 1}
    held_out = outside[FRAME.columns], outside["wet"] == 1
    alone = gpukfl.fit(**given, validation=held_out, **OPTIONS)
    found = model.predict_proba(FRAME)
    np.testing.assert_array_equal(found[:, 1], alone.predict_proba(FRAME)[:, 1])
    assert "validation=validation" in gpukfl._call.call_text(model.models[0])
    pairs = outside[FRAME.columns], outside[["wet", "warm"]], np.full(60, 2.0)
    model.fit(inside, ["warm", "wet"], validation=pairs)
    np.testing.assert_array_equal(model.predict_proba(FRAME), found)
    for change, match in [
        (lambda y: 0 * y, "rows with and without the label 'warm' in validation, got only rows wi"),
        (lambda y: y[["wet"]], "a column for each of 2 labels"),
        (lambda y: y.rename(columns={"wet": "wett"}), "expected validation to be one of 'warm'"),
    ]:
        with pytest.raises(ValueError, match=match):
            model.fit(FRAME, Y, validation=(FRAME, change(Y)))
    np.testing.assert_array_equal(model.predict_proba(FRAME), found)


def test_names_of_labels_are_checked(model):
    with pytest.raises(ValueError, match=r"expected label to be one of 'warm', 'wet'.*'wet'\?"):
        model.model_of("wett")
    other = Y.rename(columns={"wet": "wett"})
    for judge in (model.score, model.leaderboard):
        with pytest.raises(ValueError, match=r"'warm', 'wet', got 'wett'. Did you mean 'wet'"):
            judge(FRAME, other)


def test_files_reports_and_the_command_line(tmp_path, model, capsys):
    model.save(tmp_path / "model")
    again = gpukfl.load(tmp_path / "model")
    light = gpukfl.runtime.load(tmp_path / "model")
    assert light.labels == model.labels
    np.testing.assert_array_equal(light.predict(FRAME), np.asarray(model.predict(FRAME)))
    np.testing.assert_allclose(
        light.predict_proba(FRAME), np.asarray(model.predict_proba(FRAME)), rtol=1e-7
    )
    assert again.labels == model.labels
    np.testing.assert_allclose(again.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-12)
    data = (tmp_path / "model").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="gpukfl model file"):
        gpukfl.load(tmp_path / "cut")
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "rows.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "warm,wet"
    both, file = str(tmp_path / "both.csv"), str(tmp_path / "model")
    FRAME.join(Y).to_csv(both, index=False)
    assert main(["leaderboard", file, both]) == 0
    assert capsys.readouterr().out.split()[:3] == ["label", "member", "model"]
    assert main(["explain", file, both, "--max-time", "5"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1 + 2 * N
    assert told[2].startswith("0,wet,")
    assert main(["drift", file, both]) == 0
    assert main(["refit", file, both, "--out", str(tmp_path / "again")]) == 0
    assert gpukfl.load(tmp_path / "again").labels == model.labels
    assert again.explain(FRAME[:2]).outputs == ("warm", "wet")
    assert model.refit(FRAME, 1 - Y).score(FRAME, 1 - Y) > 0.85
    assert model.drift(FRAME)["p_value"].min() == 1.0


@pytest.mark.slow
def test_reports_and_scikit_learn_take_it(tmp_path, model):
    model.report(tmp_path / "page.html", held_out=(FRAME, Y))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "page_2.html" in page
    assert (tmp_path / "page_2.html").exists()
    assert cross_val_score(model, FRAME, Y, cv=2).min() > 0.7
    blank = clone(model)
    assert not blank.__sklearn_is_fitted__()
    assert blank.fit(FRAME, Y).score(FRAME, Y) > 0.85


def test_tensors_are_predicted_as_tensors(torch):
    X = torch.tensor(FRAME[["a", "b"]].to_numpy())
    y = torch.tensor(Y.to_numpy())
    model = gpukfl.fit(X, y, task="classification", method="hkrr", criterion="evidence")
    assert isinstance(model.predict(X), torch.Tensor)
    assert model.score(X, y) > 0.6
