"""
Five papers, one table
======================

Five papers propose to learn features with kernels, each with its own idea of what a feature is: few directions (BKerNN,
RegFeaL), a linear map (HKRR), few variables (selection), or none, but weights on many simple predictors (RKHS
weightings). What do they say about the same 392 cars? Data as in the :doc:`first story <plot_1_first_table>`, without gaps
and names.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

import gpukfl

cars = pd.read_csv("data/mpg.csv").dropna().drop(columns="name")
X, y = pd.get_dummies(cars.drop(columns="mpg"), dtype=float), cars["mpg"].to_numpy()
methods = {
    "BKerNN": gpukfl.BKerNNRegressor(random_state=0),
    "HKRR": gpukfl.HKRRRegressor(criterion="evidence", random_state=0),
    "selection": gpukfl.KernelFeatureSelector(random_state=0),
    "RKHS weighting": gpukfl.RKHSWeightingRegressor(300, random_state=0),
    "RegFeaL": gpukfl.RegFeaLRegressor(n_random_features=300, random_state=0),
    "linear": LinearRegression(),
    "boosted trees": HistGradientBoostingRegressor(random_state=0),
}

# %%
# All meet the same three folds, with settings that are quick rather than best. A linear model and boosted trees are there to
# say whether any of this was worth it.

residuals, importances = pd.DataFrame(), pd.DataFrame()
for name, method in methods.items():
    predicted, told = np.empty(len(y)), []
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        predicted[test] = method.fit(X.iloc[train], y[train]).predict(X.iloc[test])
        told.append(getattr(method, "feature_importances_", None))
    residuals[name] = y - predicted
    if told[0] is not None:
        importances[name] = np.mean(told, axis=0)
importances.index = X.columns

# %%
# **Which is best?** Scores alone do not say: a car that is hard for one method is hard for all, so that errors go together.
# Differences on the same cars are sharper. A dot is the squared error that a method saves over the boosted trees, as a
# share of the variance, with two standard errors.

losses = residuals**2 / y.var()
saved = losses.rsub(losses["boosted trees"], axis=0).drop(columns="boosted trees")
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.errorbar(
    saved.mean(), saved.columns, xerr=2 * saved.sem(), fmt="o", color="#31688e"
)
ax.axvline(0, color="#b5651d", lw=1)
ax.invert_yaxis()
ax.set(
    title="Squared error saved over boosted trees", xlabel="share of the variance"
)
# sphinx_gallery_alt = "Squared error saved over boosted trees, with two standard errors: the five papers' methods are within these of zero, the linear model is clearly worse."

# %%
# None of the five can be told apart from the trees, on so few cars; all of them leave the linear model behind.

scores = pd.DataFrame({"R²": 1 - losses.mean(), "saved": saved.mean()})
scores.assign(error=saved.sem()).loc[list(methods)].round(3)

# %%
# Residuals are correlated by more than 0.8, without the linear model: five ideas found much the same function. That is
# also what a blend has to live on, and why ``gpukfl.fit`` without a ``method`` gains a little and not a lot.

residuals.corr().round(2)

# %%
# **What mattered?** Here they agree less. Weight, horsepower and the year are important to all. HKRR and the RKHS weighting
# give as much to the cylinders as others give to weight, and selection does without acceleration. All of that is
# allowed: these columns go together, and each method has a definition of its own, of loadings, gradients, or what
# shuffling costs.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
picture = ax.imshow(importances.T, cmap="Blues", vmin=0, aspect="auto")
ax.set_xticks(range(len(importances)), importances.index, rotation=40, ha="right")
ax.set_yticks(range(importances.shape[1]), importances.columns)
ax.set_title("Importances, of each method by its own definition")
fig.colorbar(picture, ax=ax)
# sphinx_gallery_alt = "Importances of nine columns for the five methods as shades of blue: weight, horsepower and the model year are dark in most rows; rows differ in the cylinders."

# sphinx_gallery_start_ignore
papers = saved.columns[:5]
assert (saved[papers].mean().abs() < 2.5 * saved[papers].sem()).all()
apart = losses[papers].rsub(losses["linear"], axis=0)
assert (apart.mean() > 2 * apart.sem()).all()
together = residuals.drop(columns="linear").corr()
assert together.to_numpy().min() > 0.8
assert (
    importances.loc[["weight", "horsepower", "model_year"]].to_numpy().min() > 0.09
)
assert importances.loc["acceleration", "selection"] < 0.01
# sphinx_gallery_end_ignore

# %%
# **What may not be concluded.** That all methods are alike: they were on one small, smooth table, with quick settings, and
# standard errors that take cars as independent and training sets as given. Tables where they differ are in the
# :doc:`benchmarks <../benchmarks/index>`.
