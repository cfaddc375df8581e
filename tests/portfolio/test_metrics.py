"""What weighs a blend on request, and what its models score on given rows."""

import numpy as np
import pandas as pd
import pytest
from portfolio_cases import TWO, N, X, Y, classifier, regressor, weights
from sklearn import metrics as of

import gpukfl
from gpukfl.portfolio._metrics import METRICS, find_metric

RNG = np.random.default_rng(3)
THREE = np.array(["low", "mid", "high"])[np.digitize(Y, np.quantile(Y, (0.3, 0.7)))]
W = RNG.uniform(0.2, 2.0, N)
NAMED = ["linear", "laplace"]


def predictions(rows, k):
    """Return indicators and probabilities of classes, some of which are equal."""
    codes = np.r_[np.arange(k), RNG.integers(0, k, rows - k)]
    proba = np.round(RNG.dirichlet(np.ones(k), rows) + 2.0 * np.eye(k)[codes], 1) + 0.05
    return np.eye(k)[codes], proba / proba.sum(axis=1, keepdims=True)


def sklearn_value(name, truth, predicted, w):
    """Return what scikit-learn says of the same predictions."""
    if name in ("r2", "rmse", "mae"):
        ask = {
            "r2": of.r2_score,
            "rmse": of.root_mean_squared_error,
            "mae": of.mean_absolute_error,
        }[name]
        return ask(truth, predicted, sample_weight=w)
    codes, two = truth.argmax(axis=1), truth.shape[1] == 2
    if name in ("accuracy", "balanced_accuracy"):
        return getattr(of, f"{name}_score")(codes, predicted.argmax(axis=1), sample_weight=w)
    proba = predicted[:, 1] if two and name != "log_loss" else predicted
    if name == "roc_auc":
        return of.roc_auc_score(codes, proba, sample_weight=w, multi_class="ovr")
    ask = {"log_loss": of.log_loss, "brier": of.brier_score_loss}[name]
    return ask(codes, proba, sample_weight=w)


# ---------------------------------------------------------------------- definitions


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", sorted(METRICS))
def test_metrics_are_those_of_scikit_learn(name, k):
    metric, w = METRICS[name], RNG.uniform(0.1, 3.0, 60)
    truth, predicted = predictions(60, k)
    if metric.task == "regression":
        truth, predicted = RNG.standard_normal((2, 60, k))
    expected = sklearn_value(name, truth, predicted, w)
    assert metric.value(truth, predicted, w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_areas_of_many_predictions_are_those_of_scikit_learn(k, weighted):
    metric, w = METRICS["roc_auc"], np.ones(300)
    if weighted:
        w = RNG.uniform(0.0, 3.0, 300) * (RNG.random(300) > 0.2)
    truth, predicted = predictions(300, k)
    area = metric.evaluator(truth, w)
    for digits in (15, 2, 1, 0):  # with more and more ties
        told = predicted.round(digits) + 0.0
        told[:, 0] += 1.0 - told.sum(axis=1)
        value = sklearn_value("roc_auc", truth, told, w)
        assert area(told) == pytest.approx(value, abs=1e-12)
        assert metric.value(truth, told, w) == pytest.approx(value, abs=1e-12)
    assert np.isnan(metric.evaluator(np.eye(k)[np.zeros(300, dtype=int)], w)(predicted))


@pytest.mark.parametrize("name", [*sorted(METRICS), "f1_macro", "neg_median_absolute_error"])
def test_standard_errors_are_those_of_drawn_rows(name):
    rng = np.random.default_rng(0)
    metric = METRICS.get(name) or find_metric(name, classes=name.startswith("f1"))
    truth, predicted = predictions(400, 3)
    if metric.task == "regression":
        truth = rng.standard_normal((400, 1))
        predicted = 0.8 * truth + 0.6 * rng.standard_normal((400, 1))
    w = rng.uniform(0.5, 1.5, 400)
    drawn = [rng.integers(0, 400, 400) for _ in range(200)]
    told = [metric.value(truth[rows], predicted[rows], w[rows]) for rows in drawn]
    _, error = metric.evaluate(truth, predicted, w)
    assert error == pytest.approx(np.std(told), rel=0.3)


@pytest.mark.parametrize("name", ["rmse", "neg_root_mean_squared_error"])
def test_rows_of_a_group_count_as_one(name):
    metric, copies = find_metric(name, classes=False), 4
    truth, predicted = RNG.standard_normal((2, 50, 1))
    alone = metric.evaluate(truth, predicted, np.ones(50))[1]
    many = np.repeat(truth, copies, 0), np.repeat(predicted, copies, 0), np.ones(50 * copies)
    grouped = metric.evaluate(*many, np.repeat(np.arange(50), copies))[1]
    assert grouped == pytest.approx(alone, rel=0.3)
    assert metric.evaluate(*many)[1] < 0.7 * alone


# ---------------------------------------------------------------------- blends


def test_r2_weighs_as_the_squared_error_does():
    models = [regressor(members=NAMED, metric=name).fit(X, Y) for name in ("auto", "r2")]
    assert weights(models[0]) == pytest.approx(weights(models[1]))
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X))


