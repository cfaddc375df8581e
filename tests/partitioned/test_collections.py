"""Dask collections without a cluster: rows that go together, and what is left out or refused."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pytest
from brief import bkernn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl import KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl.core._cuda import is_installed
from gpukfl.core._places import cupy_is_usable
from gpukfl.estimators._run import use_report
from gpukfl.partitioned import ClusterLostError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

N, CHUNKS = 300, (100, 0, 150, 50)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
WHERE = pytest.mark.parametrize("sample", [N, 0], ids=["here", "in parts"])


@pytest.fixture(autouse=True)
def in_one_thread_and_as_given():
    config = {"scheduler": "sync", "dataframe.convert-string": False}
    with pytest.importorskip("dask").config.set(config):
        yield


@pytest.fixture
def in_parts(monkeypatch):
    """Let rows as many as the tests have be fitted where they lie."""
    fitted_where_they_lie(monkeypatch, 0)


def fitted_where_they_lie(monkeypatch, sample):
    monkeypatch.setattr("gpukfl.estimators._dask.SAMPLE", sample)
    monkeypatch.setattr("gpukfl.tables._training.SAMPLE", sample)
    monkeypatch.setattr("gpukfl.portfolio._base.SAMPLE", sample)
    monkeypatch.setattr("gpukfl.tables._reader.SAMPLE", sample)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    return frame.assign(y=np.sin(2.0 * frame["a"]) + 0.1 * rng.normal(size=N))


def regressor(**options):
    given = {"n_centers": 30, "lengthscale": 2.0, "ridge": 1e-3, "random_state": 0}
    return KernelRidgeRegressor(**given, **options)


def classifier():
    return KernelRidgeClassifier(n_centers=30, lengthscale=2.0, ridge=1e-3, random_state=0)


def arrays(X, y):
    return da.from_array(np.asarray(X), chunks=(CHUNKS, -1)), da.from_array(y, chunks=(CHUNKS,))


# ---------------------------------------------------------------------- rows that go together


@pytest.mark.pairs
@WHERE
@pytest.mark.parametrize("what", ["y", "sample_weight"])
@pytest.mark.parametrize("shorter", [True, False])
def test_partitions_of_other_lengths_are_refused(monkeypatch, frame, sample, what, shorter):
    fitted_where_they_lie(monkeypatch, sample)
    whole = dd.from_pandas(frame, npartitions=3)
    few = whole[whole.b > 0]
    rows, other = (whole, few) if shorter else (few, whole)
    given = {"y": rows.y, "sample_weight": abs(rows.y)} | {what: abs(other.y)}
    with pytest.raises(ValueError, match=r"partition \d: expected as many .* as rows, \d+, got"):
        regressor().fit(rows[["a", "b", "c"]], **given)


@pytest.mark.few
@WHERE
@pytest.mark.parametrize("form", ["a column of the frame", "arrays", "y in memory"])
def test_rows_without_a_target_are_left_out_and_counted(monkeypatch, frame, sample, form):
    fitted_where_they_lie(monkeypatch, sample)
    gappy = frame.copy()
    gappy.loc[[5, 120, 121], "y"] = np.nan
    kept = gappy.dropna()
    given = dd.from_pandas(gappy, npartitions=3, sort=False), "y"
    if form != "a column of the frame":
        given = arrays(gappy[["a", "b", "c"]], gappy["y"].to_numpy())
    if form == "y in memory":
        given = given[0], gappy["y"].to_numpy()
    options = {"method": "rkhs_weighting", "n_parameters": 20, "ridge": 1e-2}
    with pytest.warns(UserWarning, match="y is missing in 3 of 300 rows, which are dropped"):
        found = gpukfl.fit(*given, **options)
    assert found.n_samples == len(kept)
    if sample:
        X = frame[list("abc")]
        expected = gpukfl.fit(kept[list("abc")], kept["y"], **options)
        rows = X if form == "a column of the frame" else X.to_numpy()
        np.testing.assert_allclose(found.predict(rows), expected.predict(X), atol=1e-6)


@WHERE
def test_rows_without_a_class_are_left_out_of_tables_too(monkeypatch, frame, sample):
    fitted_where_they_lie(monkeypatch, sample)
    names = np.where(frame["y"] > 0, "up", "down").astype(object)
    names[[0, 7, 299]] = None, np.nan, None
    group = np.where(frame["c"] > 0, "left", "right")
    lazy = dd.from_pandas(frame.assign(y=names, group=group), npartitions=3)
    with pytest.warns(UserWarning, match="y is missing in 3 of 300"):
        model = gpukfl.fit(lazy, "y", method="rkhs_weighting", n_parameters=20, ridge=1e-2)
    assert model.n_samples == N - 3
    assert model.classes_.tolist() == ["down", "up"]


def test_no_target_at_all_is_an_error(frame):
    with pytest.raises(ValueError, match="got NaN or None in all 300"):
        regressor().fit(*arrays(frame[["a"]], np.full(N, np.nan)))


# ---------------------------------------------------------------------- what partitions hold


@WHERE
def test_numbers_as_objects_are_numbers(monkeypatch, frame, sample):
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    fitted_where_they_lie(monkeypatch, sample)
    expected = regressor().fit(*arrays(X, y)).predict(X)
    found = regressor().fit(*arrays(X.astype(object), y)).predict(X)
    np.testing.assert_array_equal(found, expected)
    lazy = dd.from_pandas(frame[["a", "b"]].astype(object), npartitions=3)
    found = regressor().fit(lazy, y).predict(frame[["a", "b"]])
    np.testing.assert_allclose(found, expected, atol=1e-4)


def in_partitions(frame, change):
    """A Dask frame of three partitions; ``change(k, partition)`` gives what each really holds."""
    pieces = [change(k, frame[100 * k : 100 * (k + 1)]) for k in range(3)]
    return dd.from_map(lambda k: pieces[k], range(3), meta=frame[:0])


orders = st.lists(st.permutations(range(3)), min_size=3, max_size=3)


@WHERE
@settings(max_examples=4, deadline=None)
@given(orders=orders, of_targets=st.lists(st.booleans(), min_size=3, max_size=3))
def test_columns_of_partitions_go_by_their_names(frame, sample, orders, of_targets):
    X, Y = frame[list("abc")], frame[["y", "a"]]
    lazy = in_partitions(X, lambda k, rows: rows.iloc[:, list(orders[k])])
    targets = in_partitions(Y, lambda k, rows: rows.iloc[:, ::-1] if of_targets[k] else rows)
    with pytest.MonkeyPatch.context() as patch:
        fitted_where_they_lie(patch, sample)
        found = regressor().fit(lazy, targets)
        expected = regressor().fit(in_partitions(X, lambda _, rows: rows), Y.to_numpy())
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-6)


@pytest.mark.few
@WHERE
@pytest.mark.parametrize("words", [False, True])
def test_tables_whose_partitions_have_other_orders(monkeypatch, frame, sample, words):
    fitted_where_they_lie(monkeypatch, sample)
    if words:
        frame = frame.assign(word=np.where(frame["b"] > 0, "up", "down"))
    lazy = in_partitions(frame, lambda k, rows: rows.iloc[:, ::-1] if k else rows)
    options = {"method": "rkhs_weighting", "n_parameters": 20, "ridge": 1e-2}
    found = gpukfl.fit(lazy, "y", **options)
    expected = gpukfl.fit(in_partitions(frame, lambda _, rows: rows), "y", **options)
    np.testing.assert_allclose(found.predict(frame), expected.predict(frame), atol=1e-6)
    np.testing.assert_array_equal(found.predict(lazy).compute(), found.predict(frame))


OTHER_COLUMNS = {
    "fewer": (lambda rows: rows[["a", "b"]], "it lacks c"),
    "more": (lambda rows: rows.assign(z=1.0), "it also has z"),
    "other names": (lambda rows: rows.rename(columns={"b": "B"}), "it lacks b and also has B"),
    "one twice": (
        lambda rows: rows[["a", "b", "c", "a"]],
        "it has several columns of the same name",
    ),
}


@WHERE
@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_partitions_of_other_columns_are_refused(monkeypatch, frame, sample, name):
    fitted_where_they_lie(monkeypatch, sample)
    change, words = OTHER_COLUMNS[name]
    lazy = in_partitions(frame[list("abc")], lambda k, rows: change(rows) if k == 2 else rows)
    with pytest.raises(
        ValueError, match=f"partition 2: expected the 3 columns .* {words}: all partitions need"
    ):
        regressor().fit(lazy, frame["y"].to_numpy())


@pytest.mark.usefixtures("in_parts")
def test_partitions_of_wider_numbers_than_the_first_are_refused(frame):
    X = frame[list("abc")].astype(np.float32)
    lazy = in_partitions(X, lambda k, rows: 1e300 * rows.astype(float) if k == 1 else rows)
    with pytest.raises(ValueError, match="partition 1: expected float32 as in the first"):
        regressor().fit(lazy, frame["y"].to_numpy())


@WHERE
@pytest.mark.parametrize("first", [False, True])
def test_targets_are_text_in_all_partitions_or_in_none(monkeypatch, frame, sample, first):
    fitted_where_they_lie(monkeypatch, sample)
    y = (frame[["y"]] > 0).astype(int)
    lazy = in_partitions(y, lambda k, rows: rows.astype(str) if (k == 2) != first else rows)
    kinds = ("text", "numbers") if first else ("numbers", "text")
    words = "partition [12]: expected targets that are {}, as in partition 0, got {}"
    with pytest.raises(ValueError, match=words.format(*kinds)):
        classifier().fit(in_partitions(frame[["a"]], lambda _, rows: rows), lazy["y"])


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("as_objects", [False, True])
def test_classes_are_no_fractions(frame, as_objects):
    X, y = arrays(frame[["a"]], frame["y"].to_numpy().astype(object if as_objects else float))
    with pytest.raises(ValueError, match="partition 0: Unknown label type: expected classes, got"):
        classifier().fit(X, y)
    whole = classifier().fit(X, da.round(y.astype(float)))
    assert whole.classes_.tolist() == sorted(set(np.round(frame["y"]).tolist()))


@pytest.mark.usefixtures("in_parts")
def test_classes_are_one_column(frame):
    X, y = arrays(frame[["a"]], frame["y"].to_numpy() > 0)
    found, expected = (
        classifier().fit(X, one).predict(frame[["a"]].to_numpy()) for one in (y[:, None], y)
    )
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"expected targets of shape \(100,\)"):
        classifier().fit(X, da.stack([y, y], axis=1))


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("count", [0, 1])
def test_weights_have_two_that_are_positive(frame, count):
    weights = (np.arange(N) < count).astype(float)
    with pytest.raises(ValueError, match="at least two positive sample weights"):
        regressor().fit(*arrays(frame[["a"]], frame["y"].to_numpy()), sample_weight=weights)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_classes_that_no_row_has_by_which_a_portfolio_is_chosen(monkeypatch, frame, name):
    fitted_where_they_lie(monkeypatch, 0)
    monkeypatch.setattr("gpukfl.portfolio._base.FEWEST", 200)
    monkeypatch.setattr(
        "gpukfl.partitioned._collections.draw_indices", lambda _, __, k: np.arange(k)
    )
    others = sorted({"a", "b", "c"} - {name})
    y = np.where(frame["a"] > 0, others[1], others[0]).astype(object)
    X, new = frame[["a", "b"]].to_numpy().copy(), slice(N - 8, N)
    X[new], y[new] = [0.0, 8.0], name
    members = [("ridge", classifier())]
    with pytest.warns(UserWarning, match=rf"chose the blend: {name}, 8 of 300 rows"):
        found = gpukfl.AutoClassifier(members, random_state=0).fit(*arrays(X, y))
    assert found.classes_.tolist() == others
    (member,) = found.members_
    expected = classifier().fit(X[: N - 8], np.searchsorted(others, y[: N - 8].astype(str)))
    np.testing.assert_allclose(
        member.models[0].decision_function(X), expected.decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError("no memory")])
def test_a_portfolio_of_some_rows_stays_where_a_fit_to_all_fails(monkeypatch, frame, error):
    fitted_where_they_lie(monkeypatch, 0)
    monkeypatch.setattr("gpukfl.portfolio._base.FEWEST", 200)
    learn = KernelRidgeRegressor.fit_like

    def failing(model, X, *args, **options):
        if len(X) == N:
            raise error
        return learn(model, X, *args, **options)

    monkeypatch.setattr(KernelRidgeRegressor, "fit_like", failing)
    model = gpukfl.AutoRegressor([("ridge", regressor())], random_state=0)
    stopped = error is KeyboardInterrupt
    with pytest.warns(UserWarning, match="interrupted" if stopped else "ridge .*no memory"):
        model.fit(*arrays(frame[["a"]], frame["y"].to_numpy()))
    assert model.status_ == ("INTERRUPTED" if stopped else "CONVERGED")
    assert not model.whole_
    assert model.score(frame[["a"]].to_numpy(), frame["y"]) > 0.7


def test_a_portfolio_stays_as_it_was_chosen_where_the_cluster_is_lost(monkeypatch, frame):
    fitted_where_they_lie(monkeypatch, 0)
    monkeypatch.setattr("gpukfl.portfolio._base.FEWEST", 200)
    learn, tried = KernelRidgeRegressor.fit_like, []

    def failing(model, X, *args, **options):
        if len(X) == N:
            tried.append(model)
            msg = "the cluster has no worker"
            raise ClusterLostError(msg)
        return learn(model, X, *args, **options)

    monkeypatch.setattr(KernelRidgeRegressor, "fit_like", failing)
    members = [("ridge", regressor()), ("another", regressor(max_iter=900))]
    model = gpukfl.AutoRegressor(members, random_state=0)
    with pytest.warns(UserWarning, match="not refitted to all rows: the cluster"):
        model.fit(*arrays(frame[["a"]], frame["y"].to_numpy()))
    assert len(tried) == 1
    assert not model.whole_


def test_what_is_stopped_in_its_last_steps_is_not_taken(monkeypatch, frame):
    fitted_where_they_lie(monkeypatch, 0)
    monkeypatch.setattr("gpukfl.portfolio._base.FEWEST", 200)
    member = gpukfl.BKerNNRegressor(10, random_state=0)

    def report(stage, k, _):
        if "fold" not in stage and k == 1:
            raise KeyboardInterrupt

    model = gpukfl.AutoRegressor([("bkernn", member)], random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted"), use_report(report):
        model.fit(*arrays(frame[["a"]], frame["y"].to_numpy()))
    assert (model.status_, model.whole_) == ("INTERRUPTED", False)
    assert model.members_[0].models[0].status_ == "CONVERGED"


# ---------------------------------------------------------------------- predictions

DAY = datetime.date(2020, 1, 1)
COLUMNS = {
    "Int64": lambda i: pd.array(i, dtype="Int64"),
    "Float64": lambda i: pd.array(i + 0.5, dtype="Float64"),
    "boolean": lambda i: pd.array(i > 4, dtype="boolean"),
    "float32": lambda i: i.astype(np.float32),
    "integers as objects": lambda i: np.array(i.tolist(), dtype=object),
    "decimals": lambda i: np.array([Decimal(k) for k in i.tolist()], dtype=object),
    "booleans as objects": lambda i: np.array((i > 4).tolist(), dtype=object),
    "dates as objects": lambda i: [DAY + datetime.timedelta(k) for k in i.tolist()],
    "gaps as objects": lambda i: np.where(i > 6, None, i.astype(object)),
    "numbers as text": lambda i: i.astype(str).astype(object),
    "words": lambda i: np.array(list("pqrstuvwx"), dtype=object)[i],
    "categories": lambda i: pd.Categorical.from_codes(i % 3, ["u", "v", "w"]),
    "dates": lambda i: pd.Timestamp(DAY) + pd.to_timedelta(i, "D"),
    "durations": lambda i: pd.to_timedelta(i, "h"),
}


@pytest.mark.few
@pytest.mark.parametrize("name", COLUMNS)
def test_frames_of_any_columns_are_predicted_without_a_word(frame, name):
    made = COLUMNS[name](np.random.default_rng(1).integers(0, 9, N))
    rows = pd.DataFrame({"a": frame["a"].astype(np.float32), "b": made})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = bkernn(n_particles=4, ridge=1e-2, max_iter=3)
        model = gpukfl.fit(rows, frame["y"], method="bkernn", **few)
    lazy = dd.from_pandas(rows, npartitions=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        promised = model.predict(lazy)
        found = promised.compute()
    np.testing.assert_array_equal(found, model.predict(rows))
    assert promised.dtype == found.dtype


# ---------------------------------------------------------------------- places


@pytest.mark.usefixtures("in_parts")
def test_torch_is_refused(frame):
    with pytest.raises(ValueError, match="for Dask collections, got 'torch'"):
        regressor(backend="torch").fit(*arrays(frame[["a"]], frame["y"].to_numpy()))
    with pytest.raises(ValueError, match="for Dask collections, got 'torch'"):
        gpukfl.AutoRegressor(backend="torch").fit(*arrays(frame[["a"]], frame["y"].to_numpy()))


@pytest.mark.usefixtures("in_parts")
@pytest.mark.skipif(cupy_is_usable(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_an_error(frame):
    why = "" if is_installed("cupy") else "CuPy is not installed"
    with pytest.raises(RuntimeError, match=f"backend='cupy' needs a GPU that CuPy can use.*{why}"):
        regressor(backend="cupy").fit(*arrays(frame[["a"]], frame["y"].to_numpy()))


@pytest.mark.usefixtures("in_parts")
@pytest.mark.skipif(not cupy_is_usable(), reason="needs a GPU, or the stand-in's")
def test_this_process_computes_on_cupy(frame, monkeypatch):
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    expected = regressor().fit(*arrays(X, y)).predict(X)
    fitted = regressor(backend="cupy").fit(*arrays(X, y))
    np.testing.assert_allclose(fitted.predict(X), expected, atol=1e-5)
