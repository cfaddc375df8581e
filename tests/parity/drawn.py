"""Problems that hypothesis draws: sizes, weights, targets, layouts, constant and equal columns."""

from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
from hypothesis import HealthCheck, Phase, example, settings
from hypothesis import strategies as st

LAYOUTS = ("rows", "columns", "strided", "reversed")
FLAWS = ("none", "constant column", "repeated columns", "repeated rows", "tied values")


def examples(count):
    """Settings of a test that tries `count` problems, the same ones in every run."""
    return settings(
        derandomize=True,
        database=None,
        max_examples=count,
        phases=[Phase.explicit, Phase.generate],  # what is drawn is small as it is
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def lay(on, a, layout):
    """Put a host array on a place in a layout: as a view of what lies otherwise in memory."""
    xp = on.xp
    if layout == "reversed":
        return xp.flip(on.put(np.flip(a).copy()))
    if layout == "columns" and a.ndim == 2:
        return on.put(np.ascontiguousarray(a.T)).T
    if layout == "strided":
        wide = np.full([2 * length for length in a.shape], np.nan)
        every_second = (slice(None, None, 2),) * a.ndim
        wide[every_second] = a
        return on.put(wide)[every_second]
    return on.put(np.ascontiguousarray(a))


@dataclass(frozen=True)
class Problem:
    """Rows with targets and weights, on the host in float64."""

    X: np.ndarray  # (n, d)
    new: np.ndarray  # (q, d)
    Y: np.ndarray  # (n, t)
    weights: np.ndarray | None  # (n, 1); some may be 0
    layout: str
    flaw: str
    seed: int

    def _repr_pretty_(self, printer, _cycle):
        weights = "no weights" if self.weights is None else f"{np.sum(self.weights == 0)} without"
        sizes = f"X {self.X.shape}, new {self.new.shape}, Y {self.Y.shape}, {weights}"
        printer.text(f"<{sizes}, {self.layout}, {self.flaw}, seed {self.seed}>")

    @property
    def rng(self):
        """Random numbers beside those of the problem, the same at every look."""
        return np.random.default_rng(self.seed + 1)

    @property
    def state(self):
        """The same for what is drawn inside the package."""
        return np.random.RandomState(self.seed % 2**32)


def spoiled(X, flaw):
    """Rows of X with a flaw."""
    if flaw == "constant column":
        X[:, -1] = 0.7
    elif flaw == "repeated columns":
        X[:, -1] = X[:, 0]
    elif flaw == "repeated rows":
        X[len(X) // 2 :] = X[: len(X) - len(X) // 2]
    elif flaw == "tied values":
        X = np.round(X)
    return X


@st.composite
def problems(draw, *, fewest=1, rows=24, columns=5, targets=3, flaws=FLAWS, weighted=True):
    """Problems of 1 or 2 rows, or more; of one column, or more columns than rows."""
    n = draw(st.sampled_from([1, 2]) | st.integers(3, rows)) if fewest == 1 else None
    n = n or draw(st.integers(fewest, rows))
    d, t = draw(st.integers(1, columns)), draw(st.integers(1, targets))
    q = draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**32 - 1))
    flaw, layout = draw(st.sampled_from(flaws)), draw(st.sampled_from(LAYOUTS))
    kind = draw(st.sampled_from(["none", "unequal", "some are 0"])) if weighted else "none"
    rng = np.random.default_rng(seed)
    rows_of_all = spoiled(rng.standard_normal((n + q, d)), flaw)
    X, new = rows_of_all[:n], rows_of_all[n:]
    Y = np.sin(2.0 * X[:, :1]) + X @ rng.standard_normal((d, t)) + rng.standard_normal((n, t))
    weights = None if kind == "none" else rng.uniform(0.5, 2.0, (n, 1))
    if kind == "some are 0":
        weights[1::3] = 0.0
    return Problem(X, new, Y, weights, layout, flaw, seed)


def of_numpy_numbers(settings):
    """Make the same kernel, penalty or instantiation with NumPy's numbers for Python's."""

    def changed(value):
        if isinstance(value, float):
            return np.float64(value)
        return of_numpy_numbers(value) if is_dataclass(value) else value

    given = {one.name: changed(getattr(settings, one.name)) for one in fields(settings) if one.init}
    return replace(settings, **given)


def with_each(cases, *others):
    """Try each case once, with one problem, beside what is drawn."""

    def wrapped(test):
        for case in cases:
            test = example(case, *others)(test)
        return test

    return wrapped


ORDINARY = Problem(
    X=(_X := np.random.default_rng(3).standard_normal((12, 3))),
    new=np.random.default_rng(4).standard_normal((5, 3)),
    Y=np.abs(_X[:, :2]),
    weights=np.random.default_rng(5).uniform(0.5, 2.0, (12, 1)),
    layout="strided",
    flaw="none",
    seed=0,
)
