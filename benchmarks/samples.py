"""Samples that the benchmark scripts fit: real data from a folder or OpenML, and simulated ones."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from common import ROOT, say
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

DATA = ROOT.parent / "shared" / "data"

# Experiment 6: the numbers of the data sets at OpenML (suite 336)
OPENML = {
    "abalone": 45033,
    "Ailerons": 44137,
    "Bike_Sharing_Demand": 44142,
    "Brazilian_houses": 44141,
    "cpu_act": 44132,
    "diamonds": 44140,
    "elevators": 44134,
    "house_16H": 44139,
    "house_sales": 44144,
    "houses": 44138,
    "medical_charges": 44146,
    "MiamiHousing2016": 44147,
    "nyc-taxi-green-dec-2016": 44143,
    "pol": 44133,
    "sulfur": 44145,
    "superconduct": 44148,
    "wine_quality": 44136,
}

# UCI sets with the usual splits; power-plant is not at OpenML
UCI_AT_OPENML = {"kin8nm": 189}

# Binary sets of the RKHS weightings: their files, and whose rows those are
CLASSIFICATION = {
    "adults": ("adults.npz", "the authors' split"),
    "skin segmentation": ("skin.npz", "the authors' split"),
    "mnist17": ("mnist17_t10k.npz", "MNIST test digits only, own split"),
}


def openml_sample(args: argparse.Namespace, name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows of one data set of Experiment 6, and where they come from."""
    folder = _data_folder(args)
    if folder is None:
        return _fetch(name)
    path = folder / "openml17" / f"{name}.npz"
    if not path.exists():
        msg = f"expected the data set {name} at {path}; leave out --data to fetch it from OpenML"
        raise FileNotFoundError(msg)
    with np.load(path) as file:
        return file["X"], file["y"], "the authors' sample"


def uci_split(
    args: argparse.Namespace, name: str, split: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Train X and y, test X and y of one split of a UCI set, raw, and where they come from."""
    folder = _data_folder(args)
    path = None if folder is None else folder / "uci" / f"{name}.npz"
    if path is not None and path.exists():
        with np.load(path) as file:
            X, y = file["X"], file["y"]
            train, test = file[f"train_{split}"], file[f"test_{split}"]
        return X[train], y[train], X[test], y[test], "usual split"
    if args.data is not None or name not in UCI_AT_OPENML:
        msg = f"expected {name} in uci/{name}.npz of --data, ../shared/data or $GPUKFL_DATA" + (
            "; leave out --data to fetch it from OpenML" if name in UCI_AT_OPENML else ""
        )
        raise FileNotFoundError(msg)
    X, y = _from_openml(UCI_AT_OPENML[name], name)
    rows = np.random.RandomState(split).permutation(len(y))
    test, train = np.split(rows, [len(y) // 10])
    say(f"{name}: fetched {X.shape} from OpenML; the split is not the usual one")
    return X[train], y[train], X[test], y[test], f"OpenML {UCI_AT_OPENML[name]}, own split"


def classification_split(
    args: argparse.Namespace, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Train X and y (-1, 1), test X and y of a binary set, raw, and where they come from."""
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
        parts = train_test_split(X, 1.0 - 2.0 * y, test_size=0.25, random_state=0)
        return parts[0], parts[2], parts[1], parts[3], "the authors' split"
    file, source = CLASSIFICATION[name]
    folder = _data_folder(args)
    path = None if folder is None else folder / "classification" / file
    if path is None or not path.exists():
        msg = (
            f"expected {name} in classification/{file} of --data, ../shared/data or $GPUKFL_DATA"
            + (", found no folder" if path is None else f", found no {path}")
        )
        raise FileNotFoundError(msg)
    with np.load(path) as found:
        if "X_train" in found:
            keys = ("X_train", "y_train", "X_test", "y_test")
            X, y, X_test, y_test = (found[key].astype(np.float64) for key in keys)
            return X, y, X_test, y_test, source
        X, y = found["X"].astype(np.float64), found["y"].astype(np.float64)
        test = found["test_mask"]
    return X[~test], y[~test], X[test], y[test], source


def _data_folder(args: argparse.Namespace) -> Path | None:
    if args.data is not None:
        return args.data
    if DATA.exists():
        return DATA
    return Path(os.environ["GPUKFL_DATA"]) if "GPUKFL_DATA" in os.environ else None


def _fetch(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Draw 1000 rows from OpenML: not the authors' rows, which were drawn without a seed."""
    X, y = _from_openml(OPENML[name], name)
    rows = np.random.RandomState(0).permutation(len(y))[:1000]
    say(
        f"{name}: fetched {X.shape} from OpenML (data set {OPENML[name]}) and drew "
        f"{len(rows)} rows; they are not the authors' rows, so R2 differs from the published"
    )
    return X[rows], y[rows], f"OpenML {OPENML[name]}, own draw"


def _from_openml(number: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Fetch a whole data set, whose name must be as expected."""
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(data_id=number, as_frame=False, parser="liac-arff")
    except OSError as error:
        msg = (
            f"expected {name} in --data, ../shared/data or $GPUKFL_DATA, or OpenML within reach; "
            f"found no folder, and OpenML answered: {error}"
        )
        raise RuntimeError(msg) from error
    found = bunch.details["name"]
    if found.lower() != name.lower():
        msg = f"expected OpenML data set {number} to be {name}, got {found}"
        raise ValueError(msg)
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.float64)


def standardized_split(
    X: np.ndarray, y: np.ndarray, *, n_train: int = 400, n_test: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First rows to train, the next to test, both scaled by the mean and std of the first."""
    mean, scale = X[:n_train].mean(axis=0), X[:n_train].std(axis=0)
    X = (X - mean) / np.where(scale > 0, scale, 1.0)
    y = (y - y[:n_train].mean()) / y[:n_train].std()
    test = slice(n_train, n_train + n_test)
    return X[:n_train], y[:n_train], X[test], y[test]


def uniform(n: int, d: int) -> np.ndarray:
    """Draw the papers' inputs, uniform on [-1, 1]^d, from NumPy's global generator."""
    return 2.0 * np.random.rand(n, d) - 1.0


def largest_norm(X: np.ndarray) -> float:
    """Longest row, max_i ||x_i||."""
    return float(np.linalg.norm(X, axis=1).max())


def german_credit(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the German credits with a column for each category, and their risk (0, 1)."""
    import pandas as pd

    folder = _data_folder(args)
    path = None if folder is None else folder / "tables" / "german_credit.csv"
    if path is None or not path.exists():
        msg = "expected tables/german_credit.csv in --data, ../shared/data or $GPUKFL_DATA"
        raise FileNotFoundError(msg)
    table = pd.read_csv(path)
    X = pd.get_dummies(table.drop(columns="credit_risk"))
    return X.to_numpy(np.float64), table["credit_risk"].to_numpy(np.int64)
