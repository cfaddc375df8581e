"""What matters, with its error: importances with p-values, interactions, and groups of features.

Functions of any fitted model and of rows that it has not seen; they give frozen results with
`summary`, `frame` and `plot`.
"""

from gpukfl.inference._conditional import conditional_importance
from gpukfl.inference._groups import correlated_groups
from gpukfl.inference._importances import ConditionalImportance
from gpukfl.inference._imputation import Imputer
from gpukfl.inference._interaction_result import Interactions
from gpukfl.inference._interactions import interactions

__all__ = [
    "ConditionalImportance",
    "Imputer",
    "Interactions",
    "conditional_importance",
    "correlated_groups",
    "interactions",
]
