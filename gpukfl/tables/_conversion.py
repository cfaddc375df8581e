"""Values of any form as numbers, dates or labels, whatever they were read as."""

from __future__ import annotations

import numpy as np

from gpukfl.tables import _values
from gpukfl.tables._dates import days_since
from gpukfl.tables._values import Values


def to_numbers(values: Values, /) -> np.ndarray:
    """Numbers (n,), NaN where there is none; of dates days since 1970."""
    if values.form == _values.DATES:
        return days_since(values.data)
    if values.form != _values.LABELS:
        return values.data
    import pandas as pd

    known = pd.to_numeric(pd.Series(values.labels, dtype=object), errors="coerce")
    found = np.append(known.to_numpy(np.float64), np.nan)[values.data]
    return np.where(np.isinf(found), np.nan, found)


def to_labels(values: Values, /) -> tuple[np.ndarray, np.ndarray]:
    """Give indices (n,), -1 for none, and the labels as text."""
    if values.form == _values.LABELS:
        return values.data, values.labels
    import pandas as pd

    codes, found = pd.factorize(values.data)
    if values.form == _values.BOOLEANS:
        texts = [str(bool(value)) for value in found]
    elif values.form == _values.DATES:
        texts = [str(value) for value in found]
    else:
        texts = [str(int(v)) if v == np.rint(v) else repr(float(v)) for v in found]
    return np.asarray(codes), np.array(texts, dtype=object)


def to_dates(values: Values, day_first: bool, /) -> np.ndarray:
    """Dates (n,), NaT where there is none."""
    if values.form == _values.DATES:
        return values.data
    import pandas as pd

    codes, labels = to_labels(values)
    found = pd.to_datetime(
        pd.Series(labels, dtype=object),
        errors="coerce",
        utc=True,
        format="mixed",
        dayfirst=day_first,
    )
    moments = found.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.append(moments, np.datetime64("NaT"))[codes]


def levels_of(values: Values, kind: str, /) -> tuple[str, ...]:
    """Levels: of ordered ones in their order, else most frequent first and ties by name."""
    codes, labels = to_labels(values)
    if kind == "ordered":
        return tuple(labels) if values.ordered else tuple(sorted(labels, key=_natural))
    counts = np.bincount(codes[codes >= 0], minlength=len(labels))
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda k: (-counts[k], labels[k]))
    return tuple(str(labels[k]) for k in order)


def _natural(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label
