"""Encodings: finite numbers of fixed width, learned without what rows say of themselves."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from table_cases import COLUMNS, N, Y

from gpukfl.tables import Coded, Encoding, Table
from gpukfl.tables._lookups import _draw_folds

NUMBER = Coded("x", 0, gaps=True)
FEW = Coded("g", 1, 3, gaps=True, labels=("u", "v", "w"))
MANY = Coded("s", 2, 30)
HOUR = Coded("h", 3, period=24.0)
RNG = np.random.default_rng(0)


def drawn(n=400):
    """Codes of all sorts, with gaps, and targets that levels explain."""
    codes = np.column_stack(
        [
            RNG.standard_normal(n),
            RNG.integers(3, size=n),
            RNG.integers(30, size=n),
            24 * RNG.random(n),
        ]
    )
    codes[RNG.random((n, 4)) < 0.1] = np.nan
    y = np.where(np.isnan(codes[:, 2]), 0.0, np.sin(codes[:, 2])) + 0.1 * RNG.standard_normal(n)
    return codes, y


CODES, TARGETS = drawn()
CODED = (NUMBER, FEW, MANY, HOUR)


def learn(codes=CODES, coded=CODED, y=TARGETS, **options):
    return Encoding.learn(codes, coded, y, **options)


def columns(encoding, source):
    return [k for k, one in enumerate(encoding.sources) if one == source]


# ---------------------------------------------------------------------- against scikit-learn


def test_numbers_are_imputed_as_by_scikit_learn():
    encoding, X = learn()
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    expected = imputer.fit_transform(CODES[:, :1])
    np.testing.assert_array_equal(X[:, columns(encoding, 0)], expected)
    np.testing.assert_array_equal(encoding.names[:1] + encoding.names[3:4], ["x", "x missing"])


def test_few_levels_are_one_hot_and_weigh_like_a_number():
    encoding, X = learn()
    own = X[:, columns(encoding, 1)]
    expected = OneHotEncoder(sparse_output=False).fit_transform(CODES[:, 1:2])
    scale = own.max()
    np.testing.assert_allclose(own, scale * expected)
    assert own.var(axis=0).sum() == pytest.approx(1.0)
    assert [encoding.names[k] for k in columns(encoding, 1)] == ["g=u", "g=v", "g=w", "g missing"]


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_many_levels_are_means_of_targets_as_by_scikit_learn(n_classes):
    y = TARGETS if not n_classes else np.arange(len(CODES)) % n_classes
    encoding, _ = learn(y=y, n_classes=n_classes)
    found = encoding.transform(CODES)[:, columns(encoding, 2)]
    shown = (
        [y] if n_classes == 0 else [y == k for k in range(n_classes)][-1 if n_classes == 2 else 0 :]
    )
    for k, one in enumerate(shown):
        encoder = TargetEncoder(target_type="continuous", smooth=10.0).fit(CODES[:, 2:3], one * 1.0)
        np.testing.assert_allclose(found[:, 1 + k], encoder.transform(CODES[:, 2:3])[:, 0])
    assert found.shape[1] == 1 + len(shown)


@pytest.mark.parametrize("n", [2, 4, 5, 103])
def test_folds_are_those_of_scikit_learn(n):
    splitter = KFold(min(5, n), shuffle=True, random_state=7)
    expected = np.empty(n)
    for k, (_, held_out) in enumerate(splitter.split(np.zeros(n))):
        expected[held_out] = k
    np.testing.assert_array_equal(_draw_folds(n, 7), expected)


def test_weighted_means_are_those_of_the_formula():
    w = RNG.random(len(CODES)) + 0.1
    encoding, _ = learn(weights=w)
    found = encoding.transform(CODES)[:, columns(encoding, 2)]
    w = w / w.mean()
    smooth = 10.0
    for level in (0.0, 7.0):
        rows = CODES[:, 2] == level
        top = w[rows] @ TARGETS[rows] + smooth * np.mean(w * TARGETS)
        assert found[rows][0, 1] == pytest.approx(top / (w[rows].sum() + smooth))
        assert found[rows][0, 0] == pytest.approx(np.log1p(w[rows].sum()))


def test_weights_of_levels_are_counted_in_their_scale():
    times = RNG.integers(1, 4, size=len(CODES))
    weighted, _ = learn(weights=times.astype(float))
    copied, _ = learn(np.repeat(CODES, times, axis=0), y=np.repeat(TARGETS, times))
    np.testing.assert_allclose(weighted.lookups[0].values, copied.lookups[0].values)


@pytest.mark.parametrize("factor", [5.0, 1e-6])
def test_a_common_factor_of_weights_says_nothing(factor):
    w = RNG.random(len(CODES))
    a, b = learn(weights=w), learn(weights=factor * w)
    np.testing.assert_allclose(a[1], b[1])
    np.testing.assert_allclose(a[0].transform(CODES), b[0].transform(CODES))


def test_several_targets_have_a_mean_each():
    both, _ = learn(y=np.column_stack([TARGETS, Y[0] - TARGETS]))
    one, _ = learn()
    found = both.transform(CODES)[:, columns(both, 2)]
    expected = one.transform(CODES)[:, columns(one, 2)]
    np.testing.assert_allclose(found[:, :2], expected)
    np.testing.assert_allclose(found[:, 2], Y[0] - expected[:, 1])
    assert [both.names[k] for k in columns(both, 2)] == ["s frequency", "s mean 0", "s mean 1"]


# ---------------------------------------------------------------------- laws


def test_means_of_noise_say_nothing_of_training_rows():
    """Where each row is its own level, nearly: a mean that saw its own target would repeat it."""
    codes = (np.arange(400) % 200).astype(float)[:, None]
    y = np.random.default_rng(1).standard_normal(400)
    encoding, X = learn(codes, (Coded("s", 0, 200),), y)
    own = encoding.transform(codes)
    assert abs(np.corrcoef(X[:, 1], y)[0, 1]) < 0.2
    assert np.corrcoef(own[:, 1], y)[0, 1] > 0.6


def test_a_target_does_not_change_its_own_row():
    for row in (0, 17, 399):
        changed = TARGETS.copy()
        changed[row] += 100.0
        np.testing.assert_array_equal(learn(y=changed)[1][row], learn()[1][row])


def test_rows_by_themselves_are_encoded_as_together():
    encoding, _ = learn()
    together = encoding.transform(CODES)
    apart = np.concatenate([encoding.transform(CODES[k : k + 1]) for k in range(50)])
    np.testing.assert_allclose(apart, together[:50], rtol=1e-14)


@settings(max_examples=30)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(0, 9), st.just(4)),
        elements=st.sampled_from([np.nan, 0.0, 1.0, 2.0, 3.0, -1e300, 1e300]),
    )
)
def test_everything_becomes_finite(codes):
    codes[:, 1] = np.where(np.isin(codes[:, 1], [0, 1, 2, 3]), codes[:, 1], np.nan)
    codes[:, 2] = np.where(np.isin(codes[:, 2], [0, 1, 2, 3]), codes[:, 2], 30.0)
    codes[:, 3] = np.clip(codes[:, 3], 0.0, 24.0)
    encoding, _ = learn()
    found = encoding.transform(codes)
    assert found.shape == (len(codes), encoding.n_features)
    assert np.isfinite(found).all()


def test_the_width_is_that_of_the_table_whatever_a_fold_has():
    frame = pd.DataFrame(COLUMNS).drop(columns="none")
    table = Table.learn(frame)
    codes = table.codes(frame)
    whole, _ = Encoding.learn(codes, table.coded, np.arange(N) % 3, n_classes=3)
    part, X = Encoding.learn(codes[:8], table.coded, np.zeros(8), n_classes=3)
    assert (part.names, part.sources) == (whole.names, whole.sources)
    assert X.shape == (8, whole.n_features)
    assert np.isfinite(part.transform(codes)).all()
    assert len(set(whole.names)) == whole.n_features
    none, _ = Encoding.learn(codes[8:9], table.coded)
    assert np.isfinite(none.transform(codes)).all()


def test_unseen_levels_are_what_nothing_is_known_of():
    encoding, _ = learn()
    found = encoding.transform(np.array([[0.0, 3.0, 30.0, 0.0]]))[0]
    np.testing.assert_array_equal(found[columns(encoding, 1)], 0.0)
    frequency, mean = found[columns(encoding, 2)]
    assert frequency == 0.0
    assert mean == pytest.approx(TARGETS.mean())


def test_hours_go_round():
    encoding, _ = learn()
    hours = np.array([0.0, 6.0, 12.0, 24.0, np.nan])
    codes = np.column_stack([np.zeros((5, 3)), hours])
    found = encoding.transform(codes)[:, columns(encoding, 3)]
    np.testing.assert_allclose(found, [[0, 1], [1, 0], [0, -1], [0, 1], [0, 0]], atol=1e-14)


def test_weighed_columns_are_those_of_levels_and_rounds():
    encoding, _ = learn()
    kept = [name for name, weighed in zip(encoding.names, encoding.weighed, strict=True) if weighed]
    assert kept == ["h sine", "h cosine", "x missing", "g=u", "g=v", "g=w", "g missing"]


def test_without_targets_levels_are_frequencies():
    encoding, X = learn(y=None)
    (only,) = columns(encoding, 2)
    counts = np.bincount(np.nan_to_num(CODES[:, 2], nan=31).astype(int), minlength=32)
    expected = np.log1p(counts)[np.nan_to_num(CODES[:, 2], nan=31).astype(int)]
    np.testing.assert_allclose(X[:, only], expected)


def test_the_same_seed_gives_the_same():
    np.testing.assert_array_equal(learn(random_state=3)[1], learn(random_state=3)[1])
    assert not np.array_equal(learn(random_state=3)[1], learn(random_state=4)[1])


def test_encodings_are_pickled():
    encoding, _ = learn(impute="model")
    again = pickle.loads(pickle.dumps(encoding))
    np.testing.assert_array_equal(again.transform(CODES), encoding.transform(CODES))


# ---------------------------------------------------------------------- models of missing numbers


def test_models_tell_missing_numbers_from_the_others():
    X = RNG.standard_normal((300, 2))
    codes = np.column_stack([X[:, 0] + X[:, 1], X])
    gaps = RNG.random(300) < 0.2
    truth = codes[gaps, 0].copy()
    codes[gaps, 0] = np.nan
    coded = (Coded("sum", 0, gaps=True), Coded("a", 1), Coded("b", 2))
    errors = {}
    for impute in ("median", "model"):
        encoding, encoded = Encoding.learn(codes, coded, impute=impute)
        np.testing.assert_array_equal(encoding.transform(codes), encoded)
        np.testing.assert_array_equal(encoded[~gaps, 0], codes[~gaps, 0])
        errors[impute] = np.sqrt(np.mean((encoded[gaps, 0] - truth) ** 2))
    assert errors["model"] < 0.3 * errors["median"]


def test_models_do_not_see_targets():
    a, b = learn(impute="model"), learn(y=-5.0 * TARGETS, impute="model")
    np.testing.assert_array_equal(a[1][:, 0], b[1][:, 0])


def test_what_does_not_vary_is_imputed_by_medians():
    codes = np.array([[1.0, 2.0]] * 20 + [[np.nan, 2.0]])
    encoding, X = Encoding.learn(codes, (Coded("a", 0, gaps=True), Coded("b", 1)), impute="model")
    assert encoding.imputations == ()
    assert X[-1].tolist() == [1.0, 2.0, 1.0]


# ---------------------------------------------------------------------- bad input


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="expected impute to be one of 'median', 'model', got 'x'"):
        learn(impute="x")
    with pytest.raises(ValueError, match=r"expected codes \(n, 4\), got shape \(400, 3\)"):
        learn(CODES[:, :3])
    with pytest.raises(ValueError, match="expected rows to learn from, got none"):
        learn(CODES[:0], y=TARGETS[:0])
    with pytest.raises(ValueError, match="expected finite targets of 400 rows, got 399"):
        learn(y=TARGETS[1:])
    with pytest.raises(ValueError, match=r"got 400, \d+ of them NaN or infinite"):
        learn(y=np.where(TARGETS > 0, np.nan, TARGETS))
    with pytest.raises(ValueError, match=r"expected codes \(n, 4\), got shape \(2, 5\)"):
        learn()[0].transform(np.zeros((2, 5)))


# ---------------------------------------------------------------------- column by column


@pytest.mark.parametrize("impute", ["median", "model"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_columns_one_by_one_give_what_all_of_them_do(impute, dtype):
    expected, X = learn(impute=impute)
    n, options = len(CODES), {"impute": impute, "dtype": dtype}
    found, own = Encoding.learn_columns(iter(CODES.T), CODED, TARGETS, n=n, **options)
    rtol = 1e-12 if dtype == "float64" else 1e-4
    assert own.dtype == dtype
    np.testing.assert_allclose(own, X, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(found.medians, expected.medians)
    encoded = found.transform_columns(iter(CODES.T), n, np.dtype(dtype))
    assert encoded.dtype == dtype
    np.testing.assert_allclose(encoded, expected.transform(CODES), rtol=rtol, atol=rtol)


def test_more_or_fewer_columns_one_by_one_are_refused():
    encoding, _ = learn()
    for some in (CODES[:, :3], np.column_stack([CODES, CODES[:, 0]])):
        with pytest.raises(ValueError, match="columns of codes"):
            encoding.transform_columns(iter(some.T), len(some))
