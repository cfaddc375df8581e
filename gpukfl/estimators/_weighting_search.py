"""Choice of an instantiation by held-out folds, on some rows and with some parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl._results import Status
from gpukfl.estimators._weighting_problem import Learned, WeightingProblem
from gpukfl.instantiations import INSTANTIATIONS, GaussianSign, Instantiation, Stumps

_ROWS = 20_000  # that an instantiation is chosen on
_PARAMETERS = 300  # with which it is

CANDIDATES: dict[str, list[Instantiation]] = {
    "gaussian_sign": [GaussianSign(constant=c) for c in (0.9, 0.5, 0.1, 0.01)],
    "stumps": [Stumps(1.0, gamma) for gamma in (0.1, 0.3, 1.0, 3.0)],
}
CHOICES = ("auto", *INSTANTIATIONS)


@dataclass
class InstantiationSearch:
    """The candidates of a setting, and how well each predicts held-out folds."""

    make: Callable[[np.ndarray], WeightingProblem]  # problem of some rows
    n: int
    settings: Any
    rng: np.random.RandomState
    late: Callable[[], bool]
    tell: Callable[..., None]
    trials: list[tuple[Instantiation, Learned]] = field(default_factory=list)

    def run(self, d: int) -> Instantiation:
        """Choose for `d` columns; Ctrl-C or the end of time leave the best so far."""
        found = candidates(self.settings.instantiation)
        if len(found) == 1:
            return found[0].resolved(d)
        rows = np.arange(self.n)
        if self.n > _ROWS:
            rows = np.sort(self.rng.choice(self.n, _ROWS, replace=False))
        problem = self.make(rows)
        count = min(self.settings.n_parameters, _PARAMETERS)
        # The same normal draws for all candidates of one kind
        seed = self.rng.randint(2**31 - 1)
        for candidate in found:
            instantiation = candidate.resolved(d)
            W = instantiation.draw(count, d, np.random.RandomState(seed))
            learned = problem.learn(problem.operator(instantiation, W), validate=True)
            if learned.validated is not None:
                self.trials.append((instantiation, learned))
                self.tell(f"tune {described(instantiation)}", len(self.trials) - 1, learned.history)
            if learned.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if self.trials and self.late():
                break
        return self.best[0]

    @property
    def best(self) -> tuple[Instantiation, Learned]:
        """The trial with the best score."""
        return max(self.trials, key=lambda trial: top_score(trial[1]))


def candidates(instantiation: str | Instantiation, /) -> list[Instantiation]:
    """Give what a setting leaves to choose from."""
    if isinstance(instantiation, Instantiation):
        return [instantiation]
    if instantiation == "auto":
        return [one for several in CANDIDATES.values() for one in several]
    return CANDIDATES[instantiation]


def top_score(learned: Learned, /) -> float:
    """Score of the best ridge on the held-out folds."""
    assert learned.validated is not None
    return max(learned.validated.scores)


def described(instantiation: Instantiation, /) -> str:
    """Name and widths of an instantiation, in words."""
    shown = [
        f"{name} {value:.3g}"
        for name in ("sigma", "gamma")
        if isinstance(value := getattr(instantiation, name, None), float)
    ]
    return type(instantiation).__name__ + (f" ({', '.join(shown)})" if shown else "")
