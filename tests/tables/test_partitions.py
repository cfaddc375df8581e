"""Tables in parts: all rows tell levels and gaps, and what stands for them."""

import itertools
import warnings

import numpy as np
import pytest

from gpukfl.partitioned import Collections
from gpukfl.tables import Table
from gpukfl.tables._lookups import FOLDS
from gpukfl.tables._reader import Reader, fit_level_statistics
from gpukfl.tables._schema import count_columns, infer_schema

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
    first, _ = Reader.learn(Table.learn(frame[:SOME]), frame[:SOME], y[:SOME], some, **given)
    parts = None if weights is None else cut(weights)
    whole = Collections(cut(frame), cut(y), parts, LENGTHS, None, list(frame.columns))
    return first, *fit_level_statistics(first, whole, classes)


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


@pytest.mark.filterwarnings("ignore:column 'street'. .* seen in the fit")
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
        fit_level_statistics(first, whole, None)


# ---------------------------------------------------------------------- gaps and levels of all rows

LATE = slice(N - 40, N)  # rows of the last partition, far behind those that say what columns are


def told_by_all(frame, lengths=LENGTHS, columns=None):
    """What the columns are, by the first rows and the counts of all."""
    edges = np.cumsum([0, *lengths])
    pieces = [dask.delayed(frame[a:b]) for a, b in itertools.pairwise(edges)]
    whole = Collections(pieces, [], None, lengths, None, list(frame.columns))
    return infer_schema(frame[:SOME], columns, whole)


def said(table):
    return [(one.name, one.kind, one.levels, one.missing) for one in table.columns]


LATE_VALUES = {
    "a level": ("street", "z9", None),
    "a level of few": ("few", "green", None),
    "a level that was told": ("size", "3 XL", {"size": "ordered"}),
    "a code": ("zip", 99.0, None),
    "a gap of numbers": ("x", np.nan, None),
    "a gap of levels": ("few", None, None),
    "a gap in text that is numbers": ("price", "n/a", None),
    "a gap in dates": ("day", None, None),
    "another value of a constant": ("one", 2.5, None),
    "a gap of a constant": ("one", np.nan, None),
    "a word in place of nothing": ("none", "some", None),
}


@pytest.fixture
def mixed(frame):
    rng = np.random.default_rng(4)
    size = np.array(["1 S", "2 M", "10 L"])[rng.integers(3, size=N)]
    price = np.array([f"{k / 4:.2f} EUR" for k in rng.integers(4, 900, size=N)])
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=N), unit="D")
    codes = rng.integers(30, 39, size=N).astype(float)
    more = {"size": size, "price": price, "day": days, "zip": codes, "one": 1.0, "none": None}
    return frame.assign(**more)


@pytest.mark.filterwarnings("ignore:columns without any value")
@pytest.mark.parametrize("name", LATE_VALUES)
def test_what_only_a_late_partition_has_is_there(name, mixed):
    column, value, columns = LATE_VALUES[name]
    mixed.loc[mixed.index[LATE], column] = value
    told, every = told_by_all(mixed, columns=columns), Table.learn(mixed, columns=columns)
    assert said(told) == said(every)
    assert told.coded == every.coded
    assert said(told) != said(Table.learn(mixed[:SOME], columns=columns))


def test_columns_are_empty_that_have_no_value_in_any_partition(mixed):
    with pytest.warns(UserWarning, match="columns without any value are dropped: none"):
        told_by_all(mixed)
    mixed.loc[mixed.index[LATE], "none"] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told_by_all(mixed)


@pytest.mark.filterwarnings("ignore:columns without any value")
@pytest.mark.parametrize("lengths", [[N], [0, N, 0], [1] * SOME + [N - SOME], [99, 99, 0, 2]])
def test_partitions_do_not_matter(lengths, mixed):
    assert told_by_all(mixed, lengths) == told_by_all(mixed)


def test_gaps_of_numbers_that_no_first_row_has_are_filled_in_and_marked(frame):
    frame = frame[["x"]].copy()
    frame.loc[frame.index[LATE], "x"] = np.nan
    table = told_by_all(frame)
    given = {"classes": False, "impute": "median", "seed": 0}
    reader, _ = Reader.learn(table, frame[:SOME], np.zeros(SOME), None, **given)
    assert reader.encoding.names == ("x", "x missing")
    np.testing.assert_array_equal(reader(frame)[:, 1], frame["x"].isna())


def test_complete_numbers_are_no_table(frame):
    assert told_by_all(frame[["x"]]) is None


def test_a_level_that_no_first_row_has_is_told_by_its_own_rows(frame):
    frame.loc[frame.index[LATE], "street"] = "late"
    table, y = told_by_all(frame), np.arange(N) >= N - 40
    given = {"classes": False, "impute": "median", "seed": 0}
    first, _ = Reader.learn(table, frame[:SOME], y[:SOME], None, **given)
    whole = Collections(cut(frame), cut(y * 1.0), None, LENGTHS, None, list(frame.columns))
    reader, _ = fit_level_statistics(first, whole, None)
    found = reader(frame)[-1, columns(reader, "street")]
    rows = (frame["street"] == "late").to_numpy()
    expected = mean_of(y * 1.0, np.ones(N), rows, np.ones(N, dtype=bool))
    np.testing.assert_allclose(found, [np.log1p(rows.sum()), expected])


def test_of_very_many_levels_the_most_frequent_are_kept(monkeypatch):
    monkeypatch.setattr("gpukfl.tables._schema._MOST_COUNTED", 20)
    names = [f"n{k:04}" for k in range(500)]
    rng = np.random.default_rng(5)
    blocks = [["often"] * 9 + ["also"] * 5 + rng.choice(names, 60).tolist() for _ in range(8)]
    table = Table.learn(pd.DataFrame({"word": [*blocks[0], *blocks[0]]}))
    counts = [count_columns(table, pd.DataFrame({"word": block}))[0] for block in blocks]
    total = counts[0]
    for one in counts[1:]:
        assert len(total.levels) <= 20
        total += one
    assert total.update_column(table.columns[0]).levels[:2] == ("often", "also")
    assert (total.rows, total.levels["often"], total.levels["also"]) == (8 * 74, 72, 40)


def test_counts_add_up_in_any_order(mixed):
    mixed = mixed[["street", "few", "x", "zip"]]
    table = Table.learn(mixed)
    a, b, c = (count_columns(table, mixed[p : p + 70]) for p in (0, 70, 140))
    for one, two, three in zip(a, b, c, strict=True):
        assert one + two + three == two + (three + one)


def test_a_column_that_a_partition_lacks_is_said(frame):
    pieces = cut(frame)
    pieces[3] = dask.delayed(frame[["x", "few"]][101:])
    whole = Collections(pieces, [], None, LENGTHS, None, list(frame.columns))
    with pytest.raises(ValueError, match=r"partition 3: .*street"):
        infer_schema(frame[:SOME], None, whole)
