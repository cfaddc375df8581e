"""Pictures of classes on held-out rows, against what scikit-learn says."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

import gpukfl
from gpukfl.inspection import (
    Confusion,
    Description,
    RocCurves,
    plot_confusion,
    plot_roc_curves,
)

N = 300


def held_out(rng, k, *, weighted=True):
    """Return what panels are made of: probabilities with ties, codes, names and weights."""
    codes = np.r_[np.arange(k), rng.integers(0, k, N - k)]
    proba = np.round(rng.dirichlet(np.ones(k), N) + np.eye(k)[codes], 1) + 0.01
    names = tuple(f"class {c}" for c in range(k))
    weights = rng.uniform(0.2, 3.0, N) if weighted else None
    return proba / proba.sum(axis=1, keepdims=True), codes, names, weights


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3, 8])
def test_curves_and_areas_are_scikit_learns(rng, k, weighted):
    given = held_out(rng, k, weighted=weighted)
    panel, (proba, codes, _, w) = RocCurves(*given), given
    assert panel.classes == ([1] if k == 2 else list(range(k)))
    for c in panel.classes:
        own = codes == c
        area = roc_auc_score(own, proba[:, c], sample_weight=w)
        assert panel.area(c) == pytest.approx(area)
        expected = roc_curve(own, proba[:, c], sample_weight=w, drop_intermediate=False)
        np.testing.assert_allclose(panel.curve(c), expected[:2], atol=1e-12)
    assert f"{panel.area(panel.classes[0]):.3f}" in panel.words


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 5])
def test_the_matrix_is_scikit_learns(rng, k, weighted):
    given = held_out(rng, k, weighted=weighted)
    proba, codes, _, w = given
    expected = confusion_matrix(codes, proba.argmax(axis=1), sample_weight=w)
    np.testing.assert_allclose(Confusion(*given).matrix, expected)


@pytest.mark.parametrize("k", [2, 3, 30])
def test_pictures_name_classes(rng, k):
    of = held_out(rng, k)
    d = Description(name="a model", panels=(RocCurves(*of), Confusion(*of)))
    axes = Figure().subplots(1, 2)
    plot_roc_curves(d, ax=axes[0])
    assert len(axes[0].lines) == 1 + min({2: 1}.get(k, k), 6)
    plot_confusion(d, ax=axes[1])
    assert len(axes[1].texts) == (k * k if k < 30 else 0)
    assert "class 0" in [text.get_text() for text in axes[1].get_yticklabels()]


def test_classes_that_are_not_held_out_have_no_curve(rng):
    proba, codes, names, _ = held_out(rng, 3)
    panel = RocCurves(proba, np.minimum(codes, 1), names)
    assert panel.classes == [0, 1]
    one = Description(name="a model", panels=(RocCurves(proba, np.zeros(N, int), names),))
    with pytest.raises(ValueError, match="of one class"):
        plot_roc_curves(one)


def test_a_blend_shows_its_held_out_rows(rng, tmp_path):
    X = rng.standard_normal((90, 2))
    y = np.array(["low", "mid", "top"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = gpukfl.fit(X, y, members=["linear"], n_folds=3)
    kept, scored = model.estimator.out_of_fold_, model.describe().scored[0]
    ax = Figure().subplots()
    assert model.plot("confusion", ax=ax) is ax
    area = roc_auc_score(kept.truth.argmax(axis=1), kept.predicted, multi_class="ovr")
    assert scored.find("ROC AUC").value == pytest.approx(area)
    model.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "ROC curve" in page
    assert "Confusion matrix" in page
