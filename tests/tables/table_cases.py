"""A table with a column of every kind, in the libraries that have frames."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

N = 120
RNG = np.random.default_rng(0)
DAY = datetime.datetime(2021, 3, 4, 10)
COLUMNS = {
    "length": [None if k % 10 == 3 else 0.1 * k * k for k in range(N)],
    "rooms": [1 + k % 4 for k in range(N)],
    "colour": [["red", "blue", None, "red"][k % 4] for k in range(N)],
    "street": [f"street {k % 30}" for k in range(N)],
    "sold": [k % 3 == 0 for k in range(N)],
    "built": [DAY + datetime.timedelta(hours=7 * k) for k in range(N)],
    "left": [DAY + datetime.timedelta(hours=9 * k) for k in range(N)],
    "took": [datetime.timedelta(seconds=k) for k in range(N)],
    "price": [Decimal(k) / 8 for k in range(N)],
    "note": [f"house {k} of {'many' if k % 2 else 'few'} words" for k in range(N)],
    "code": [f"A{k:05d}" for k in range(N)],
    "id": [7 * k for k in range(N)],
    "same": [1.5] * N,
    "none": [None] * N,
    "again": [["rot", "blau", None, "rot"][k % 4] for k in range(N)],
}
KINDS = {
    "length": "numeric",
    "rooms": "code",
    "colour": "category",
    "street": "category",
    "sold": "boolean",
    "built": "date",
    "left": "date",
    "took": "duration",
    "price": "numeric",
    "note": "text",
    "code": "identifier",
    "id": "identifier",
    "same": "constant",
    "none": "empty",
    "again": "duplicate",
}
Y = RNG.standard_normal(N)


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns, strict=False)


def arrow_table(columns):
    return pytest.importorskip("pyarrow").table(columns)


MAKERS = {"pandas": pd.DataFrame, "polars": polars_frame, "pyarrow": arrow_table}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
empty = pytest.mark.filterwarnings("ignore:columns without any value")


def kinds(table):
    return {column.name: column.kind for column in table.columns}


def column(values, name="a", **told):
    """What a table says of one column."""
    from gpukfl.tables import Table

    return Table.learn(pd.DataFrame({name: values}), **told).columns[0]
