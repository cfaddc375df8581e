"""Model files of every method, and files that are not quite what they should be."""

import functools
import io
import struct
import warnings
import zipfile

import numpy as np
import pandas as pd
from brief import bkernn, hkrr, regfeal, selection, weighting
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import gpukfl
from gpukfl.core._archive import Archive, write_archive
from gpukfl.estimators.selection import Knockoffs
from gpukfl.instantiations import GaussianSign, RandomKitchenSinks, Stumps
from gpukfl.kernels import Brownian, Gaussian, GaussianMixture, Linear, Matern52
from gpukfl.methods import DegreeLaw

RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (60, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1]
TWO_TARGETS = np.stack([Y, X[:, 2]], axis=1)
TWO = X[:, 0] > 0
THREE = np.array(["low", "mid", "high"])[np.searchsorted([-0.4, 0.4], X[:, 0])]
FRAME = pd.DataFrame(X, columns=["größe", "b", "c d"])
CONSTANT = np.full(60, 2.5)
TABLE = pd.DataFrame(
    {
        "size": np.where(X[:, 1] > 0.8, np.nan, X[:, 0]),
        "colour": np.array(["red", "green", None], dtype=object)[np.arange(60) % 3],
        "shop": [f"shop {k % 20}" for k in range(60)],
        "day": pd.date_range("2024-01-01", periods=60, freq="D"),
        "note": [f"{'long' * (k % 4)} words {k * k}" for k in range(60)],
        "same": 1,
    }
)

SMALL = {
    "bkernn": bkernn(n_particles=6, max_iter=3, ridge=0.01),
    "hkrr": hkrr(n_components=1, n_starts=1, max_iter=3, ridge=1e-3),
    "selection": selection(n_permutations=3, ridge=1e-2),
    "rkhs_weighting": {"n_parameters": 30},
    "regfeal": regfeal(
        **{
            "n_random_features": 40,
            "n_iter": 2,
            "degree_decay": 0.3,
            "strength": 0.1,
        }
    ),
}
EVERYWHERE = {
    "one target": (X, Y, {}),
    "two targets": (X, TWO_TARGETS, {}),
    "two classes": (X, TWO, {}),
    "three classes": (X, THREE, {}),
    "object labels": (FRAME, THREE.astype(object), {}),
    "constant": (X, CONSTANT, {}),
    "as it is": (X.astype("float32"), Y, {"scaling": None}),
    "table": (TABLE, THREE, {}),
}
KERNEL = 2.0 * Matern52(0.5) * Brownian() + Gaussian() + 0.1 * Linear()
OF_ONE = {
    "bkernn": {
        "tuned": (X, Y, {"ridge": "tune"}),
        "binned": (X, Y, {"knots": 32}),
        "thinned": (X, Y, bkernn(knot_tolerance=1e-2)),
        "numbers of NumPy": (X, Y, bkernn(tol=np.float64(1e-3), n_particles=np.int64(6))),
        "generator": (X, Y, {"random_state": np.random.RandomState(0)}),
        "robust": (X, Y, {"scaling": "robust"}),
        "early stopping": (X, Y, {"early_stopping": True}),
        "W = 0": (X, Y, {"ridge": 1e6}),
    },
    "hkrr": {
        "quantile": (X, Y, {"scaling": "quantile"}),
        "tuned": (X, Y, hkrr(ridge="tune", n_components="auto", max_iter=2)),
        "kernels": (X, Y, {"kernel": KERNEL}),
        "mixture": (X, Y, {"kernel": GaussianMixture(rates=(0.1, 3.0))}),
        "pivoted": (X, Y, hkrr(n_centers=20, center_selection="pivoted")),
        "evidence": (X, Y, {"criterion": "evidence", "n_components": "auto", "ridge": "auto"}),
    },
    "selection": {
        "tuned": (X, Y, selection(sparsity="tune", ridge="tune", n_sparsities=3)),
        "stability": (X, Y, selection(n_subsamples=4, sparsity=1.0)),
        "knockoffs": (X, Y, {"error_control": Knockoffs(draws=1)}),
        "one round": (X, THREE, {"hierarchical": False}),
        "nothing": (X, Y, {"sparsity": 1e9}),
    },
    "rkhs_weighting": {
        "lasso": (X, Y, {"learner": "lasso", "instantiation": Stumps()}),
        "optimal step": (X, TWO, {"n_parameters": 5, "learner": "optimal_step", "loss": "hinge"}),
        "descent": (X, TWO, {"learner": "sfgd", "loss": "logistic"}),
        "given ridge": (X, TWO, {"ridge": 1e-3}),
        "pruned": (X, Y, weighting(prune="risk", prune_tolerance=0.5)),
        "signs": (
            *(X, THREE),
            {
                "instantiation": GaussianSign(2.0, constant=0.2, constant_of="feature"),
                "bias": False,
            },
        ),
        "sinks": (X, Y, {"instantiation": RandomKitchenSinks(GaussianSign())}),
    },
    "regfeal": {
        "tuned": (X, Y, {"degrees": "auto", "strength": "auto"}),
        "Hermite": (X, Y, {"retrain": None}),
        "variables": (
            X,
            THREE,
            {"selection": "variables", "degrees": DegreeLaw(largest=3), "clip": 4.0},
        ),
    },
}
CASES = {
    f"{method}, {kind}": (method, *case)
    for method in SMALL
    for kind, case in (EVERYWHERE | OF_ONE[method]).items()
}
CASES["auto, table"] = ("auto", TABLE, Y, {"members": ["linear", "trees", "bkernn"], "n_folds": 2})
CASES["auto, refitted"] = ("auto", TABLE, THREE, {"members": ["laplace"], "refit": True})
CASES["auto, own"] = (  # members of the user's
    *("auto", X, THREE),
    {
        "members": [
            ("machine", make_pipeline(StandardScaler(), SVC(probability=True, random_state=0))),
            ("sparse", SGDClassifier(loss="log_loss", random_state=0)),
            ("boosted", HistGradientBoostingClassifier(max_iter=5, categorical_features=[2])),
            ("piped", make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=5))),
            "linear",
        ],
        "n_folds": 2,
    },
)
CASES["auto, both"] = (
    *("auto", TABLE, Y),
    {"members": ["linear", "trees", "laplace"], "n_folds": 2, "refit": "both"},
)


