"""Tables from files and bundled sets, and the generators' formulas."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from gpukfl.datasets import (
    BUNDLED,
    load_frame,
    load_table,
    make_multi_index,
    make_sine_features,
    make_single_direction,
    random_directions,
)

FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.5], "b": [4, 5, 6], "label": ["x", "y", "x"]})
EPS = np.finfo(float).eps


def parquet():
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("needs pyarrow")


@pytest.fixture(params=["csv", "parquet", "pq", "CSV"])
def path(request, tmp_path):
    name = tmp_path / f"table.{request.param}"
    if request.param.lower() == "csv":
        FRAME.to_csv(name, index=False)
    else:
        parquet()
        FRAME.to_parquet(name)
    return str(name)


# ---------------------------------------------------------------------- tables


def test_the_last_column_is_the_target(path):
    table = load_table(path)
    assert (list(table.X.columns), table.target) == (["a", "b"], "label")
    assert list(table.y) == ["x", "y", "x"]
    np.testing.assert_array_equal(table.X.to_numpy(), FRAME[["a", "b"]].to_numpy())


def test_another_column_can_be_the_target(path):
    table = load_table(path, "a")
    assert (list(table.X.columns), table.target) == (["b", "label"], "a")
    assert list(table.y) == [1.0, 2.0, 3.5]


def test_all_columns_are_a_frame(path):
    frame = load_frame(path)
    assert list(frame.columns) == ["a", "b", "label"]
    pd.testing.assert_frame_equal(frame, FRAME)


def test_an_unknown_target_is_named_with_the_known(path):
    with pytest.raises(ValueError, match="to be one of a, b, label, got 'price'"):
        load_table(path, "price")


@pytest.mark.parametrize("target", [None, "label"])
def test_rows_without_a_target_are_counted_and_left_out(tmp_path, target):
    FRAME.assign(label=[1, np.nan, 0], a=["x", "y", "z"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="1 of 3 rows has no label, and is dropped") as said:
        table = load_table(str(tmp_path / "t.csv"), target)
    assert list(table.X["a"]) == ["x", "z"]
    assert (table.y.tolist(), table.y.dtype) == ([1, 0], np.int64)
    assert ("the target is the last column" in str(said[0].message)) == (target is None)


def test_a_target_that_is_nowhere_is_named(tmp_path):
    FRAME.assign(label=np.nan).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        ValueError, match="targets in column label, got none in any row: the target is the last"
    ):
        load_table(str(tmp_path / "t.csv"))


def test_one_column_is_no_table(tmp_path):
    FRAME[["a"]].to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"at least one feature, got \['a'\]"):
        load_table(str(tmp_path / "t.csv"))


@pytest.mark.parametrize("y", [None, np.array([0.5, 1.5, 2.5])])
def test_npz_holds_samples_and_perhaps_a_target(tmp_path, y):
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "t.npz", X=X, **({} if y is None else {"y": y}))
    table = load_table(str(tmp_path / "t.npz"))
    np.testing.assert_array_equal(table.X.to_numpy(), X)
    assert list(table.X.columns) == ["x0", "x1"]
    if y is None:
        assert (table.y, table.target) == (None, None)
    else:
        np.testing.assert_array_equal(table.y, y)


def test_npz_keeps_float32(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2), "float32"), y=np.ones(3, "float32"))
    table = load_table(str(tmp_path / "t.npz"))
    assert (table.X.to_numpy().dtype, table.y.dtype) == (np.float32, np.float32)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.npz", b"not a zip"),
        ("t.parquet", b"not parquet"),
        ("t.csv", b""),
        ("t.csv", b"\xff\xfe\x00\x81"),
        ("t.csv", b'a,b\n1,2,3\n4,5\n"'),
    ],
)
def test_an_unreadable_file_is_named(tmp_path, name, content):
    if name.endswith("parquet"):
        parquet()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"expected a CSV, Parquet, Feather, Excel or .npz table, got .*{name}"
    ):
        load_table(str(tmp_path / name))


@pytest.mark.parametrize(
    "arrays",
    [{"Z": np.ones((3, 2))}, {"X": np.ones(3)}, {"X": np.ones((3, 2)), "y": np.ones(4)}],
    ids=["no X", "X of one dimension", "y of another length"],
)
def test_npz_of_other_shapes_is_named(tmp_path, arrays):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=r"expected a CSV, Parquet, .* or .npz table, got .*t.npz"):
        load_table(str(tmp_path / "t.npz"))


def test_npz_of_objects_is_not_read(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[1, "a"]], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_table(str(tmp_path / "t.npz"))


def test_a_file_that_is_not_there_is_named_with_the_bundled():
    with pytest.raises(
        ValueError, match=r"the file 'nothing.csv' was not found.*or one of breast_cancer, diabetes"
    ):
        load_table("nothing.csv")


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_sets_load(name):
    table = load_table(name)
    assert len(table.X) == len(table.y) > 100
    assert table.target == "target"
    assert "target" not in table.X.columns
    assert not table.X.isna().any().any()
    assert (table.y.dtype.kind == "f") == (name == "diabetes")


def test_labels_of_bundled_sets_have_names():
    assert set(load_table("iris").y) == {"setosa", "versicolor", "virginica"}
    assert set(load_table("digits").y) == set("0123456789")


# ---------------------------------------------------------------------- generators


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (5, 3), (5, 5)])
def test_directions_are_orthonormal(d, k):
    P = random_directions(d, k, 0)
    assert P.shape == (d, k)
    np.testing.assert_allclose(P.T @ P, np.eye(k), atol=20 * EPS)


def test_sine_features_are_their_formula():
    X, y, P = make_sine_features(200, 6, 3, seed=2)
    expected = np.abs(sum(np.sin(X @ P[:, a]) for a in range(3)))
    np.testing.assert_allclose(y, expected, atol=20 * EPS)


def test_single_direction_is_its_formula():
    X, y, P = make_single_direction(200, 7, 5, noise=0.0, seed=2)
    np.testing.assert_allclose(y, 2 * np.pi * np.abs(X @ P.sum(axis=1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [make_sine_features, make_single_direction])
def test_noise_has_its_standard_deviation_and_moves_nothing_else(make):
    X, y, P = make(5000, 6, 3, noise=0.0, seed=1)
    noisy_X, noisy_y, noisy_P = make(5000, 6, 3, noise=0.7, seed=1)
    np.testing.assert_array_equal(X, noisy_X)
    np.testing.assert_array_equal(P, noisy_P)
    assert np.std(noisy_y - y) == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("make", [make_sine_features, make_single_direction])
def test_a_seed_repeats_the_data_and_another_does_not(make):
    for a, b in zip(make(50, 6, seed=3), make(50, 6, seed=3), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(make(50, 6, seed=3)[0], make(50, 6, seed=4)[0])
    assert np.abs(make(5000, 6)[0]).max() <= 1.0


@pytest.mark.parametrize(("kind", "half_width"), [("sines", 1.0), ("mixed", 10.0)])
def test_multi_index_is_its_formula(kind, half_width):
    X, y, B = make_multi_index(300, 7, 4, kind=kind, noise=0.0, random_state=3)
    U = (X @ B.T).T
    expected = np.zeros(300)
    for a in range(4):
        j = a + 1
        if kind == "sines":
            expected += np.sin((1 + j / 4) * np.pi * U[a])
        else:
            expected += np.sin(0.5 * U[a] - j)
            expected += 0.5 * U[(a + 1) % 4] * np.cos(0.4 * U[(a + 2) % 4] - j + 1)
    np.testing.assert_allclose(y, expected, atol=1e-12)
    assert 0.9 * half_width < np.abs(X).max() <= half_width


@pytest.mark.parametrize(("D", "d"), [(50, 3), (4, 1), (1, 1), (3, 5)])
def test_the_map_of_multi_index_is_positive_and_of_norm_1(D, d):
    X, y, B = make_multi_index(10, D, d, random_state=0)
    assert (X.shape, y.shape, B.shape) == ((10, D), (10,), (d, D))
    assert np.all(B >= 0)
    np.testing.assert_allclose(np.linalg.norm(B, 2), 1.0, rtol=10 * EPS)


@pytest.mark.parametrize("kind", ["sines", "mixed"])
def test_noise_of_multi_index_is_in_units_of_the_function(kind):
    X, z, B = make_multi_index(5000, 6, kind=kind, noise=0.0, random_state=1)
    noisy_X, y, noisy_B = make_multi_index(5000, 6, kind=kind, random_state=1)
    np.testing.assert_array_equal(X, noisy_X)
    np.testing.assert_array_equal(B, noisy_B)
    assert np.std(y - z) == pytest.approx(0.1 * np.std(z), rel=0.05)


def test_multi_index_takes_a_generator_and_repeats_by_seed():
    a = make_multi_index(20, 5, random_state=3)
    b = make_multi_index(20, 5, random_state=np.random.default_rng(3))
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(a[0], make_multi_index(20, 5, random_state=4)[0])


def test_multi_index_names_its_kinds():
    with pytest.raises(ValueError, match='to be "sines" or "mixed", got \'cosines\''):
        make_multi_index(10, kind="cosines")
