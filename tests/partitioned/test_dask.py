"""Fits on a cluster of processes: the same bits whoever works, workers that go and come, errors."""

import gc
import os
import pickle
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl import AutoRegressor, BKerNNClassifier, BKerNNRegressor
from gpukfl.core._places import cupy_is_usable
from gpukfl.estimators.bkernn import Knots
from gpukfl.inference import conditional_importance
from gpukfl.partitioned import ClusterLostError, Collections, Partitioning, read_partitions
from gpukfl.solvers import ProximalGradient

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
delayed = pytest.importorskip("dask").delayed
distributed = pytest.importorskip("distributed")

N = 900
CHUNKS = (250, 0, 50, 599, 1)

pytestmark = pytest.mark.filterwarnings(
    "ignore:BKerNN:sklearn.exceptions.ConvergenceWarning",
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",  # of clusters closed while they work
)


@pytest.fixture(scope="module", autouse=True)
def many_rows():
    """Rows as many as the tests have are fitted where they lie."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpukfl.estimators._dask.SAMPLE", 0)
        patch.setattr("gpukfl.tables._training.SAMPLE", 0)
        patch.setattr("gpukfl.portfolio._base.SAMPLE", 0)
        yield


@pytest.fixture(scope="module")
def cluster():
    """A worker, of a cluster that can have more."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def mortal():
    """A client of a cluster of its own, with two workers, one of which will be killed."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    """A client that fits must be told of."""
    with distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=N)


@pytest.fixture(scope="module")
def lazy(data):
    """The data in uneven chunks, one of them empty, and in chunks of columns too."""
    X, y = data
    return da.from_array(X, chunks=(CHUNKS, 2)), da.from_array(y, chunks=(CHUNKS,))


# On processors, also where workers have GPUs
FEW = {"n_particles": 6, "knots": Knots(32), "ridge": 1e-3, "backend": "numpy"}
FEW_STEPS = ProximalGradient("auto", 5, 1e-9)


def model(client=None, kind=BKerNNRegressor, steps=1):
    """With 80 passes over the rows, and some 30 a further step."""
    optimizer = ProximalGradient("auto", steps, 1e-9)
    found = kind(random_state=0, optimizer=optimizer, **FEW)
    found.client = client
    return found


@pytest.fixture(scope="module")
def expected(data, lazy):
    """Predictions of the fit in threads of this process."""
    return model().fit(*lazy).predict(data[0])


def wait_for_workers(client, count):
    """Ask the scheduler until it has as many workers.

    A cluster's own way puts an answer in place of what its news have told, and the next news, of
    a worker that left meanwhile, ends them with a KeyError.
    """
    end = time.monotonic() + 60.0
    while (found := len(client.scheduler_info(n_workers=-1)["workers"])) != count:
        assert time.monotonic() < end, f"expected {count} workers after 60 s, got {found}"
        time.sleep(0.05)


def scaled(cluster, client, count):
    cluster.scale(count)
    wait_for_workers(client, count)


def test_the_same_bits_for_any_number_of_workers(cluster, client, data, lazy, expected):
    for count in (1, 2):
        scaled(cluster, client, count)
        np.testing.assert_array_equal(model(client).fit(*lazy).predict(data[0]), expected)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(mortal, data, lazy):
    victims = list(mortal.run(os.getpid).values())

    def kill():
        os.kill(victims[0], signal.SIGKILL)

    timer = threading.Timer(0.4, kill)
    timer.start()
    found = model(mortal, steps=3).fit(*lazy)
    timer.join()
    expected = model(steps=3).fit(*lazy)
    np.testing.assert_array_equal(found.predict(data[0]), expected.predict(data[0]))


@pytest.mark.slow  # each new worker takes seconds to import what it needs
@pytest.mark.parametrize("is_known", [True, False])
def test_a_worker_that_is_lost_late_changes_nothing(
    mortal, data, lazy, expected, monkeypatch, is_known
):
    """Dask ends calls to an actor whose loss it knows, and does not answer all others."""
    run, calls, address = Partitioning._pass, [], []

    def watched(self, *args):
        calls.append(None)
        if len(calls) == 60:
            held = self.holders._proxies[0]
            address.append(held.address)
            os.kill(mortal.run(os.getpid, workers=address)[held.address], signal.SIGKILL)
            while is_known and held._future.status == "finished":
                time.sleep(0.01)
        return run(self, *args)

    monkeypatch.setattr(Partitioning, "_pass", watched)
    found = model(mortal).fit(*lazy)
    monkeypatch.undo()
    assert address
    np.testing.assert_array_equal(found.predict(data[0]), expected)


def test_a_cluster_without_workers_is_an_error_once_and_later(data, monkeypatch):
    monkeypatch.setattr("gpukfl.partitioned._dask._CHECK_SECONDS", 0.1)
    monkeypatch.setattr("gpukfl.partitioned._dask._WORKER_TIMEOUT", 0.5)
    X, y = data
    lazy = da.from_array(X, chunks=(300, 4)), da.from_array(y, chunks=300)
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as lost,
        distributed.Client(lost) as client,
    ):
        run, calls = Partitioning._pass, []

        def watched(self, *args):
            calls.append(None)
            if len(calls) == 10:
                lost.scale(0)
                wait_for_workers(client, 0)
            return run(self, *args)

        monkeypatch.setattr(Partitioning, "_pass", watched)
        for _ in range(2):
            with pytest.raises(ClusterLostError, match=r"no worker: expected one within 0\.5 s"):
                model().fit(*lazy)
        lost.scale(1)
        wait_for_workers(client, 1)
        model().fit(*lazy)


def fatal_once(block, mark, here):
    """Read rows, and end the worker the first time."""
    if os.getpid() != here and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
def test_a_worker_that_dies_while_rows_are_loaded_changes_nothing(
    mortal, data, lazy, expected, tmp_path
):
    mark, meta = tmp_path / "mark", np.empty((0, 0))
    X = lazy[0].map_blocks(fatal_once, mark, os.getpid(), dtype=float, meta=meta)
    found = model(mortal).fit(X, lazy[1])
    assert mark.exists()
    np.testing.assert_array_equal(found.predict(data[0]), expected)


@pytest.mark.slow
def test_a_worker_that_comes_takes_its_share(cluster, client, data, lazy, expected, monkeypatch):
    monkeypatch.setattr("gpukfl.partitioned._dask._REBALANCE_SECONDS", 0.0)
    scaled(cluster, client, 1)
    held, run = [], Partitioning._pass

    def watched(self, *args):
        held.append([list(one.parts) for one in self.holders._proxies])
        if len(held) == 20:
            scaled(cluster, client, 2)
        return run(self, *args)

    monkeypatch.setattr(Partitioning, "_pass", watched)
    found = model(client).fit(*lazy)
    assert len(held[0]) == 1
    assert len(held[-1]) == 2
    assert all(held[-1])
    monkeypatch.undo()
    np.testing.assert_array_equal(found.predict(data[0]), expected)


def test_nothing_is_left_on_the_workers(client, lazy):
    def held():
        from gpukfl.partitioned._dask import _LOCAL_HOLDERS

        return len(_LOCAL_HOLDERS)

    model(client).fit(*lazy)
    assert set(client.run(held).values()) == {0}


def test_rows_are_let_go_at_once_after_a_long_pass(client, lazy, monkeypatch):
    monkeypatch.setattr("gpukfl.partitioned._dask._CHECK_SECONDS", 0.02)

    def kept_for_a_long_pass(rows):
        kept = rows.keep(lambda start, stop: [start + stop])
        rows.reduce(lambda *_: [time.sleep(0.2) or kept[0]])
        return weakref.ref(kept)

    with read_partitions(Collections.from_inputs(*lazy), client, "numpy", labels=False) as parts:
        gc.disable()  # it would take a while, and workers hold the rows until then
        try:
            assert kept_for_a_long_pass(parts.X.partitioning)() is None
        finally:
            gc.enable()


def test_predictions_are_put_off_and_stay_in_parts(data, lazy):
    fitted = model().fit(*lazy)
    found = fitted.predict(lazy[0])
    assert isinstance(found, da.Array)
    assert found.chunks == (CHUNKS,)
    np.testing.assert_array_equal(found.compute(), fitted.predict(data[0]))
    assert fitted.transform(lazy[0]).compute().shape == fitted.transform(data[0]).shape


def test_frames_give_series_with_their_index(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(N)[::-1])
    frame["class"] = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    lazy = dd.from_pandas(frame, npartitions=4, sort=False)
    rows = lazy.drop(columns="class")
    fitted = model(kind=BKerNNClassifier).fit(rows, lazy["class"])
    assert fitted.classes_.tolist() == ["high", "low", "middle"]
    assert fitted.feature_names_in_.tolist() == list("abcd")
    found = fitted.predict(rows).compute()
    assert found.index.tolist() == frame.index.tolist()
    assert found.tolist() == fitted.predict(frame.drop(columns="class")).tolist()
    proba = fitted.predict_proba(rows).compute()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_weights_count_as_copies(data, lazy, expected):
    X = data[0]
    weights = np.random.default_rng(1).integers(1, 3, N).astype(float)
    one = model().fit(*lazy, sample_weight=da.from_array(weights, chunks=(CHUNKS,)))
    other = model().fit(*lazy, sample_weight=3.0 * weights)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6)
    assert np.abs(one.predict(X) - expected).max() > 1e-3


def test_unknown_lengths_are_computed(data, lazy, expected):
    X, y = data
    pd = pytest.importorskip("pandas")
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    assert np.isnan(frame.values.chunks[0]).all()
    fitted = model().fit(frame.values, da.from_array(y, chunks=300))
    assert fitted._n_samples == N


def test_the_time_is_kept_and_the_model_is_there(client, lazy):
    fitted = model(client, steps=10**6)
    fitted.set_params(max_time=1.0, ridge=1e-3)
    begun = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="time"):
        fitted.fit(*lazy)
    assert fitted.status_ == "TIME_LIMIT"
    assert time.perf_counter() - begun < 60.0


def test_an_interruption_keeps_the_best_so_far(client, lazy, monkeypatch):
    run, calls = Partitioning._pass, []

    def interrupted(self, *args):
        calls.append(None)
        if len(calls) == 150:
            raise KeyboardInterrupt
        return run(self, *args)

    monkeypatch.setattr(Partitioning, "_pass", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        fitted = model(client, steps=50).fit(*lazy)
    assert fitted.status_ == "INTERRUPTED"


def test_the_client_is_no_part_of_a_copy(client, lazy):
    fitted = model(client).fit(*lazy)
    assert pickle.loads(pickle.dumps(fitted)).client is None
    assert clone(fitted).client is None


def test_few_rows_are_fitted_here(client, data, lazy, monkeypatch):
    monkeypatch.setattr("gpukfl.estimators._dask.SAMPLE", N)
    monkeypatch.setattr("gpukfl.tables._training.SAMPLE", N)
    np.testing.assert_array_equal(
        model(client).fit(*lazy).predict(data[0]), model().fit(*data).predict(data[0])
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tables_are_encoded_where_they_lie(client, data):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"), copy=True)
    frame["group"] = np.where(X[:, 3] > 0, "up", "down")
    frame.loc[7, "b"] = np.nan
    frame["y"] = y + (X[:, 3] > 0)
    lazy = dd.from_pandas(frame, npartitions=3)
    with client.as_current():
        fitted = gpukfl.fit(lazy, "y", method="bkernn", optimizer=FEW_STEPS, **FEW)
    assert fitted.n_samples == N
    assert fitted.feature_names == [*"abcd", "group"]
    found = fitted.predict(lazy).compute()
    np.testing.assert_array_equal(found, fitted.predict(frame))
    assert fitted.score(frame, frame["y"]) > 0.5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_levels_of_a_table_are_told_by_all_rows(client, data, monkeypatch):
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr("gpukfl.tables._training.FEWEST", 200)
    monkeypatch.setattr("gpukfl.tables._reader.SAMPLE", 0)
    frame = pd.DataFrame(data[0], columns=list("abcd"), copy=True)
    frame["group"] = [f"g{k}" for k in np.random.default_rng(3).integers(15, size=N)]
    frame["y"] = data[1]
    lazy = dd.from_pandas(frame, npartitions=3)
    with client.as_current():
        fitted = gpukfl.fit(lazy, "y", method="bkernn", optimizer=FEW_STEPS, **FEW)
    (column,) = [k for k, name in enumerate(fitted.reader.encoding.names) if "frequency" in name]
    counts = frame["group"].map(frame["group"].value_counts())
    np.testing.assert_allclose(fitted.reader(frame)[:, column], np.log1p(counts))
    np.testing.assert_array_equal(fitted.predict(lazy).compute(), fitted.predict(frame))


def with_late_rows(data):
    """A frame whose last rows alone have a gap in a number, and a level."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data[0], columns=list("abcd"), copy=True)
    frame["group"] = [f"g{k}" for k in np.random.default_rng(3).integers(15, size=N)]
    frame["y"] = data[1]
    frame.loc[N - 30 :, "b"], frame.loc[N - 30 :, "group"] = np.nan, "late"
    return frame


