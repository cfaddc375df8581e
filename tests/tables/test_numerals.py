"""Numbers and durations in text, as people and programs write them."""

import numpy as np
import pandas as pd
import pytest

from gpukfl.tables import Table
from gpukfl.tables._frame import read_values

NUMBERS = np.round(np.random.default_rng(0).uniform(1.0, 9000.0, 60), 2)
WITH_POINTS = [f"{x:,.2f}" for x in NUMBERS]  # 5,733.02
WRITTEN = {
    "decimal commas": [text.translate(str.maketrans(".,", ",.")) for text in WITH_POINTS],
    "decimal commas, no groups": [f"{x:.3f}".replace(".", ",") for x in NUMBERS],
    "decimal commas, a unit": [f"{x:.2f} €".replace(".", ",") for x in NUMBERS],
    "apostrophes": [text.replace(",", "'") for text in WITH_POINTS],
    "no-break spaces": [text.replace(",", "\u00a0") for text in WITH_POINTS],
    "narrow spaces": [text.replace(",", "\u202f") for text in WITH_POINTS],
}


def codes_of(texts):
    table = Table.learn(pd.DataFrame({"amount": texts}))
    assert [one.name for one in table.coded] == ["amount"]
    return table, table.codes(pd.DataFrame({"amount": texts}))[:, 0]


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_are_read_however_groups_and_decimals_are_marked(name):
    table, codes = codes_of(WRITTEN[name])
    column = table.columns[0]
    assert column.kind == "numeric"
    assert column.decimal == ("," if "commas" in name else ".")
    np.testing.assert_array_equal(codes, NUMBERS)
    np.testing.assert_array_equal(table.codes(pd.DataFrame({"amount": NUMBERS}))[:, 0], NUMBERS)
    alone = read_values(WRITTEN[name]).as_numbers(column.unit, column.decimal)
    np.testing.assert_array_equal(alone, NUMBERS)


@pytest.mark.parametrize("form", ["({})", "-{}", "\u2212{}", "$({})", "-${}"])
def test_less_than_nothing(form):
    below = NUMBERS > 4500
    texts = [form.format(t) if b else t for t, b in zip(WITH_POINTS, below, strict=True)]
    if form == "$({})":  # whose currency is outside
        texts = [f"${text.replace('$', '')}" for text in texts]
        texts = [f"({t[2:-1]})" if t.startswith("$(") else t for t in texts]
    np.testing.assert_array_equal(codes_of(texts)[1], np.where(below, -NUMBERS, NUMBERS))


def test_points_between_groups_need_a_comma_to_say_so():
    assert Table.learn(pd.DataFrame({"a": ["1.234.567", "192.168.001"] * 20})).columns[0].kind == (
        "category"
    )


def test_thousands_with_commas_stay_thousands():
    with pytest.warns(UserWarning, match="can be read in two ways, and '1,000' is read as 1000"):
        table, codes = codes_of([f"{1000 + 7 * k:,}" for k in range(60)])
    assert table.columns[0].decimal == "."
    np.testing.assert_array_equal(codes, 1000 + 7 * np.arange(60))


@pytest.mark.parametrize("told", [None, {"span": "duration"}])
def test_durations_as_pandas_and_python_write_them(told):
    seconds = np.round(np.random.default_rng(1).uniform(-4e5, 4e5, 60))
    spans = pd.Series(pd.to_timedelta(seconds, "s"))
    python = [str(span.to_pytimedelta()) for span in spans]
    table = Table.learn(pd.DataFrame({"span": spans}))
    for texts in (spans.astype(str), python):
        frame = pd.DataFrame({"span": texts})
        own = Table.learn(frame, columns=told)
        assert own.columns[0].kind == "duration"
        np.testing.assert_array_equal(own.codes(frame)[:, 0], seconds)
        np.testing.assert_array_equal(table.codes(frame)[:, 0], seconds)


def test_hours_may_be_many():
    texts = [f"{7 * k}:{k % 60:02d}:00" for k in range(60)]
    table = Table.learn(pd.DataFrame({"span": texts}))
    found = table.codes(pd.DataFrame({"span": texts}))[:, 0]
    np.testing.assert_array_equal(found, [7 * k * 3600 + k % 60 * 60 for k in range(60)])


def test_numbers_that_are_not_read_are_told():
    frame = pd.DataFrame({"dose": [f"<{x}" for x in NUMBERS], "b": NUMBERS})
    with pytest.warns(UserWarning, match="'dose' is dropped: .* such as '<.*not numbers"):
        assert Table.learn(frame).columns[0].kind == "identifier"
