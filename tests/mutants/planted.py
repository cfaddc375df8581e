"""Mistakes to plant, one at a time: where, what, and the tests that could see them."""

from __future__ import annotations

from dataclasses import dataclass

# Tests beside a layer, and those of the estimators on top of it
KERNELS = "tests/kernels tests/operators/test_kernel_operator.py"
OPERATORS = "tests/operators tests/methods/test_ridge.py"
SOLVERS = "tests/solvers tests/methods/test_ridge.py tests/methods/test_nystrom_ridge.py"
BKERNN = "tests/methods/test_fit_bkernn.py tests/estimators/test_bkernn.py tests/test_fit.py"
HKRR = "tests/estimators/test_hkrr_estimators.py tests/estimators/test_hkrr_search.py"
REGFEAL = "tests/estimators/test_regfeal_estimators.py tests/estimators/test_regfeal_choices.py"
SELECTION = (
    "tests/estimators/test_selection_estimators.py tests/estimators/test_selection_search.py"
    " tests/estimators/test_selection_stopping.py"
)
WEIGHTING = "tests/estimators/test_weighting_estimators.py tests/estimators/test_weighting_data.py"
RIDGE = "tests/estimators/test_kernel_ridge_estimators.py"
PARITY = "tests/parity/test_kernel_parity.py"
FACTORS = "tests/parity/test_factor_parity.py"


@dataclass(frozen=True)
class Mutant:
    """A mistake: in `path`, the only place that says `old` says `new` instead."""

    what: str
    path: str  # inside gpukfl/
    old: str
    new: str
    tests: str  # arguments of pytest

    @property
    def layer(self) -> str:
        """Folder or file."""
        return self.path.split("/")[0].removesuffix(".py")


# The kinds of mistakes with array libraries that the house style is made against
ARRAYS = [
    Mutant(
        "creation without dtype",
        "kernels/_radial.py",
        "return self.profile(array_namespace(X).zeros(X.shape[0], **like(X)))",
        'return self.profile(array_namespace(X).zeros(X.shape[0], device=like(X)["device"]))',
        KERNELS,
    ),
    Mutant(
        "creation without device",
        "methods/_centers.py",
        "factor = xp.zeros((len(part), 0), **like(X))",
        "factor = xp.zeros((len(part), 0), dtype=X.dtype)",
        f"tests/methods/test_centers.py {RIDGE}",
    ),
    Mutant(
        "copy to the default device",
        "operators/_hermite.py",
        "[self._order], **double_like(self.rows.reference))",
        "[self._order], dtype=xp.float64)",
        f"tests/operators/test_hermite_operator.py {REGFEAL}",
    ),
    Mutant(
        "indices on the default device",
        "linalg/_bins.py",
        "numbers = xp.arange(n_segments + 1, dtype=segment.dtype, device=get_device(segment))",
        "numbers = xp.arange(n_segments + 1, dtype=segment.dtype)",
        "tests/linalg/test_bins.py tests/operators/test_binned.py",
    ),
    Mutant(
        "slice past the end",
        "partitioned/_rows.py",
        "yield first, min(first + size, stop)",
        "yield first, first + size",
        "tests/test_rows.py tests/operators tests/methods/test_centers.py",
    ),
    Mutant(
        "NumPy inside an algorithm",
        "penalties/_particles.py",
        "root = xp.sqrt(clip(discriminant, low=0.0))",
        'root = __import__("numpy").sqrt(clip(discriminant, low=0.0))',
        f"tests/penalties {BKERNN}",
    ),
    Mutant(
        "array method for a function",
        "linalg/_steps.py",
        "means = sample_sums(product) / product.shape[0]",
        "means = product.sum(axis=0, dtype=xp.float64) / product.shape[0]",
        "tests/linalg/test_steps.py " + OPERATORS,
    ),
    Mutant(
        "astype as a method",
        "operators/_rows.py",
        "K = xp.astype(self.values(start, stop), V.dtype, copy=False)\n            product",
        "K = self.values(start, stop).astype(V.dtype, copy=False)\n            product",
        f"tests/operators {RIDGE}",
    ),
    Mutant(
        "assignment by a mask",
        "penalties/_particles.py",
        "return xp.where(zero, xp.zeros_like(r), new / xp.where(zero, xp.ones_like(r), r))",
        "out = new / xp.where(zero, xp.ones_like(r), r)\n    out[zero] = 0.0\n    return out",
        f"tests/penalties {BKERNN}",
    ),
    Mutant(
        "booleans as numbers",
        "penalties/_particles.py",
        "return clip(r - float(threshold), low=0.0)",
        "return (r - threshold) * (r > threshold)",
        f"tests/penalties {BKERNN}",
    ),
    Mutant(
        "silent upcast",
        "operators/_centered.py",
        "return V - root_weights * xp.astype(share, V.dtype)[None, :]",
        "return V - root_weights * share[None, :]",
        OPERATORS,
    ),
    Mutant(
        "writing to an argument",
        "linalg/_steps.py",
        "return x + step * p, r - step * Ap, xp.minimum(worst, curvature)  # NaN stays",
        "x += step * p\n    r -= step * Ap\n    return x, r, xp.minimum(worst, curvature)",
        "tests/linalg/test_steps.py " + SOLVERS,
    ),
    Mutant(
        "wrong adjoint",
        "linalg/_bins.py",
        "right = _segment_sums(moved, cell + 1, at.n_knots + 1)",
        "right = _segment_sums(moved, cell, at.n_knots + 1)",
        "tests/linalg/test_bins.py tests/operators/test_binned.py",
    ),
    Mutant(
        "forgotten step",
        "solvers/_proximal_gradient.py",
        "W = prox(state.W - step * gradient, step)",
        "W = prox(state.W - step * gradient, 1.0)",
        f"tests/solvers/test_proximal_gradient.py {BKERNN}",
    ),
    Mutant(
        "unguarded 0 / 0",
        "linalg/_steps.py",
        "return num / xp.where(den == 0, xp.full_like(den, math.inf), den)",
        "return num / den",
        "tests/linalg/test_steps.py " + SOLVERS,
    ),
    Mutant(
        "wrong status",
        "solvers/_cg.py",
        "Status.CONVERGED if below else Status.STALLED",
        "Status.CONVERGED",
        SOLVERS,
    ),
    Mutant(
        "wrong kernel formula",
        "kernels/_radial.py",
        "return decay(s, (1.0, 1.0, 1.0 / 3.0), rate=5.0, root=True)",
        "return decay(s, (1.0, 1.0, 1.0 / 2.0), rate=5.0, root=True)",
        KERNELS,
    ),
    Mutant(
        "an exponential of a few digits less",
        "_accel/cpu_decay.py",
        "total = _C12 + r * _C13",
        "total = _C12",
        "tests/linalg/test_decay.py",
    ),
    Mutant(
        "what is unknown taken for nothing",
        "_accel/cpu_decay.py",
        "out[left + k] = value if a[k] == a[k] else a[k]",
        "out[left + k] = value if a[k] == a[k] else 0.0",
        "tests/linalg/test_decay.py",
    ),
]

