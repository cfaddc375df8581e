"""Infinity and rows that are none, through every door that takes rows: one message each."""

import functools

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gpukfl
import gpukfl.runtime
from gpukfl.core._warnings import collect_warnings

N = 60
RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
MIXED = NUMBERS.assign(c=np.array(["u", "v", "w"])[np.arange(N) % 3])
Y = NUMBERS["a"].to_numpy() + 0.1 * RNG.normal(size=N)
SAID = "infinite values are treated as missing: 1 of 60 rows of a"
NO_ROW = r"expected at least 1 row, got 0 sample\(s\)"
QUICK = {"effort": "quick", "members": ["linear", "laplace"]}
SINGLE = {"method": "rkhs_weighting"}


def with_infinity(frame):
    return frame.assign(a=np.where(np.arange(N) == 3, -np.inf, frame["a"]))


FRAMES = {"numbers": NUMBERS, "mixed": MIXED}
OPTIONS = {"blend": QUICK, "single": SINGLE}
cases = pytest.mark.parametrize(("frame", "options"), [(f, o) for f in FRAMES for o in OPTIONS])


@functools.cache
def fitted(frame, options):
    return gpukfl.fit(FRAMES[frame], Y, **OPTIONS[options])


def doors(model, path):
    """Everything that predicts, by name."""
    model.save(path)
    light, loaded = gpukfl.runtime.load(path), gpukfl.load(path)
    found = {
        "predict": model.predict,
        "score": lambda X: model.score(X, Y[: len(X)]),
        "polars": lambda X: model.predict(pl.from_pandas(X)),
        "dicts": lambda X: model.predict(X.to_dict("records")),
        "loaded": loaded.predict,
        "runtime": light.predict,
        "runtime, dict": lambda X: light.predict({name: X[name].to_numpy() for name in X}),
        "runtime, dicts": lambda X: light.predict(X.to_dict("records")),
    }
    if hasattr(model.estimator, "predict_interval"):
        found["predict_interval"] = model.predict_interval
        found["predict_quantiles"] = model.predict_quantiles
    if model.task == "classification":
        found |= {"predict_proba": model.predict_proba, "runtime_proba": light.predict_proba}
    return found


@cases
def test_infinity_of_new_rows_is_said_as_that_of_the_fit_everywhere(frame, options, tmp_path):
    model, refuses = fitted(frame, options), (frame, options) == ("numbers", "single")
    frame = FRAMES[frame]
    with pytest.warns(UserWarning, match=SAID):
        gpukfl.fit(with_infinity(frame), Y, **OPTIONS[options])
    for name, take in doors(model, tmp_path / "m.gpukfl").items():
        if refuses:  # which takes no missing values at all
            with pytest.raises(ValueError, match="got infinity in a"):
                take(with_infinity(frame))
            continue
        with collect_warnings() as told:
            take(with_infinity(frame))
        assert SAID in told, name
        with collect_warnings() as told:
            take(frame.assign(a=np.where(np.arange(N) == 3, np.nan, frame["a"])))
        assert SAID not in told, name


@cases
def test_no_row_is_refused_in_the_same_words_everywhere(frame, options, tmp_path):
    model, frame = fitted(frame, options), FRAMES[frame]
    for take in doors(model, tmp_path / "m.gpukfl").values():
        with pytest.raises(ValueError, match=NO_ROW):
            take(frame[:0])
    for X, y in ((frame[:0], Y[:0]), (frame[:0], ["a"][:0]), (frame[:1], Y[:1]), ([], [])):
        with pytest.raises(ValueError, match=rf"expected at least 2 rows, got {len(y)} sample"):
            gpukfl.fit(X, y, **OPTIONS[options])


def test_estimators_name_the_columns_of_infinity():
    model = gpukfl.KernelRidgeRegressor().fit(NUMBERS, Y)
    for call in (model.predict, lambda X: model.fit(X, Y)):
        with pytest.raises(ValueError, match=r"contains infinity\. .* got infinity in a: gpukfl"):
            call(with_infinity(NUMBERS))
        with pytest.raises(ValueError, match=r"Input X contains NaN\. .* got NaN in b: gpukfl"):
            call(NUMBERS.assign(b=np.nan))
