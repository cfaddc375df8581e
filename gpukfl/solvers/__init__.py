"""Iterative solvers, which take callables and return a solution with its status."""

from gpukfl.solvers._cg import ConjugateGradient
from gpukfl.solvers._cg_on_sums import ConjugateGradientOnSums
from gpukfl.solvers._early_stopping import EarlyStopping, Stop
from gpukfl.solvers._lasso import Lasso, LassoFit, largest_penalty
from gpukfl.solvers._lbfgs import LBFGS, Descent
from gpukfl.solvers._nystrom import NystromPreconditioner
from gpukfl.solvers._projected_gradient import (
    ProjectedDescent,
    ProjectedGradient,
    project_on_capped_orthant,
)
from gpukfl.solvers._proximal_gradient import Evaluation, ProximalGradient, Trace
from gpukfl.solvers._two_block import (
    AlternatingGradient,
    ArmijoSearch,
    TwoBlockDescent,
    TwoBlockFunction,
    VariableProjection,
)

__all__ = [
    "LBFGS",
    "AlternatingGradient",
    "ArmijoSearch",
    "ConjugateGradient",
    "ConjugateGradientOnSums",
    "Descent",
    "EarlyStopping",
    "Evaluation",
    "Lasso",
    "LassoFit",
    "NystromPreconditioner",
    "ProjectedDescent",
    "ProjectedGradient",
    "ProximalGradient",
    "Stop",
    "Trace",
    "TwoBlockDescent",
    "TwoBlockFunction",
    "VariableProjection",
    "largest_penalty",
    "project_on_capped_orthant",
]
