"""The options of a fit: as a call of `gpukfl.fit`, and in words."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gpukfl._registry import METHODS
from gpukfl.core._frames import listed
from gpukfl.core._source import import_lines
from gpukfl.estimators._reweighting import read_loss
from gpukfl.portfolio._metrics import TITLES

_LINE_LENGTH = 88
_DEFAULTS = {"backend": "auto", "scaling": "auto", "impute": "median"}  # of `gpukfl.fit`
_MODEL_SETTINGS = {
    "random_state",
    "max_time",
    "columns",
    "impute",
}  # not read from the estimator


def call_text(model: Any, /) -> str:
    """Return the call of `gpukfl.fit` that a model came from.

    It has the method, the task, the seed, and all options other than the defaults.
    """
    given = {"method": model.method, "task": model.task} | _given_options(model)
    given["random_state"] = model.estimator.random_state
    settings = {"max_time": None, "columns": None, "impute": "median"}
    for name, default in settings.items():
        value = getattr(model, name)
        value = getattr(model.estimator, name, None) if value == default else value
        if value not in (None, default):
            given[name] = dict(value) if name == "columns" else value
    weights = ["sample_weight=sample_weight"] if model.weighted else []
    weights += [f"{name}={words}" for name, words in model.related.items()]
    arguments = ["X", "y", *weights, *(f"{name}={value!r}" for name, value in given.items())]
    dropped = f"X = X.drop(columns={model.dropped!r})\n" if model.dropped else ""
    line, needed = f"model = gpukfl.fit({', '.join(arguments)})", import_lines(given.values())
    needed += dropped
    if len(line) <= _LINE_LENGTH:
        return needed + line
    return f"{needed}model = gpukfl.fit(\n" + "".join(f"    {one},\n" for one in arguments) + ")"


def _given_options(model: Any) -> dict[str, Any]:
    """Return the parameters of the estimator that are not the default."""
    kind, row = type(model.estimator), METHODS[model.method]
    defaults = {
        name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()
    } | _DEFAULTS
    defaults["ridge"] = "tune" if row.penalised else "auto"
    params = model.estimator.get_params(deep=False)
    return {
        name: value
        for name, value in params.items()
        if name not in _MODEL_SETTINGS and repr(value) != repr(defaults[name])
    }


# ----------------------------------------------------------------------------------- words


def describe_request(model: Any, /) -> dict[str, str]:
    """Return in words the options of the fit other than the defaults, by topic."""
    e, found = model.estimator, {}
    loss = read_loss(e) if model.task == "regression" else None
    if loss is not None:
        settings = [str(getattr(loss, one.name)) for one in fields(loss)]
        found["loss"] = ":".join([loss.name, *settings])
    metric = getattr(e, "metric", "auto")
    if metric != "auto":
        found["metric"] = f"{TITLES.get(metric, metric)} weighs the blend"
    found["dropped"] = f"{listed(model.dropped)} (as you asked)" if model.dropped else ""
    found["judged by"] = _describe_validation(model.related)
    return {topic: text for topic, text in found.items() if text}


def _describe_validation(related: Mapping[str, str]) -> str:
    """Return in words which rows scored the models; empty for random folds."""
    if "validation" in related:
        return "rows of validation, in place of folds"
    words = {"groups": "new groups", "time": "later rows", "gap": "a gap", "cv": "the splits of cv"}
    told = [words[part] + ("" if word == part else f" ({word})") for part, word in related.items()]
    return ", ".join(told)
