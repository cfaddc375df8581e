"""What the models of `gpukfl.fit` say and draw."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from fit_cases import FRAME, LABELS, N, X, Y, fit
from pictures import panels
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge is at the edge:UserWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]


# ---------------------------------------------------------------------- the model


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"ridge": "auto"}
        three = np.searchsorted([-0.4, 0.4], X[:, 0])
        return {
            "regression": fit(FRAME, pd.Series(Y, name="price")),
            "multiclass": fit(X, three, **options),
            "two classes": fit(FRAME, LABELS, **options),
            "two targets": fit(X, np.stack([Y, X[:, 1]], axis=1), **options),
            "W = 0": fit(X, Y, ridge=1e6),
            "no steps": fit(X, Y, max_iter=0, **options),
            "binned": fit(X, Y, knots=32, **options),
            "early stopping": fit(X, Y, early_stopping=True, **options),
            "one feature": fit(X[:, :1], Y, **options),
        }


KINDS = [
    "regression",
    "multiclass",
    "two classes",
    "two targets",
    "W = 0",
    "no steps",
    "binned",
    "early stopping",
    "one feature",
]


def test_the_summary_says_what_was_done(models):
    model = models["regression"]
    text, e = model.summary(), model.estimator
    best = max(trial["score"] for trial in model.tuning)
    for expected in [
        "BKerNNRegressor for price",
        "80 rows, 3 columns",
        "8 particles, penalty concave_feature",
        f"ridge {e.ridge_:.3g}",
        "numpy cpu, exact",
        f"{e.n_iter_} steps, {e.status_.lower().replace('_', ' ')}",
        f"R² {best:.3f}"[:-1],  # more digits where the error is small
        f", best of {len(model.tuning)} settings",
        f"{e.n_effective_features_} effective directions",
        *("width", "height", "age"),
    ]:
        assert expected in text
    assert "binned on 32 knots, relative error" in models["binned"].summary()


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_is_summarised(models, kind):
    assert f"for {models[kind].target_name}" in models[kind].summary()


def test_the_most_important_come_first(models):
    model = models["regression"]
    values = [value for _, value in model.most_important()]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(1.0)
    assert len(model.most_important(2)) == 2
    with pytest.raises(ValueError, match="expected count to be an integer of at least 0, got -1"):
        model.most_important(-1)


def test_importances_may_be_changed_without_the_model(models):
    model = models["regression"]
    importances = model.feature_importances_
    importances[:] = 0.0
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_a_copy_that_is_not_fitted_is_not_saved(models, tmp_path):
    with pytest.raises(NotFittedError):
        clone(models["regression"]).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"progress": "x"}, "expected progress to be bool or None"),
        ({"columns": "x"}, "expected columns to be Mapping or None"),
        ({"sample_weight": "x"}, "expected sample_weight to be an array of weights, got the text"),
    ],
)
def test_options_of_other_types_are_explained(options, said):
    with pytest.raises(TypeError, match=said):
        fit(FRAME, Y, **options)


@pytest.mark.few
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_is_drawn_in_panels_that_are_not_empty(models, kind):
    pytest.importorskip("matplotlib")
    steps = ["objective"] if kind != "no steps" else []
    assert panels(models[kind].plot()) == ["importances", "directions", "curves", *steps]


def test_a_model_of_another_library_is_drawn(torch):
    model = fit(torch.asarray(X), torch.asarray(Y), ridge="auto")
    assert "importances" in panels(model.plot())
    assert isinstance(model.feature_importances_, np.ndarray)


@pytest.mark.few
@pytest.mark.parametrize("kind", list(KINDS)[::3])
def test_a_report_is_one_file_with_the_picture_inside(models, kind, tmp_path):
    models[kind].report(tmp_path / "report.html", scores={"R² <held out>": 0.987654})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<svg [^>]*aria-label=.{1000,}</svg>", page, re.DOTALL)
    assert "http" not in page
    assert not re.search(r"<(script|link)\b", page)
    assert "0.9877" in page
    assert "R² &lt;held out&gt;" in page
    for name, _ in models[kind].most_important():
        assert name in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.usefixtures("no_pictures")
def test_a_report_escapes_names(tmp_path):
    frame = FRAME.rename(columns={"width": "<b>&"})
    fit(frame, pd.Series(Y, name="<i>"), ridge="auto").report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<b>&" not in page
    assert "<i>" not in page


def test_probabilities_are_for_classes(models):
    model = models["multiclass"]
    assert model.predict_proba(X).shape == (N, 3)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    for method in (models["regression"].predict_proba, models["regression"].predict_log_proba):
        with pytest.raises(TypeError, match="expected a classification model, got a regression"):
            method(FRAME)


def test_learned_features_come_from_the_model(models):
    model = models["regression"]
    assert model.transform(FRAME).shape == (N, model.estimator.n_effective_features_)
