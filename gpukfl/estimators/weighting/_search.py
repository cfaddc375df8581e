"""Choice of an instantiation by held-out folds, on some rows and with some parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._results import Status
from gpukfl.estimators._run import Run
from gpukfl.estimators.weighting._problem import Learned, WeightingProblem
from gpukfl.instantiations import INSTANTIATIONS, GaussianSign, Instantiation, Stumps
from gpukfl.methods import scored_rows

_PARAMETERS = 300  # with which an instantiation is chosen
_SHARE = 0.3  # of max_time after which the search has ended

CANDIDATES: dict[str, list[Instantiation]] = {
    "gaussian_sign": [GaussianSign(constant=c) for c in (0.9, 0.5, 0.1, 0.01)],
    "stumps": [Stumps(1.0, gamma) for gamma in (0.1, 0.3, 1.0, 3.0)],
}
CHOICES = ("auto", *INSTANTIATIONS)


@dataclass
class InstantiationSearch:
    """The candidates of a setting, and how well each predicts held-out folds.

    Every score is of the same rows, in the same folds, so that scores may be compared.
    """

    problem: WeightingProblem
    settings: Any
    run: Run
    trials: list[tuple[Instantiation, Learned]] = field(default_factory=list)

    def choose(self) -> Instantiation:
        """Choose; Ctrl-C or the end of time leave the best so far."""
        found, d = candidates(self.settings.instantiation), self.problem.d
        if len(found) == 1:
            return found[0].resolved(d)
        problem = self.problem
        if not self._on_all_rows:
            problem = problem.part(scored_rows(problem.n))
        count = min(self.settings.n_parameters, _PARAMETERS)
        # The same normal draws for all candidates of one kind
        seed = self.run.rng.randint(2**31 - 1)
        for candidate in found:
            instantiation = candidate.resolved(d)
            W = instantiation.draw(count, d, np.random.RandomState(seed))
            operator = problem.operator(instantiation, W)
            learned = problem.learn(operator, validate=True, near=self._latest)
            if learned.validated is not None:
                self.trials.append((instantiation, learned))
                self.run.tell(
                    f"tune {described(instantiation)}", len(self.trials) - 1, learned.history
                )
            if learned.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if self.trials and self.run.is_over(_SHARE):
                break
        return self.best[0]

    @property
    def _latest(self) -> Learned | None:
        """The last trial, whose ridge is a good guess for that of the next one."""
        return self.trials[-1][1] if self.trials else None

    def parameters(self, instantiation: Instantiation) -> np.ndarray:
        """Draw the parameters of the fit: those of the best trial, and as many as are missing."""
        first = [to_host(self.best[1].operator.W)] if self.trials else []
        missing = self.settings.n_parameters - sum(len(W) for W in first)
        if missing:
            first.append(instantiation.draw(missing, self.problem.d, self.run.rng))
        return np.concatenate(first)

    @property
    def is_whole(self) -> bool:
        """Whether the best trial is a fit of all parameters to all rows."""
        few = self.settings.n_parameters <= _PARAMETERS
        return bool(self.trials) and few and self._on_all_rows

    def better(self, learned: Learned) -> Learned:
        """Give the fit, or the best trial where that sees all rows and is better with fewer."""
        if not self.trials or not self._on_all_rows or learned.validated is None:
            return learned
        return max(learned, self.best[1], key=top_score)

    @property
    def _on_all_rows(self) -> bool:
        return len(scored_rows(self.problem.n)) == self.problem.n

    @property
    def best(self) -> tuple[Instantiation, Learned]:
        """The trial with the best score."""
        return max(self.trials, key=lambda trial: top_score(trial[1]))

    def report(self, learned: Learned, last: Learned) -> list[dict[str, Any]]:
        """Describe what was tried, at its best ridge, then `learned`, at all ridges.

        `last` is the fit that followed the search.
        """
        every = [*(one for _, one in self.trials), last]
        others = [one for k, one in enumerate(every) if one not in [learned, *every[:k]]]
        entries = [_entry(one, one.validated.best) for one in others if one.validated is not None]
        if learned.validated is None:
            return entries
        chosen = learned.validated.best
        along = range(len(learned.validated.ridges))
        return entries + [_entry(learned, k, chosen=k == chosen) for k in along]


def _entry(learned: Learned, k: int, *, chosen: bool = False) -> dict[str, Any]:
    """Describe one ridge of a fit."""
    assert learned.validated is not None
    return {
        "instantiation": described(learned.operator.instantiation),
        "n_parameters": learned.operator.shape[1],
        "n_samples": learned.n_seen,
        "ridge": learned.validated.ridges[k],
        "score": learned.validated.scores[k],
        "chosen": chosen,
    }


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
