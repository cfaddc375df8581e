"""Other libraries' models with their defaults, each left out with a word where not installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
from common import say
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

GP_UP_TO = 2_000  # rows to fit: O(n³) for each of many gradients
XRFM_UP_TO = 100_000  # rows that it fits on two cores within minutes
PACKAGES = {
    "HistGradientBoosting": "scikit-learn",
    "LightGBM": "lightgbm",
    "CatBoost": "catboost",
    "XGBoost": "xgboost",
    "xRFM": "xrfm",
    "Gaussian process": "scikit-learn",
}

Make = Callable[[int, int, bool], Any]  # a model for n rows of d columns, of classes or not


def peers(threads: int) -> dict[str, Make]:
    """Give those that are installed, by name; they use so many threads."""
    known = {
        "HistGradientBoosting": _histogram,
        "LightGBM": _lightgbm,
        "CatBoost": _catboost,
        "XGBoost": _xgboost,
        "xRFM": _xrfm,
        "Gaussian process": _process,
    }
    found: dict[str, Make] = {}
    for name, make in known.items():
        if _is_there(PACKAGES[name]):
            found[name] = _with_threads(make, threads)
        else:
            say(f"{name} is not installed: left out")
    return found


def versions() -> dict[str, str]:
    """Versions of the packages that are installed."""
    return {p: metadata.version(p) for p in dict.fromkeys(PACKAGES.values()) if _is_there(p)}


def _is_there(package: str) -> bool:
    """Tell without an import, which would take the memory that is measured."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _with_threads(make: Callable[..., Any], threads: int) -> Make:
    def made(n: int, d: int, classes: bool) -> Any:
        return make(n, d, classes, threads)

    return made


def _histogram(n: int, d: int, classes: bool, threads: int) -> Any:  # noqa: ARG001
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(random_state=0)


def _lightgbm(n: int, d: int, classes: bool, threads: int) -> Any:  # noqa: ARG001
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if classes else LGBMRegressor
    return kind(random_state=0, verbose=-1, n_jobs=threads)


def _catboost(n: int, d: int, classes: bool, threads: int) -> Any:  # noqa: ARG001
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if classes else CatBoostRegressor
    return kind(random_seed=0, verbose=0, thread_count=threads, allow_writing_files=False)


def _xgboost(n: int, d: int, classes: bool, threads: int) -> Any:  # noqa: ARG001
    from xgboost import XGBClassifier, XGBRegressor

    return (XGBClassifier if classes else XGBRegressor)(random_state=0, n_jobs=threads)


def _xrfm(n: int, d: int, classes: bool, threads: int) -> Any:  # noqa: ARG001
    return XRFM(classes, threads) if n <= XRFM_UP_TO else None


def _process(n: int, d: int, classes: bool, threads: int) -> Any:  # noqa: ARG001
    """One lengthscale a variable, by the largest evidence; of classes one for all."""
    if n > GP_UP_TO:
        return None
    if classes:
        model = GaussianProcessClassifier(ConstantKernel() * RBF(np.sqrt(d)), random_state=0)
        return make_pipeline(StandardScaler(), model)
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d))) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    return make_pipeline(StandardScaler(), model)


class XRFM:
    """xRFM with its defaults behind scikit-learn's methods: a fifth of the rows tunes it."""

    def __init__(self, classes: bool, threads: int) -> None:
        self.classes, self.threads = classes, threads

    def fit(self, X: np.ndarray, y: np.ndarray) -> XRFM:
        """Fit to four fifths, tune on the others."""
        import torch
        from xrfm import xRFM

        self._columns = StandardScaler().fit(X)
        self._mean, self._scale = 0.0, 1.0
        if self.classes:
            self.classes_, y = np.unique(y, return_inverse=True)
        else:
            self._mean, self._scale = float(y.mean()), float(y.std()) or 1.0
            y = (y - self._mean) / self._scale
        stratified = y if self.classes else None
        X = self._columns.transform(X)
        parts = train_test_split(X, y, test_size=0.2, random_state=0, stratify=stratified)
        kind = torch.int64 if self.classes else torch.float32
        X1, X2 = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
        y1, y2 = (torch.tensor(part, dtype=kind) for part in parts[2:])
        self.model_ = xRFM(
            device=torch.device("cpu"), random_state=0, n_threads=self.threads, verbose=False
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model_.fit(X1, y1, X2, y2)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Give targets or classes."""
        if self.classes:
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        found = np.asarray(self.model_.predict(self._placed(X)))
        return self._mean + self._scale * found.ravel()

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Give a column for each class."""
        found = np.asarray(self.model_.predict_proba(self._placed(X)))
        return found if found.ndim == 2 else np.stack([1.0 - found, found], axis=1)

    def _placed(self, X: np.ndarray) -> Any:
        import torch

        return torch.tensor(self._columns.transform(X), dtype=torch.float32)


def conformal_quantiles(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, coverage: float, threads: int
) -> np.ndarray:
    """Intervals (m, 2) of LightGBM's quantiles, conformalised on a quarter of the rows.

    Romano, Patterson and Candès, "Conformalized quantile regression", NeurIPS 2019.
    """
    from lightgbm import LGBMRegressor

    X1, X2, y1, y2 = train_test_split(X, y, test_size=0.25, random_state=0)
    ends = [
        LGBMRegressor(
            objective="quantile", alpha=level, random_state=0, verbose=-1, n_jobs=threads
        ).fit(X1, y1)
        for level in ((1.0 - coverage) / 2, (1.0 + coverage) / 2)
    ]
    low, high = (model.predict(X2) for model in ends)
    scores = np.sort(np.maximum(low - y2, y2 - high))
    rank = int(np.ceil((len(y2) + 1) * coverage - 1e-9))
    shift = scores[min(rank, len(y2)) - 1]
    return np.stack([ends[0].predict(X_test) - shift, ends[1].predict(X_test) + shift], axis=1)
