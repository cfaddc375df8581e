"""
Two variables among a thousand
==============================

Diabetes progressed within a year, in 442 patients. The two columns that say most about it, the body mass index and the
blood serum ``s5``, are hidden among 998 columns that say nothing: columns of the same table whose rows were shuffled.
They look like real measurements, each by itself, and by construction have no part in the target. Which two are real?
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoCV
from sklearn.preprocessing import scale

import gpukfl
from gpukfl.inspection import plot_rounds

table, y = load_diabetes(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
shuffled = [rng.permutation(table.iloc[:, k % 10]) for k in range(998)]
X = np.column_stack([table["bmi"], table["s5"], *shuffled])
correlations = np.abs(np.corrcoef(X[:, 2:].T, y)[-1, :-1])
by_chance = np.sum(correlations > 1.96 / np.sqrt(len(y)))
print(f"{by_chance} of 998 shuffled columns are correlated with y (level 0.05)")

# %%
# So a test of each column alone would let dozens in. The Lasso does far better here, where effects are close to
# lines. But it is tuned to predict, a little noise costs a prediction little, and no error rate comes with its list:

lasso = LassoCV(cv=3).fit(scale(X), y)
print("lasso:", np.flatnonzero(lasso.coef_))

# %%
# ``KernelFeatureSelector`` gives every column a weight inside a kernel, and lets it enter only if its score is above
# that of all columns when the target is permuted. It looks for curved effects and interactions too, and asks nothing
# of their form.

model = gpukfl.KernelFeatureSelector(random_state=0).fit(X, y)
found = model.get_support(indices=True)
print("selected:", found)
ax = plot_rounds(model, figsize=(7, 3.2))
# sphinx_gallery_alt = "Scores of the leading columns: x0 and x1, the two real ones, are far above the threshold of the round; all others are below it."

# %%
# **How sure is that?** If all columns that are left say nothing, one of the thousand gets in with a chance of at most 1/20
# in each round. Whether other patients would have given the same two is another question. Two halves of these
# patients are an answer of a kind:

halves = np.array_split(rng.permutation(len(y)), 2)
for half in halves:
    again = gpukfl.KernelFeatureSelector(random_state=0).fit(X[half], y[half])
    other = np.setdiff1d(np.arange(len(y)), half)
    score = again.score(X[other], y[other])
    which = again.get_support(indices=True)
    print(f"{len(half)} patients: {which}, R² on the others {score:.2f}")

# sphinx_gallery_start_ignore
assert set(found) == {0, 1}
assert set(which) == {0, 1}
assert set(np.flatnonzero(lasso.coef_)) >= {0, 1}
# sphinx_gallery_end_ignore

# %%
# The second half names the same two as all patients do. How well they predict differs between the halves by far more
# than a blend or another kernel would gain: with 221 patients an R² is a rough number.
#
# **What may not be concluded.** That two columns are all that matters in diabetes: the other eight were shuffled here on
# purpose. That what was selected causes anything; s5, a logarithm of triglycerides, goes along with much else. And the
# chance of 1/20 is that of a false first guess: columns that are correlated with a real one, which these are not,
# may stand in for it. For them there are knockoffs, ``error_control="fdr"``, which want more rows than 442.
