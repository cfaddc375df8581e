"""A scaling of columns: learned on the host, applied wherever rows are."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gpukfl._array import Array
from gpukfl._rows import Rows
from gpukfl.estimators._declared import Declared, Numbers


@dataclass(frozen=True, eq=False)
class ColumnScaling(ABC):
    """A map of every column by itself, learned from rows; its fields are host arrays.

    Attributes
    ----------
    fields : dict of Declared
        What each of its arrays is, for model files.
    unit : str
        What a scaled column is measured in, in the words of a picture.
    note : str
        What importances, directions and projections are in, in a sentence.
    """

    fields: ClassVar[Mapping[str, Declared]]
    unit: ClassVar[str]
    note: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64, with positive weights (n,)."""

    @abstractmethod
    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d), of float64, where it is."""

    @abstractmethod
    def of_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Give the scaling of some columns, whose results are multiplied by positive factors."""

    @classmethod
    def joined(cls, parts: Sequence[Self], /) -> Self:
        """Give the scaling of the columns of several ones of host arrays, side by side."""
        found = {}
        for name, declared in cls.fields.items():
            assert isinstance(declared, Numbers)
            axis = declared.shape.index("n_features")
            found[name] = _side_by_side([getattr(part, name) for part in parts], axis)
        return cls(**found)

    @property
    def is_sound(self) -> bool:
        """Whether its arrays, all finite, are such as `of` makes."""
        arrays = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return all(bool(np.isfinite(array).all()) for array in arrays)


def _side_by_side(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Join arrays along one axis; where others are shorter, their last values are repeated."""
    sizes = np.max([array.shape for array in arrays], axis=0)
    sizes[axis] = 0
    padded = [
        np.pad(
            array,
            [(0, max(size - n, 0)) for n, size in zip(array.shape, sizes, strict=True)],
            "edge",
        )
        for array in arrays
    ]
    return np.concatenate(padded, axis=axis)
