"""What every fitted attribute is, as the classes that set them declare it.

Model files are checked against it, before arrays are read. A fit that sets another attribute
cannot be saved, which a test notices. A class names in `_attributes` what its fit sets each time,
in `_tried` what names a setting that was tried, and in `_rules` what must hold of the values.
"""

from __future__ import annotations

from typing import Any

from gpukfl.estimators._declared import (
    DOUBLE,
    SCORE,
    Declared,
    Entries,
    FeatureNames,
    Items,
    MisfitError,
    Number,
    Numbers,
    Sizes,
    Switch,
    Text,
)

# Of some fits only
SOMETIMES: dict[str, Declared] = {
    "feature_names_in_": FeatureNames(),
    "feature_importances_error_": Numbers(DOUBLE, ("n_features",)),
    "warnings_": Items(Text()),
    "_sklearn_output_config": Entries({"transform": Text(("default", "pandas", "polars"))}),
}
# Of every setting that was tried, beside what names it
_TRIED: dict[str, Declared] = {
    "score": Number(any_value=True, optional=True),
    "standard_error": SCORE,
    "seconds": Number(),
    "chosen": Switch(),
}


def declared(kind: type, /) -> dict[str, Declared]:
    """Give the attributes that a fit of this estimator class sets, each time."""
    return _gathered(kind, "_attributes") | {"tuning_": trials(kind)}


def trials(kind: type, /) -> Declared:
    """Give what the list of settings that were tried is."""
    return Items(Entries(_gathered(kind, "_tried") | _TRIED))


def _gathered(kind: type, name: str) -> dict[str, Any]:
    """Join what a class and its bases say under a name, the class last."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= vars(base).get(name, {})
    return found


def check_attributes(kind: type, attributes: dict[str, Any], /) -> Sizes:
    """Raise MisfitError unless these are the attributes of a fitted estimator.

    Looks at dtypes and shapes of arrays, not at their values: what only knows these will do.

    Returns
    -------
    dict
        What the symbols of the shapes stand for.
    """
    known = declared(kind)
    missing = [name for name in known if name not in attributes]
    if missing:
        msg = f"which has no {', '.join(missing)} of a fitted {kind.__name__}"
        raise MisfitError(msg)
    unknown = [name for name in attributes if name not in known | SOMETIMES]
    if unknown:
        msg = f"which has {', '.join(map(str, unknown))}, unknown to {kind.__name__}"
        raise MisfitError(msg)
    sizes: Sizes = {}
    for name, what in (known | SOMETIMES).items():
        if name in attributes:
            what.check(name, attributes[name], sizes)
    return sizes


def check_values(estimator: Any, /) -> None:
    """Raise MisfitError unless the values of the attributes fit together."""
    for what, holds in _gathered(type(estimator), "_rules").items():
        if not holds(estimator):
            msg = f"whose {type(estimator).__name__} does not have {what}"
            raise MisfitError(msg)
