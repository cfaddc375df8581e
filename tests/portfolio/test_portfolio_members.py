"""Members of portfolios that fail, are asked for wrongly, take too long or are interrupted."""

import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from fit_cases import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from portfolio_cases import (
    QUICK,
    TWO,
    D,
    Failing,
    Infinite,
    Knowing,
    N,
    Nearly,
    Truth,
    Unsure,
    X,
    Y,
    classifier,
    notes,
    regressor,
    weights,
)
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl import BKerNNRegressor, KernelRidgeRegressor
from gpukfl.estimators._samples import Samples, relative_weights
from gpukfl.portfolio import AutoClassifier, AutoRegressor, Member, _budget, _standings, _train
from gpukfl.portfolio import _held_out_blend as _kept
from gpukfl.portfolio import _members as _candidates
from gpukfl.portfolio._folds import choose_n_folds
from gpukfl.portfolio._members import (
    EFFORTS,
    MemberCandidate,
    Task,
    _integer_weights,
    make_members,
)
from gpukfl.solvers import ProximalGradient

# ---------------------------------------------------------------------- members that fail


@pytest.mark.parametrize("bad", [Failing(), Infinite()])
def test_a_member_that_fails_is_left_out_and_named(bad):
    with pytest.warns(UserWarning, match="the blend drops broken: "):
        model = regressor(members=["linear", ("broken", bad)]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert notes(model)["broken"].startswith(("MemoryError: no room", "FloatingPointError"))


@pytest.mark.parametrize(
    ("make", "settled"),
    [
        (Truth, True),
        (Nearly, False),
        (Knowing, True),
        (lambda: Knowing(bound=0.97), False),  # of one row it is wrong
        (lambda: Knowing(sure=0.9), False),
    ],
)
def test_where_nothing_is_left_to_explain_no_member_is_begun(monkeypatch, make, settled):
    one, of_classes = make(), isinstance(make(), Knowing)
    rows = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    rows = [MemberCandidate("first", lambda _: one, lambda _: "quick"), *rows]
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    kind, y = (classifier, TWO) if of_classes else (regressor, Y)
    model = kind(members=None).fit(X, y)
    begun = "skipped: the blend is already as good as it can be"
    assert notes(model)["linear"] == (begun if settled else "")
    assert "linear" not in " ".join(model._describe_columns(None, "y").warnings)
    seconds = dict(zip(*(model.leaderboard()[key] for key in ("member", "seconds")), strict=True))
    assert (seconds["linear"] == 0.0) is settled
    monkeypatch.undo()
    named = kind(members=[("first", one), "linear"]).fit(X, y)
    assert notes(named)["linear"] == ""


def test_no_member_is_an_error_that_says_why():
    with (
        pytest.warns(UserWarning, match="the blend drops"),
        pytest.raises(RuntimeError, match=r"got none .*broken: MemoryError: no room"),
    ):
        regressor(members=[("broken", Failing())]).fit(X, Y)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("forest", "got 'forest'"),
        (["forest"], "got 'forest'"),
        ([], r"got \[\]"),
        ([3], "got 3"),
        ([Unsure()], "expected members to be regressors, got Unsure"),
        (["linear", "linear"], "a different name for each of members, got linear, linear"),
        ([("a", "linear"), ("a", "laplace")], "a different name for each of members, got a, a"),
        ([("blend", Ridge())], "a name in members other than blend and trees, got 'blend'"),
        ([("trees", Ridge())], "a name in members other than blend and trees, got 'trees'"),
        ([(3, Ridge())], "a name in members other than blend and trees, got 3"),
    ],
)
def test_members_that_are_none_are_named(members, expected):
    with pytest.raises(ValueError, match=expected):
        regressor(members=members).fit(X, Y)


