"""What a selection of variables gives: columns, a description, and profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    index_like,
    is_array,
    is_host,
    like,
    to_host,
)
from gpukfl._checks import check_number
from gpukfl.estimators._described import DescribedMethod
from gpukfl.estimators._device import on_its_device
from gpukfl.estimators._validation import validate_samples
from gpukfl.estimators.selection._description import describe
from gpukfl.estimators.selection._settings import Knockoffs, Stability
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Kernel
from gpukfl.knockoffs import found_at

_AVERAGED = 30  # centres over whose other variables a profile is a mean


class SelectedVariables(DescribedMethod, SelectorMixin):
    """The selected columns of data, and what the model makes of them."""

    kernel: str | Kernel
    kernel_: Kernel
    n_features_in_: int
    n_effective_features_: int
    rounds_: list[dict[str, Any]]
    ridge_: float
    error_control: str | Stability | Knockoffs | None
    e_values_: Array | None

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return to_host(self._support)

    @on_its_device
    def transform(self, X: Any) -> Array:
        """Keep the selected columns.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array or frame of shape (n_samples, n_selected)
            The selected columns as they are in X.

        Raises
        ------
        ValueError
            If no variable was selected.
        """
        check_is_fitted(self)
        whole = validate_samples(self, X, reset=False, method="transform")
        if not self.n_effective_features_:
            msg = (
                "expected at least one selected variable to transform to, got none: lower "
                "`sparsity`, or see `scores_` for what came close"
            )
            raise ValueError(msg)
        if hasattr(X, "columns"):
            return super().transform(X)
        index = self.get_support(indices=True)
        if is_host(whole):
            return whole[:, index]
        xp = array_namespace(whole)
        return xp.take(whole, xp.asarray(index, device=like(whole)["device"]), axis=1)

    @on_its_device
    def inverse_transform(self, X: Any) -> Array:
        """Put the selected columns back in their places, among columns of zeros.

        Parameters
        ----------
        X : array of shape (n_samples, n_selected)
            What `transform` gives, of any library.

        Returns
        -------
        array of shape (n_samples, n_features)
            Of the library, device and dtype of X.

        Raises
        ------
        ValueError
            If X has another number of columns than were selected.
        """
        if not is_array(X) or is_host(X):
            return super().inverse_transform(X)
        support = self.get_support()
        if X.ndim != 2 or X.shape[1] != support.sum():
            msg = f"expected X of shape (n, {int(support.sum())}), got {tuple(X.shape)}"
            raise ValueError(msg)
        xp = array_namespace(X)
        with_zeros = xp.concat([X, xp.zeros((X.shape[0], 1), **like(X))], axis=1)
        origin = np.where(support, np.cumsum(support) - 1, X.shape[1])
        return xp.take(with_zeros, xp.asarray(origin, **index_like(X)), axis=1)

    def selected_at(self, level: float, /) -> np.ndarray:
        """Select at another level, by the e-values that knockoffs gave.

        Parameters
        ----------
        level : float
            Share of false variables among those selected, at most, on average: in (0, 1].

        Returns
        -------
        host array of bool (n_features,)
            Whether each variable is selected. Far from the level of the fit fewer are found than
            by a fit at that level.

        Raises
        ------
        ValueError
            If the fit has no e-values: it was not one with knockoffs, or ended before them.
        """
        check_is_fitted(self)
        check_number("level", level, low=0, high=1, low_allowed=False)
        if self.e_values_ is None:
            msg = (
                f"expected a fit with error_control='fdr' that was not interrupted, got one "
                f"without e-values, of error_control={self.error_control!r}"
            )
            raise ValueError(msg)
        return found_at(to_host(self.e_values_), float(level))

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)

    def profiles(self, count: int = 5, points: int = 100) -> tuple[np.ndarray, np.ndarray]:
        """Predict along the selected variables, averaged over the others of some centres.

        At their mean there may be no row at all, such as between the indicators of categories,
        and a narrow kernel knows nothing there.

        Parameters
        ----------
        count : int
            Variables at most, most important first.
        points : int
            On each, over the range of the centres.

        Returns
        -------
        tuple of host arrays, shapes (c, points) and (c, points, n_targets)
            Values of the variables as `scaling` left them, and predictions.
        """
        check_is_fitted(self)
        if self.dual_coef_ is None:
            return np.zeros((0, points)), np.zeros((0, points, len(to_host(self.intercept_))))
        centers = to_host(self.centers_).astype(float)
        importances = to_host(self.feature_importances_)[to_host(self._used)]
        order = np.argsort(-importances, kind="stable")[:count]
        steps = np.linspace(centers.min(axis=0), centers.max(axis=0), points, axis=1)[order]
        some = np.linspace(0, len(centers) - 1, min(_AVERAGED, len(centers))).astype(int)
        coef = to_host(self.dual_coef_)
        values = np.empty((len(order), points, coef.shape[1]))
        for row, variable in enumerate(order):
            Z = np.tile(centers[some], (points, 1, 1))
            Z[:, :, variable] = steps[row][:, None]
            K = np.asarray(self.kernel_(Z.reshape(-1, Z.shape[-1]), centers))
            values[row] = (K @ coef).reshape(points, len(some), -1).mean(axis=1)
        return steps / to_host(self._stretch)[order, None], to_host(self.intercept_) + values
