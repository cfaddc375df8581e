"""Random tuples of degrees: exact laws, and features whose products are the kernel on average."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import comb, gammaln, logsumexp

from gpukfl.linalg import hermite_table
from gpukfl.methods import DegreeLaw, DerivativePenalty, MultiIndices, draw_tuples, equal_eta
from gpukfl.methods._multi_indices import (
    _draw_uniform_tuples,
    _GroupLaw,
    _largest_degree,
    _log_count,
    _SingleVariables,
    _trim_tail,
    _UniformLaw,
    _upper_group,
)

R = 0.33
PENALTY = DerivativePenalty(1e-3, 0.2)
ETAS = {
    "equal": equal_eta(3, 1.0),
    "one and two": np.array([0.02, 0.9, 0.03]),
    "two and one": np.array([0.5, 0.01, 0.4]),
    "two": np.array([0.8, 0.1]),
    "equal two": equal_eta(2, 1.0),
    "one": np.ones(1),
}
LAWS = {
    "ρ": DegreeLaw(0.4, cut=5),
    "large ρ": DegreeLaw(0.9, cut=4),
    "ρ = 0": DegreeLaw(0.0, cut=5),
    "M": DegreeLaw(largest=4),
    "M = 1": DegreeLaw(largest=1),
}
etas = pytest.mark.parametrize("eta", ETAS.values(), ids=ETAS)
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def c(law, k):
    if law.largest is not None:
        return float(k <= law.largest)
    return law.decay**k if law.decay else float(k <= 1)


def exhaustive(eta, law, penalty=PENALTY):
    """Every tuple of the kernel, and its weight."""
    highest = law.longest
    every = itertools.product(range(highest + 1), repeat=len(eta))
    tuples = [alpha for alpha in every if 1 <= sum(alpha) <= highest]
    weights = [
        c(law, sum(alpha)) / (penalty.ridge + penalty.strength * float(np.sum(alpha / eta)))
        for alpha in tuples
    ]
    kept = np.asarray(weights) > 0
    return np.asarray(tuples)[kept], np.asarray(weights)[kept]


def draw(count, eta, law, penalty=PENALTY, seed=0):
    return draw_tuples(count, eta, law, penalty, 1.0, np.random.RandomState(seed))


def features(tuples, X):
    table = hermite_table(X, int(tuples.max()))
    columns = [table[:, alpha, np.arange(X.shape[1])].prod(axis=1) for alpha in tuples]
    return np.stack(columns, axis=1)


# ---------------------------------------------------------------------- unbiasedness


@pytest.mark.each
@laws
@etas
def test_squared_scales_are_the_kernels_weights_on_average(eta, law):
    tuples, weights = exhaustive(eta, law)
    count = 40_000
    drawn = draw(count, eta, law)
    found = {tuple(alpha): k for k, alpha in enumerate(drawn.tuples)}
    assert set(found) <= {tuple(alpha) for alpha in tuples}
    for alpha, weight in zip(tuples, weights, strict=True):
        k = found.get(tuple(alpha))
        if k is None:
            continue
        # counts are binomial, of mean m p = counts weight / squares
        expected = drawn.counts[k] * weight / drawn.scales[k] ** 2
        error = math.sqrt(expected * max(1.0 - expected / count, 0.0)) + 1e-9
        assert abs(drawn.counts[k] - expected) < 5 * error + 1
    assert np.sum(drawn.scales**2) == pytest.approx(np.sum(weights), rel=0.05)


@pytest.mark.few
@pytest.mark.pairs
@pytest.mark.parametrize("count", [30, 4])  # 4 tuples: half of them of one variable
@pytest.mark.parametrize("law", ["ρ", "M"])
@pytest.mark.parametrize("eta", ["equal", "one and two", "two and one", "two", "equal two"])
def test_the_mean_of_many_random_kernels_is_the_kernel(eta, law, count):
    eta, law = ETAS[eta], LAWS[law]
    X = np.random.default_rng(1).standard_normal((4, len(eta)))
    tuples, weights = exhaustive(eta, law)
    Phi = features(tuples, X)
    kernel = (Phi * weights) @ Phi.T
    repeats, mean, squares = 200, 0.0, 0.0
    for seed in range(repeats):
        drawn = draw(min(count, len(tuples) - 1), eta, law, seed=seed)
        Phi = features(drawn.tuples, X) * drawn.scales
        K = Phi @ Phi.T
        mean, squares = mean + K / repeats, squares + K**2 / repeats
    error = np.sqrt((squares - mean**2) / repeats)
    assert np.all(np.abs(mean - kernel) < 4.5 * error + 1e-12)
    assert np.median(error / np.abs(kernel)) < 0.1


# ---------------------------------------------------------------------- laws


@pytest.mark.parametrize("d", [1, 2, 7, 40])
@pytest.mark.parametrize("rho", [0.2, 0.6])
def test_the_initial_law_of_the_degree_is_exact(d, rho):
    eta, count = equal_eta(d, R), 20_000
    unit = d ** (-(2 - R) / R)
    penalty = DerivativePenalty(1e-8 * unit, 0.1 * unit)
    drawn = draw_tuples(count, eta, DegreeLaw(rho), penalty, R, np.random.RandomState(3))
    seen = np.bincount(drawn.degrees, weights=drawn.counts)
    k = np.arange(1, 300)
    logs = gammaln(k + d) - gammaln(k + 1) - gammaln(d) + k * math.log(rho)
    logs -= np.log(1e-8 + 0.1 * k)
    expected = count * np.exp(logs - logsumexp(logs))
    assert seen[0] == 0
    common = expected >= 10
    observed = np.concatenate([seen[1:], np.zeros(300)])[: len(k)]
    rest = count - observed[common].sum(), count - expected[common].sum()
    far = (observed[common] - expected[common]) ** 2 / expected[common]
    statistic = far.sum() + (rest[0] - rest[1]) ** 2 / max(rest[1], 1.0)
    assert stats.chi2.sf(statistic, common.sum()) > 1e-3


@pytest.mark.parametrize("sizes", [(1, 4), (4, 1), (2, 3)])
def test_the_law_of_two_groups_is_that_of_their_degrees(sizes):
    """Each binomial with its own group's size, and the nearer η of each group."""
    d1, d2 = sizes
    eta = np.concatenate([np.linspace(0.3, 0.5, d1), np.linspace(0.01, 0.03, d2)])
    count, rho, cut = 40_000, 0.8, 5
    drawn = draw(count, eta, DegreeLaw(rho, cut=cut), DerivativePenalty(1e-3, 0.2))
    seen = np.zeros((cut + 1, cut + 1))
    groups = drawn.tuples[:, :d1].sum(axis=1), drawn.tuples[:, d1:].sum(axis=1)
    np.add.at(seen, groups, drawn.counts)
    expected = np.zeros_like(seen)
    for k1, k2 in itertools.product(range(cut + 1), repeat=2):
        if 1 <= k1 + k2 <= cut:
            number = comb(k1 + d1 - 1, d1 - 1) * comb(k2 + d2 - 1, d2 - 1)
            expected[k1, k2] = number * rho ** (k1 + k2)
            expected[k1, k2] /= 1e-3 + 0.2 * (k1 / eta[:d1].min() + k2 / eta[d1:].max())
    expected *= count / expected.sum()
    assert not seen[expected == 0].any()
    assert stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-3


