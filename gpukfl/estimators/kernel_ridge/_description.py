"""What kernel ridge regressions say of themselves: no features are learned."""

from __future__ import annotations

from typing import Any

from gpukfl.estimators._described import ended_text
from gpukfl.inspection import Description, Names, Panel, Ridges


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    kernel, count = type(e.kernel_).__name__, e.centers_.shape[0]
    panels: tuple[Panel, ...] = ()
    if e.ridge_path_ is not None:
        path = e.ridge_path_
        panels = (Ridges(tuple(path.ridges), tuple(path.scores), e.ridge_),)
    return Description(
        **e._about(names),
        text=f"{kernel} kernel, {count} centres, solver {e.solver_}, ridge {e.ridge_:.3g}",
        n_samples=e._n_samples,
        place=e.place_,
        n_steps=e.n_iter_,
        ended=ended_text(e.status_),
        facts={
            "kernel": kernel,
            "lengthscale": f"{e.lengthscale_:.4g}",
            "ridge": f"{e.ridge_:.4g}",
            "solver": e.solver_,
            "centres": count,
            "jitter": f"{e.jitter_:.1e}",
        },
        panels=panels,
    )


def describe_brownian(e: Any, names: Names, /) -> Description:
    """Describe a fitted `BrownianKernelRidge`."""
    count = e.X_fit_.shape[0]
    return Description(
        **e._about(names),
        text=f"Brownian kernel, {count} samples, ridge {e.ridge_:.3g}",
        n_samples=count,
        facts={
            "ridge": f"{e.ridge_:.4g}",
            "residual of the solve": f"{e.solve_residual_:.1e}",
        },
    )
