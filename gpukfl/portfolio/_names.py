"""Names of the models of a blend in words, by the short names of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import Pipeline

from gpukfl.inspection._tuning import BLEND

MODELS = {
    "linear": "linear model",
    "trees": "boosted trees",
    "shallow_trees": "boosted trees, shallow",
    "deep_trees": "boosted trees, deep",
    "manhattan_laplace": "kernel ridge, Manhattan Laplace",
    "laplace": "kernel ridge, Laplace",
    "matern52": "kernel ridge, Matérn 5/2",
    "scales_quantile": "Gaussian process, two scales",
    "scales_standard": "Gaussian process, standardised",
    "evidence_quantile": "Gaussian process, one scale",
    "evidence_levels": "Gaussian process, category levels",
    "evidence_robust": "Gaussian process, robust scaling",
    "evidence_matern52": "Gaussian process, Matérn 5/2",
    "logistic_robust": "kernel logistic regression",
    "logistic_levels": "kernel logistic, category levels",
    "agop": "recursive feature machine",
    "agop_full": "recursive feature machine, full map",
    "agop_quantile": "recursive feature machine, ranks",
    "hkrr": "hyper-kernel ridge regression",
    "hkrr_standard": "hyper-kernel ridge, standardised",
    "loo_quantile": "hyper-kernel ridge, leave-one-out",
    "bkernn": "Brownian kernel neural network",
    "bkernn_robust": "Brownian kernel network, robust",
    "rkhs_weighting": "RKHS weighting",
    "regfeal": "RegFeaL, Hermite polynomials",
    "selection": "kernel feature selection",
    "kernel_ridge": "kernel ridge regression",
    "constant": "constant prediction",
    BLEND: "weighted blend",
}


def class_name(estimator: Any, /) -> str:
    """Return the class name of a user's estimator, or of its last step for a pipeline."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__name__


def model_name(member: str, own: Mapping[str, str], /) -> str:
    """Return the model of a member in words; `own` has those with names of the user."""
    return own.get(member) or MODELS.get(member, member)


def member_label(member: str, own: Mapping[str, str], /) -> str:
    """Return one name for a picture: the words, or the name that the user chose."""
    return member if member in own else model_name(member, own)


def member_text(member: str, own: Mapping[str, str], /) -> str:
    """Return the words and the name: "linear model (linear)"."""
    words = model_name(member, own)
    return member if words == member else f"{words} ({member})"
