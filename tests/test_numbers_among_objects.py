"""Numbers among objects and text of new rows: one answer, whoever is asked and whatever holds them.

A value is a number, or missing, or refused.
"""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl import AutoRegressor, KernelRidgeRegressor, runtime

RNG = np.random.default_rng(2)
X = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"])
Y = (X["a"] + X["b"] ** 2).to_numpy()
MEDIANS = X.median()
GAPS = [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), "", " ", "n/a", "None"]
NUMBERS = [
    1.5,
    2,
    True,
    np.float32(0.5),
    np.int8(3),
    Decimal("0.25"),
    "12",
    " -1e-1 ",
    np.str_("7"),
]
OTHERS = ["tall", "12 kg", pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01"), 1j, b"x"]
OTHERS += [np.timedelta64(3, "D"), pd.Timedelta("1h"), {}]

pytestmark = pytest.mark.filterwarnings(
    "ignore:X does not have valid feature names", "ignore:missing values in"
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """What predicts, by name, and whether it takes gaps; runtimes beside their models."""
    path = tmp_path_factory.mktemp("models") / "model.gpukfl"
    made = {
        "single": (gpukfl.fit(X, Y, method="rkhs_weighting", n_parameters=20, ridge=0.01), False),
        "blend": (gpukfl.fit(X, Y, members=["linear"], n_folds=2), True),
    }
    found = {
        "estimator": (KernelRidgeRegressor(ridge=0.1).fit(X, Y), False),
        "estimator of arrays": (KernelRidgeRegressor(ridge=0.1).fit(X.to_numpy(), Y), False),
        "blend of arrays": (AutoRegressor(["linear"], n_folds=2).fit(X.to_numpy(), Y), True),
    }
    for name, (model, gaps) in made.items():
        model.save(path)
        found |= {name: (model, gaps), f"{name} alone": (runtime.load(path), gaps)}
    return found


def _objects(rows):
    found = np.empty((len(rows), 2), dtype=object)
    for k, row in enumerate(rows):
        found[k, 0], found[k, 1] = row
    return found


FORMS = {
    "frame": lambda rows: pd.DataFrame(rows, columns=["a", "b"], dtype=object),
    "array": _objects,
    "list": lambda rows: rows,
    "dicts": lambda rows: [dict(zip("ab", row, strict=True)) for row in rows],
    "dask": lambda rows: _lazy(pd.DataFrame(rows, columns=["a", "b"], dtype=object)),
}


def _lazy(frame):
    dask = pytest.importorskip("dask")
    with dask.config.set({"dataframe.convert-string": False}):  # which makes text of truth values
        return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=1)


def forms_of(name):
    """Those that it takes: estimators take rows without names too, and no dicts."""
    left = {"dicts"} if "estimator" in name or "arrays" in name else set()
    left |= {"frame", "dask"} if "arrays" in name else set()
    left |= {"dask"} if "alone" in name else set()
    return {form: make for form, make in FORMS.items() if form not in left}


def predict(model, rows):
    found = model.predict(rows)
    return np.asarray(found.compute() if hasattr(found, "compute") else found)


@settings(max_examples=8, phases=(Phase.generate,))
@given(
    values=st.lists(st.sampled_from([*NUMBERS, *GAPS]), min_size=1, max_size=4),
    column=st.integers(0, 1),
)
def test_numbers_are_read_and_gaps_are_gaps(asked, values, column):
    rows = [[0.5, 0.5] for _ in values]
    plain = np.array(rows)
    for row, value in zip(rows, values, strict=True):
        row[column] = value
    is_gap = np.array([any(value is gap for gap in GAPS) for value in values])
    plain[:, column] = [0.0 if gap else float(v) for v, gap in zip(values, is_gap, strict=True)]
    plain[is_gap, column] = MEDIANS.iloc[column]
    for name, (model, takes_gaps) in asked.items():
        named = "arrays" not in name
        expected = model.predict(pd.DataFrame(plain, columns=["a", "b"]) if named else plain)
        for form, make in forms_of(name).items():
            if is_gap.any() and not takes_gaps:
                with pytest.raises(ValueError, match="NaN"):
                    predict(model, make(rows))
            else:
                found = predict(model, make(rows))
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=name + form)


@given(value=st.sampled_from(OTHERS), beside=st.sampled_from([*NUMBERS, *GAPS, *OTHERS]))
@settings(max_examples=8)
def test_what_is_no_number_is_refused(asked, value, beside):
    rows = [[0.5, value], [beside, 0.5]]
    for name, (model, _) in asked.items():
        for form, make in forms_of(name).items():
            with pytest.raises((TypeError, ValueError)) as caught:
                predict(model, make(rows))
            assert "NAType" not in str(caught.value), (name, form)


@pytest.mark.parametrize("gap", GAPS, ids=repr)
def test_a_fit_of_a_single_method_names_missing_values(gap):
    rows = X.to_numpy().astype(object)
    rows[3, 1] = gap
    for given_rows in (rows, rows.tolist(), pd.DataFrame(rows)):
        with pytest.raises(ValueError, match=r"Input X contains NaN\. Expected numbers without"):
            KernelRidgeRegressor().fit(given_rows, Y)


def test_categories_are_no_numbers_for_anyone(asked):
    frame = X.assign(b=pd.Categorical([1, 2] * 30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("single", "single alone", "blend", "blend alone"):
            with pytest.raises(ValueError, match="expected columns of numbers, got"):
                asked[name][0].predict(frame)
