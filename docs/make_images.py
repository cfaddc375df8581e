"""Make the pictures of the README and the documentation: ``python docs/make_images.py``.

Fits the diabetes data that ship with scikit-learn and draws what was learned.
"""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_diabetes

import gpukfl

HERE = Path(__file__).parent


def main() -> None:
    """Write ``images/learned.png``."""
    data = load_diabetes(as_frame=True)
    model = gpukfl.fit(data.data, data.target, method="bkernn", backend="numpy", random_state=0)
    print(model.summary())
    path = HERE / "images" / "learned.png"
    path.parent.mkdir(exist_ok=True)
    model.plot().savefig(path, dpi=110)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