# Mistakes of the methods themselves, over all layers
METHODS = [
    Mutant(
        "wrong sign of a gradient",
        "kernels/_radial.py",
        "dZ = scale * (xp.sum(Q, axis=0)[:, None] * Z - Q.T @ X)",
        "dZ = scale * (xp.sum(Q, axis=0)[:, None] * Z + Q.T @ X)",
        f"{KERNELS} tests/methods/test_hkrr.py",
    ),
    Mutant(
        "wrong axis of a norm",
        "penalties/_particles.py",
        "return array_namespace(W).sum(_norms(W, axis=1)) / (2.0 * math.sqrt(W.shape[1]))",
        "return array_namespace(W).sum(_norms(W, axis=0)) / (2.0 * math.sqrt(W.shape[1]))",
        f"tests/penalties {BKERNN}",
    ),
    Mutant(
        "last item of a threaded loop left out",
        "_accel/threads.py",
        "edges = np.linspace(0, n_items, chunks + 1).astype(int).tolist()",
        "edges = np.linspace(0, n_items - 1, chunks + 1).astype(int).tolist()",
        "tests/linalg tests/operators",
    ),
    Mutant(
        "blocks in threads overlap by a row",
        "linalg/_blocks.py",
        "starts, stops = edges[:-1], edges[1:]",
        "starts, stops = edges[:-1], [min(edge + 1, stop) for edge in edges[1:]]",
        "tests/linalg/test_blocks.py tests/operators",
    ),
    Mutant(
        "wrong pivot of a factor",
        "_accel/cpu_lasso.py",
        "pivot = H[j, j] - _dot(row[:n], row[:n])",
        "pivot = H[j, j]",
        f"tests/solvers/test_lasso.py tests/methods/test_pruning.py {WEIGHTING}",
    ),
    Mutant(
        "stale cache of kernel values",
        "operators/_kernel.py",
        "if (start, stop) in self._kept:\n            return self._kept[start, stop]",
        "if self._kept:\n            return next(iter(self._kept.values()))",
        f"tests/operators/test_kernel_operator.py tests/methods/test_nystrom_ridge.py {RIDGE}",
    ),
    Mutant(
        "missing centring of the columns",
        "operators/_centered.py",
        "return center(center(K, s).T, s)",
        "return center(K, s)",
        OPERATORS,
    ),
    Mutant(
        "off by one in a projection",
        "solvers/_projected_gradient.py",
        "counts = np.arange(1, len(x) + 1)",
        "counts = np.arange(2, len(x) + 2)",
        f"tests/solvers/test_projected_gradient.py tests/methods/test_selection.py {SELECTION}",
    ),
    Mutant(
        "missing weights in the moments",
        "methods/_weighting.py",
        "Phi, y = root * Phi, root * y",
        "Phi, y = root * Phi, y",
        f"tests/methods/test_feature_sums.py {WEIGHTING}",
    ),
    Mutant(
        "dropped fold",
        "methods/_weighting.py",
        "folded[k] = folded[k] + _segment_sums",
        "folded[k] = folded[0] + _segment_sums",
        f"tests/methods/test_feature_sums.py {WEIGHTING}",
    ),
    Mutant(
        "smallest good ridge for the largest",
        "methods/_ridge_path.py",
        "return max(ridge for ridge, score in pairs if score <= enough)",
        "return min(ridge for ridge, score in pairs if score <= enough)",
        f"tests/methods/test_nystrom_ridge.py {RIDGE} {HKRR}",
    ),
    Mutant(
        "only a part of a sample is left out",
        "methods/_nystrom.py",
        "clip(1.0 - (leverage if w is None else w * leverage), low=1e-12)",
        "clip(1.0 - (leverage if w is None else clip(w, high=1.0) * leverage), low=1e-12)",
        f"tests/methods/test_nystrom_ridge.py {RIDGE}",
    ),
    Mutant(
        "last permutation for the highest",
        "methods/_selection.py",
        "scores += (-slopes.min(axis=1, initial=0.0)).tolist()",
        "scores = [float(-slopes[-1].min(initial=0.0))] * (len(scores) + len(slopes))",
        f"tests/methods/test_selection.py {SELECTION}",
    ),
    Mutant(
        "directions in ascending order",
        "methods/_regfeal.py",
        "np.argsort(-np.round(squares[descending] / _TIES)",
        "np.argsort(np.round(squares[descending] / _TIES)",
        f"tests/methods/test_regfeal.py {REGFEAL}",
    ),
    Mutant(
        "wrong constant of a feature",
        "instantiations.py",
        "constant = -0.5 * math.log1p(s2 / g2) - math.log(n_features)",
        "constant = -0.5 * math.log1p(s2 / g2) - 0.5 * math.log(n_features)",
        "tests/instantiations tests/operators/test_feature_operator.py",
    ),
    Mutant(
        "first class for the second",
        "estimators/_classifier.py",
        "asked = classes if len(classes) > 2 else classes[-1:]",
        "asked = classes if len(classes) > 2 else classes[:1]",
        f"{RIDGE} {HKRR} tests/estimators/test_bkernn.py",
    ),
    Mutant(
        "unnormalised weights",
        "estimators/_data.py",
        "mean = np.sum(weights * Y, axis=0) / np.sum(weights)",
        "mean = np.sum(weights * Y, axis=0) / len(weights)",
        f"tests/estimators/test_held_out_sums.py {HKRR} {SELECTION} {REGFEAL}",
    ),
    Mutant(
        "held-out targets are not centred",
        "estimators/_data.py",
        "return rows.whole(), (wide - self.y_mean) / self.y_scale",
        "return rows.whole(), wide / self.y_scale",
        f"{HKRR} {SELECTION} {REGFEAL}",
    ),
    Mutant(
        "a failed fit is not undone",
        "estimators/_base.py",
        "vars(self).clear()\n            vars(self).update(before)\n            raise",
        "raise",
        "tests/estimators/test_bad_input.py tests/estimators/test_bad_parameters.py "
        f"tests/estimators/test_bkernn.py {REGFEAL}",
    ),
    Mutant(
        "probabilities that are certain",
        "estimators/_calibration.py",
        "truth = np.full((m, k), doubt / (k - 1.0))",
        "truth = np.zeros((m, k))",
        "tests/estimators/test_calibration.py",
    ),
    Mutant(
        "wrong default",
        "_fit.py",
        '"ridge": "auto" if tuned else ridge, "scaling": scaling}',
        '"ridge": "auto" if tuned else ridge, "scaling": None}',
        "tests/test_fit.py tests/test_fit_hkrr.py",
    ),
    Mutant(
        "weights are not tuned with",
        "estimators/_samples.py",
        "None if weights is None else to_host(weights)",
        "None",
        "tests/test_fit.py tests/test_fit_every_method.py",
    ),
    Mutant(
        "tuned on the rows that score",
        "estimators/_learner.py",
        "HeldOut.from_samples(part, outside)",
        "HeldOut.from_samples(part, inside)",
        "tests/test_fit.py",
    ),
    Mutant(
        "classes are held out by chance",
        "estimators/_samples.py",
        "folds = StratifiedKFold if sizes.min() >= k else KFold",
        "folds = KFold",
        "tests/estimators/test_copies.py",
    ),
    Mutant(
        "a search that does not end with its time",
        "estimators/_search.py",
        "if self.enough(self.trials) and self.run.is_over(self.share):",
        "if False:",
        "tests/estimators/test_search.py",
    ),
    Mutant(
        "a climb that goes down",
        "estimators/_search.py",
        "if trial.score > best.score + gain(best.score):",
        "if trial.score > best.score - gain(best.score):",
        "tests/estimators/test_search.py",
    ),
    Mutant(
        "wrong kernels run on",
        "_accel/trust.py",
        "is_cupy(x) and file not in _distrusted",
        "is_cupy(x)",
        "tests/selftest",
    ),
    Mutant(
        "results that are not finite are right",
        "selftest/_checks.py",
        "right = error <= check.allowed",
        "right = not error > check.allowed",
        "tests/selftest",
    ),
    Mutant(
        "a full memory is remembered",
        "core/_cuda.py",
        "raise MemoryError(msg)",
        "return msg",
        "tests/test_cuda.py",
    ),
    Mutant(
        "model files lose digits",
        "predictor/_codec.py",
        "arrays[key] = host\n",
        'arrays[key] = host.astype("float32") if host.dtype == "float64" else host\n',
        "tests/test_model_files.py",
    ),
    Mutant(
        "a budget outlives an error",
        "core/_memory.py",
        "try:\n        yield\n    finally:\n        _budget = before",
        "yield\n    _budget = before",
        "tests/test_memory.py tests/linalg/test_blocks.py",
    ),
    Mutant(
        "test score of training rows",
        "cli/_fit.py",
        'score_held_out(model, *rows["held_out"])',
        'score_held_out(model, *rows["fitted_to"])',
        "tests/cli",
    ),
    Mutant(
        "rows of a group are independent",
        "inspection/_metrics.py",
        "    if groups is not None:\n",
        "    if groups is None:\n",
        "tests/inspection/test_measures.py",
    ),
    Mutant(
        "missing directions are not counted",
        "inspection/_scores.py",
        "U = U[:, : min(count, _numerical_rank(singular))]",
        "U = U[:, :count]",
        "tests/inspection/test_scores.py",
    ),
]

