"""Projections are the nearest points, and descents end where no allowed direction goes down."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize, rosen, rosen_der

from gpukfl.core._results import Status
from gpukfl.solvers import ArmijoSearch, ProjectedGradient, project_on_capped_orthant

EPS = float(np.finfo(np.float64).eps)
EXACT = ProjectedGradient(max_iter=5000, tol=1e-15)
SIZES = [1, 2, 7, 40]
sizes = pytest.mark.parametrize("p", SIZES)
radii = pytest.mark.parametrize("radius", [1e-3, 0.3, 1.0, 100.0])


@st.composite
def points(draw):
    """Draw a point, of any length and scale, on any side of the set, and a radius."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    x = rng.standard_normal(draw(st.integers(1, 60))) * 10.0 ** draw(st.integers(-12, 20))
    kind = draw(st.sampled_from(["random", "positive", "negative", "tied", "spread", "zero"]))
    if kind == "tied":
        x = np.take(x, rng.integers(0, max(1, len(x) // 4), len(x)))
    elif kind == "spread":
        x = x * 10.0 ** rng.integers(-15, 15, len(x))
    x = {"positive": np.abs(x), "negative": -np.abs(x), "zero": 0.0 * x}.get(kind, x)
    return x, 10.0 ** draw(st.integers(-12, 12))


def assert_nearest(x, radius, nearest):
    """A point of a convex set is the nearest if no vertex is further in the direction to x."""
    slack = 10 * EPS * len(x)
    assert np.all(nearest >= 0)
    assert np.sum(nearest) <= radius * (1 + slack)
    normal = x - nearest
    furthest = max(0.0, radius * float(np.max(normal)))  # the vertices are 0 and radius e_l
    scale = np.max(np.abs(x)) * max(np.sum(nearest), radius)
    assert furthest - normal @ nearest <= slack * scale


@given(points())
@settings(derandomize=True, max_examples=300)
def test_projections_are_the_nearest_points(case):
    x, radius = case
    before = x.copy()
    nearest = project_on_capped_orthant(x, radius)
    assert_nearest(x, radius, nearest)
    assert nearest.shape == x.shape
    assert nearest.dtype == np.float64
    assert np.array_equal(x, before)
    if np.sum(np.maximum(x, 0.0)) <= radius:
        assert np.array_equal(nearest, np.maximum(x, 0.0))
    else:
        assert np.sum(nearest) == pytest.approx(radius, rel=10 * EPS * len(x))


@given(points(), st.integers(0, 1000))
@settings(derandomize=True, max_examples=200)
def test_projections_are_idempotent_and_bring_no_points_apart(case, seed):
    x, radius = case
    rng = np.random.default_rng(seed)
    z = x + rng.standard_normal(len(x)) * rng.choice([1e-3, 1.0, 10.0]) * np.max(np.abs(x))
    slack = 20 * EPS * len(x)
    a, b = project_on_capped_orthant(x, radius), project_on_capped_orthant(z, radius)
    again = project_on_capped_orthant(a, radius)
    np.testing.assert_allclose(again, a, rtol=0, atol=slack * radius)
    near, far = np.linalg.norm(a - b), np.linalg.norm(x - z)
    assert near <= far + slack * max(np.max(np.abs(x)), np.max(np.abs(z)))


@sizes
@radii
def test_projections_are_those_of_the_shift_that_bisection_finds(rng, p, radius):
    for _ in range(20):
        x = rng.standard_normal(p) + 1.0

        def over(shift, x=x):
            return np.sum(np.maximum(x - shift, 0.0)) - radius

        shift = brentq(over, 0.0, np.max(x), xtol=1e-15) if over(0.0) > 0 else 0.0
        nearest = project_on_capped_orthant(x, radius)
        np.testing.assert_allclose(nearest, np.maximum(x - shift, 0.0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("radius", [0.1, 1.0, 5.0])
def test_projections_are_those_of_a_quadratic_program(rng, radius):
    for _ in range(5):
        x = rng.standard_normal(6)
        found = constrained_minimum(lambda z, x=x: (0.5 * np.sum((z - x) ** 2), z - x), 6, radius)
        nearest = project_on_capped_orthant(x, radius)
        np.testing.assert_allclose(nearest, found, rtol=0, atol=1e-7)


def test_projections_known_by_heart():
    for x, radius, nearest in [
        ([3.0], 1.0, [1.0]),
        ([-3.0], 1.0, [0.0]),
        ([2.0, 2.0], 1.0, [0.5, 0.5]),
        ([2.0, 1.0, -5.0], 2.0, [1.5, 0.5, 0.0]),
        ([5.0, 1.0], 1.0, [1.0, 0.0]),
        ([0.25, -1.0, 0.5], 1.0, [0.25, 0.0, 0.5]),
        ([1e20, 1.0], 1.0, [1.0, 0.0]),  # what a long step may reach
        ([1e20, 1e20], 1.0, [0.5, 0.5]),
        ([], 1.0, []),
    ]:
        assert project_on_capped_orthant(np.asarray(x), radius).tolist() == nearest


def constrained_minimum(function, p, radius):
    """SciPy's minimiser over the set, of a function with its gradient."""
    found = minimize(
        function,
        np.full(p, 0.5 * radius / p),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, None)] * p,
        constraints={
            "type": "ineq",
            "fun": lambda z: radius - np.sum(z),
            "jac": lambda _: -np.ones(p),
        },
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return found.x


class Quadratic:
    """``c (1 + ½ (x - t)' H (x - t))`` over the set; it notes where it was evaluated."""

    def __init__(self, rng, p=6, radius=1.0, *, factor=1.0, wrong=False):
        root = rng.standard_normal((p, p))
        self.H = root @ root.T / p + 0.1 * np.eye(p)
        self.t = rng.standard_normal(p) + 0.3
        self.radius, self.factor, self.sign = radius, factor, -1.0 if wrong else 1.0
        self.points = []

    def value(self, x):
        self.points.append(x.copy())
        return self.factor * (1 + 0.5 * float((x - self.t) @ self.H @ (x - self.t)))

    def gradient(self, x):
        return self.sign * self.factor * (self.H @ (x - self.t))

    def project(self, x):
        return project_on_capped_orthant(x, self.radius)

    def minimize(self, solver, x=None, watch=lambda *_: None):
        x = np.zeros(len(self.t)) if x is None else x
        found = solver.minimize(self.value, self.gradient, self.project, x, watch=watch)
        assert_consistent(self, found, x)
        return found


def assert_consistent(function, found, start):
    """The point is allowed and has the reported value; values fall; the history is complete."""
    radius = function.radius * (1 + 100 * EPS)
    for x in [*function.points, found.x]:
        assert np.all(x >= 0)
        assert np.sum(x) <= radius
    assert found.value == function.value(found.x)
    history = found.history
    assert len(history.objective) == len(history.step) == len(history.residual)
    assert len(history.seconds) == len(history)
    assert np.all(np.diff([function.value(start), *history.objective]) < 0)
    assert np.all(np.diff(history.seconds) >= 0)
    assert found.value == ([function.value(start), *history.objective])[-1]


def edges(p, radius):
    """Starts: inside, and on every kind of edge."""
    return {
        "zero": np.zeros(p),
        "inside": np.full(p, 0.5 * radius / p),
        "corner": radius * np.eye(p)[-1],
        "face": np.full(p, radius / p),
    }


@pytest.mark.pairs
@sizes
@radii
@pytest.mark.parametrize("start", ["zero", "inside", "corner", "face"])
def test_quadratics_are_minimised_over_the_set(rng, p, radius, start):
    function = Quadratic(rng, p, radius)
    found = function.minimize(EXACT, edges(p, radius)[start])
    assert found.status in (Status.CONVERGED, Status.STALLED)  # stalled: to the last digit
    best = constrained_minimum(lambda z: (function.value(z), function.gradient(z)), p, radius)
    best = function.project(best)
    assert found.value <= function.value(best) * (1 + 1e-13)
    np.testing.assert_allclose(found.x, best, rtol=0, atol=1e-5 * min(radius, 1.0))
    # A stationary point is its own projected step
    step = function.project(found.x - function.gradient(found.x))
    np.testing.assert_allclose(step, found.x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("radius", [1.0, 10.0])
def test_a_curved_valley_is_followed_to_its_end(radius):
    found = ProjectedGradient(max_iter=5000, tol=1e-12).minimize(
        rosen, rosen_der, lambda x: project_on_capped_orthant(x, radius), np.zeros(2)
    )
    best = constrained_minimum(lambda z: (rosen(z), rosen_der(z)), 2, radius)
    np.testing.assert_allclose(found.x, best, rtol=0, atol=1e-4)


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_convergence_needs_two_flat_iterations(rng, tol):
    found = Quadratic(rng, 40, 10.0).minimize(ProjectedGradient(tol=tol, max_iter=1000))
    assert found.status is Status.CONVERGED
    falls = -np.diff(found.history.objective) / np.abs(found.history.objective[1:])
    flat = falls <= tol
    assert not np.any(flat[1:-1] & flat[:-2])
    assert len(found.history) < 30


def test_one_short_first_step_is_not_the_end():
    expected = Quadratic(np.random.default_rng(3)).minimize(EXACT)
    found = Quadratic(np.random.default_rng(3)).minimize(ProjectedGradient(first_move=1e-9))
    assert found.value <= expected.value * 1.001


@pytest.mark.parametrize("power", [-60, -30, 0, 30])
def test_descents_depend_on_no_unit_of_the_values(power):
    plain = Quadratic(np.random.default_rng(3)).minimize(ProjectedGradient())
    scaled = Quadratic(np.random.default_rng(3), factor=2.0**power).minimize(ProjectedGradient())
    np.testing.assert_allclose(scaled.x, plain.x, rtol=0, atol=1e-12)
    assert scaled.status is plain.status
    assert len(scaled.history) == len(plain.history)


def test_first_steps_move_as_far_as_they_were_told(rng):
    function = Quadratic(rng, radius=100.0)
    slope = np.max(np.abs(function.gradient(np.zeros(6))))
    seen = []
    solver = ProjectedGradient(first_move=1e-3, max_iter=1)
    found = function.minimize(solver, watch=lambda _, history: seen.append(history.step[0]))
    assert seen == found.history.step == [pytest.approx(1e-3 / slope)]


def test_steps_take_the_search_that_is_given(rng):
    search = ArmijoSearch(largest=1e-3)
    found = Quadratic(rng).minimize(ProjectedGradient(search=search, max_iter=3))
    assert np.all(np.asarray(found.history.step) <= 1e-3)


def test_iterations_run_out(rng):
    found = Quadratic(rng, 40, 10.0).minimize(ProjectedGradient(max_iter=2, tol=0.0))
    assert found.status is Status.MAX_ITER
    assert len(found.history) == 2


def test_no_iterations_give_the_start_back(rng):
    start = np.full(6, 0.1)
    found = Quadratic(rng).minimize(ProjectedGradient(max_iter=0), start)
    assert found.status is Status.MAX_ITER
    assert np.array_equal(found.x, start)
    assert len(found.history) == 0


def test_time_runs_out(rng):
    found = Quadratic(rng, 40, 10.0).minimize(ProjectedGradient(max_time=0.0, tol=0.0))
    assert found.status is Status.TIME_LIMIT
    assert len(found.history) == 1


def test_wrong_gradients_stall_where_they_began(rng):
    start = np.full(6, 0.1)
    found = Quadratic(rng, wrong=True).minimize(ProjectedGradient(), start)
    assert found.status is Status.STALLED
    assert np.array_equal(found.x, start)


@pytest.mark.parametrize("where", ["value", "gradient", "watch"])
@pytest.mark.parametrize("after", [1, 4])
def test_interruptions_keep_the_lowest_point(rng, where, after):
    function, calls, start = Quadratic(rng, 40, 10.0), [], np.zeros(40)
    parts = {"value": function.value, "gradient": function.gradient, "watch": lambda *_: None}
    plain = parts[where]

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == after + 1:
            raise KeyboardInterrupt
        return plain(*arguments)

    parts[where] = interrupted
    found = ProjectedGradient(tol=0.0).minimize(
        parts["value"], parts["gradient"], function.project, start, watch=parts["watch"]
    )
    assert found.status is Status.INTERRUPTED
    assert_consistent(function, found, start)
    if where == "watch":  # called when the step has been noted
        assert len(found.history) == after + 1
    else:
        assert len(found.history) < after


def test_watchers_are_called_after_every_iteration(rng):
    seen = []
    found = Quadratic(rng).minimize(
        ProjectedGradient(), watch=lambda k, history: seen.append((k, len(history)))
    )
    assert seen == [(k, k + 1) for k in range(len(found.history))]


def test_flat_starts_have_converged():
    for x in (np.zeros(3), np.full(3, 0.2), np.zeros(0)):
        found = ProjectedGradient().minimize(
            lambda _: 1.0, np.zeros_like, lambda x: project_on_capped_orthant(x, 1.0), x
        )
        assert found.status is Status.CONVERGED
        assert np.array_equal(found.x, x)
        assert len(found.history) == 0


@pytest.mark.parametrize("radius", [0.5, 1.0])
@pytest.mark.parametrize(
    ("slopes", "corner"), [([1.0, 2.0], [0.0, 0.0]), ([-3.0, -1.0], [1.0, 0.0])]
)
def test_linear_functions_end_at_corners_and_stay_there(radius, slopes, corner):
    def run(start):
        return ProjectedGradient().minimize(
            lambda x: float(np.asarray(slopes) @ x),
            lambda _: np.asarray(slopes),
            lambda x: project_on_capped_orthant(x, radius),
            start,
        )

    best = radius * np.asarray(corner)
    found = run(np.full(2, 0.25 * radius))
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, best, rtol=0, atol=1e-15)
    found = run(best)
    assert found.status is Status.CONVERGED
    assert len(found.history) == 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["value", "gradient"])
def test_a_start_that_is_not_finite_is_an_error(wrong, part):
    value, slope = (wrong, 1.0) if part == "value" else (1.0, wrong)
    with pytest.raises(FloatingPointError, match="not finite at the start"):
        ProjectedGradient().minimize(
            lambda _: value,
            lambda x: np.full_like(x, slope),
            lambda x: project_on_capped_orthant(x, 1.0),
            np.zeros(3),
        )


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_steps_into_what_is_not_finite_turn_back(wrong):
    """``-log(1 - x) - 4 x``: lowest at 3/4, and long first steps pass 1."""

    def value(x):
        return -np.log1p(-x[0]) - 4 * x[0] if x[0] < 1 else wrong

    found = ProjectedGradient(tol=1e-12, first_move=50.0).minimize(
        value, lambda x: 1 / (1 - x) - 4, lambda x: project_on_capped_orthant(x, 1e3), np.zeros(1)
    )
    np.testing.assert_allclose(found.x, [0.75], rtol=0, atol=1e-6)


def test_starts_are_left_alone(rng):
    start = np.full(6, 0.1)
    Quadratic(rng).minimize(ProjectedGradient(), start)
    assert np.array_equal(start, np.full(6, 0.1))
