"""The loss that a fitted model made small, as inference asks for it."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

from gpukfl.estimators._base import HostStored
from gpukfl.estimators._reweighting import read_loss
from gpukfl.losses import Absolute, Huber, Loss, Quantile


def loss_of_fit(estimator: Any, /) -> Loss | None:
    """Return the loss of a regressor of this library; None of squared errors, and of others."""
    if not isinstance(estimator, HostStored) or is_classifier(estimator):
        return None
    return read_loss(estimator)


def predicts_means(loss: Loss | None, /) -> bool:
    """Return whether a loss asks for means, of which residuals are zero in the mean."""
    return not isinstance(loss, (Absolute, Huber, Quantile))
