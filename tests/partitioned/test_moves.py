"""Parts that move while a pass is done: workers of this process, which go and come as told."""

import itertools
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpukfl.partitioned import ClusterLostError, Holder, PartitionedArray, Partitioning, _dask
from gpukfl.partitioned import _dask as _cluster
from gpukfl.partitioned._program import HolderLostError

dask = pytest.importorskip("dask")

SIZES = [3] * 12
KEY = 0  # of the rows


class Session:
    """What holders ask of a client.

    `events` say what happens after a pass on some parts, `loading` after some were loaded.
    """

    status = "running"
    error: type[Exception] = OSError  # of a worker that is gone

    def __init__(self, count):
        self.addresses = [str(i) for i in range(count)]
        self.events, self.loading, self.dying = [], [], []

    def scheduler_info(self, n_workers):
        return {"workers": dict.fromkeys(self.addresses)}

    def compute(self, tasks, workers, **_):
        found = dask.compute(*tasks, scheduler="sync")
        if self.loading:
            self.loading.pop(0)()
        return workers, found

    def gather(self, loaded):
        (address,), found = loaded
        if address not in self.addresses:
            msg = "no holder is here"  # where Dask tries it then
            raise HolderLostError(msg)
        return found


class Held:
    """A holder that answers while its address is one of the session's."""

    names = itertools.count()

    def __init__(self, client, address, make_place):
        if address in client.dying:
            client.addresses.remove(address)
            raise HolderLostError(address)
        self.client, self.address, self.name, self.parts = client, address, next(self.names), []
        self.holder = object.__new__(_dask.WorkerHolder)  # a worker would make it
        Holder.__init__(self.holder, make_place())
        _dask._LOCAL_HOLDERS[self.name] = self.holder

    def submit(self, what, *args):
        """Do at once what is asked; answer later."""
        return getattr(self, what)(*args)

    def step(self, work, *args):
        found = self.holder.step(work, *args) if self.is_here() else None
        if work.asked is not None and self.client.events:
            self.client.events.pop(0)()
        return SimpleNamespace(result=lambda **_: self.answered(found))

    def is_here(self):
        return self.address in self.client.addresses

    def answered(self, found):
        if not self.is_here():
            msg = "Unable to contact Actor's worker"
            raise self.client.error(msg)
        return found

    def check(self):
        if not self.is_here():
            raise HolderLostError(self.address)

    def drop(self, parts):
        return SimpleNamespace(result=lambda **_: self.holder.drop(parts))

    def leave(self, name):
        return SimpleNamespace(result=lambda **_: self.holder.leave(name))


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(_dask, "_HolderProxy", Held)
    monkeypatch.setattr(_dask, "_LOCAL_HOLDERS", {})
    monkeypatch.setattr(_dask, "gather_values", lambda client, loaded: client.gather(loaded))
    return Session(3)


def rows_of(part):
    return dask.delayed({KEY: np.random.default_rng(part).normal(size=(3, 2))})


def holders_of(session):
    return closing(_dask.DaskHolders(session, SIZES, rows_of, lambda: np.empty(0)))


def fitted(holders, told=lambda: None):
    """Passes that leave values made of former ones; what goes wrong happens in the second."""
    rows = Partitioning(holders, np.empty(0))
    X = PartitionedArray(rows, None, (2,), np.float64)
    assert X.key == KEY
    kept = squares(rows, X)
    mean = total_of(kept)
    kept = moved(kept, X, mean)
    told()
    kept = scaled(kept, total_of(kept))
    return X, kept


def squares(rows, X):
    return rows.keep(lambda start, stop: [X[start:stop] ** 2])


def moved(kept, X, by):
    return X.partitioning.keep(lambda start, stop: [kept[0] + X[start:stop] / by], instead_of=kept)


def scaled(kept, by):
    return kept.partitioning.keep(lambda *_: [kept[0] * by])


def total_of(kept):
    return kept.partitioning.reduce(lambda *_: [kept[0].sum(axis=0)])[0]


def seen(X, kept):
    return [X.partitioning.gather(X, np.arange(len(X))), total_of(kept), total_of(kept)]


def leave(session, *addresses):
    session.addresses = [one for one in session.addresses if one not in addresses]


