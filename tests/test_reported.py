"""What reports of models say of the data, of rows held out, and of how to repeat a fit."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from brief import bkernn
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl.inference import Bands
from gpukfl.inference._held_out import add_error_panels
from gpukfl.inspection import (
    HeldOutImportances,
    Importances,
    Predictions,
    Reliability,
    ResidualPlot,
)

RNG = np.random.default_rng(3)
N, INSIDE = 160, 100
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
FRAME = pd.DataFrame(X, columns=["width", "height", "<i>"])
TABLE = FRAME.assign(
    kind=np.where(X[:, 0] > 0, "round", "flat"), gaps=np.where(X[:, 1] > 0.5, np.nan, X[:, 1])
)
LABELS = np.where(Y > 0.0, "high", "low")
SMALL = bkernn(n_particles=8, max_iter=4, ridge=0.01)


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blend = {"members": ["linear"], "n_folds": 2, "progress": False}
        return {
            "regression": gpukfl.fit(FRAME[:INSIDE], pd.Series(Y[:INSIDE], name="price"), **blend),
            "classes": gpukfl.fit(
                TABLE[:INSIDE].assign(kept=LABELS[:INSIDE]), "kept", method="bkernn", **SMALL
            ),
            "targets": gpukfl.fit(
                X[:INSIDE], np.stack([Y, X[:, 2]], axis=1)[:INSIDE], method="bkernn", **SMALL
            ),
        }


def page_of(model, path, **options):
    model.report(path / "r.html", **options)
    return (path / "r.html").read_text(encoding="utf-8")


def compared(model, y, rows, *, known=True):
    """Scores of a model and of simple ones, by their names."""
    table = FRAME if model.table is None else TABLE
    from gpukfl.inference._held_out import evaluate_held_out

    given = (table[:INSIDE], y[:INSIDE]) if known else None
    told = evaluate_held_out(
        model, model.describe(), (table[rows], y[rows]), given, with_bands=False
    )
    return {row.name: row for row in told.comparison.rows}, told


def test_scores_on_rows_that_were_held_out_are_scikit_learns(models):
    rows = slice(INSIDE, None)
    found, told = compared(models["regression"], Y, rows)
    assert list(found) == ["the mean", "linear model", "boosted trees", "Blend of models"]
    predicted = models["regression"].predict(FRAME[rows])
    own = found["Blend of models"]
    assert own.score == pytest.approx(r2_score(Y[rows], predicted))
    assert own.more["MAE"] == pytest.approx(np.abs(Y[rows] - predicted).mean())
    linear = make_pipeline(StandardScaler(), RidgeCV([10.0**k for k in range(-4, 5)]))
    linear.fit(X[:INSIDE], Y[:INSIDE])
    expected = r2_score(Y[rows], linear.predict(X[rows]))
    assert found["linear model"].score == pytest.approx(expected)
    assert [panel.name for panel in told.panels][-2:] == ["predictions", "residuals"]
    assert told.panels[-2].intervals.shape == (N - INSIDE, 1, 2)
    assert told.comparison.n_rows == N - INSIDE


def test_the_gap_to_the_best_simple_model_has_the_error_of_paired_losses(models):
    rows = slice(INSIDE, None)
    found, told = compared(models["regression"], Y, rows, known=False)
    y, predicted = Y[rows], models["regression"].predict(FRAME[rows])
    constant = (y - y.mean()) ** 2
    gap = found["Blend of models"].score
    # The ratio of two means, by the delta method
    influence = ((y - predicted) ** 2 - (1.0 - gap) * constant) / constant.mean()
    error = np.std(influence, ddof=1) / np.sqrt(len(y))
    (said,) = [one for one in told.comparison.remarks if one.startswith("The model's R² is")]
    value, shown = re.search(r"is (\S+) ± (\S+) above that of the mean", said).groups()
    assert float(value) == pytest.approx(gap, abs=6e-4)
    assert float(shown) == pytest.approx(error, rel=0.03)
    assert said.endswith("more than two standard errors.")
    assert found["the mean"].more["RMSE"] == pytest.approx(np.std(y))


def test_classes_of_a_table_are_compared_by_the_log_loss(models):
    rows = slice(INSIDE, None)
    found, told = compared(models["classes"], LABELS, rows)
    proba = models["classes"].predict_proba(TABLE[rows])
    least = log_loss(LABELS[rows] == "low", np.full(N - INSIDE, np.mean(LABELS[rows] == "low")))
    own = found["BKerNNClassifier"]
    assert own.score == pytest.approx(1.0 - log_loss(LABELS[rows], proba) / least)
    expected = accuracy_score(LABELS[rows], models["classes"].predict(TABLE[rows]))
    assert own.more["accuracy"] == pytest.approx(expected)
    assert found["linear model"].score > 0.2
    assert found["boosted trees"].score > 0.2
    assert told.panel(Reliability).outputs == ("high", "low")
    plain = LogisticRegression(max_iter=300).fit(X[:INSIDE], LABELS[:INSIDE])
    assert found["linear model"].more["accuracy"] == pytest.approx(
        plain.score(X[rows], LABELS[rows]), abs=0.15
    )


def test_several_targets_are_judged_together(models):
    both = np.stack([Y, X[:, 2]], axis=1)
    told = models["targets"].describe()
    from gpukfl.inference._held_out import evaluate_held_out

    rows = (X[INSIDE:], both[INSIDE:]), (X[:INSIDE], both[:INSIDE])
    told = evaluate_held_out(models["targets"], told, *rows, with_bands=False)
    own = told.comparison.rows[-1]
    expected = r2_score(both[INSIDE:], models["targets"].predict(X[INSIDE:]))
    assert own.score == pytest.approx(expected)
    assert len(told.comparison.rows) == 4
    assert told.data.target.startswith("y 0: ")
    assert "; y 1: " in told.data.target


def test_wide_tables_have_no_trees(models, monkeypatch):
    monkeypatch.setattr("gpukfl.inference._held_out._WIDE", 2)
    found, told = compared(models["regression"], Y, slice(INSIDE, None))
    assert list(found) == ["the mean", "linear model", "Blend of models"]
    assert "No boosted trees: there are more than 2 columns." in told.comparison.remarks


def test_labels_that_are_new_are_left_out_and_said(models):
    y = LABELS.copy()
    y[INSIDE:][:2] = "never seen"
    found, told = compared(models["classes"], y, slice(INSIDE, None), known=False)
    assert list(found) == ["the shares of the classes", "BKerNNClassifier"]
    assert "2 rows are dropped: the fit has not seen their classes." in told.comparison.remarks
    assert told.comparison.n_rows == N - INSIDE - 2


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"held_out": X}, TypeError, r"expected held_out to be a pair \(X, y\), got ndarray"),
        ({"held_out": (FRAME, Y[:5])}, ValueError, "held_out with as many targets as rows"),
        ({"fitted_to": (FRAME[:0], Y[:0])}, ValueError, "."),
        ({"held_out": (FRAME, np.stack([Y, Y], 1))}, ValueError, "held_out with 1 targets?, got 2"),
        ({"held_out": (FRAME, "nowhere")}, ValueError, "expected y to name one column"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(models, tmp_path, options, error, match):
    with pytest.raises(error, match=match):
        models["regression"].report(tmp_path / "r.html", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_pictures")
def test_the_data_are_described(models, tmp_path):
    told = models["classes"].describe().data
    kinds = {column.name: column for column in told.columns}
    assert kinds["kind"].kind == "category, 2 levels"
    assert kinds["kind"].said == "round, flat"
    assert kinds["gaps"].gaps == pytest.approx(np.isnan(TABLE["gaps"][:INSIDE]).mean())
    assert kinds["width"].kind == "number"
    page = page_of(models["classes"], tmp_path, fitted_to=(TABLE[:INSIDE], LABELS[:INSIDE]))
    assert f"{X[:INSIDE, 0].min():.4g} to {X[:INSIDE, 0].max():.4g}" in page
    share = np.mean(LABELS[:INSIDE] == "high")
    assert f"high {share:.1%}, low {1 - share:.1%}" in page
    assert "<i>" not in page
    blend = models["regression"].describe().data
    assert f"{np.median(X[:INSIDE, 1]):.4g}" in blend.columns[1].said
    assert f"mean {Y[:INSIDE].mean():.4g}" in blend.target


def test_the_call_has_the_weights_that_were_given():
    names = {"gpukfl": gpukfl, "X": X, "y": Y, "sample_weight": np.arange(1.0, N + 1.0)}
    given = {"method": "rkhs_weighting", "n_parameters": 20, "random_state": 0}
    model = gpukfl.fit(X, Y, sample_weight=names["sample_weight"], **given)
    exec(model.describe().call, names)
    np.testing.assert_array_equal(names["model"].predict(X), model.predict(X))
    assert "sample_weight" not in model.fit(X, Y).describe().call


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_call_fits_the_same_model_again(models, tmp_path):
    call = models["classes"].describe().call
    frame, kept = TABLE[:INSIDE], LABELS[:INSIDE]
    names = {"gpukfl": gpukfl, "X": frame, "y": kept}
    exec(call, names)
    again = names["model"]
    np.testing.assert_array_equal(
        again.predict_proba(TABLE), models["classes"].predict_proba(TABLE)
    )
    models["classes"].save(tmp_path / "m")
    assert gpukfl.load(tmp_path / "m").describe().call == call
    assert "members=['linear']" in models["regression"].describe().call
    told = models["classes"].estimator.describe().call
    assert told.startswith("from gpukfl import BKerNNClassifier\n")
    names = {"X": models["classes"].reader(frame), "y": kept}
    exec(told, names)
    np.testing.assert_array_equal(names["model"].W_, again.estimator.W_)


@pytest.mark.usefixtures("no_pictures")
def test_importances_of_a_blend_have_errors(models, tmp_path):
    estimator = models["regression"].estimator
    errors = estimator.feature_importances_error_
    assert errors.shape == (3,)
    assert (errors >= 0).all()
    assert errors[0] > 0
    assert errors[0] < estimator.feature_importances_[0]
    page = page_of(models["regression"], tmp_path)
    total = estimator.feature_importances_basis_.total
    assert f"<td>{total * errors[0]:.4f}</td>" in page
    models["regression"].save(tmp_path / "m")
    loaded = gpukfl.load(tmp_path / "m").estimator
    np.testing.assert_array_equal(loaded.feature_importances_error_, errors)


def test_a_model_of_an_older_file_has_no_errors(models, tmp_path):
    estimator = models["regression"].estimator.to_host()
    del estimator.feature_importances_error_
    assert estimator.describe().importances.errors is None


@pytest.mark.usefixtures("no_pictures")
def test_scores_of_new_rows_are_at_the_top(models, tmp_path):
    page = page_of(models["classes"], tmp_path, held_out=(TABLE[INSIDE:], LABELS[INSIDE:]))
    top = page.partition("<section>")[0]
    assert "Test: 60 held-out rows" in top
    assert re.search(r"<b>[\d.]+</b><span>± [\d.]+</span><small>accuracy", top)
    assert "they need the training rows" in page
    assert "No rows were held out" not in page
    assert "No rows were held out" in page_of(models["classes"], tmp_path)


@pytest.mark.parametrize("kind", ["regression", "classes", "targets"])
def test_notebooks_show_what_was_learned(models, kind):
    from sklearn import config_context

    model = models[kind]
    shown = model._repr_html_()
    assert model.target_name in shown
    assert "<i>" not in shown
    bundle = model.estimator._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model.estimator)
    assert "sk-estimator" in bundle["text/html"]
    assert 'class="gpukfl"' in bundle["text/html"]
    assert model.estimator._repr_html_().count('class="gpukfl"') == 1
    with config_context(display="text"):
        assert not hasattr(model.estimator, "_repr_html_")
        assert list(model.estimator._repr_mimebundle_()) == ["text/plain"]


def test_what_is_not_fitted_is_shown_as_scikit_learn_does(models):
    from sklearn.base import clone

    assert 'class="gpukfl"' not in clone(models["targets"].estimator)._repr_html_()
    assert (
        clone(models["targets"])._repr_html_() == "<pre>Model(bkernn, regression, not fitted)</pre>"
    )


def test_pictures_of_held_out_rows_have_the_names_of_the_targets():
    both = pd.DataFrame({"height": Y, "width": np.cos(3.0 * X[:, 2])})
    blend = {"members": ["linear"], "n_folds": 2, "progress": False}
    model = gpukfl.fit(FRAME[:INSIDE], both[:INSIDE], **blend)
    _, told = compared(model, both[["width", "height"]], slice(INSIDE, N), known=False)
    for panel in (told.panel(Predictions), told.panel(ResidualPlot)):
        assert panel.outputs == ("height", "width")
        np.testing.assert_array_equal(panel.truth, both[INSIDE:])


# ---------------------------------------------------------------------- errors that are shown

TWINS = np.column_stack([X, X[:, 1]])  # of which the last is another's copy


@pytest.fixture(scope="module")
def single():
    options = {"method": "hkrr", "n_components": 1, "ridge": 1e-3, "progress": False}
    return gpukfl.fit(TWINS[:INSIDE], Y[:INSIDE], **options)


def shown(model, held_out, fitted_to, *, with_bands=True):
    return add_error_panels(model, model.describe(), held_out, fitted_to, with_bands=with_bands)


def test_importances_have_errors_of_rows_held_out(single):
    new = TWINS[INSIDE:], Y[INSIDE:]
    told = shown(single, new, None, with_bands=False)
    assert told.importances is told.panel(Importances) is not told.panel(HeldOutImportances)
    found = told.panel(HeldOutImportances)
    assert found.values.sum() == pytest.approx(1.0)
    assert found.values[1] == found.values[3]
    assert found.values[2] < 0.05
    assert found.errors[1] > 0
    assert found.remark == "± one standard error of 60 held-out rows; shuffled together: {x1, x3}"
    order = np.random.RandomState(0)
    again = shown(single, new, None, with_bands=False).panel(HeldOutImportances)
    np.testing.assert_array_equal(again.values, found.values)
    gains = []
    for _ in range(200):
        rows = TWINS[INSIDE:].copy()
        rows[:, [1, 3]] = order.permutation(rows[:, [1, 3]])
        gains.append((single.predict(rows) - Y[INSIDE:]) ** 2)
    gain = np.mean(gains, axis=0) - (single.predict(TWINS[INSIDE:]) - Y[INSIDE:]) ** 2
    ratio = gain.std() / np.sqrt(len(gain)) / gain.mean()
    assert found.errors[1] / found.values[1] == pytest.approx(ratio, rel=0.3)


def test_curves_have_bands_of_halves_or_of_rows_held_out(single, monkeypatch):
    known, new = (TWINS[:INSIDE], Y[:INSIDE]), (TWINS[INSIDE:], Y[INSIDE:])
    told = shown(single, new, known)
    assert "two halves of the training rows" in told.note
    halves = told.panel(Bands)
    assert halves.basis == f"the learned kernel and {INSIDE} rows"
    monkeypatch.setattr("gpukfl.inference._held_out._HALVED", INSIDE - 1)
    told = shown(single, new, known)
    assert "the held-out rows" in told.note
    assert told.panel(Bands).basis == f"the learned kernel and {N - INSIDE} rows"
    few = shown(single, (TWINS[:10], Y[:10]), None)
    assert [one.name for one in few.panels][-1] == "held_out_importances"


def test_a_method_without_a_kernel_says_why_it_has_no_bands():
    model = gpukfl.fit(X[:60], Y[:60], method="rkhs_weighting", ridge=1e-2, progress=False)
    told = shown(model, None, (X[:60], Y[:60]))
    assert "this model has no kernel" in told.note
    assert told.panels[-1].name != "bands"


def test_the_report_shows_errors_and_what_they_are(single, tmp_path):
    known, new = (TWINS[:INSIDE], Y[:INSIDE]), (TWINS[INSIDE:], Y[INSIDE:])
    page = page_of(single, tmp_path, held_out=new, fitted_to=known)
    assert "held out importances" in page
    assert "one standard error of 60 held-out rows; shuffled together: {x1, x3}" in page
    assert "curves with bands" in page
    assert "Bands cover the whole curve" in page


def test_a_blend_says_what_is_shuffled_together(tmp_path):
    blend = gpukfl.fit(TWINS[:INSIDE], Y[:INSIDE], members=["linear"], n_folds=2, progress=False)
    remark = f"± one standard error of {INSIDE} rows, by cross-validation"
    assert blend.describe().importances.remark == remark
    joined = "x1 + x3"
    assert joined in [label.get_text() for label in blend.plot("importances").get_yticklabels()]
    page = page_of(blend, tmp_path)
    assert f"{remark}." in page
    assert f"{joined} (shuffled together)" in page
