"""Knockoffs: copies of the columns that know nothing of the target, to be beaten by what is found.

Samplers draw several copies of each column at once. `contest` compares weights of variables with
those of their copies, `e_values` and `found_at` make of it a selection of which, on average, no
more than a given share is false.
"""

from gpukfl.knockoffs._filter import (
    contest,
    e_values,
    fewest_found,
    found_at,
    joined,
    level_of,
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
    "contest",
    "e_values",
    "equicorrelated",
    "fewest_found",
    "found_at",
    "joined",
    "least_reconstructable",
    "level_of",
    "smallest_level",
]
