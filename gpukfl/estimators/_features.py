"""What the estimators share that learn linear features."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, array_namespace, beside, like
from gpukfl._rows import Rows
from gpukfl.estimators._validation import validate_samples
from gpukfl.inspection import effective_rank, leading_directions


class LinearFeatures(TransformerMixin):
    """Learned directions: their importances, and the projection on them."""

    _dimension_name = "effective direction"
    feature_matrix_: Array
    mean_: np.ndarray | None
    scale_: np.ndarray | None

    def _keep_directions(self, W: np.ndarray) -> None:
        """Set what follows from the columns of `W` (d, m), whose rows belong to features."""
        W = W.astype(np.float64)
        norms = np.linalg.norm(W, axis=1)
        importances = norms / norms.sum() if norms.sum() > 0 else norms
        self.feature_importances_ = beside(importances, self.feature_matrix_)
        directions = leading_directions(W, effective_rank(W))
        self.components_ = beside(directions, self.feature_matrix_)
        self.n_effective_features_ = len(directions)

    def transform(self, X: Any) -> Array:
        """Project on the learned directions.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_effective_features_)
            Coordinates along `components_`, most important first.
        """
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method="transform")
        xp = array_namespace(self.components_)
        reference = xp.empty((0,), dtype=X.dtype, device=like(self.components_)["device"])
        rows = Rows(X, reference, self.mean_, self.scale_)
        components = xp.astype(self.components_, X.dtype, copy=False)
        return xp.concat([block @ components.T for _, _, block in rows.blocks()], axis=0)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Names of the learned features, for `set_output`."""
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}{k}" for k in range(self.n_effective_features_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