@pytest.mark.parametrize(("d", "largest"), [(1, 6), (2, 5), (3, 4), (30, 2)])
def test_tuples_up_to_a_degree_are_uniform(d, largest):
    total = int(sum(comb(k + d - 1, d - 1, exact=True) for k in range(1, largest + 1)))
    count = 60 * total
    law = _UniformLaw(d, largest)
    tuples = law.draw(count, np.random.RandomState(2))
    np.testing.assert_allclose(law.log_density(tuples), -math.log(total), rtol=1e-9)
    distinct, counts = np.unique(tuples, axis=0, return_counts=True)
    assert len(distinct) == total
    assert distinct.sum(axis=1).min() == 1
    assert distinct.sum(axis=1).max() == largest
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("k", "d"), [(1, 5), (4, 3), (6, 2), (2, 6), (3, 1), (0, 4), (0, 1)])
def test_spreads_are_uniform_over_compositions(k, d):
    total = comb(k + d - 1, d - 1, exact=True)
    tuples = _draw_uniform_tuples(np.full(100 * total, k), d, np.random.RandomState(5))
    assert tuples.shape == (100 * total, d)
    assert tuples.min() >= 0
    np.testing.assert_array_equal(tuples.sum(axis=1), k)
    distinct, counts = np.unique(tuples, axis=0, return_counts=True)
    assert len(distinct) == total
    assert total == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_spreads_of_mixed_degrees_keep_their_rows():
    degrees = np.random.RandomState(0).randint(0, 9, 500)
    tuples = _draw_uniform_tuples(degrees, 4, np.random.RandomState(1))
    np.testing.assert_array_equal(tuples.sum(axis=1), degrees)


