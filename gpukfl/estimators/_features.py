"""Base classes of estimators that learn linear features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Count, Floats, Length
from gpukfl.core._array import Array, array_namespace, asarray_like, like, to_host
from gpukfl.estimators._base import DescribedMethod, coordinate_text
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._validation import validate_samples
from gpukfl.inspection import Curves, Names, direction_name, leading_directions
from gpukfl.partitioned._rows import Rows
from gpukfl.predictor import check_finite_prediction

_PROFILES = 5  # curves in one picture


class LinearFeatures(DescribedMethod, TransformerMixin):
    """Learned directions: their importances, and the projection on them."""

    n_effective_features_: Annotated[int, Count("n_effective_features")]
    components_: Annotated[Array, Floats("n_effective_features", "n_features")]
    feature_importances_: Annotated[Array, Floats("n_features")]
    _scaled_rows: Callable[[Array, Array], Rows]

    def _keep_directions(self, W: np.ndarray, there: Array) -> None:
        """Set the attributes that follow from the directions `W` (d, m)."""
        W = W.astype(np.float64)
        norms = np.linalg.norm(W, axis=1)
        total = norms.sum()
        self.feature_importances_ = asarray_like(norms / total if total > 0 else norms, there)
        self.components_ = asarray_like(leading_directions(W), there)
        self.n_effective_features_ = int(self.components_.shape[0])

    @property
    def _projection(self) -> Array:
        """The projection (n_effective_features_, d) of scaled rows on the directions."""
        return self.components_

    @run_on_data_device
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
        rows = self._scaled_rows(X, reference)
        components = xp.astype(self._projection, X.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            parts = [block @ components.T for _, _, block in rows.blocks()]
        return check_finite_prediction(xp.concat(parts, axis=0), "projection", X.dtype)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Names of the learned features, for `set_output`."""
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}{k}" for k in range(self.n_effective_features_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class DirectionProfiles(LinearFeatures):
    """Predictions along the learned directions, over the range of some samples."""

    _middle: Annotated[list[float], Length("n_features")]
    _range: Annotated[list[Annotated[list[float], Length(2)]], Length("n_effective_features")]
    coef_: Any
    to_host: Callable[[], Any]

    def _keep_range(self, sample: np.ndarray) -> None:
        """Set the centre of a host sample (n, d), and its range along each direction."""
        sample = sample.astype(np.float64)
        middle = sample.mean(axis=0)
        along = (sample - middle) @ to_host(self.components_).astype(np.float64).T
        self._middle = middle.tolist()
        self._range = np.stack([along.min(axis=0), along.max(axis=0)], axis=1).tolist()

    def profiles(self, count: int = 5, points: int = 100) -> tuple[np.ndarray, np.ndarray]:
        """Predict along the leading directions, through the centre of the data.

        Parameters
        ----------
        count : int
            Directions at most.
        points : int
            On each direction, over the range of some samples.

        Returns
        -------
        tuple of host arrays, shapes (c, points) and (c, points, n_targets)
            Coordinates along the directions, and predictions.
        """
        check_is_fitted(self)
        host = self.to_host()
        host.scaling_ = None  # the copy gets scaled features
        directions = host.components_.astype(float)[:count]
        low, high = np.array(self._range).reshape(-1, 2)[:count].T
        steps = np.linspace(low, high, points, axis=1)
        X = np.array(self._middle) + steps[:, :, None] * directions[:, None, :]
        values = host.predictor_.evaluate(X.reshape(-1, X.shape[-1]).astype(host.coef_.dtype))
        return steps, values.reshape(len(steps), points, host.coef_.shape[1])


def profile_curves(
    host: Any, names: Names, title: str = "Prediction along the learned directions", /
) -> Curves:
    """Return the profiles of an estimator with NumPy arrays, for a picture."""
    steps, values = host.profiles(_PROFILES)
    return Curves(
        tuple(direction_name(names.features, host.components_, k) for k in range(len(steps))),
        tuple(steps),
        tuple(values),
        names.outputs,
        one_unit=names.one_unit,
        title=title,
        xlabel=coordinate_text(host),
        ylabel="prediction of",
    )
