"""Scores with their standard errors: those of scikit-learn, of samples of rows and of groups."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    d2_tweedie_score,
    log_loss,
    mean_absolute_error,
    mean_poisson_deviance,
    r2_score,
    roc_auc_score,
)

from gpukfl.inspection._measures import (
    Score,
    Scored,
    agreement_text,
    measure_classes,
    measure_regression,
)
from gpukfl.losses import Poisson

RNG = np.random.default_rng(0)


def regression(n, rng=RNG):
    y = rng.standard_normal((n, 1))
    return y, y + 0.5 * y * rng.standard_normal((n, 1))


def classes(n, rng=RNG, k=3):
    codes = rng.integers(0, k, n)
    raw = rng.standard_normal((n, k)) + 1.2 * np.eye(k)[codes]
    shares = np.exp(raw)
    return np.eye(k)[codes], shares / shares.sum(axis=1, keepdims=True)


def values(scores):
    return {one.name: one.value for one in scores}


def test_scores_are_scikit_learns():
    w = RNG.uniform(0.5, 2.0, 80)
    truth, predicted = regression(80)
    found = values(measure_regression(truth, predicted, w))
    assert found["R²"] == pytest.approx(r2_score(truth, predicted, sample_weight=w))
    expected = mean_absolute_error(truth, predicted, sample_weight=w)
    assert found["MAE"] == pytest.approx(expected)
    several = np.concatenate([truth, 3.0 * truth[::-1]], axis=1)
    off = several + RNG.standard_normal(several.shape)
    assert values(measure_regression(several, off)) == pytest.approx({"R²": r2_score(several, off)})
    counts, means = RNG.poisson(3.0, (80, 1)) + 0.0, RNG.uniform(1.0, 5.0, (80, 1))
    found = values(measure_regression(counts, means, w, loss=Poisson()))
    expected = d2_tweedie_score(counts[:, 0], means[:, 0], sample_weight=w, power=1)
    assert found["D² of the Poisson deviance"] == pytest.approx(expected)
    expected = mean_poisson_deviance(counts[:, 0], means[:, 0], sample_weight=w)
    assert found["mean Poisson deviance"] == pytest.approx(expected)
    truth, shares = classes(80)
    codes, found = truth.argmax(axis=1), values(measure_classes(truth, shares, w))
    expected = accuracy_score(codes, shares.argmax(axis=1), sample_weight=w)
    assert found["accuracy"] == pytest.approx(expected)
    assert found["log loss"] == pytest.approx(log_loss(codes, shares, sample_weight=w))
    areas = [roc_auc_score(truth[:, k], shares[:, k], sample_weight=w) for k in range(3)]
    assert found["ROC AUC"] == pytest.approx(np.mean(areas))


@pytest.mark.parametrize("kind", [measure_regression, measure_classes])
def test_errors_are_those_of_samples_of_rows(kind):
    draw = regression if kind is measure_regression else classes
    rng = np.random.default_rng(1)
    drawn = [kind(*draw(300, rng)) for _ in range(400)]
    for k, one in enumerate(drawn[0]):
        spread = np.std([scores[k].value for scores in drawn])
        said = np.median([scores[k].error for scores in drawn])
        assert said == pytest.approx(spread, rel=0.25), one.name


@pytest.mark.parametrize("kind", [measure_regression, measure_classes])
def test_rows_that_come_in_groups_say_as_much_as_one_of_each(kind):
    truth, predicted = (regression if kind is measure_regression else classes)(60)
    alone = kind(truth, predicted)
    copies = [np.repeat(part, 5, axis=0) for part in (truth, predicted)]
    grouped = kind(*copies, None, np.repeat(np.arange(60), 5))
    for one, other in zip(alone, grouped, strict=True):
        assert (other.value, other.error) == pytest.approx((one.value, one.error))
        assert kind(*copies)[0].error < 0.5 * alone[0].error


def test_scores_agree_or_differ_by_more_than_their_errors():
    def scored(of, value, error):
        return Scored(of, "rows", (Score("R²", value, error),))

    fit = scored("cross-validated", 0.552, 0.03)
    said = agreement_text(fit, scored("test", 0.32, 0.095))
    assert "0.232 ± 0.100, more than two standard errors" in said
    assert "harder" in said
    assert "it may be chance" in agreement_text(fit, scored("test", 0.5, 0.095))
    assert "too few rows" in agreement_text(fit, scored("test", 0.5, np.nan))
    assert agreement_text(fit, Scored("test", "rows", (Score("accuracy", 0.5, 0.1),))) == ""


def test_one_row_has_no_r2():
    truth, predicted = regression(1)
    assert "R²" not in values(measure_regression(truth, predicted))