# What only shows where the same call on two places is compared
PLACES = [
    Mutant(
        "derivative of a kernel in float64",
        "kernels/_radial.py",
        "dX = scale * (xp.sum(Q, axis=1)[:, None] * X - Q @ Z)",
        "dX = scale * (xp.sum(Q, axis=1, dtype=xp.float64)[:, None] * X - Q @ Z)",
        PARITY,
    ),
    Mutant(
        "transposed singular vectors",
        "linalg/_factor.py",
        "mapped = (U * factor[None, :]) @ (U.T @ W64)",
        "mapped = (U.T * factor[None, :]) @ (U @ W64)",
        "tests/parity/test_penalty_parity.py",
    ),
    Mutant(
        "ridges on the default device",
        "methods/_nystrom.py",
        "shifts = self.weight * array_namespace(s).asarray(list(ridges), **like(s))",
        "shifts = self.weight * array_namespace(s).asarray(list(ridges), dtype=s.dtype)",
        "tests/parity/test_nystrom_parity.py",
    ),
    Mutant(
        "orders without their reverse",
        "methods/_shapley.py",
        "return np.stack([orders, orders[:, ::-1]], axis=1)",
        "return np.stack([orders, orders], axis=1)",
        "tests/methods/test_shapley.py",
    ),
    Mutant(
        "a control variate of the wrong sign",
        "methods/_shapley.py",
        "return mean - slope * gap, np.maximum(square, 0.0)",
        "return mean + slope * gap, np.maximum(square, 0.0)",
        "tests/methods/test_shapley.py",
    ),
    Mutant(
        "host solves with the factor for its transpose",
        "linalg/_factor.py",
        "return solve_triangular(L, b, lower=True, trans=int(transposed), check_finite=False)",
        "return solve_triangular(L, b, lower=True, trans=0, check_finite=False)",
        FACTORS,
    ),
    Mutant(
        "numbers of NumPy widen a kernel",
        "kernels/_base.py",
        'keep_python_numbers(self)\n        check_positive_number("lengthscale"',
        'check_positive_number("lengthscale"',
        PARITY,
    ),
]

MUTANTS = ARRAYS + METHODS + PLACES
