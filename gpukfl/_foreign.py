"""Estimators of scikit-learn in model files: as bytes of skops, of types that are trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpukfl._archive import RefusedError

# Beside what skops trusts by itself: of the gradient-boosted trees
_TRUSTED = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",)


@dataclass(frozen=True, eq=False)
class Foreign:
    """An estimator whose bytes have not been read yet."""

    array: Any


def bytes_of(estimator: Any, /) -> bytes:
    """Give the bytes of a fitted estimator.

    Raises
    ------
    TypeError
        If it holds types that are not trusted; says which.
    """
    from skops.io import dumps, get_untrusted_types

    data = dumps(estimator)
    unknown = [name for name in get_untrusted_types(data=data) if name not in _TRUSTED]
    if unknown:
        msg = (
            f"expected members of types that skops trusts, got {type(estimator).__name__} with "
            f"{', '.join(unknown)}: pickle keeps others"
        )
        raise TypeError(msg)
    return data


def made_of(data: Any, /) -> Any:
    """Make an estimator of its bytes, an array; nothing that is not trusted is made.

    Raises
    ------
    RefusedError
        If the bytes are of something else, or of other types.
    """
    from skops.io import loads

    try:
        return loads(data.tobytes(), trusted=list(_TRUSTED))
    except Exception as error:
        msg = f"which holds an estimator that cannot be read: {str(error).splitlines()[0]}"
        raise RefusedError(msg) from error
