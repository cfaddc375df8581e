"""
Fitted on a GPU, served on a laptop
===================================

A model that needs a GPU wherever it goes does not go far. Here one learns to read digits, on a GPU if there is one and on
the CPU if not; then it becomes smaller, goes into a file, and is read by a program that has NumPy and nothing else.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import gpukfl
import gpukfl.runtime

images, digits = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(digits))
train, tune, test = rows[:600], rows[600:1000], rows[1000:]

# %%
# ``backend="auto"`` takes a GPU where CuPy finds one and the data are large enough to gain from it; ``backend="cupy"`` asks
# for one, and says what is missing where there is none. These digits stay on the CPU, and nothing below would change on a
# GPU but this line:

options = {"method": "hkrr", "criterion": "evidence"}
model = gpukfl.fit(images[train], digits[train], backend="auto", **options)
print("computed on", model.estimator.place_)

# %%
# The model keeps every training image as a centre, with a number for each of ten digits. Which of them are needed?
# ``compress`` tries fewer, on rows that the fit has not seen, and stops at the loss that is allowed.

small = model.compress(0.005, images[tune], digits[tune])
done = small.compression
print(f"{done.size} of {done.size_before} {done.unit} are kept")

folder = tempfile.TemporaryDirectory()
for name, one in {"full": model, "small": small}.items():
    path = Path(folder.name) / f"{name}.gpukfl"
    one.save(path)
    share = one.score(images[test], digits[test])
    error = np.sqrt(share * (1 - share) / len(test))
    size = path.stat().st_size / 1e3
    print(
        f"{name:<6}{size:5.0f} kB, {share:.3f} ± {error:.3f} of new digits read right"
    )

# %%
# The 400 rows that chose the size are not those that judge it: on 797 others it may lose a little more, or less, than was
# allowed.
#
# **On the laptop.** ``gpukfl.runtime`` imports NumPy alone. The file holds arrays and JSON, executes nothing, and is the same
# whatever computed it.

served = gpukfl.runtime.load(Path(folder.name) / "small.gpukfl")
begun = time.perf_counter()
for row in images[test]:
    served.predict(row[None])
milliseconds = (time.perf_counter() - begun) / len(test) * 1e3
print(f"{milliseconds:.1f} ms a digit, one at a time")

# %%
# Where does it err? These are the digits that it got wrong with the most confidence:

probabilities = served.predict_proba(images[test])
said = served.predict(images[test])
wrong = np.flatnonzero(said != digits[test])
worst = wrong[np.argsort(-probabilities[wrong].max(axis=1))][:6]
fig, axes = plt.subplots(2, 3, figsize=(6, 4.2), layout="constrained")
for ax, k in zip(axes.flat, worst, strict=False):
    ax.imshow(images[test][k].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{digits[test][k]}, not {said[k]}")
for ax in axes.flat:
    ax.set_axis_off()
# sphinx_gallery_alt = "Six handwritten digits of 8 by 8 pixels that were read wrongly with the most confidence; most are hard to read."

# sphinx_gallery_start_ignore
folder.cleanup()
assert np.array_equal(said, small.predict(images[test]))
assert done.size <= 0.6 * done.size_before
assert len(worst) == 6
# sphinx_gallery_end_ignore

# %%
# **What may not be concluded.** That a GPU would have paid here: there are too few digits for it, see :doc:`libraries, devices
# and memory <../guide/places>`. That the smaller model is as good: their shares differ by no more than
# their errors, but errors of two models on the same digits go together, and a paired test could tell them apart. And
# whoever has the file has its centres, which are images of the training set.