@pytest.mark.parametrize("name", ["mae", "neg_median_absolute_error", "neg_max_error"])
def test_a_metric_of_a_regression_leads_the_leaderboard(name):
    plain = regressor(members=NAMED).fit(X, Y)
    model = regressor(members=NAMED, metric=name).fit(X, Y)
    board, kept = model.leaderboard(), model.out_of_fold_
    metric = find_metric(name, classes=False)
    assert list(board.columns[:4]) == ["member", "model", name, "standard_error"]
    own = metric.value(kept.truth, kept.predicted, kept.weights)
    assert board.set_index("member").loc["blend", name] == pytest.approx(own)
    losses = [metric.loss(value) for value in board[name]]
    assert losses == sorted(losses)
    other = metric.value(kept.truth, plain.out_of_fold_.predicted, kept.weights)
    assert metric.loss(own) <= 1.05 * metric.loss(other)
    assert "score" in board


@pytest.mark.parametrize("labels", [TWO, THREE])
@pytest.mark.parametrize("name", ["roc_auc", "accuracy", "balanced_accuracy", "brier", "f1_macro"])
def test_a_metric_of_classes_is_that_of_held_out_probabilities(name, labels):
    model = classifier(members=NAMED, metric=name).fit(X, labels, sample_weight=W)
    kept, board = model.out_of_fold_, model.leaderboard().set_index("member")
    if name in METRICS:
        expected = sklearn_value(name, kept.truth, kept.predicted, kept.weights)
    else:
        codes, said = kept.truth.argmax(axis=1), kept.predicted.argmax(axis=1)
        expected = of.f1_score(codes, said, average="macro", sample_weight=kept.weights)
    assert board.loc["blend", name] == pytest.approx(expected)
    assert 0.0 < sum(weights(model).values()) <= 1.0 + 1e-12


def test_ties_of_a_metric_go_to_the_smaller_loss():
    sure = np.where(TWO, 1, 0)
    model = classifier(members=NAMED, metric="accuracy").fit(X, sure)
    plain = classifier(members=NAMED).fit(X, sure)
    found = model.leaderboard().set_index("member")
    other = plain.out_of_fold_.predicted.argmax(axis=1) == plain.out_of_fold_.truth.argmax(axis=1)
    assert found.loc["blend", "accuracy"] >= other.mean() - 1.0 / N
    best = found.drop(index=["blend", "trees"])["log_loss"].min()
    assert found.loc["blend", "log_loss"] < 1.5 * best


def test_a_metric_survives_a_file(tmp_path):
    model = gpukfl.fit(X, Y, members=NAMED, metric="mae", effort="quick", n_folds=3)
    assert "metric='mae'" in gpukfl._call.call_text(model)
    model.save(tmp_path / "model.gpukfl")
    loaded = gpukfl.load(tmp_path / "model.gpukfl")
    pd.testing.assert_frame_equal(loaded.leaderboard(), model.leaderboard())
    pd.testing.assert_frame_equal(loaded.leaderboard(X, Y), model.leaderboard(X, Y))


def test_a_metric_that_no_member_has_leaves_the_weights_to_the_loss():
    positive = np.exp(3.0 * Y)
    with pytest.warns(UserWarning, match="is not finite for any model"):
        model = regressor(
            members=["linear"], metric="neg_mean_gamma_deviance", target_transform=None
        ).fit(X, positive)
    assert weights(model) == {"linear": 1.0}
    assert model.leaderboard()["neg_mean_gamma_deviance"].isna().all()


