"""Tables in parts: what stands for levels is made of sums over all rows."""

import itertools

import numpy as np
import pytest

from gpukfl._parts_reader import of_all_rows
from gpukfl._reader import Reader
from gpukfl.partitioned import Collections
from gpukfl.tables import Table
from gpukfl.tables._lookups import FOLDS

dask = pytest.importorskip("dask")
pd = pytest.importorskip("pandas")

LENGTHS = [70, 0, 31, 99]
N, SOME = sum(LENGTHS), 60
EDGES = np.cumsum([0, *LENGTHS])
SMOOTH = 10.0


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    names = np.array([f"s{k}" for k in range(12)])
    rows = names[rng.integers(12, size=N)]
    rows[rng.random(N) < 0.1] = None
    few = np.array(["red", "blue"])[(rng.random(N) < 0.3).astype(int)]
    return pd.DataFrame({"x": rng.normal(size=N), "street": rows, "few": few})


def cut(x):
    pieces = [x[a:b] for a, b in itertools.pairwise(EDGES)]
    return [dask.delayed(piece) for piece in pieces]


def readers(frame, y, weights=None, classes=None):
    """Of all rows in partitions, where the first rows have said what the columns are."""
    some = None if weights is None else weights[:SOME]
    given = {"classes": classes is not None, "impute": "median", "seed": 0}
    first, _ = Reader.learned(Table.of(frame[:SOME]), frame[:SOME], y[:SOME], some, **given)
    parts = None if weights is None else cut(weights)
    whole = Collections(cut(frame), cut(y), parts, LENGTHS, None)
    return first, *of_all_rows(first, whole, classes)


def columns(reader, name):
    return [k for k, one in enumerate(reader.encoding.names) if one.startswith(name)]


def mean_of(y, w, rows, chosen):
    """Mean of the targets at a level, smoothed by that of all chosen rows."""
    w = w / w[chosen].mean()
    at = rows & chosen
    return (w[at] @ y[at] + SMOOTH * np.mean((w * y)[chosen])) / (w[at].sum() + SMOOTH)


@pytest.mark.parametrize("weighted", [False, True])
def test_levels_are_told_by_all_rows_and_those_of_the_fit_by_other_folds(frame, weighted):
    rng = np.random.default_rng(1)
    y = rng.normal(size=N) + frame["street"].str.len().fillna(0).to_numpy()
    w = rng.uniform(0.2, 3.0, N) if weighted else np.ones(N)
    first, new, fit = readers(frame, y, w if weighted else None)
    assert new.encoding.names == first.encoding.names
    fold = np.concatenate([np.arange(n) % FOLDS for n in LENGTHS])
    found = new(frame)[:, columns(new, "street")]
    own = np.concatenate([fit(frame[a:b]) for a, b in itertools.pairwise(EDGES)])
    street = frame["street"].fillna("none").to_numpy()
    for i in range(0, N, 7):
        rows = street == street[i]
        assert found[i, 1] == pytest.approx(mean_of(y, w, rows, np.ones(N, dtype=bool)))
        assert found[i, 0] == pytest.approx(np.log1p(w[rows].sum() / w.mean()))
        others = mean_of(y, w, rows, fold != fold[i])
        assert own[i, columns(new, "street")[1]] == pytest.approx(others)
    few = new(frame)[:, columns(new, "few")]
    if not weighted:
        assert few.var(axis=0).sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(own[:, columns(new, "few")], few)
    np.testing.assert_array_equal(own[:, columns(new, "x")], frame[["x"]])


@pytest.mark.parametrize("count", [2, 3])
def test_classes_have_a_share_in_each_level(frame, count):
    classes = np.array(["a", "b", "c"])[:count]
    y = classes[np.random.default_rng(2).integers(count, size=N)]
    _, new, _ = readers(frame, y, classes=classes)
    found = new(frame)[:, columns(new, "street")]
    shown = classes[1:] if count == 2 else classes
    assert found.shape[1] == 1 + len(shown)
    rows = (frame["street"] == "s3").to_numpy()
    for k, one in enumerate(shown):
        expected = mean_of((y == one) * 1.0, np.ones(N), rows, np.ones(N, dtype=bool))
        assert found[rows][0, 1 + k] == pytest.approx(expected)


def test_levels_that_the_first_rows_have_not_count_as_one(frame):
    frame.loc[SOME:, "street"] = [f"new {k % 3}" for k in range(N - SOME)]
    _, new, _ = readers(frame, np.arange(N) >= SOME)
    found = new(frame)[SOME:, columns(new, "street")[0]]
    np.testing.assert_allclose(found, np.log1p(N - SOME))


def test_numbers_alone_need_no_sums(frame):
    frame = frame[["x"]].copy()
    frame.loc[3, "x"] = np.nan
    first, new, fit = readers(frame, np.zeros(N))
    assert new is first
    np.testing.assert_array_equal(fit(frame), new(frame))


def test_a_partition_without_a_column_is_named(frame):
    first, _, _ = readers(frame, np.zeros(N))
    parts = cut(frame)
    parts[2] = dask.delayed(frame[["x", "few"]][70:101])
    whole = Collections(parts, cut(np.zeros(N)), None, LENGTHS, None)
    with pytest.raises(ValueError, match=r"partition 2: .*street"):
        of_all_rows(first, whole, None)
