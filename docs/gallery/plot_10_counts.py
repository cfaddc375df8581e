"""
Counts, their means and their upper ends
========================================

How many bicycles are hired in an hour? Counts are never negative, and scatter more where they are large. A model of their
mean by the Poisson deviance takes that into account. A quantile says how many bicycles are enough in nine hours of ten.
Data: drawn here, with a peak in the morning and one in the evening.
"""

import matplotlib.pyplot as plt
import numpy as np

import gpukfl

rng = np.random.default_rng(0)


def hires(hour, warmth):
    """Return the mean number of bicycles."""
    peaks = np.exp(-((hour - 8) ** 2) / 3) + np.exp(-((hour - 18) ** 2) / 6)
    return (0.2 + 8 * peaks) * np.exp(0.5 * warmth)


X = np.column_stack([rng.uniform(0, 24, 400), rng.normal(size=400)])
y = rng.poisson(hires(*X.T)).astype(float)
members = ["trees", "manhattan_laplace", "scales_quantile"]
given = {"members": members, "effort": "quick", "n_folds": 2}
mean = gpukfl.fit(X, y, loss="poisson", **given)
high = gpukfl.fit(X, y, loss="quantile:0.9", **given)
mean.leaderboard()

# %%
# The scores are D², the share of the deviance that is saved beside the mean of all counts. The means are positive, and
# add up to about as many bicycles as there were.

print(f"hired {y.sum():.0f}, predicted {mean.predict(X).sum():.0f}")
print(f"at most the quantile: {np.mean(y <= high.predict(X)):.0%} of the hours")

# %%
# A day of middle warmth: the truth, the mean, and what is enough in nine hours of ten.

hour = np.linspace(0, 24, 200)
day = np.column_stack([hour, np.zeros(200)])
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
near = np.abs(X[:, 1]) < 0.5
ax.plot(X[near, 0], y[near], ".", color="#bbbbbb", label="hours of such warmth")
ax.plot(hour, hires(hour, 0.0), color="#777777", ls="--", label="true mean")
ax.plot(hour, mean.predict(day), color="#31688e", label="loss='poisson'")
ax.plot(hour, high.predict(day), color="#d95f02", label="loss='quantile:0.9'")
ax.set(xlabel="hour", ylabel="bicycles hired")
ax.legend()
# sphinx_gallery_alt = "Bicycles hired against the hour: the predicted mean follows the true one with its two peaks, and the 90 % quantile lies above both."