@functools.cache
def fitted(name):
    """Fit a model of `CASES`, once."""
    method, data, y, options = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gpukfl.fit(data, y, method=method, **SMALL.get(method, {}) | options)


def data_of(name):
    """Give the samples of one of `CASES`."""
    return CASES[name][1]


@functools.cache
def saved_bytes(name):
    """Give what the file of a model of `CASES` holds."""
    buffer = io.BytesIO()
    header, arrays = parts_of(fitted(name))
    write_archive(buffer, header, arrays)
    return buffer.getvalue()


def parts_of(model):
    """Header and arrays of a model, as `save` writes them."""
    import json

    from gpukfl.deployment._model_files import make_header

    model.estimator._complete_record()
    header, arrays = make_header(model.estimator, model._metadata())
    return json.dumps(header).encode(), arrays


def assert_as_before(found, expected):
    """Predictions of a file are those of the model, whose knots it may hold in float32."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    assert found.dtype == expected.dtype
    eps = 1e-6 if found.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=eps * max(expected.std(), 1e-3))


def write_unchecked(model, path):
    """Write a model as `save` does, whether it is one or not."""
    header, arrays = parts_of(model)
    with path.open("w+b") as file:
        write_archive(file, header, arrays)


def opened(path):
    """Header and arrays of a model file."""
    with path.open("rb") as file:
        archive = Archive(file)
        return archive.header, {name: archive.read(one) for name, one in archive.arrays.items()}


def with_checksum(data):
    """Give the bytes of an archive with the right checksum at the end, whatever they are."""
    import hashlib

    body = data[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def zipped(members, **options):
    """Archive of (name, bytes) in the manner of a model file, with its checksum."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", **options) as archive:
        warnings.simplefilter("ignore")  # names that are there already
        archive.comment = b"gpukfl sha256 " + b"0" * 64
        for name, content in members:
            archive.writestr(name, content)
    return with_checksum(buffer.getvalue())


# ---------------------------------------------------------------------- made to take memory


def whole(header, members=()):
    """Bytes of a file with a header, and members."""
    return zipped([("header.json", header), *members])


def many_members(n):
    """Bytes of a file whose list names one member so many times."""
    data = whole(b"{}")
    start = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    entries = data[start:end] * n
    record = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(entries), start, 78)
    return with_checksum(data[:start] + entries + record + data[end + 22 :])


HOSTILE = {  # what makes their bytes, of some megabytes
    "lists in JSON": lambda: whole(b"[" + b"[]," * 2_000_000 + b"1]"),
    "dicts in JSON": lambda: whole(b"[" + b'{"a":1},' * 700_000 + b"1]"),
    "texts in JSON": lambda: whole(b"[" + b'"ab",' * 2_000_000 + b"1]"),
    "dicts of a header": lambda: whole(b'{"model":{' + b'"a":{},' * 700_000 + b'"b":1}}'),
    "a list of members": lambda: many_members(200_000),
    "an array that is empty and endless": lambda: whole(
        b"{}", [("a.npy", b"\x93NUMPY\1\0v\0" + b"{'descr': '<f8', 'fortran_order': False, "
         b"'shape': (0, 999999999999999999, 99), }".ljust(117) + b"\n")]
    ),
}  # fmt: skip
