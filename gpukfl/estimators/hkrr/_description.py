"""What a hyper-kernel ridge regression says of itself."""

from __future__ import annotations

from typing import Any

from gpukfl._results import Status
from gpukfl.estimators._features import profile_curves
from gpukfl.inspection import Description, Directions, Importances, Names, Objective

_FEW = 3  # targets whose noise is said
_MAPS = {"evidence": "of the highest evidence", "loo": "of the lowest leave-one-out error"}


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    features, importances = names.features, e.feature_importances_
    kernel = type(e.kernel_).__name__
    start = f" (map: {map_text(e)})" if not e.learned_ or e.evidence_ is not None else ""
    return Description(
        **e._about_fit(names, along="ridge", beside=("n_components",)),
        text=(
            f"{kernel} kernel of {e.map_.shape[0]} components{start}, "
            f"{e.centers_.shape[0]} centres, ridge {e.ridge_:.3g}"
            + "".join(f", {name} {value}" for name, value in _belief(e).items())
        ),
        products="by blocks",
        facts={
            "kernel": kernel,
            "components": e.map_.shape[0],
            "map": map_text(e),
            "centres": e.centers_.shape[0],
            "ridge": f"{e.ridge_:.4g}",
            "lengthscale": f"{e.lengthscale_:.4g}",
            "jitter": f"{e.jitter_:.1e}",
            **_belief(e),
        },
        note=(
            "A direction's loadings say how much each feature weighs in it. A profile is the "
            "prediction along one learned direction, through the middle of the centres."
        ),
        panels=(
            Importances(features, importances, "root mean squares of the derivatives"),
            Directions(features, e.components_, importances),
            profile_curves(e, names),
            Objective(tuple(e.history_.objective)),
        ),
    )


def _belief(e: Any) -> dict[str, str]:
    """Say what a Gaussian process knows of noise and evidence, where there is one."""
    if e.evidence_ is None:
        return {}
    ends = ", ".join(f"{value:.4g}" for value in e.noise_.tolist()[:_FEW])
    more = ", ..." if len(e.noise_) > _FEW else ""
    return {"evidence": f"{e.evidence_:.1f} nats", "noise of standard deviation": ends + more}


def map_text(e: Any, /) -> str:
    """Say where the linear map comes from."""
    if e.evidence_ is not None and e.learned_:
        return ("diagonal, " if e.map_.ndim == 1 else "") + _MAPS[e.criterion]
    if e.learned_:
        return "optimised"
    done = (Status.CONVERGED.name, Status.EARLY_STOPPED.name, Status.DECIDED.name)
    gained_nothing = e.tuning_ and e.status_ in done
    return "the best start: optimising gained nothing" if gained_nothing else "not optimised"