@pytest.mark.parametrize("eta", ["equal", "one and two", "two and one", "two", "one"])
def test_densities_sum_to_one(eta):
    eta, law = ETAS[eta], DegreeLaw(0.8, cut=3)
    group = _GroupLaw(eta, _upper_group(eta, 1.0), law, PENALTY)
    for one in (group, _SingleVariables(eta, 1.0, group.reach), _UniformLaw(len(eta), 3)):
        distinct = np.unique(one.draw(60_000, np.random.RandomState(0)), axis=0)
        assert np.exp(one.log_density(distinct)).sum() == pytest.approx(1.0, rel=1e-12)
        assert distinct.sum(axis=1).max() == one.reach == 3
        everything = exhaustive(eta, law)[0]
        assert np.exp(one.log_density(everything)).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("law", [DegreeLaw(0.02), DegreeLaw(largest=2)], ids=["ρ", "M"])
def test_every_variable_is_drawn_by_itself_where_there_are_many(law):
    d, count = 100, 2_000  # 5150 tuples of degrees 1 and 2
    eta = equal_eta(d, R)
    unit = d ** (-(2 - R) / R)
    drawn = draw_tuples(
        count, eta, law, DerivativePenalty(1e-9 * unit, unit), R, np.random.RandomState(0)
    )
    squares = (drawn.tuples.max(axis=1) == 2) & (drawn.degrees == 2)
    assert np.count_nonzero(squares) > 0.85 * d
    assert drawn.counts.sum() == count
    crossed = np.count_nonzero(drawn.tuples, axis=1) == 2
    assert drawn.counts[crossed].sum() > 0.1 * count  # interactions as well
    # Each of these is the kernel's term over how often it is drawn
    term = math.exp(law.log_c(np.array([2]))[0]) / 2.0
    expected = np.sum(drawn.scales[crossed] ** 2) / (term * comb(d, 2, exact=True))
    assert expected == pytest.approx(1.0, abs=0.2)
    assert np.sum(drawn.scales[squares] ** 2) == pytest.approx(term * d, rel=0.3)


@given(k=st.integers(0, 40), d=st.integers(1, 60))
@settings(derandomize=True, max_examples=50)
def test_tuples_are_counted_in_logarithms(k, d):
    expected = math.log(comb(k + d - 1, d - 1, exact=True))
    assert _log_count(np.array([k]), d)[0] == pytest.approx(expected, abs=1e-9)


def test_an_empty_group_has_one_tuple():
    np.testing.assert_array_equal(_log_count(np.arange(3), 0), [0.0, -np.inf, -np.inf])


# ---------------------------------------------------------------------- the cut


@pytest.mark.parametrize("d", [1, 2, 10, 40])
@pytest.mark.parametrize("rho", [0.05, 0.4, 0.8])
def test_the_cut_leaves_out_at_most_a_thousandth(d, rho):
    k = np.arange(401)
    logs = _log_count(k, d) + k * math.log(rho)
    logs[0] = -np.inf
    kept = _trim_tail(logs[:, None], k[:, None])[:, 0]
    share = math.exp(logsumexp(kept) - logsumexp(logs))
    last = int(np.flatnonzero(np.isfinite(kept)).max())
    assert 1.0 - share <= 1e-3
    np.testing.assert_array_equal(kept[: last + 1], logs[: last + 1])
    assert math.exp(logsumexp(logs[last:]) - logsumexp(logs)) > 1e-3  # no degree too many
    # And the 400 degrees that are looked at hold the rest of the law
    assert stats.nbinom.sf(400, d, 1.0 - rho) < 1e-6


