"""What a fit is given becomes one value, whatever library it is of."""

import numpy as np
import pandas as pd
import pytest
from table_cases import arrow_table, polars_frame

import gpukfl
from gpukfl.core._warnings import collect_warnings
from gpukfl.tables._frame import read_values
from gpukfl.tables._training import read_test_data, read_training_data

N = 40
COLUMNS = {
    "size": [float(k) for k in range(N)],
    "town": [("north", "south", "west")[k % 3] for k in range(N)],
    "price": [1e9 if k == 7 else None if k == 3 else 0.5 * k for k in range(N)],
}
WEIGHTS = np.where(np.arange(N) == 11, 0.0, 1.0)
MAKERS = {
    "pandas": pd.DataFrame,
    "polars": polars_frame,
    "pyarrow": arrow_table,
    "dicts": lambda columns: pd.DataFrame(columns).to_dict("records"),
}


@pytest.fixture(params=MAKERS)
def given(request):
    return MAKERS[request.param](COLUMNS)


def test_rows_are_kept_or_dropped_for_a_reason(given):
    with collect_warnings() as told:
        data = read_training_data(given, "price", WEIGHTS)
    assert len(data) + sum(data.n_dropped.values()) == N
    assert list(data.n_dropped.values()) == [1, 1, 1]
    kept = np.setdiff1d(np.arange(N), [3, 7, 11])
    np.testing.assert_array_equal(data.y, 0.5 * kept)
    assert (data.target_name, data.task, data.kind) == ("price", "regression", "floats")
    assert [message.split(" ", 2)[1] for message in told] == ["is", "has"]  # missing; outliers


def test_a_judgement_keeps_outliers(given):
    with collect_warnings():
        data = read_test_data(given, "price", WEIGHTS, target="other")
    assert data.n_dropped.keys() == {"of weight 0", "without a target"}
    assert len(data) == N - 2
    assert data.target_name == "price"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_dict_is_predicted_as_a_frame_is():
    frame = pd.DataFrame(COLUMNS).dropna().drop(index=7)
    rows = frame.to_dict("records")
    for options in ({"method": "hkrr"}, {"members": ["linear"], "n_folds": 2}):
        model = gpukfl.fit(frame, "price", **options)
        expected = model.predict(frame.drop(columns="price"))
        one_by_one = np.concatenate([model.predict([row]) for row in rows[:3]])
        np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-9)
        np.testing.assert_allclose(one_by_one, expected[:3], atol=1e-6)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_all_libraries_have_the_same_values(name):
    expected = read_values(COLUMNS[name])
    for make in (pd.DataFrame, polars_frame, arrow_table):
        found = read_values(make(COLUMNS)[name])
        assert found.form == expected.form
        np.testing.assert_array_equal(found.missing, expected.missing)
        np.testing.assert_array_equal(found.data, expected.data)


def test_a_frame_of_targets_alone_is_explained():
    frame = pd.DataFrame(COLUMNS)
    for names in ("price", ["price", "size"]):
        only = frame[[names] if isinstance(names, str) else names]
        with pytest.raises(
            ValueError, match=r"expected at least one feature beside the target price.*got none"
        ):
            gpukfl.fit(only, names)


@pytest.mark.parametrize("members", [{"method": "hkrr"}, {"members": ["linear"]}])
def test_labels_of_another_kind_than_those_of_the_fit_are_explained(members):
    X, labels = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    told = {"effort": "quick"} if "members" in members else {}
    for known, others, said in (
        (labels, labels.astype(str), "numbers such as 0, got text such as '0'"),
        (labels.astype(str), labels, "text such as '0', got numbers such as 0"),
    ):
        model = gpukfl.fit(X, known, task="classification", random_state=0, **told, **members)
        with pytest.raises(ValueError, match=f"expected labels as in the fit, {said}"):
            model.score(X, others)
        assert 0.0 <= model.score(X, known) <= 1.0
