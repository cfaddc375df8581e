"""Members of a blend whose predictions rise or fall with some columns.

The blend is projected, so that it is monotone whatever its members are. Trees are fitted with the
constraint, so that the projection changes little. Other members are judged by their projected
predictions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.multioutput import MultiOutputRegressor

from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._members import BOOSTED, BOOSTED_CLASSES, Member
from gpukfl.predictor import Forest, Monotone, Predictor
from gpukfl.tables._seen import CODES, columns_with_gaps


def member_monotone(monotone: Monotone | None, encodings: Encodings | None, /) -> Monotone | None:
    """Return the projection for rows as members other than trees see them."""
    if monotone is None or encodings is None:
        return monotone
    return monotone.with_column_indices(encodings.by_fold[0].number_places)


def constrain_trees(
    member: Member, monotone: Monotone, encodings: Encodings | None, d: int, /
) -> Member:
    """Return a member with the constraint if it is boosted trees of the blend."""
    if member.name not in BOOSTED:
        return member
    estimator = clone(member.estimator)
    inner = estimator.estimator if isinstance(estimator, MultiOutputRegressor) else estimator
    if not isinstance(inner, BOOSTED_CLASSES):
        return member
    if encodings is not None and member.sees == CODES:
        kept, statistics = columns_with_gaps(encodings.by_fold[0])
        moved = monotone.with_column_indices({column: place for place, column in enumerate(kept)})
        d = len(kept) + len(statistics)
    else:
        moved = member_monotone(monotone, encodings) or monotone
    signs = np.zeros(d, dtype=np.int8)
    for one in moved.columns:
        signs[one.column] = one.sign
    inner.set_params(monotonic_cst=signs.tolist())
    return replace(member, estimator=estimator)


def project_predictor(predictor: Predictor, monotone: Monotone | None, /) -> Predictor:
    """Return a member's predictor, projected unless it is trees with the constraint."""
    if monotone is None or isinstance(predictor.values, Forest):
        return predictor
    return replace(predictor, monotone=monotone)
