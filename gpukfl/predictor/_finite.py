"""The check of predictions."""

from __future__ import annotations

from gpukfl.core._array import Array, array_namespace


def check_finite_prediction(predicted: Array, what: str, precision: object, /) -> Array:
    """Return the predictions; raise ValueError if they overflowed far from the data."""
    xp = array_namespace(predicted)
    finite = xp.isfinite(predicted)
    if not bool(xp.all(finite)):
        bad = int(xp.sum(xp.astype(~xp.all(finite, axis=1), xp.int64)))
        msg = (
            f"the {what} overflows {precision} and is not finite at {bad} of {finite.shape[0]} "
            "rows: expected rows closer to the training data"
        )
        if "32" in str(precision):
            msg += "; or fit and predict with float64 data"
        raise ValueError(msg)
    return predicted
