"""Translation of model files of versions 10 to 12, which store attributes of estimators.

This module can be deleted when such files are no longer supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpukfl.core._archive import FAULTS, VERSION, RefusedError
from gpukfl.predictor import unknown_member, weighted_medians
from gpukfl.predictor._codec import PLAIN

_AUTO_CLIP = 6.0  # standard deviations, for RegFeaL's clip="auto"
_KERNEL_SUM = {"kernel": "kernel_", "centers": "centers_", "coef": "dual_coef_"}
_FIELDS = {  # by method: the class of its function, and attributes by the function's fields
    "HKRR": ("KernelSum", {**_KERNEL_SUM, "B": "map_", "bound": "bound_"}),
    "KernelRidge": ("KernelSum", {**_KERNEL_SUM, "bounds": "bounds_"}),
    "KernelFeatureSelector": (
        "KernelSum",
        {**_KERNEL_SUM, "bounds": "bounds_", "columns": "_used", "factors": "_stretch"},
    ),
    "RKHSWeighting": (
        "FeatureSum",
        {
            "parameters": "parameters_",
            "coef": "coef_",
            "log_scale": "log_scale_",
            "instantiation": "instantiation_",
        },
    ),
}
_HERMITE = {
    "intercept": "intercept_",
    "tuples": "multi_indices_",
    "coef": "coef_",
    "R": "_rotation",
    "bounds": "bounds_",
}
_METHODS = {
    "auto": "Auto",
    "bkernn": "BKerNN",
    "hkrr": "HKRR",
    "selection": "KernelFeatureSelector",
    "rkhs_weighting": "RKHSWeighting",
    "regfeal": "RegFeaL",
    "kernel_ridge": "KernelRidge",
}


def read_older(
    header: dict[str, Any], arrays: Mapping[str, Any], read: Callable[[Any], np.ndarray], /
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return header and arrays of a file in the format of the newest version.

    Raises
    ------
    RefusedError
        If parts of an older file are missing.
    """
    if header.get("version") == VERSION:
        return header, arrays
    try:
        return _Translation(arrays, read).translate(header)
    except RefusedError:
        raise
    except KeyError as error:
        msg = f"which has no {error.args[0]} of a fitted estimator"
        raise RefusedError(msg) from error
    except FAULTS as error:
        msg = f"whose parts do not fit together: {error}"
        raise RefusedError(msg) from error


