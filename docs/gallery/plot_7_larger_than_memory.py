"""
A file that is larger than the memory
=====================================

Scraps of photographs as in the :doc:`story before <plot_6_million_rows>`, of 7 × 7 pixels and in two colours, in a file of
130 megabytes. We pretend that this is more than the machine has, and allow 8 megabytes for computations. The file is
small so that this page is built in seconds; what follows does not depend on its size.
"""

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

import gpukfl

photos = load_sample_images().images
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "scraps.npy"

# %%
# The file is written piece by piece, as any program would that cannot hold it. Rows go to random places, so that each
# part of the file is like any other.

n = sum((photo.shape[0] - 6) * 394 * 2 for photo in photos)
places = np.random.default_rng(0).permutation(n)
on_disk = np.lib.format.open_memmap(path, "w+", np.float32, (n, 49))
y = np.empty(n, np.float32)
begin = 0
for label, photo in enumerate(photos):
    for color in range(2):
        windows = np.lib.stride_tricks.sliding_window_view(
            photo[:, :400, color], (7, 7)
        )
        at = places[begin : begin + windows.shape[0] * windows.shape[1]]
        on_disk[at], y[at] = windows.reshape(-1, 49), label
        begin += len(at)
on_disk.flush()
del on_disk
print(f"{n} rows, {path.stat().st_size / 1e6:.0f} MB")

# %%
# ``np.load`` with ``mmap_mode`` gives an array that stays on the disk, and methods for many rows read it block by block.
# ``memory_budget`` is what the blocks may take. ``tracemalloc`` counts every array that NumPy allocates; pages of the file
# that the system keeps in memory while there is room are not counted, as they can be dropped at any time.

rows = np.load(path, mmap_mode="r")


def fit(count):
    """Fit to the first rows; give the megabytes that were allocated at most."""
    model = gpukfl.KernelRidgeRegressor(
        n_centers=100, lengthscale="median", random_state=0
    )
    tracemalloc.start()
    with gpukfl.memory_budget(8_000_000):
        model.fit(rows[:count], y[:count])
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


fit(2_000)  # what is imported at the first fit is no data
sizes = [n // 16, n // 4, n]
peaks = [fit(count) for count in sizes]
for count, peak in zip(sizes, peaks, strict=True):
    print(
        f"{rows[:count].nbytes / 1e6:4.0f} MB on the disk, {peak:4.0f} MB in memory"
    )

# %%
# Below a few megabytes nothing can be saved: whatever is chosen is chosen on some thousands of rows, which are read. Beyond,
# what grows are a few numbers a row, such as its target and its weight. The rows themselves pass through.

held = [rows[:count].nbytes / 1e6 for count in sizes]
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(held, held, "o--", color="#777777", label="the rows themselves")
ax.plot(held, peaks, "o-", color="#31688e", label="allocated by the fit")
ax.set(
    title="Memory of a fit",
    xlabel="rows on the disk, megabytes",
    ylabel="megabytes",
    ylim=(0, None),
)
ax.legend(frameon=False)
# sphinx_gallery_alt = "Megabytes allocated by a fit against megabytes of rows on the disk: it starts above the diagonal at eight megabytes and rises slowly, to less than a third of the rows at 130 megabytes."

# sphinx_gallery_start_ignore
assert peaks[-1] < held[-1] / 2
folder.cleanup()
# sphinx_gallery_end_ignore

# %%
# **What may not be concluded.** That 8 megabytes are a limit of the process: the budget is what blocks are planned for, and
# Python with its libraries takes more than all of this. That it costs no time: where the disk is slow, so is each pass.
# Predictions of so many rows are made in the same way, ``model.predict(rows)``.
# Folders of Parquet files are read in the same way (``gpukfl fit data/*.parquet`` and Dask frames).