@pytest.fixture
def first_rows(monkeypatch):
    """Let the first 200 rows say what columns are."""
    monkeypatch.setattr("gpukfl.tables._training.FEWEST", 200)
    monkeypatch.setattr("gpukfl.estimators._dask.SAMPLE", 0)
    monkeypatch.setattr("gpukfl.tables._training.SAMPLE", 0)
    monkeypatch.setattr("gpukfl.tables._reader.SAMPLE", 0)
    monkeypatch.setattr("gpukfl.portfolio._base.FEWEST", 200)
    monkeypatch.setattr("gpukfl.portfolio._base.SAMPLE", 0)
    monkeypatch.setattr(
        "gpukfl.partitioned._collections.draw_indices", lambda _, __, k: np.arange(k)
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("first_rows")
def test_gaps_and_levels_of_a_late_partition_are_known_whoever_works(client, data):
    frame = with_late_rows(data)
    lazy = dd.from_pandas(frame, npartitions=3)

    def fit():
        return gpukfl.fit(lazy, "y", method="bkernn", optimizer=FEW_STEPS, **FEW)

    with client.as_current():
        fitted = fit()
    assert "b missing" in fitted.reader.encoding.names
    assert "late" in fitted.reader.table.columns[4].levels
    np.testing.assert_array_equal(fit().predict(frame), fitted.predict(frame))
    np.testing.assert_array_equal(fitted.predict(lazy).compute(), fitted.predict(frame))


@pytest.mark.few
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("first_rows")
@pytest.mark.parametrize("columns", [list("abcd"), [*"abcd", "group"]])
def test_portfolios_know_gaps_and_levels_of_a_late_partition(client, data, columns):
    frame = with_late_rows(data)[[*columns, "y"]]
    lazy = dd.from_pandas(frame, npartitions=3)
    with client.as_current():
        members = ["linear", ("bkernn", model(steps=5))]
        fitted = gpukfl.fit(lazy, "y", members=members)
    assert "b missing" in fitted.estimator.encodings_.by_fold[0].names
    assert fitted.n_samples == N
    assert np.isfinite(fitted.predict(frame)).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_portfolios_are_chosen_here_and_fitted_to_all(client, data, lazy):
    fitted = AutoRegressor(members=["linear", ("bkernn", model(steps=5))], random_state=0)
    fitted.client = client
    fitted.fit(*lazy)
    assert fitted._n_samples == N
    (one,) = [member for member in fitted.members_ if member.name == "bkernn"]
    assert [one._n_samples for one in one.models] == [N]
    assert fitted.score(*data) > 0.7
    assert fitted.whole_
    with pytest.raises(ValueError, match="refitted"):
        conditional_importance(fitted)


# ---------------------------------------------------------------------- bad input


def with_gap(data):
    X = data[0].copy()
    X[700, 1] = np.nan
    return da.from_array(X, chunks=(300, 4)), da.from_array(data[1], chunks=300)


def of_two_widths(data):
    first, second = delayed(data[0][:500]), delayed(data[0][500:, :3])
    blocks = da.from_delayed(first, (500, 4), float), da.from_delayed(second, (400, 4), float)
    return da.concatenate(blocks), da.from_array(data[1], chunks=((500, 400),))


BAD = {
    "a gap": (with_gap, ValueError, "partition 2: Input X contains NaN"),
    "widths": (of_two_widths, ValueError, "partition 1: expected rows of 4 columns"),
    "other length": (
        lambda data: (da.from_array(data[0]), data[1][:10]),
        ValueError,
        "expected y of 900 rows",
    ),
    "NumPy rows": (lambda data: (data[0], da.from_array(data[1])), TypeError, "Dask collection"),
    "no target": (lambda data: (da.from_array(data[0]), None), ValueError, "target y is None"),
    "one axis": (
        lambda data: (da.from_array(data[1]), da.from_array(data[1])),
        ValueError,
        "Expected 2D array",
    ),
    "no rows": (
        lambda data: (da.from_array(data[0][:0]), da.from_array(data[1][:0])),
        ValueError,
        "0 sample",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_bad_input_is_said_and_changes_nothing(name, where, data, client):
    make, error, words = BAD[name]
    unfitted = model(client if where == "cluster" else None)
    before = dict(vars(unfitted))
    with pytest.raises(error, match=words):
        unfitted.fit(*make(data))
    assert vars(unfitted) == before


def test_a_closed_client_is_an_error(cluster, lazy):
    closed = distributed.Client(cluster, set_as_default=False)
    closed.close()
    with pytest.raises(RuntimeError, match="expected a connected Dask client"):
        model(closed).fit(*lazy)


@pytest.mark.skipif(cupy_is_usable(), reason="needs workers without GPUs")
def test_workers_without_gpus_are_an_error(client, lazy):
    fitted = model(client).set_params(backend="cupy")
    with pytest.raises(RuntimeError, match="needs a GPU on every worker"):
        fitted.fit(*lazy)


def test_a_scheduler_that_is_lost_is_an_error(lazy, monkeypatch):
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=":0", silence_logs=50
    ) as lost:
        client = distributed.Client(lost, set_as_default=False)
        run, calls = Partitioning._pass, []

        def watched(self, *args):
            calls.append(None)
            if len(calls) == 10:
                lost.close()
            return run(self, *args)

        monkeypatch.setattr(Partitioning, "_pass", watched)
        unfitted = model(client)
        with pytest.raises(RuntimeError, match="scheduler"):
            unfitted.fit(*lazy)
        assert not hasattr(unfitted, "W_")
        client.close()
