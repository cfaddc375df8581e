"""Knockoffs: copies of columns without information on the target, as negative controls.

Samplers draw several copies of each column at once. `contest` compares weights of variables with
those of their copies, `e_values` and `select_by_e_values` make of it a selection of which, on
average, no more than a given share is false.
"""

from typing import TYPE_CHECKING

from gpukfl.core._lazy import deprecated_names
from gpukfl.knockoffs._filter import (
    combine_weights,
    contest,
    e_values,
    min_discoveries,
    select_by_e_values,
    selection_level,
    smallest_level,
)
from gpukfl.knockoffs._samplers import (
    Copies,
    GaussianKnockoffs,
    KnockoffSampler,
    RankKnockoffs,
    equicorrelated,
    least_reconstructable,
)

__all__ = [
    "Copies",
    "GaussianKnockoffs",
    "KnockoffSampler",
    "RankKnockoffs",
    "combine_weights",
    "contest",
    "e_values",
    "equicorrelated",
    "least_reconstructable",
    "min_discoveries",
    "select_by_e_values",
    "selection_level",
    "smallest_level",
]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {
            "joined": "combine_weights",
            "found_at": "select_by_e_values",
            "level_of": "selection_level",
            "fewest_found": "min_discoveries",
        },
    )