@pytest.mark.pairs
@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("rho", [0.0, 0.05, 0.4, 0.8])
@pytest.mark.parametrize("strength", [0.0, 1e-3, 1e6])
def test_tables_have_room_for_what_is_drawn(d, rho, strength):
    law, k = DegreeLaw(rho), np.arange(401)
    reach = _largest_degree(law, d)
    for first in {1, max(1, d - 1)}:  # of so many, with the smallest denominators
        k1, k2 = np.meshgrid(k, k if d > first else k[:1], indexing="ij")
        logs = _log_count(k1, first) + _log_count(k2, d - first) + law.log_c(k1 + k2)
        logs = logs - np.log(1.0 + strength * (k1 + 1e4 * k2))
        logs[0, 0] = -np.inf
        left = logsumexp(np.where(k1 + k2 > reach, logs, -np.inf)) - logsumexp(logs)
        assert math.exp(left) <= 1.001e-9
    assert reach < (2 if rho == 0.0 else 401)


def test_the_cut_is_of_the_total_degree():
    degrees = np.add.outer(np.arange(30), np.arange(30))
    kept = np.isfinite(_trim_tail(degrees * math.log(0.3), degrees))
    assert len(np.unique(degrees[kept])) == degrees[kept].max() + 1
    assert not kept[degrees > degrees[kept].max()].any()


@pytest.mark.parametrize("eta", ["equal", "one and two"])
def test_a_given_cut_is_of_the_total_degree(eta):
    drawn = draw(5_000, ETAS[eta], DegreeLaw(0.9, cut=3))
    assert drawn.degrees.max() == 3


# ---------------------------------------------------------------------- extremes


@pytest.mark.parametrize("d", [1, 10, 200])
@pytest.mark.parametrize("rho", [1e-300, 1e-12, 0.1, 0.8, 0.99])
def test_logarithms_hold_every_law(d, rho):
    eta = equal_eta(d, R)
    unit = d ** (-(2 - R) / R)
    penalty = DerivativePenalty(1e-8 * unit, 0.1 * unit)
    drawn = draw_tuples(300, eta, DegreeLaw(rho), penalty, R, np.random.RandomState(0))
    assert drawn.counts.sum() == 300
    assert drawn.degrees.min() >= 1
    assert np.all(np.isfinite(drawn.scales))
    assert np.all(drawn.scales > 0)
    if rho <= 1e-12:
        assert drawn.degrees.max() == 1
    # Where η is equal the law is that of the kernel, so that squares sum to its trace exactly
    k = np.arange(1, 401)
    logs = _log_count(k, d) + k * math.log(rho) - np.log(1e-8 + 0.1 * k)
    trace = logsumexp(2.0 * np.log(drawn.scales))
    assert trace == pytest.approx(logsumexp(logs), abs=2e-3)


@pytest.mark.parametrize("d", [1, 6, 200])
def test_without_decay_only_degree_one_is_left(d):
    eta = equal_eta(d, 1.0)
    drawn = draw(2_000, eta, DegreeLaw(0.0))
    np.testing.assert_array_equal(drawn.degrees, 1)
    assert len(drawn.tuples) == d
    exact = d / (PENALTY.ridge + PENALTY.strength / eta[0])
    assert np.sum(drawn.scales**2) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("law", [DegreeLaw(0.8), DegreeLaw(largest=40)], ids=["ρ", "M"])
def test_many_dimensions_with_unequal_eta(law):
    eta = np.full(200, 1e-14)
    eta[[7, 150]] = 0.3, 0.2
    drawn = draw_tuples(500, eta, law, DerivativePenalty(1e-12, 1e-9), R, np.random.RandomState(0))
    assert drawn.tuples.shape[1] == 200
    assert np.all(np.isfinite(drawn.scales))
    assert np.all(drawn.scales > 0)


@pytest.mark.parametrize("strength", [1e-300, 1e-12, 1e12, 1e300])
def test_any_strength_is_drawn_with(strength):
    drawn = draw(50, ETAS["one and two"], DegreeLaw(0.5), DerivativePenalty(1e-8, strength))
    assert np.all(np.isfinite(drawn.scales))
    assert np.all(drawn.scales > 0)


# ---------------------------------------------------------------------- groups


def test_equal_entries_are_one_group():
    for d in (1, 2, 9):
        for r in (0.1, R, 1.0, 1.9):
            assert _upper_group(equal_eta(d, r), r).all()
    rounded = equal_eta(5, 1.0) * (1 + 1e-13 * np.arange(5))
    assert _upper_group(rounded, 1.0).all()


