r"""
One number that tells of five
=============================

Does the consumption of a car depend on five measures, or on one combination of them? In a single-index model y is a
curve of one projection of the data, :math:`y = g(w^\top x) + \text{noise}`, and neither g nor w is known. BKerNN
learns a sum of such curves and pulls their directions together, so that the data decide how many there are. Data: the
cars of the :doc:`first story <plot_1_first_table>`, without the six that have a gap.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict

import gpukfl
from gpukfl.inference import bands, subspace
from gpukfl.inspection import plot_directions

cars = pd.read_csv("data/mpg.csv").dropna()
X = cars[["displacement", "horsepower", "weight", "acceleration", "model_year"]]
y = cars["mpg"]
model = gpukfl.BKerNNRegressor(30, random_state=0).fit(X, y)
print(model.summary())

# %%
# **How many directions?** The model kept two. To judge, it is fitted five times without a fifth of the cars, and the first k
# directions of each fit predict those left out. The loss is a share of the variance. One direction takes most of it
# away; nothing says that a second one helps. Between two fits the first direction turns by about ten degrees.

found = subspace(model, X, y)
print(found.summary())

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
found.plot(ax=left)
plot_directions(model, ax=right)
# sphinx_gallery_alt = "Left: the loss of rows left out falls from 1 to about 0.14 with the first direction and stays there. Right: loadings of two directions; the first has weight, horsepower and displacement on one side and the model year on the other."

# %%
# **What is it?** In standardised columns the first direction is weight, horsepower and displacement, less the model year:
# heavy, strong and old. Acceleration has next to no part in it. Along this one number every car is a dot:

coordinate = model.transform(X)[:, 0]
band = bands(model, X, y, kind="profiles")[0]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.scatter(coordinate, y, s=9, color="#777777", alpha=0.6)
ax.plot(band.steps, band.center, color="#31688e")
ax.fill_between(band.steps, band.lower, band.upper, color="#31688e", alpha=0.25)
ax.set(
    title="Consumption along the first direction",
    xlabel="coordinate",
    ylabel="miles per gallon",
)
# sphinx_gallery_alt = "Miles per gallon of each car against the coordinate along the first direction: a narrow falling cloud that flattens out, with the estimated curve and its band through it."

# %%
# **Is the curve a line?** The band holds the whole curve with a probability of 0.95, and no constant fits into it. Lines
# are judged by a linear regression on the same columns, which has one direction too and must be straight:

folds = KFold(5, shuffle=True, random_state=0)
linear = cross_val_predict(LinearRegression(), X, y, cv=folds)
loss = np.mean((y - linear) ** 2) / y.var()
curve, error = found.losses[1], found.standard_errors[1]
print(f"loss of a line {loss:.2f}, of a curve {curve:.2f} ± {error:.2f}")

# sphinx_gallery_start_ignore
assert (found.n_directions, len(model.components_)) == (1, 2)
assert not band.may_be_flat
assert loss > curve + 2 * error
lead = pd.Series(model.components_[0], X.columns) * np.sign(model.components_[0][2])
assert (
    lead[["weight", "horsepower", "displacement"]].min()
    > 0.2
    > -0.2
    > lead["model_year"]
)
assert abs(lead["acceleration"]) < 0.1
# sphinx_gallery_end_ignore

# %%
# So one number tells of five, and what it tells is bent: the first kilograms cost most.
#
# **What may not be concluded.** That consumption *is* a curve of one number: of 392 cars a second direction that matters
# little may stay unseen. That the loadings are effects: weight, horsepower and displacement go together, a direction can trade
# one for another at little cost, and the angle above is an error of all of them together. And the band is for the
# mean of cars with a coordinate, not for a car, which is anywhere in the cloud.
