"""Inference: importances, interactions, bands of curves and directions, with errors.

All functions take a fitted model and rows, and return frozen results with `summary`, `frame` and
`plot`. P-values of importances and interactions need rows that the model has not seen.
"""

from gpukfl.inference._bands import bands
from gpukfl.inference._conditional import Imputer, conditional_importance
from gpukfl.inference._explain import explain
from gpukfl.inference._groups import correlated_groups
from gpukfl.inference._infer import Inference, infer
from gpukfl.inference._interactions import interactions
from gpukfl.inference._results import Band, Bands, Subspace
from gpukfl.inference._subspace import subspace
from gpukfl.inference._test_results import ConditionalImportance, Interactions

__all__ = [
    "Band",
    "Bands",
    "ConditionalImportance",
    "Imputer",
    "Inference",
    "Interactions",
    "Subspace",
    "bands",
    "conditional_importance",
    "correlated_groups",
    "explain",
    "infer",
    "interactions",
    "subspace",
]
