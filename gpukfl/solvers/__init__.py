"""Iterative solvers. They take callables, return a solution, and always say how they ended."""

from gpukfl.solvers._cg import ConjugateGradient
from gpukfl.solvers._nystrom import NystromPreconditioner
from gpukfl.solvers._proximal_gradient import Evaluation, ProximalGradient, Trace

__all__ = [
    "ConjugateGradient",
    "Evaluation",
    "NystromPreconditioner",
    "ProximalGradient",
    "Trace",
]
