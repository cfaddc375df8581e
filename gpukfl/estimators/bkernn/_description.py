"""What a Brownian kernel neural network says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.estimators._described import coordinate
from gpukfl.inspection import (
    Curves,
    Description,
    Directions,
    Importances,
    Names,
    Objective,
    direction_name,
)

_DIRECTIONS = 5  # functions that can be told apart
_POINTS = 200


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    exact = "exact"
    if e.n_knots_ is not None:
        exact = f"binned on {e.n_knots_} knots, relative error {e.knots_error_:.1e}"
    features, importances, count = names.features, e.feature_importances_, e.W_.shape[1]
    return Description(
        **e._about_fit(names, along="ridge", beside=("penalty",)),
        text=f"{count} particles, penalty {e.penalty_}, ridge {e.ridge_:.3g}",
        products=exact,
        facts={
            "particles": count,
            "penalty": e.penalty_,
            "ridge": f"{e.ridge_:.4g}",
            "residual of the last solve": f"{e.solve_residual_:.1e}",
        },
        note=(
            "A direction's loadings say how much each feature weighs in it. Its function is what "
            "the particles of which it is the leading direction add to the prediction along it."
        ),
        panels=(
            Importances(features, importances, "row norms of W"),
            Directions(features, e.components_, importances),
            _curves(e, names),
            Objective(tuple(e.history_.objective), tuple(e.history_.validation_score)),
        ),
    )


def _curves(e: Any, names: Names) -> Curves:
    r"""Add up, along each learned direction, what its particles do to the prediction.

    Particle j belongs to the direction u_r with the largest ``|u_r' w_j|``. The function is

    .. math:: t \mapsto \frac1m \sum_{j \in r} g_j(t\, w_j^\top u_r),

    over the range that the data have along the particle that is most parallel to u_r. A direction
    that leads in no particle has none.
    """
    components = e.components_.astype(np.float64)
    along = components @ e.W_.astype(np.float64)  # (k, m)
    norms = np.linalg.norm(e.W_.astype(np.float64), axis=0)
    leading = np.argmax(np.abs(along), axis=0) if len(components) else np.zeros(0)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    missing = []
    for rank in range(min(len(components), _DIRECTIONS)):
        own = np.flatnonzero((leading == rank) & (norms > 0))
        label = direction_name(names.features, components, rank)
        if len(own):
            found[label] = _along(e.shape_functions_, along[rank], norms, own)
        else:
            missing.append(str(rank + 1))
    which = f"direction{'' if len(missing) == 1 else 's'} {' and '.join(missing)}"
    return Curves(
        tuple(found),
        tuple(steps for steps, _ in found.values()),
        tuple(values for _, values in found.values()),
        names.outputs,
        one_unit=names.one_unit,
        title="Functions along the learned directions",
        xlabel=coordinate(e),
        remark=f"no particle leads along {which}" if missing else "",
    )


def _along(
    shapes: Any, along: np.ndarray, norms: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (points,), and the sum of some particles' functions at them (points, t)."""
    straight = own[np.argmax(np.abs(along[own]) / norms[own])]
    ends = shapes.knots[straight, [0, -1]].astype(np.float64) / along[straight]
    steps = np.linspace(ends.min(), ends.max(), _POINTS)
    total = np.zeros((_POINTS, shapes.values.shape[2]))
    for j in own:
        knots, at = shapes.knots[j].astype(np.float64), steps * along[j]
        for k in range(total.shape[1]):
            total[:, k] += np.interp(at, knots, shapes.values[j, :, k].astype(np.float64))
    return steps, total / len(shapes)
