"""
A first table, with words and gaps
==================================

398 cars of 1970 to 1982: how far does each go on a gallon? Some columns are numbers, one is a word, one is the name
of the car, and six values of horsepower are missing. Nothing is cleaned here. Data: Quinlan's "Auto MPG" of the UCI
repository, CC BY 4.0, :download:`mpg.csv <../gallery/data/mpg.csv>`.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gpukfl
from gpukfl.inspection import plot_importances, plot_leaderboard, plot_predictions

cars = pd.read_csv("data/mpg.csv")
rows = np.random.default_rng(0).permutation(len(cars))
test, train = cars.iloc[rows[:80]], cars.iloc[rows[80:]]
train.head()

# %%
# One call, with the frame and the name of the target, reads the columns, fits several methods on the same folds, and
# blends them. With ``effort="quick"`` fewer methods take part.

model = gpukfl.fit(train, "mpg", effort="quick")

# %%
# What it took each column for, and why. Origins are categories; names are text, of which words and letters count.
# ``columns={"cylinders": "category"}`` would overrule a guess.

model.table

# %%
# **How well?** Each dot is the score on rows that the method had not seen, with a standard error. Most methods overlap: on
# 318 cars they cannot be ranked, and the blend need not choose. The blend's own score is a little too good, because
# the same rows chose its weights. So 80 cars were kept apart, and are looked at once.

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
plot_leaderboard(model, ax=left)
plot_predictions(model, ax=right)
# sphinx_gallery_alt = "Left: held-out R² of seven methods with standard errors, most between 0.85 and 0.9, the linear model lowest. Right: predicted against true miles per gallon, close to the diagonal, with intervals."

errors = test["mpg"] - model.predict(test)
print(f"R² on {len(test)} cars kept apart: {model.score(test, test['mpg']):.2f}")
print(f"typical error: {errors.abs().median():.1f} miles per gallon")

# %%
# **From what?** An importance is what shuffling a column adds to the error. Cylinders, displacement and weight go
# together (correlations of 0.9), so that they are shuffled together, and share what that costs. The year of the model
# comes close to each of them: later cars go further.

ax = plot_importances(model, figsize=(6, 3))
# sphinx_gallery_alt = "Bars of importances: cylinders, displacement and weight share the lead, the model year follows closely, then horsepower; acceleration, origin and name hardly matter."

# sphinx_gallery_start_ignore
groups = [
    {model.feature_names[k] for k in group}
    for group in model.estimator.feature_groups_
]
assert {"cylinders", "displacement", "weight"} in groups
assert 0.8 < model.score(test, test["mpg"]) < 0.95
assert dict(model.most_important())["model_year"] > 0.15
# sphinx_gallery_end_ignore

# %%
# **What may not be concluded.** That a lighter car with the same engine would go further: cars were not made lighter at
# random, and weight here stands for all that goes along with it. That the name does not matter: a few words in
# 318 rows are hard to learn from. Nor anything about cars after 1982, of which no row has told.
