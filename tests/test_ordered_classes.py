"""Ordered categories keep their order wherever classes are shown."""

import numpy as np
import pandas as pd
import pytest

import gpukfl
import gpukfl.runtime
from gpukfl import AutoClassifier, HKRRClassifier

pytestmark = pytest.mark.filterwarnings("ignore")
N = 180
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
WORDS = ["small", "medium", "large"]
TEXT = np.array(WORDS)[np.digitize(FRAME["a"], [-0.5, 0.5])]
Y = pd.Series(pd.Categorical(TEXT, categories=[*WORDS, "huge"], ordered=True), name="size")
OPTIONS = {"members": ["linear", "matern52"], "n_folds": 2, "random_state": 0}


@pytest.mark.parametrize("method", ["auto", pytest.param("hkrr", marks=pytest.mark.slow)])
def test_a_model_keeps_the_order_and_predicts_as_without(tmp_path, method):
    options = OPTIONS if method == "auto" else {"criterion": "evidence"}
    with pytest.warns(UserWarning, match="order of their categories"):
        model = gpukfl.fit(FRAME, Y, method=method, **options)
    assert list(model.classes_) == WORDS
    assert "small, medium, large" in model.summary()
    plain = gpukfl.fit(FRAME, TEXT, method=method, **options)
    assert list(plain.classes_) == sorted(WORDS)
    order = [sorted(WORDS).index(word) for word in WORDS]
    proba = model.predict_proba(FRAME)
    np.testing.assert_allclose(proba, plain.predict_proba(FRAME)[:, order], atol=0.02)
    assert (np.array(WORDS)[proba.argmax(axis=1)] == model.predict(FRAME)).all()
    assert model.score(FRAME, Y) > 0.9
    model.save(tmp_path / "model")
    for again in (gpukfl.load(tmp_path / "model"), gpukfl.runtime.load(tmp_path / "model")):
        assert list(again.classes_) == WORDS
        np.testing.assert_allclose(again.predict_proba(FRAME), proba, atol=1e-9)
    assert list(model.refit(FRAME, Y).classes_) == WORDS
    assert list(model.fit(FRAME, TEXT).classes_) == sorted(WORDS)


def test_estimators_keep_the_order_and_weights_of_classes():
    model = AutoClassifier(**OPTIONS, class_weight={"small": 2.0, "medium": 1.0, "large": 1.0})
    assert list(model.fit(FRAME, Y).classes_) == WORDS
    assert "_order" not in vars(model)
    two = Y[Y != "medium"]
    single = HKRRClassifier(criterion="evidence", random_state=0).fit(FRAME.loc[two.index], two)
    assert list(single.classes_) == ["small", "large"]
    assert single.score(FRAME.loc[two.index], two) > 0.95
    assert ((single.decision_function(FRAME) > 0) == (single.predict(FRAME) == "large")).all()
    numbers = pd.Categorical([3, 1, 2] * 40, categories=[3, 1, 2], ordered=True)
    X = np.asarray(numbers, dtype=float)[:, None] + 0.01 * RNG.normal(size=(120, 1))
    assert gpukfl.fit(X, pd.Series(numbers), **OPTIONS).classes_.tolist() == [3, 1, 2]


@pytest.mark.slow
def test_reports_inference_and_explanations_take_ordered_classes(tmp_path):
    model = gpukfl.fit(FRAME, Y, method="hkrr", criterion="evidence")
    model.report(tmp_path / "page.html", held_out=(FRAME, Y), fitted_to=(FRAME, Y))
    assert "small, medium, large" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert model.inference(FRAME, Y).summary()
    assert model.explain(FRAME[:2], background=FRAME[:20]).outputs is not None
