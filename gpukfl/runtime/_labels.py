"""Files of models with several labels per row: an archive with a model file for each label."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

INDEX, FORMAT = "labels.json", "gpukfl-labels"
_LARGEST_INDEX = 2**24  # bytes

Model = TypeVar("Model")


def read_labels(path: str | Path, read: Callable[[str], Model], /) -> list[Model]:
    """Read the model of each label by ``read(path)``; return an empty list for other files.

    Raises
    ------
    ValueError
        If the file has several labels and is damaged.
    OSError
        If the file cannot be read.
    """
    count = _count_labels(path)
    if not count:
        return []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        try:
            parts = [archive.extract(f"{k}.gpukfl", folder) for k in range(count)]
        except (KeyError, RuntimeError, zipfile.BadZipFile) as error:
            msg = f"expected a gpukfl model file, got {path}, in which a label's model is missing"
            raise ValueError(msg) from error
        return [read(part) for part in parts]


def _count_labels(path: str | Path) -> int:
    """Return the number of labels of a file; 0 for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            first = members[0] if members else None
            is_stored = all(one.compress_type == zipfile.ZIP_STORED for one in members)
            if first is None or first.filename != INDEX or first.file_size > _LARGEST_INDEX:
                return 0
            index = json.loads(archive.read(INDEX))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return 0
    is_index = isinstance(index, dict) and index.get("format") == FORMAT
    count = index.get("count") if is_index else None
    if not is_stored or not isinstance(count, int) or not 0 < count < len(members):
        msg = f"expected a gpukfl model file, got {path}, whose labels cannot be read"
        raise ValueError(msg)
    return count


class RuntimeLabels:
    """A fitted model of several labels a row, read by `load`.

    Attributes
    ----------
    models : list of RuntimeModel
        One for each label, of the classes False and True.
    labels : list of str
        Their names.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = list(models)
        self.labels: list[str] = [one.target_name for one in models]

    def predict(self, X: Any) -> np.ndarray:
        """Predict which labels each row has: 0 or 1, of shape (n_samples, n_labels).

        Raises
        ------
        ValueError
            As of `RuntimeModel.predict`.
        """
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimate the probability of each label by itself, of shape (n_samples, n_labels).

        Raises
        ------
        ValueError
            As of `RuntimeModel.predict`.
        """
        return np.stack([probability_of_true(one, one.predict_proba(X)) for one in self.models], 1)

    def __repr__(self) -> str:
        return f"RuntimeLabels({len(self.labels)} labels: {', '.join(self.labels)})"


def probability_of_true(model: Any, probabilities: Any, /) -> Any:
    """Return the probabilities (n,) of True from those of a label's classes (n, k).

    A label that all training rows have, or none of them, is one class.
    """
    labels = np.asarray(model.classes_).tolist()
    return probabilities[:, labels.index(True)] if True in labels else 0.0 * probabilities[:, 0]