class Duck:
    """What other libraries have, without a class of scikit-learn among its own."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def get_params(self, deep=True):
        return {"alpha": self.alpha}

    def set_params(self, alpha):
        self.alpha = alpha
        return self

    def fit(self, X, y):
        self.inner_ = Ridge(self.alpha).fit(X, y)
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def __sklearn_tags__(self):
        return Ridge().__sklearn_tags__()


def test_members_need_no_class_of_scikit_learn():
    model = regressor(members=[("duck", Duck()), ("ridge", Ridge())]).fit(X, Y)
    scores = model.leaderboard().set_index("member")["score"]
    assert scores["duck"] == pytest.approx(scores["ridge"], rel=1e-12)


@pytest.mark.parametrize("bad", [Ridge, Duck, object()])
def test_classes_and_other_objects_are_no_members(bad):
    with pytest.raises(ValueError, match="estimators with fit, get_params"):
        regressor(members=["linear", bad]).fit(X, Y)


def test_members_of_ours_may_have_another_name():
    model = regressor(members=[("lines", "linear"), "laplace"]).fit(X, Y)
    assert set(notes(model)) == {"lines", "laplace", "trees", "blend"}
    plain = regressor(members=["linear", "laplace"]).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@pytest.mark.parametrize(
    "option", [{"effort": "much"}, {"n_folds": 0}, {"refit": 2}, {"max_time": -1}]
)
def test_bad_parameters_are_named(option):
    with pytest.raises((TypeError, ValueError), match=f"expected {next(iter(option))} to be"):
        regressor(**option).fit(X, Y)


# ---------------------------------------------------------------------- time


@pytest.fixture
def asleep(monkeypatch):
    """A clock that nothing but sleep moves much, so that no processor is too slow or too fast."""
    clock = Clock(1e-6)

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr("time.sleep", sleep)


class Slow(Ridge):
    """Takes its time, so long in any case and so long for each row; remembers the rows."""

    sizes: list = []  # noqa: RUF012

    def __init__(self, seconds=0.0, each=0.0):
        super().__init__()
        self.seconds, self.each = seconds, each

    def fit(self, X, y, sample_weight=None):
        self.n_rows_ = len(X)
        self.sizes.append(len(X))
        time.sleep(self.seconds + self.each * len(X))
        return super().fit(X, y)


@pytest.mark.usefixtures("asleep")
def test_what_is_too_slow_is_not_begun():
    with pytest.warns(ConvergenceWarning, match="time limit|max_time|stopped"):
        model = regressor(members=["linear", ("slow", Slow(0.5))], max_time=0.2).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert "too slow" in notes(model)["slow"]
    assert model.status_ == "TIME_LIMIT"


@pytest.mark.usefixtures("asleep")
def test_of_many_rows_some_are_fitted_where_time_is_short(monkeypatch):
    monkeypatch.setattr(_budget, "_MIN_PROBE", 3)
    with pytest.warns(ConvergenceWarning):
        model = regressor(members=[("slow", Slow(each=2e-3))], n_folds=3, max_time=1.0).fit(X, Y)
    board = model.leaderboard().set_index("member")
    fitted = {one.n_rows_ for one in model.members_[0].models}
    assert max(fitted) < 60
    assert board.loc["slow", "note"] == f"scored by fits to {max(fitted)} rows, as time was short"
    assert model.status_ == "TIME_LIMIT"


@pytest.mark.parametrize(
    ("n", "max_time", "n_folds"),
    [
        *[(199, None, 8), (200, None, 5), (400, 4.1, 5), (400, 3.9, 3), (1_999, 19.9, 3)],
        *[(2_000, None, 5), (2_000, 10.1, 5), (2_000, 9.9, 1), (20_000, None, 1)],
    ],
)
def test_folds_are_fewer_where_time_is_short(n, max_time, n_folds):
    assert choose_n_folds(n, 1, max_time) == n_folds


@pytest.mark.parametrize(
    ("n", "d", "max_time", "n_folds"),
    [(400, 3_000, None, 5), (400, 3_000, 41.0, 5), (400, 3_000, 10.0, 3), (400, 3_000, 3.0, 2)],
)
def test_rows_of_many_columns_have_fewer_folds(n, d, max_time, n_folds):
    assert choose_n_folds(n, d, max_time) == n_folds


@pytest.mark.parametrize(
    ("n", "max_time", "n_folds"),
    [
        *[(199, None, 4), (200, None, 3), (999, None, 3), (400, 3.9, 3)],
        *[(1_000, None, 2), (20_000, None, 1)],
    ],
)
def test_folds_are_fewer_where_it_is_quick(n, max_time, n_folds):
    assert choose_n_folds(n, 1, max_time, effort="quick") == n_folds


@pytest.mark.parametrize(("n", "n_folds"), [(400, 8), (1_999, 8), (2_000, 5), (20_000, 1)])
def test_folds_are_more_where_it_is_thorough(n, n_folds):
    assert choose_n_folds(n, effort="thorough") == n_folds


def test_members_that_time_cuts_off_are_said(monkeypatch):
    limited = BKerNNRegressor(5, optimizer=ProximalGradient(max_iter=10**6, tol=0.0))
    monkeypatch.setattr("time.perf_counter", Clock(0.01))  # no processor is too fast
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model = regressor(members=[("slow", limited)], n_folds=2, max_time=1.0).fit(X, Y)
    assert model.status_ == "TIME_LIMIT"
    assert {one.status_ for one in model.members_[0].models} == {"TIME_LIMIT"}


@pytest.mark.usefixtures("asleep")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_time_to_fit_all_samples_the_models_of_the_folds_stay(rng):
    rows = rng.standard_normal((8_000, 2))
    asked = {"members": [("slow", Slow(each=1e-3))], "n_folds": 1, "refit": True, "max_time": 2.0}
    with pytest.warns(UserWarning, match="no time to refit"):
        model = regressor(**asked).fit(rows, rows[:, 0])
    assert not model.whole_
    assert model.members_[0].models[0].n_rows_ < 3_000


@pytest.mark.usefixtures("asleep")
def test_rows_that_say_how_long_all_take_are_fitted_once(rng, monkeypatch):
    rows = rng.standard_normal((8_000, 2))
    made = [
        MemberCandidate(name, lambda _: Slow(0.5), lambda _: "quick") for name in ("slow", "late")
    ]
    monkeypatch.setattr(_candidates, "CANDIDATES", (_candidates.CANDIDATES[0], *made))
    Slow.sizes.clear()
    with pytest.warns(ConvergenceWarning):
        model = regressor(members=None, n_folds=1, max_time=0.6).fit(rows, np.sin(rows[:, 0]))
    assert Slow.sizes == [800]  # nor is another begun that would take as long
    assert notes(model)["slow"] == "scored by fits to 800 rows, as time was short"
    assert notes(model)["late"] == "skipped: would exceed max_time"


class Compiled(KernelRidgeRegressor):
    """Takes its time at first; remembers the rows."""

    sizes: list = []  # noqa: RUF012

    def fit_like(self, X, *given, **named):
        time.sleep(0.0 if self.sizes else 0.5)
        self.sizes.append(len(X))
        return super().fit_like(X, *given, **named)


@pytest.mark.usefixtures("asleep")
def test_a_first_fit_that_may_have_compiled_does_not_say_how_long_others_take(rng):
    rows = rng.standard_normal((8_000, 2))
    quick = Compiled(ridge=1e-3, lengthscale=1.0, n_centers=20, random_state=0)
    model = regressor(members=[("compiled", quick)], n_folds=1, refit=False, max_time=4.0)
    model.fit(rows, rows[:, 0])
    assert Compiled.sizes[0] < 800
    assert Compiled.sizes[-1] == 6_400
    assert notes(model)["compiled"] == ""


@pytest.mark.usefixtures("asleep")
def test_a_quick_member_that_is_named_is_begun_after_a_slow_one(rng):
    rows = rng.standard_normal((8_000, 2))
    members = [("slow", Slow(0.5)), "linear"]
    with pytest.warns(ConvergenceWarning):
        model = regressor(members=members, n_folds=1, max_time=0.9).fit(rows, rows[:, 0])
    assert "skipped" not in notes(model)["linear"]


def test_where_time_is_limited_those_that_take_many_rows_are_first():
    few, many = (
        Task(False, 1_999, 5, 1, 1_999, "auto", 0),
        Task(False, 4_000, 5, 1, 4_000, "auto", 0),
    )
    names = [[one.name for one in make_members(None, "normal", many, limited=on)] for on in (0, 1)]
    assert names[1][:4] == ["linear", "trees", "bkernn", "hkrr"]
    assert sorted(names[0]) == sorted(names[1])
    assert names[0] != names[1]
    small = [[one.name for one in make_members(None, "normal", few, limited=on)] for on in (0, 1)]
    assert small[0] == small[1]


@pytest.mark.slow
def test_rare_classes_are_among_the_rows_that_say_how_long_all_take(rng):
    rows, labels = rng.standard_normal((30_000, 2)), np.zeros(30_000, dtype=int)
    labels[rng.choice(len(rows), 60, replace=False)] = 1
    labels[rng.choice(len(rows), 14_000, replace=False)] = 2
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the blend drops")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*max_time leaves time for importances")
        for seed in range(2):
            options = {"members": ["trees"], "n_folds": 1, "max_time": 4.0, "random_state": seed}
            assert classifier(**options).fit(rows, labels).score(rows, labels) > 0.5


def test_what_is_named_is_tried_to_the_end(rng, monkeypatch):
    monkeypatch.setattr(_candidates, "_MANY_ROWS", 200)
    rows = rng.standard_normal((200, 2))
    members = ["linear", "trees", "deep_trees"]
    model = regressor(members=members, n_folds=2).fit(rows, rows[:, 0])
    assert notes(model) == dict.fromkeys([*members, "blend"], "")


def test_an_interruption_keeps_the_members_that_are_done(monkeypatch):
    interrupt(monkeypatch, _train.MemberTrainer, "_fit_within_budget", 1)
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = regressor(members=["linear", "laplace"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert model.status_ == "INTERRUPTED"
    assert notes(model)["laplace"] == "interrupted"


@pytest.mark.filterwarnings("ignore:feature importances use only")
@pytest.mark.parametrize(
    ("owner", "name"), [(_kept, "permutation_importances"), (AutoRegressor, "_set_uncertainty")]
)
def test_an_interruption_after_the_members_keeps_the_blend(monkeypatch, owner, name):
    expected = regressor().fit(X, Y).predict(X)
    interrupt(monkeypatch, owner, name, 0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(refit=True).fit(X, Y)  # then importances are computed in the fit
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.status_ == "INTERRUPTED"
    assert model.predict_interval(X).shape == (N, 2)
    assert model.feature_importances_.shape == (D,)


def test_an_interruption_between_members_and_weights_keeps_the_blend(monkeypatch):
    interrupt(monkeypatch, _standings, "blend_weights", 1)
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = regressor(members=["linear", "laplace"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert model.status_ == "INTERRUPTED"


def _struck(*_, **__):
    """Make another error of Ctrl-C, as C code does."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        msg = "not a valid buffer format"
        raise ValueError(msg) from error


