"""Compression of models to fewer knots, centres, features or members, with the loss of score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from gpukfl.core._array import Array, asarray_like, take_rows, to_host
from gpukfl.estimators._run import Run
from gpukfl.estimators._validation import validate_weights
from gpukfl.methods import ShapeFunctions
from gpukfl.operators import apply_map
from gpukfl.tables._target import encode_truth

_N_ERRORS = 14  # errors of simplified shape functions to try, each half of the one before
_MAX_CANDIDATES = 4_000  # centres or features to choose from
_MIN_SIZE = 8  # centres or features of the smallest model
_GROWTH = 1.5  # ratio of consecutive sizes
_CUTOFF = 1e-12  # of singular values, relative to the largest
_MIN_ROWS = 4  # so that both halves have a score


@dataclass(frozen=True)
class Compression:
    """The loss of score of a compressed model.

    Attributes
    ----------
    score, score_before : float
        R², or share of correct labels, on `rows`.
    size, size_before : int
        Numbers of parts after and before; `unit` names the parts.
    unit : str
        Kind of part that compression removes: knots, centres, features or members of the blend.
    rows : array of int
        Numbers of the rows of the scores, among the given rows or, for a blend, the held-out rows.
        The fit has not seen them. The remaining rows chose the size.
    """

    score: float
    score_before: float
    size: int
    size_before: int
    unit: str
    rows: np.ndarray

    @property
    def loss(self) -> float:
        """Decrease of the score, on rows that did not choose the size."""
        return self.score_before - self.score

    def summary(self) -> str:
        """Return the remaining size and the loss of score in words, with the number of rows."""
        return (
            f"{self.size} of {self.size_before} {self.unit}; score {self.score:.4f}, before "
            f"{self.score_before:.4f}, on {len(self.rows)} rows that did not choose the size"
        )


def compress_estimator(
    estimator: Any, tolerance: float, n_rows: int, score: Callable[[Any, np.ndarray], float], /
) -> tuple[Any, Compression]:
    """Return the smallest estimator whose score is at most `tolerance` lower, or the same one.

    Half of the rows choose it. The other half measure the loss, which would be too small on the
    rows that chose. ``score(estimator, rows)`` returns the score on some of the rows.

    Raises
    ------
    TypeError
        If the estimator has no parts to remove.
    ValueError
        If there are too few rows for halves.
    """
    if n_rows < _MIN_ROWS:
        msg = f"expected at least {_MIN_ROWS} rows to compare scores, got {n_rows}"
        raise ValueError(msg)
    order = np.random.RandomState(0).permutation(n_rows)
    choosing, judging = np.sort(order[: n_rows // 2]), np.sort(order[n_rows // 2 :])
    unit, size, candidates = _smaller_estimators(estimator)
    lowest, before = score(estimator, choosing) - tolerance, score(estimator, judging)
    for count, candidate in candidates:
        if count >= size:
            break
        if score(candidate, choosing) >= lowest:
            after = score(candidate, judging)
            return candidate, Compression(after, before, count, size, unit, judging)
    return estimator, Compression(before, before, size, size, unit, judging)


def _smaller_estimators(e: Any) -> tuple[str, int, Iterator[tuple[int, Any]]]:
    """Return the name and number of the parts to remove, and smaller estimators by size."""
    if hasattr(e, "members_"):
        e._complete_record()  # computes importances, which stay those of all members
        return "members", len(e.members_), _remove_members(e)
    if hasattr(e, "shape_functions_"):
        return "knots", _n_knots(e.shape_functions_), _remove_knots(e)
    if getattr(e, "dual_coef_", None) is not None and hasattr(e, "centers_"):
        return "centres", e.centers_.shape[0], _remove_centers(e)
    if hasattr(e, "parameters_"):
        return "features", e.n_parameters_, _remove_parameters(e)
    if hasattr(e, "multi_indices_") and e.retrained_ is None:
        return "features", e.coef_.shape[0], _remove_tuples(e)
    msg = (
        "expected a model with knots, centres, features or members to remove, got "
        f"{type(e).__name__}, which has none"
    )
    raise TypeError(msg)


def _replace_attributes(e: Any, /, **attributes: Any) -> Any:
    """Return a copy with some fitted attributes replaced."""
    kind: Any = type(e)
    found = kind.__new__(kind)  # `copy.copy` would convert arrays to NumPy
    vars(found).update(vars(e))
    for name, value in attributes.items():
        setattr(found, name, value)
    return found


def _growing_sizes(n: int) -> Iterator[int]:
    """Yield growing sizes below n."""
    size = _MIN_SIZE
    while size < n:
        yield size
        size = max(size + 1, int(_GROWTH * size))


# ---------------------------------------------------------------------- knots


def _n_knots(shapes: ShapeFunctions) -> int:
    """Count the different knots of all functions."""
    knots = to_host(shapes.knots)
    return int(np.sum(knots[:, 1:] != knots[:, :-1]) + len(knots))


def _remove_knots(e: Any) -> Iterator[tuple[int, Any]]:
    shapes = e.shape_functions_
    values = to_host(shapes.values)
    span = float(np.ptp(values, axis=1).max(initial=0.0))
    for k in range(_N_ERRORS):
        thin = ShapeFunctions.simplify(shapes.knots, shapes.values, span * 0.5 ** (k + 1))
        yield _n_knots(thin), _replace_attributes(e, shape_functions_=thin)


# ---------------------------------------------------------------------- centres


def _remove_centers(e: Any) -> Iterator[tuple[int, Any]]:
    Z = _to_host_double(e.centers_)
    B = getattr(e, "map_", None)
    U = Z if B is None else to_host(apply_map(Z, _to_host_double(B)))
    coef = _to_host_double(e.dual_coef_)
    sizes = np.linalg.norm(coef, axis=1)
    order = _pivot_order(lambda some: e.kernel_._evaluate(U[some], U[some]), sizes)
    values = np.concatenate([e.kernel_._evaluate(rows, U) @ coef for rows in _blocks(U)])
    unset = {"factor_", "inner_factor_", "amplitude_", "noise_", "evidence_"} & set(vars(e))
    for size in _growing_sizes(len(Z)):
        kept = np.sort(order[:size])
        K = np.concatenate([e.kernel_._evaluate(rows, U[kept]) for rows in _blocks(U)])
        fewer = np.linalg.lstsq(K, values, rcond=_CUTOFF)[0]
        yield (
            len(kept),
            _replace_attributes(
                e,
                centers_=take_rows(e.centers_, kept),
                dual_coef_=asarray_like(fewer, e.dual_coef_),
                **dict.fromkeys(unset),
            ),
        )
        if len(kept) < size:
            return


def _blocks(U: np.ndarray) -> Iterator[np.ndarray]:
    size = max(2**22 // len(U), 1)
    return (U[start : start + size] for start in range(0, len(U), size))


def _pivot_order(
    kernel: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray, /, *, weighted: bool = False
) -> np.ndarray:
    """Order points by their contributions to the kernel matrix, with a pivoted Cholesky factor.

    Only the points with the largest `sizes` are candidates.
    """
    candidates = np.argsort(-sizes, kind="stable")[:_MAX_CANDIDATES]
    K = np.array(kernel(candidates), dtype=np.float64)
    if weighted:
        K = sizes[candidates][:, None] * K * sizes[candidates]
    _, pivots, rank, _ = lapack.dpstrf(K, tol=-1.0, lower=1)
    return candidates[pivots[:rank] - 1]


def _to_host_double(x: Array) -> np.ndarray:
    return to_host(x).astype(np.float64)


# ---------------------------------------------------------------------- features


def _remove_parameters(e: Any) -> Iterator[tuple[int, Any]]:
    """Yield estimators whose weightings are projected on fewer parameters, in their RKHS."""
    W, coef = _to_host_double(e.parameters_), _to_host_double(e.coef_)
    kernel = e.instantiation_.kernel
    sizes = np.linalg.norm(coef, axis=1)
    order = _pivot_order(lambda some: kernel(W[some], W[some]), sizes, weighted=True)
    for size in _growing_sizes(len(W)):
        kept = np.sort(order[:size])
        values = kernel(W[kept], W) @ coef
        fewer = np.linalg.lstsq(kernel(W[kept], W[kept]), values, rcond=_CUTOFF)[0]
        found = {
            "parameters_": take_rows(e.parameters_, kept),
            "coef_": asarray_like(fewer, e.coef_),
        }
        yield len(kept), _replace_attributes(e, **found)
        if len(kept) < size:
            return


def _remove_tuples(e: Any) -> Iterator[tuple[int, Any]]:
    """Yield models without the smallest coefficients of the orthonormal polynomials."""
    order = np.argsort(-np.linalg.norm(_to_host_double(e.coef_), axis=1), kind="stable")
    for size in _growing_sizes(len(order)):
        kept = np.sort(order[:size])
        found = {name: take_rows(getattr(e, name), kept) for name in ("coef_", "multi_indices_")}
        yield size, _replace_attributes(e, **found)


# ---------------------------------------------------------------------- members


def _remove_members(e: Any) -> Iterator[tuple[int, Any]]:
    """Yield blends without the members of least weight."""
    members = sorted(e.members_, key=lambda member: -member.weight)
    for count in range(1, len(members)):
        total = sum(member.weight for member in members[:count])
        kept = [replace(one, weight=one.weight / total) for one in members[:count]]
        yield count, _replace_attributes(e, members_=kept)


def remeasure_blend(e: Any, X: Any, y: Any, sample_weight: Any, /) -> Any:
    """Return a blend whose uncertainty is measured again.

    A blend of models of folds uses the rows that these held out. A blend of models of all rows uses
    the given rows.
    """
    kept = e.out_of_fold_
    if e._has_fold_models:
        kept = replace(kept, predicted=out_of_fold(e))
    else:
        rows = e._new_rows(X, "predict")
        weights = validate_weights(sample_weight, rows)
        kept = replace(
            kept,
            rows=rows,
            predicted=to_host(e._outputs(rows)),
            truth=encode_truth(e, y),
            weights=np.ones(len(rows)) if weights is None else weights,
            fold=np.zeros(len(rows), dtype=kept.fold.dtype),
        )
    found = _replace_attributes(e, out_of_fold_=kept)
    found._set_uncertainty(Run.from_settings(found).again(), None)
    return found


def out_of_fold(e: Any, /) -> np.ndarray:
    """Return out-of-fold predictions (m, t) of a blend.

    Raises
    ------
    ValueError
        If its members were fitted to all rows.
    """
    kept = e._held_out
    if not e._has_fold_models:
        msg = (
            "expected a blend of models of folds, got models of all rows: "
            "pass X and y that the fit has not seen"
        )
        raise ValueError(msg)
    found = np.empty_like(kept.predicted)
    for fold in range(kept.n_folds):
        rows = np.flatnonzero(kept.fold == fold)
        found[rows] = to_host(e._outputs(take_rows(kept.rows, rows), fold))
    return found


def own_score(e: Any, rows: np.ndarray, /) -> float:
    """Return the out-of-fold score of a blend on some of its rows; raise as `out_of_fold` does."""
    kept, found = e._held_out, out_of_fold(e)[rows]
    truth, weights = kept.truth[rows], kept.weights[rows]
    if is_classifier(e):
        labels = truth.argmax(axis=1)
        return float(accuracy_score(labels, found.argmax(axis=1), sample_weight=weights))
    return float(r2_score(truth, found, sample_weight=weights))