@pytest.mark.parametrize(
    ("shares", "upper"),
    [
        ([0.5, 0.3, 0.1, 0.1], [True, False, False, False]),
        ([0.1, 0.45, 0.05, 0.4], [False, True, False, True]),
        ([0.25, 0.25, 0.25, 0.25], [True] * 4),
        ([0.5, 0.0, 0.5, 0.0], [True, False, True, False]),
        ([0.6, 0.4, 0.2, 0.0], [True, True, True, False]),
    ],
)
@pytest.mark.parametrize("r", [R, 1.0, 1.7])
def test_groups_part_at_the_largest_gap_of_the_shares(shares, upper, r):
    eta = np.asarray(shares) ** ((2 - r) / r)
    if r == 1.0 or len({*shares}) != 4:  # rounding decides between equal gaps
        np.testing.assert_array_equal(_upper_group(eta, r), upper)
    assert _upper_group(eta, r)[np.argmax(shares)]


def test_all_equal_entries_are_drawn_like_any():
    drawn = draw(100, np.full(4, 0.25), DegreeLaw(0.4))
    assert drawn.counts.sum() == 100


# ---------------------------------------------------------------------- what comes out


@given(
    d=st.integers(1, 6),
    count=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
    rho=st.floats(0, 0.9),
    largest=st.one_of(st.none(), st.integers(1, 12)),
    r=st.floats(0.05, 1.95),
)
@settings(derandomize=True, max_examples=60)
def test_tuples_are_distinct_counted_and_drawn_again_alike(d, count, seed, rho, largest, r):
    shares = np.random.default_rng(seed).dirichlet(np.ones(d)) + 1e-6
    eta = (shares / shares.sum()) ** ((2 - r) / r)
    law = DegreeLaw(rho) if largest is None else DegreeLaw(largest=largest)
    one, two = (
        draw_tuples(count, eta, law, PENALTY, r, np.random.RandomState(seed)) for _ in range(2)
    )
    assert isinstance(one, MultiIndices)
    assert one.tuples.dtype == np.int64
    assert len(np.unique(one.tuples, axis=0)) == len(one.tuples) == len(one.scales)
    everything = math.inf if largest is None else math.comb(d + largest, d) - 1
    assert one.counts.sum() == min(count, everything)
    assert one.counts.min() >= 1
    assert one.tuples.min() >= 0
    np.testing.assert_array_equal(one.degrees, one.tuples.sum(axis=1))
    assert one.degrees.min() >= 1
    if largest is not None:
        assert one.degrees.max() <= largest
    assert np.all(np.isfinite(one.scales))
    for name in ("tuples", "scales", "counts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@etas
@pytest.mark.parametrize("largest", [1, 4])
def test_all_tuples_are_taken_where_there_is_room(eta, largest):
    law = DegreeLaw(largest=largest)
    tuples, weights = exhaustive(eta, law)
    for room in (len(tuples), 10 * len(tuples)):
        found = draw(room, eta, law)
        assert {tuple(alpha) for alpha in found.tuples} == {tuple(alpha) for alpha in tuples}
        order, expected = np.lexsort(found.tuples.T), np.lexsort(tuples.T)
        np.testing.assert_allclose(found.scales[order] ** 2, weights[expected], rtol=1e-12)
    few = max(1, len(tuples) - 1)
    assert draw(few, eta, law).counts.sum() == few


def test_equal_draws_add_their_squares():
    eta = ETAS["two"]
    drawn = draw(1_000, eta, DegreeLaw(0.5, cut=3))
    single = draw(1, eta, DegreeLaw(0.5, cut=3))
    k = int(np.flatnonzero((drawn.tuples == single.tuples[0]).all(axis=1))[0])
    expected = math.sqrt(drawn.counts[k] / 1_000) * single.scales[0]
    assert drawn.scales[k] == pytest.approx(expected, rel=1e-12)


@given(d=st.integers(1, 50), r=st.floats(0.1, 1.95))
@settings(derandomize=True, max_examples=40)
def test_equal_entries_satisfy_the_constraint(d, r):
    eta = equal_eta(d, r)
    assert np.sum(eta ** (r / (2 - r))) == pytest.approx(1.0, rel=1e-9)
    assert len(set(eta)) == 1