@pytest.mark.parametrize(
    ("make", "y", "name", "match"),
    [
        (regressor, Y, "accuracy", "for a regression, got 'accuracy', which is for a class"),
        (classifier, TWO, "rmse", "got 'rmse', which is for a regression"),
        (classifier, TWO, "neg_mean_squared_error", "which is for a regression"),
        (classifier, TWO, "acuracy", "Did you mean 'accuracy'"),
        (classifier, THREE, "f1", "a metric for this target, got 'f1': Target is multiclass"),
        (regressor, np.c_[Y, Y], "neg_max_error", "a metric for this target"),
        (regressor, Y, "neg_max_error", "takes no sample weights"),
        (regressor, Y - 5.0, "neg_mean_squared_log_error", "a metric for this target"),
    ],
)
def test_a_metric_that_cannot_judge_is_an_error_before_a_fit(monkeypatch, make, y, name, match):
    monkeypatch.setattr("gpukfl.portfolio._base.MemberTrainer", None)
    with pytest.raises(ValueError, match=match):
        make(members=NAMED, metric=name).fit(X, y, sample_weight=W)


def test_a_metric_is_a_name_of_a_blend():
    with pytest.raises(TypeError, match=r"expected metric to be 'auto'.* got None"):
        regressor(metric=None).fit(X, Y)
    with pytest.raises(TypeError, match=r"members=\['bkernn'\] instead of method='bkernn'"):
        gpukfl.fit(X, Y, method="bkernn", metric="mae")


# ---------------------------------------------------------------------- given rows


@pytest.mark.parametrize("labels", [None, TWO, THREE])
def test_models_are_scored_on_given_rows(labels):
    new = np.random.default_rng(8).permutation(X)[:40] + 0.01
    make, y = (regressor, Y) if labels is None else (classifier, labels)
    model = make(members=NAMED).fit(X, y)
    truth = y[:40]
    board = model.leaderboard(new, truth, W[:40]).set_index("member")
    assert set(board.index) == {"blend", *weights(model)}
    assert board["weight"].drop("blend").to_dict() == weights(model)
    indicators = truth[:, None] if labels is None else truth[:, None] == model.classes_
    said = model.predict(new)[:, None] if labels is None else model.predict_proba(new)
    for metric in METRICS.values():
        if (metric.task == "regression") == (labels is None):
            expected = sklearn_value(metric.name, indicators.astype(float), said, W[:40])
            assert board.loc["blend", metric.name] == pytest.approx(expected)
            assert board[f"{metric.name}_error"].min() >= 0
    first = "r2" if labels is None else "log_loss"
    values = board[first].to_list()
    assert values == sorted(values, reverse=labels is None)


def test_a_member_alone_is_scored_as_its_own_models_predict():
    model = regressor(members=NAMED).fit(X, Y)
    board = model.leaderboard(X, Y).set_index("member")
    for one in model.members_:
        said = np.mean([each.predict(X) for each in one.models], axis=0)
        assert board.loc[one.name, "r2"] == pytest.approx(of.r2_score(Y, said), rel=1e-6)


def test_a_table_and_a_single_method_are_scored():
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    frame["kind"], frame["y"] = np.where(TWO, "a", "b"), Y
    model = gpukfl.fit(frame, "y", members=NAMED, effort="quick", n_folds=2)
    found = model.leaderboard(frame, "y").set_index("member")
    assert found.loc["blend", "r2"] == pytest.approx(model.score(frame, "y"))
    single = gpukfl.fit(frame, "y", method="selection", ridge=1e-3)
    board = single.leaderboard(frame, "y")
    assert list(board["member"]) == ["selection"]
    assert board["r2"][0] == pytest.approx(single.score(frame, "y"))
    with pytest.raises(TypeError, match="leaderboard is for blends"):
        single.leaderboard()


def test_rows_of_torch_are_scored_as_others(torch):
    model = regressor(members=NAMED).fit(torch.asarray(X), torch.asarray(Y))
    board = model.leaderboard(torch.asarray(X), torch.asarray(Y))
    plain = regressor(members=NAMED).fit(X, Y).leaderboard(X, Y)
    assert list(board["member"]) == list(plain["member"])
    np.testing.assert_allclose(board["r2"], plain["r2"], rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ((X, None), "got no y"),
        ((None, TWO), "got no X"),
        ((X, TWO[:9]), "as many targets as rows, got 9"),
        ((X, np.where(TWO, 5, 6)), "expected classes of the fit"),
        ((X, TWO, -W), "sample_weight"),
    ],
)
def test_rows_that_cannot_be_scored_are_an_error(given, match):
    model = classifier(members=["linear"]).fit(X, TWO.astype(int))
    with pytest.raises(ValueError, match=match):
        model.leaderboard(*given)