MOVES = {
    "one goes, two come": lambda session: [
        lambda: (leave(session, "0"), session.addresses.extend("34")),
    ],
    "one goes when it is done": lambda session: [
        lambda: None,
        lambda: None,
        lambda: leave(session, "0"),
    ],
    "others go while it is done again": lambda session: [
        lambda: leave(session, "0"),
        lambda: None,
        lambda: leave(session, "1"),
        lambda: session.addresses.extend("3456"),
    ],
    "all go": lambda session: [
        lambda: (leave(session, *"012"), session.addresses.extend("34")),
        lambda: session.addresses.extend("5"),
        lambda: leave(session, "3"),
    ],
}


@pytest.mark.parametrize("name", MOVES)
def test_parts_that_move_within_a_pass_have_its_values(name, session):
    with holders_of(Session(1)) as holders:
        expected = seen(*fitted(holders))
    with holders_of(session) as holders:
        found = seen(*fitted(holders, lambda: session.events.extend(MOVES[name](session))))
    assert not session.events
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


STEPS = st.tuples(
    st.integers(0, 5), st.booleans()
)  # who goes, if it is there, and whether one comes


def drawn_moves(session, steps):
    """Events of a fit, of which none leaves nobody."""

    def move(who, comes):
        if comes or session.addresses == [str(who)]:
            session.addresses.append(str(max(map(int, [*session.addresses, "9"])) + 1))
        leave(session, str(who))

    return [lambda step=step: move(*step) for step in steps]


@settings(max_examples=15, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    steps=st.lists(STEPS, max_size=6),
    loads=st.lists(STEPS, max_size=3),
    error=st.sampled_from([OSError, HolderLostError, RuntimeError]),
)
def test_whoever_goes_and_comes_nothing_changes(session, steps, loads, error):
    with holders_of(Session(1)) as holders:
        expected = seen(*fitted(holders))
    session = Session(3)
    session.error = error
    session.loading.extend(drawn_moves(session, loads))
    with holders_of(session) as holders:
        found = seen(*fitted(holders, lambda: session.events.extend(drawn_moves(session, steps))))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_parts_that_are_made_again_have_only_what_is_asked_for(session):
    with holders_of(session) as holders:
        X, kept = fitted(holders, lambda: session.events.extend(MOVES["all go"](session)))
        total_of(kept)  # the last to read what it is made of
        leave(session, "4")
        total_of(kept)
        values = [held.holder.values[part] for held in holders._proxies for part in held.parts]
        assert [set(one) for one in values] == [{X.key, kept.key}] * len(SIZES)


LOADS = {
    "at the start": lambda session: session.loading.append(lambda: leave(session, "0")),
    "all of them": lambda session: session.loading.append(
        lambda: (leave(session, *"012"), session.addresses.append("3"))
    ),
    "while others make its parts again": lambda session: (
        session.events.append(lambda: leave(session, "0")),
        session.loading.extend([lambda: None] * 3 + [lambda: leave(session, "1")]),
    ),
    "while it begins": lambda session: session.dying.append("1"),
}


@pytest.mark.parametrize("name", LOADS)
def test_workers_that_go_while_parts_are_loaded_change_nothing(name, session):
    with holders_of(Session(1)) as holders:
        expected = seen(*fitted(holders))
    LOADS[name](session)
    with holders_of(session) as holders:
        found = seen(*fitted(holders))
        values = [set(held.holder.values) for held in holders._proxies]
        assert values == [set(held.parts) for held in holders._proxies]
    assert not session.events
    assert not session.loading
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_parts_that_are_lost_again_and_again_are_an_error(session):
    def again():
        old = session.addresses[:]
        session.addresses[:] = [str(int(old[-1]) + 1)]
        session.loading.append(again)

    session.loading.append(again)
    with pytest.raises(RuntimeError, match="12 partitions were lost 10 times"):
        holders_of(session)


def test_a_worker_that_comes_late_is_waited_for(session, monkeypatch):
    with holders_of(Session(1)) as holders:
        expected = seen(*fitted(holders))
    looks = iter([{}, {}])
    look = session.scheduler_info
    monkeypatch.setattr(
        session, "scheduler_info", lambda **kw: {"workers": next(looks, look(**kw)["workers"])}
    )
    with holders_of(session) as holders:
        for x, y in zip(seen(*fitted(holders)), expected, strict=True):
            np.testing.assert_array_equal(x, y)


def test_no_worker_is_an_error(monkeypatch):
    monkeypatch.setattr(_cluster, "_WORKER_TIMEOUT", 0.2)
    with pytest.raises(ClusterLostError, match=r"expected one within 0\.2 s, got none"):
        holders_of(Session(0))