class _Translation:
    """A translation of a header, which moves arrays from older keys to new ones."""

    def __init__(self, arrays: Mapping[str, Any], read: Callable[[Any], np.ndarray]) -> None:
        self._old, self._read = dict(arrays), read
        self.arrays: dict[str, Any] = {}

    def translate(self, header: dict[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
        about = dict(header["model"])
        reader = about.pop("reader", None)
        about = self._move_items(about, "model", "model")
        parameters = self._move_items(header["parameters"], "parameters", "parameters")
        reading: dict[str, Any] = {}
        predictor, record = self._translate_estimator(
            _METHODS[about["method"]],
            header["parameters"],
            header["fitted"],
            "fitted",
            "predictor",
            "record",
            reading,
        )
        if reader is not None:
            for name in ("table", "encoding"):
                node = reader["fields"][name]
                reading[name] = self._move(node, f"model/reader/{name}", f"reading/{name}")
        found = {
            **{name: header[name] for name in ("format", "gpukfl")},
            "version": VERSION,
            "model": about,
            "parameters": parameters,
            "predictor": predictor,
            "reading": {"record": "RowReading", "fields": reading},
            "record": record,
        }
        unused = {f"older/{key}": stored for key, stored in self._old.items()}
        return found, self.arrays | unused

    # ------------------------------------------------------------------ nodes

    def _move(self, node: Any, old: str, new: str) -> Any:
        """Move a value, and the arrays inside it, to another key."""
        if isinstance(node, PLAIN):
            return node
        if isinstance(node, list):
            return [self._move(one, f"{old}/{k}", f"{new}/{k}") for k, one in enumerate(node)]
        if set(node) in ({"array"}, {"skops", "kind"}):
            kind = "array" if "array" in node else "skops"
            return {**node, kind: self._move_array(node[kind], old, new)}
        if set(node) == {"dict"}:
            return {"dict": self._move_items(node["dict"], old, new)}
        if set(node) == {"record", "fields"}:
            return self._move_record(node, old, new)
        return node

    def _move_items(self, inside: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
        return {k: self._move(one, f"{old}/{k}", f"{new}/{k}") for k, one in inside.items()}

    def _move_record(self, node: Any, old: str, new: str) -> Any:
        inside = dict(node["fields"])
        if node["record"] != "Imputation":
            return {"record": node["record"], "fields": self._move_items(inside, old, new)}
        model = inside.pop("model")
        fields = self._move_items(inside, old, new)
        fields["model"], _ = self._translate_model(model, f"{old}/model", f"{new}/model", "dropped")
        self.arrays = {k: one for k, one in self.arrays.items() if not k.startswith("dropped")}
        return {"record": "Imputation", "fields": fields}

    def _move_array(self, name: Any, old: str, new: str) -> str:
        if name != old or name not in self._old:
            msg = f"which says of {old} neither a value nor an array that it holds"
            raise RefusedError(msg)
        self.arrays[new] = self._old.pop(name)
        return new

    # ------------------------------------------------------------------ estimators

    def _translate_model(self, node: Any, old: str, new: str, record: str) -> tuple[Any, Any]:
        """Return the predictor and the record of a model inside another one."""
        if set(node) == {"skops", "kind"}:
            kept = {**node, "skops": self._move_array(node["skops"], old, record)}
            values = {"why_not": str(unknown_member(str(node["kind"])[:80]))}
            foreign = {"record": "Foreign", "fields": values}
            return _predictor(foreign, 0, False, None, None), kept
        if set(node) == {"record", "fields"}:
            inside = node["fields"]
            values = self._move(inside["values"], f"{old}/values", f"{new}/values")
            labels = self._move(inside["classes_"], f"{old}/classes_", f"{new}/labels")
            width = self._n_columns(values)
            return _predictor(values, width, False, labels, None), {"arrays": inside["one_target"]}
        kind = str(node["estimator"])
        stem = kind.removesuffix("Regressor").removesuffix("Classifier")
        predictor, kept = self._translate_estimator(
            stem, node["parameters"], node["fitted"], f"{old}/fitted", new, f"{record}/record", {}
        )
        parameters = self._move_items(
            node["parameters"], f"{old}/parameters", f"{record}/parameters"
        )
        return predictor, {"estimator": kind, "parameters": parameters, "record": kept}

    def _n_columns(self, values: Any) -> int:
        """Return the number of columns of rows of a model of arrays."""
        fields = values["fields"]
        if values["record"] == "ConstantValues":
            return int(fields["n_features"])
        name = "starts" if values["record"] == "Forest" else "coef"
        return int(self.arrays[fields[name]["array"]].shape[0]) - (name == "starts")

    def _translate_estimator(
        self, stem: str, parameters: Any, fitted: Any, old: str, new: str, record: str, reading: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Return the predictor and the record of an estimator that was stored by attributes."""
        fitted = dict(fitted)
        labels = None
        if "classes_" in fitted:
            labels = self._move(fitted.pop("classes_"), f"{old}/classes_", f"{new}/labels")
        attrs = _Attributes(self, fitted, old, f"{new}/values")
        one_target = bool(fitted.pop("_one_target", True))
        n_features, classes = fitted["n_features_in_"], None
        if stem == "Auto":
            values, kept, n_features = self._translate_blend(attrs, labels, record, reading)
        else:
            values, kept = self._translate_function(stem, parameters, attrs, record, n_features)
            if labels is not None:
                calibration = self._move(
                    fitted.pop("calibration_"), f"{old}/calibration_", f"{new}/classes/calibration"
                )
                fields = {"count": self._n_labels(labels), "calibration": calibration}
                fields["signs"] = stem == "RKHSWeighting"
                classes = {"record": "Classes", "fields": fields}
        kept |= self._move_items(fitted, old, record)
        return _predictor(values, n_features, one_target, labels, classes), kept

    def _n_labels(self, labels: Any) -> int:
        if "objects" in labels:
            return len(labels["objects"])
        return int(self.arrays[labels["array"]].shape[0])

    def _translate_function(
        self, stem: str, parameters: Any, attrs: _Attributes, record: str, n_features: int
    ) -> tuple[Any, dict[str, Any]]:
        if stem == "RegFeaL":
            return self._translate_regfeal(parameters, attrs, record)
        common = {"intercept": "intercept_", "scaling": "scaling_"}
        if stem == "BKerNN":
            fields = attrs.move_all({**common, "W": "W_"})
            shapes = attrs.fitted.pop("shape_functions_")["fields"]
            for name in ("knots", "values"):
                old, new = f"{attrs.old}/shape_functions_/{name}", f"{attrs.new}/{name}"
                fields[name] = self._move(shapes[name], old, new)
            return {"record": "ShapeSum", "fields": fields}, {}
        kind, names = _FIELDS[stem]
        fields = attrs.move_all(common | names)
        if stem == "RKHSWeighting":
            bias = bool(parameters["bias"])
            fields |= {"leading_ones": bias, "n_columns": n_features + bias}
        return {"record": kind, "fields": fields}, {}

    def _translate_regfeal(
        self, parameters: Any, attrs: _Attributes, record: str
    ) -> tuple[Any, dict[str, Any]]:
        clip = _AUTO_CLIP if parameters["clip"] == "auto" else parameters["clip"]
        common = {"scaling": attrs.move("scaling", "scaling_"), "clip": clip}
        for name in ("retrained_", "_y_scale", "_y_mean"):
            attrs.fitted.pop(name, None)
        if attrs.fitted["kernel_"] is None:
            for name in (*_KERNEL_SUM.values(), "retrain_components_", "_offset"):
                attrs.fitted.pop(name)
            fields = common | attrs.move_all(_HERMITE)
            return {"record": "HermiteSum", "fields": fields}, {"_hermite": None}
        own = {**_KERNEL_SUM, "B": "retrain_components_", "intercept": "_offset"}
        fields = common | {"is_mapped": True} | attrs.move_all(own)
        inner = _Attributes(self, attrs.fitted, attrs.old, f"{record}/_hermite")
        hermite = inner.move_all(_HERMITE)
        self.arrays[f"{attrs.new}/bounds"] = self.arrays[hermite["bounds"]["array"]]
        fields["bounds"] = {"array": f"{attrs.new}/bounds"}
        kept = {"_hermite": {"record": "HermiteSum", "fields": hermite}}
        return {"record": "KernelSum", "fields": fields}, kept

    # ------------------------------------------------------------------ blends

    def _translate_blend(
        self, attrs: _Attributes, labels: Any, record: str, reading: Any
    ) -> tuple[Any, dict[str, Any], int]:
        fitted, n_features = attrs.fitted, attrs.fitted["n_features_in_"]
        encodings, kept = fitted.pop("encodings_"), dict[str, Any]()
        encoder = kept["_blind"] = None
        if encodings is None:
            reading["medians"] = self._compute_medians(fitted, attrs.old)
        else:
            inside, own = encodings["fields"], f"{attrs.old}/encodings_"
            reading["table"] = self._move(inside["table"], f"{own}/table", "reading/table")
            kept["_blind"] = self._move(inside["blind"], f"{own}/blind", f"{record}/_blind")
            by_fold = f"{attrs.new}/encoder/by_fold"
            parts = {
                "by_fold": self._move(inside["by_fold"], f"{own}/by_fold", by_fold),
                "some": inside.get("some", []),
            }
            encoder = {"record": "FoldEncodings", "fields": parts}
            n_features = len(parts["by_fold"][0]["fields"]["coded"])
        members, kept["_models"] = [], list[Any]()
        for k, node in enumerate(fitted.pop("members_")):
            member, models = self._translate_member(node, k, attrs, record)
            members.append(member)
            kept["_models"].append(models)
        fields = {
            "members": members,
            "blending": self._translate_blending(attrs, labels is not None),
            "n_classes": 0 if labels is None else self._n_labels(labels),
            "n_features": n_features,
            "encoder": encoder,
        }
        return {"record": "Blend", "fields": fields}, kept, n_features

    def _translate_member(
        self, node: Any, k: int, attrs: _Attributes, record: str
    ) -> tuple[Any, list[Any]]:
        inside, pairs = node["fields"], []
        old, new = f"{attrs.old}/members_/{k}", f"{attrs.new}/members/{k}"
        for j, model in enumerate(inside["models"]):
            keys = f"{old}/models/{j}", f"{new}/models/{j}", f"{record}/_models/{k}/{j}"
            pairs.append(self._translate_model(model, *keys))
        fields = {
            "name": inside["name"],
            "weight": inside["weight"],
            "models": [predictor for predictor, _ in pairs],
            "residuals": self._move(
                inside.get("residuals"), f"{old}/residuals", f"{new}/residuals"
            ),
            "sees": inside.get("sees", "numbers"),
        }
        return {"record": "BlendedModels", "fields": fields}, [kept for _, kept in pairs]

    def _translate_blending(self, attrs: _Attributes, classes: bool) -> Any:
        attrs = _Attributes(self, attrs.fitted, attrs.old, f"{attrs.new}/blending")
        fields = attrs.move_all(
            {
                "floor": "floor_",
                "temperature": "temperature_",
                "reach": "reach_",
                "transform": "target_transform_",
                "whole": "whole_",
            }
        )
        return {"record": "Blending", "fields": fields | {"classes": classes}}

    def _compute_medians(self, fitted: Any, old: str) -> Any:
        """Compute the medians of the held-out rows."""
        kept = fitted["out_of_fold_"]["fields"]
        rows, weights = (
            self._read(self._old[f"{old}/out_of_fold_/{name}"])
            for name in ("rows", "weights")
            if kept[name] == {"array": f"{old}/out_of_fold_/{name}"}
        )
        self.arrays["reading/medians"] = weighted_medians(rows, weights)
        return {"array": "reading/medians"}


class _Attributes:
    """Attributes of an older file, which are moved to fields of a dataclass."""

    def __init__(
        self, translation: _Translation, fitted: dict[str, Any], old: str, new: str
    ) -> None:
        self._translation, self.fitted, self.old, self.new = translation, fitted, old, new

    def move(self, field: str, name: str) -> Any:
        node = self.fitted.pop(name)
        return self._translation._move(node, f"{self.old}/{name}", f"{self.new}/{field}")

    def move_all(self, names: Mapping[str, str]) -> dict[str, Any]:
        return {field: self.move(field, name) for field, name in names.items()}


def _predictor(values: Any, n_features: int, one_target: bool, labels: Any, classes: Any) -> Any:
    fields = {
        "values": values,
        "n_features": n_features,
        "one_target": one_target,
        "labels": labels,
        "classes": classes,
    }
    return {"record": "Predictor", "fields": fields}
