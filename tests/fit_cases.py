"""Data and small models for the tests of the front door."""

import numpy as np
import pandas as pd
from brief import bkernn

import gpukfl

N, D = 80, 3
RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (N, D)) * [1.0, 50.0, 0.01]
Y = np.abs(X[:, 0]) + 0.02 * X[:, 1]
LABELS = np.where(X[:, 0] > 0, "yes", "no")
FRAME = pd.DataFrame(X, columns=["width", "height", "age"])


def fit(X, y, method="bkernn", **options):
    few = bkernn(**{"n_particles": 8, "max_iter": 4, **options})
    return gpukfl.fit(X, y, method=method, **few)


class Clock:
    """A clock that advances at every look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now
