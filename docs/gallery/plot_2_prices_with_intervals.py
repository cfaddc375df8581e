"""
What a diamond costs, give or take
==================================

A price without its error is half a prediction. 1500 round diamonds, drawn from the ``diamonds`` of ggplot2 (MIT licence,
:download:`diamonds.csv <../gallery/data/diamonds.csv>`), have a weight in carats, measures, and three grades in words. We
learn from 400 and ask for the other 1100 prices with intervals that shall hold nine of ten.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gpukfl

diamonds = pd.read_csv("data/diamonds.csv")
train, test = diamonds[:400], diamonds[400:]
model = gpukfl.fit(train, "price", effort="quick")
print(model.summary())

# %%
# Intervals are made of errors on rows that the fitted models had not seen, divided by a spread that is itself learned: a
# large stone may be wrong by more dollars than a small one.

price = test["price"].to_numpy()
said = model.predict(test).to_numpy()
low, high = model.predict_interval(test, coverage=0.9).to_numpy().T
inside = (low <= price) & (price <= high)
error = np.sqrt(inside.mean() * (1 - inside.mean()) / len(test))
print(f"{inside.mean():.1%} ± {error:.1%} of the {len(test)} prices are inside")

# %%
# In the picture the intervals open with the price, as they should.

some = np.argsort(said)[::8]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.vlines(said[some], low[some], high[some], color="#31688e", alpha=0.35)
ax.scatter(
    said[some],
    price[some],
    s=9,
    c=np.where(inside[some], "#31688e", "#b5651d"),
    zorder=3,
)
ax.set(
    title="Prices on new rows, with intervals of 90 %",
    xlabel="predicted, dollars",
    ylabel="true, dollars",
)
# sphinx_gallery_alt = "Prices of new diamonds against predictions. Vertical intervals are short for cheap stones and several thousand dollars long for dear ones; about one dot in ten is outside, and coloured orange."

# %%
# **Nine of ten of what?** The promise is about all stones together. By fifths of the predicted price, with two standard
# errors, cheap stones are held more often than asked for. The dearest ones are held about nine times in ten. The learned
# spread has narrowed this gap; it has not closed it.

groups = pd.qcut(said, 5, labels=["cheapest", "2nd", "3rd", "4th", "dearest"])
held = pd.Series(inside).groupby(groups, observed=True).agg(["mean", "size"])
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
twice = 2 * np.sqrt(held["mean"] * (1 - held["mean"]) / held["size"])
ax.errorbar(held.index, held["mean"], yerr=twice, fmt="o", color="#31688e")
ax.axhline(0.9, color="#b5651d", lw=1)
ax.set(
    title="Share of prices inside their interval",
    xlabel="fifths by predicted price",
    ylim=(0.7, 1.02),
)
# sphinx_gallery_alt = "Share of prices inside their intervals for fifths of the predicted price with two standard errors: highest for the cheapest fifth, and near the asked-for 0.9 for the dearest."

# sphinx_gallery_start_ignore
assert 0.86 < inside.mean() < 0.96
width = pd.Series(high - low).groupby(groups, observed=True).mean()
assert width["dearest"] > 4 * width["cheapest"]
assert held["mean"]["dearest"] < held["mean"]["cheapest"]
# sphinx_gallery_end_ignore

# %%
# **What may not be concluded.** That a certain stone is inside with a probability of 0.9: the share is one of many stones
# like these, drawn as these were. That the intervals are right for stones of another shop or year; a change of
# market moves all prices at once, and no held-out row of this table has seen one. And an interval says nothing of why:
# carat, length, width and depth are nearly the same column here.