def _struck_twice(*_, **__):
    """Make another error of one that was made of Ctrl-C, as Python does."""
    try:
        _struck()
    except ValueError:
        raise TypeError  # noqa: B904


@pytest.mark.parametrize("fit", [_struck, _struck_twice])
def test_an_error_that_was_made_of_an_interruption_is_one(monkeypatch, fit):
    monkeypatch.setattr(KNeighborsRegressor, "fit", fit)
    struck = "struck", KNeighborsRegressor()
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = regressor(members=["linear", struck, "laplace"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert (model.status_, notes(model)["struck"]) == ("INTERRUPTED", "interrupted")
    with pytest.raises(KeyboardInterrupt):
        regressor(members=[struck]).fit(X, Y)


def test_an_interruption_before_any_member_is_one(monkeypatch):
    interrupt(monkeypatch, _train.MemberTrainer, "_fit_within_budget", 0)
    with pytest.raises(KeyboardInterrupt):
        regressor().fit(X, Y)


def test_an_interruption_within_our_members_is_heard(monkeypatch):
    from gpukfl.estimators.bkernn._fit import BKerNNProblem

    interrupt(monkeypatch, BKerNNProblem, "fit", 2)
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = regressor(members=["linear", "bkernn"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}


def test_progress_tells_of_members_and_folds():
    from gpukfl.estimators._run import use_report

    said = []
    with use_report(lambda stage, *_: said.append(stage)):
        regressor(members=["linear", "bkernn"], n_folds=3).fit(X, Y)
    words = "Brownian kernel neural network (bkernn), fold 3 of 3 (blend "
    assert any(stage.startswith(words) and ", best linear " in stage for stage in said)


@pytest.mark.parametrize(
    ("classes", "n", "d", "standard", "quantile"),
    [
        (False, 400, 300, True, True),
        (False, 3_000, 5, True, True),
        (False, 3_001, 5, False, True),
        (False, 400, 301, False, False),
        (True, 400, 5, False, False),
    ],
)
def test_two_scales_take_the_place_of_one(classes, n, d, standard, quantile):
    task = Task(classes, n, d, 1 + classes, n // 2, "auto", 0)
    names = {effort: [one.name for one in make_members(None, effort, task)] for effort in EFFORTS}
    assert ("scales_quantile" in names["quick"]) == quantile
    assert ("evidence_quantile" in names["quick"]) == (not quantile)
    assert ("scales_standard" in names["normal"]) == standard
    for name in ("bkernn", "hkrr"):
        assert name in names["normal"]
        assert name not in names["quick"]
    assert "evidence_quantile" in names["thorough"]


def test_members_of_others_are_cloned():
    mine = LinearRegression()
    regressor(members=[("mine", mine)]).fit(X, Y)
    assert not hasattr(mine, "coef_")
    assert QUICK["members"] == ["linear", "laplace"]


# ---------------------------------------------------------------------- what suits which size


@pytest.mark.parametrize(
    ("n", "d", "suits"),
    [(100, 300, True), (100, 301, False), (200_000, 5, True), (200_001, 5, False)],
)
def test_many_features_are_formed_where_rows_and_variables_are_few_enough(n, d, suits):
    tried = make_members(None, "normal", Task(True, n, d, 2, n // 2, "auto", 0))
    assert ("regfeal" in [member.name for member in tried]) == suits
    numbers = make_members(None, "normal", Task(False, n, d, 1, n, "auto", 0))
    assert "regfeal" not in [member.name for member in numbers]
    named = make_members(["regfeal"], "normal", Task(False, n, d, 1, n, "auto", 0))
    assert named[0].name == "regfeal"


@pytest.mark.parametrize(
    ("classes", "n", "d", "suits"),
    [
        (False, 1_999, 300, True),
        (False, 2_000, 5, False),
        (False, 100, 301, False),
        (True, 100, 5, False),
    ],
)
def test_features_are_turned_where_rows_and_variables_are_few(classes, n, d, suits):
    tried = make_members(None, "normal", Task(classes, n, d, 2, n, "auto", 0))
    assert ("agop_full" in [member.name for member in tried]) == suits
    assert make_members(["agop_full"], "quick", Task(classes, n, d, 2, n, "auto", 0))[0].reference


# ---------------------------------------------------------------------- weights


def test_a_member_without_weights_takes_rows_that_are_there_twice():
    rows, y = np.concatenate([X, X[:1]]), np.concatenate([Y, Y[:1]])
    neighbours = KNeighborsRegressor(5)
    model = AutoRegressor(members=[("knn", neighbours)], n_folds=2, random_state=0).fit(rows, y)
    assert model.leaderboard().set_index("member").loc["knn", "weight"] == 1.0
    # As often as their weights say, where these are whole numbers of one
    weights = np.repeat([3.0, 1.5], [10, len(X) - 10])
    member = Member("knn", neighbours)
    known, _ = member.fit_clone(Samples(X, Y[:, None], weights), None, None)
    expected = KNeighborsRegressor(5).fit(np.concatenate([X[:10], X]), np.r_[Y[:10], Y])
    np.testing.assert_allclose(known.predict(X), expected.predict(X), atol=1e-12)


@given(counts=st.lists(st.integers(1, 30), min_size=2, max_size=12))
@settings(max_examples=30)
def test_copies_are_counted_whatever_the_unit_of_weights(counts):
    relative = relative_weights(np.array(counts, dtype=np.float64))
    if relative is not None:
        assert (
            _integer_weights(relative).tolist()
            == (np.array(counts) // np.gcd.reduce(counts)).tolist()
        )


def test_many_copies_of_few_rows_leave_nobody_out():
    times = np.tile([2, 3, 40], 8)
    rows, y = np.repeat(X[:24], times, axis=0), np.repeat(Y[:24], times)
    neighbours = ("knn", KNeighborsRegressor(1))
    model = AutoRegressor(members=[neighbours], n_folds=2, random_state=0).fit(rows, y)
    assert model.leaderboard().set_index("member").loc["knn", "weight"] == 1.0


@given(values=st.sampled_from(["equal", "whole", "any", "halves"]), balanced=st.booleans())
@settings(max_examples=5)
def test_whether_a_member_takes_part_does_not_hang_on_the_values_of_weights(values, balanced):
    n = len(X)
    weights = {
        "equal": np.ones(n),
        "whole": 1.0 + np.arange(n) % 2,
        "halves": 1.0 + 0.5 * (np.arange(n) % 3),
        "any": np.random.default_rng(0).uniform(0.1, 9.0, n),
    }[values]
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression()))
    members = [("nested", nested), ("knn", KNeighborsClassifier())]
    how = "balanced" if balanced else None
    model = AutoClassifier(members=members, n_folds=2, random_state=0, class_weight=how)
    with pytest.warns(UserWarning, match="the blend drops knn: .* as weights are given"):
        model.fit(X, np.median(Y) < Y, sample_weight=None if balanced else weights)
    assert [member.name for member in model.members_] == ["nested"]


def test_a_member_that_passes_arguments_on_takes_rows_that_are_there_twice():
    rows, y = np.concatenate([X, X[:1]]), np.concatenate([Y, Y[:1]])
    nested = TransformedTargetRegressor(make_pipeline(StandardScaler(), Ridge()))
    model = AutoRegressor(members=[("nested", nested)], n_folds=2, random_state=0).fit(rows, y)
    assert model.leaderboard().set_index("member").loc["nested", "weight"] == 1.0


def test_a_member_without_weights_is_left_out_in_words():
    weights = np.random.default_rng(0).uniform(1, 2, len(X))
    members = [
        "linear",
        ("knn", KNeighborsRegressor()),
        ("p", make_pipeline(KNeighborsRegressor())),
    ]
    model = AutoRegressor(members=members, n_folds=2, random_state=0)
    with pytest.warns(UserWarning, match="the blend drops") as caught:
        model.fit(X, Y, sample_weight=weights)
    said = [str(one.message) for one in caught]
    for name in ("knn", "p"):
        expected = "takes sample_weight, as weights are given, got that of KNeighborsRegressor"
        assert any(f"the blend drops {name}" in text and expected in text for text in said)


def test_members_have_their_weights_where_a_user_routes_metadata():
    weights = np.random.default_rng(0).uniform(1, 2, len(X))
    fits = []
    for routed in (False, True):
        with sklearn.config_context(enable_metadata_routing=routed):
            model = AutoRegressor(members=["linear"], n_folds=2, random_state=0)
            fits.append(model.fit(X, Y, sample_weight=weights).predict(X))
    np.testing.assert_array_equal(*fits)


def test_a_linear_model_of_few_steps_brings_no_warning_of_scikit_learn(recwarn):
    above = (np.median(Y) < Y).astype(float).reshape(-1, 1)
    samples = Samples(X, above, None, labels=True)
    task = _candidates.Task.from_samples(samples, D, "numpy", 0)
    member = next(one for one in _candidates.make_members(["linear"], "quick", task))
    short = replace(member, estimator=_candidates.clone_with_steps(member.estimator, 1))
    fitted, _ = short.fit_clone(samples, None, None)
    assert fitted[-1].n_iter_ == [1]
    assert not [one for one in recwarn if "lbfgs" in str(one.message)]
