"""Columns of any library as one of five forms of values in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

NUMBERS, BOOLEANS, DATES, DURATIONS, LABELS = "numbers", "booleans", "dates", "durations", "labels"
_MOMENT, _SPAN = "datetime64[us]", "timedelta64[us]"


@dataclass(frozen=True, eq=False)
class Values:
    """A column as it was read.

    Attributes
    ----------
    form : str
        numbers, booleans, dates, durations or labels.
    data : array, shape (n,)
        float64 with NaN; of dates datetime64[us] with NaT; of labels their indices, -1 for none.
    labels : array of str
        Different labels.
    ordered : bool
        Whether the labels are in an order that means something.
    note : str
        What is odd about the values, for a warning.
    """

    form: str
    data: np.ndarray
    labels: np.ndarray | None = None
    ordered: bool = False
    note: str = ""

    @property
    def missing(self) -> np.ndarray:
        """Which rows (n,) have no value."""
        if self.form == LABELS:
            return self.data < 0
        return np.isnat(self.data) if self.form == DATES else np.isnan(self.data)


def numbers(array: np.ndarray, form: str = NUMBERS, /) -> Values:
    """Numbers, of which infinite ones are missing."""
    data = array.astype(np.float64)
    infinite = np.isinf(data)
    if infinite.any():
        data[infinite] = np.nan
    return Values(form, data)


def read_series(series: nw.Series[Any], /) -> Values:
    """Read one column of a frame."""
    dtype = series.dtype
    if dtype.is_numeric():
        return numbers(series.cast(nw.Float64).to_numpy())
    if dtype == nw.Boolean:
        return numbers(series.cast(nw.Float64).to_numpy(), BOOLEANS)
    if dtype in (nw.Datetime, nw.Date):
        local = series if dtype == nw.Date else series.dt.replace_time_zone(None)
        return Values(DATES, local.to_numpy().astype(_MOMENT))
    if dtype == nw.Duration:
        return durations(series.to_numpy())
    if dtype in (nw.Enum, nw.Categorical):
        return _categories(series, dtype)
    return read_objects(series.to_numpy() if dtype != nw.String else series.to_native())


def durations(array: np.ndarray, /) -> Values:
    """Durations in seconds."""
    spans = array.astype(_SPAN)
    seconds = spans.astype(np.int64) * 1e-6
    return Values(DURATIONS, np.where(np.isnat(spans), np.nan, seconds))


def _categories(series: nw.Series[Any], dtype: Any) -> Values:
    """Labels of a categorical column, in their order where they have one."""
    if dtype == nw.Categorical:
        return _labels(
            series.cast(nw.String).to_numpy()
            if not _is_pandas(series)
            else series.to_native().astype(object).to_numpy()
        )
    known = np.array([str(level) for level in dtype.categories], dtype=object)
    found = _labels(_texts(series.to_numpy()))
    place = {label: k for k, label in enumerate(known)}
    index = np.array([place[label] for label in found.labels], dtype=np.int64)
    data = np.where(found.data < 0, -1, np.append(index, -1)[found.data])
    return Values(LABELS, data, known, ordered=True)


def _is_pandas(series: nw.Series[Any]) -> bool:
    return series.implementation.is_pandas_like()


def _texts(array: np.ndarray) -> np.ndarray:
    """Objects as text, the missing ones left."""
    import pandas as pd

    gaps = pd.isna(array)
    return np.array([v if g else str(v) for v, g in zip(array, gaps, strict=True)], dtype=object)


def read_objects(array: Any, /) -> Values:
    """Read text and other Python objects (n,)."""
    import pandas as pd
    from pandas.api.types import infer_dtype

    kind = getattr(getattr(array, "dtype", None), "kind", "O")
    if kind in "iuf":
        return numbers(np.asarray(array))
    inferred = infer_dtype(array, skipna=True)
    if inferred == "string" or inferred == "empty":
        return _labels(array)
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal"):
        return numbers(pd.to_numeric(pd.Series(array).astype(object), errors="coerce").to_numpy())
    if inferred == "boolean":
        return numbers(
            pd.array(array, dtype="boolean").to_numpy(np.float64, na_value=np.nan), BOOLEANS
        )
    if inferred in ("datetime", "datetime64", "date"):
        return Values(DATES, _dates(array))
    if inferred in ("timedelta", "timedelta64"):
        return durations(pd.to_timedelta(pd.Series(array)).to_numpy())
    if inferred == "time":
        spans = [None if v is None else 3600 * v.hour + 60 * v.minute + v.second for v in array]
        return Values(DURATIONS, np.array(spans, dtype=np.float64))
    values = _labels(_texts(np.asarray(array, dtype=object)))
    return Values(LABELS, values.data, values.labels, note=f"values of several types ({inferred})")


def _dates(array: Any) -> np.ndarray:
    import pandas as pd

    moments = pd.to_datetime(pd.Series(array), errors="coerce", utc=True)
    return moments.dt.tz_localize(None).to_numpy().astype(_MOMENT)


def _labels(array: Any) -> Values:
    """Different texts and their indices; blank ones are missing."""
    import pandas as pd

    codes, labels = pd.factorize(array)
    texts = np.array([str(label) for label in labels], dtype=object)
    blank = np.array([not text.strip() for text in texts], dtype=bool)
    if blank.any():
        renumbered = np.where(blank, -1, np.cumsum(~blank) - 1)
        codes, texts = np.append(renumbered, -1)[codes], texts[~blank]
    return Values(LABELS, np.asarray(codes), texts)
