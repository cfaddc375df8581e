"""Reading of predictors from model files, and of the tables that they need, with NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from gpukfl.core._annotations import Doubles
from gpukfl.core._archive import Archive, RefusedError, check_version
from gpukfl.estimators._calibration import Calibration, SoftmaxCalibration
from gpukfl.estimators.scaling import SCALINGS, ColumnScaling, ScalingPerTerm
from gpukfl.instantiations import INSTANTIATIONS, Instantiation, RandomKitchenSinks
from gpukfl.kernels import KERNELS, ColumnBlock, Kernel, Product, Scaled, Sum
from gpukfl.predictor import (
    Blend,
    Calibrated,
    ConstantValues,
    Encoder,
    FeatureSum,
    Foreign,
    Forest,
    HermiteSum,
    KernelSum,
    LinearValues,
    LogTransform,
    Predictor,
    RankTransform,
    Scaling,
    ShapeSum,
    TargetTransform,
    ValueFunction,
)
from gpukfl.predictor._codec import Decoder
from gpukfl.runtime._older_files import read_older
from gpukfl.tables import Encoding, Table
from gpukfl.tables._encoding import are_consistent
from gpukfl.tables._fold_encodings import FoldEncodings
from gpukfl.tables._seen import are_level_columns

KINDS: dict[Any, tuple[type, ...]] = {  # concrete classes in files, by abstract class
    Kernel: (*KERNELS.values(), Sum, Product, Scaled, ColumnBlock),
    Instantiation: (*INSTANTIATIONS.values(), RandomKitchenSinks),
    Scaling: (*SCALINGS.values(), ScalingPerTerm),
    ColumnScaling: tuple(SCALINGS.values()),
    Calibrated: (Calibration, SoftmaxCalibration),
    TargetTransform: (LogTransform, RankTransform),
    Encoder: (FoldEncodings,),
    ValueFunction: (
        *(KernelSum, ShapeSum, HermiteSum, FeatureSum, Blend),
        *(Forest, LinearValues, ConstantValues, Foreign),
    ),
}


@dataclass(frozen=True, eq=False)
class RowReading:
    """Conversion of a user's X to rows of numbers for a predictor.

    Attributes
    ----------
    table : Table, optional
        The schema of a table; None for arrays of numbers.
    encoding : Encoding, optional
        Encodes the codes of a table for a single method; blends have their own encoder.
    medians : array, shape (d,), optional
        Replacements of missing numbers for a blend.
    """

    table: Table | None = None
    encoding: Encoding | None = None
    medians: Annotated[np.ndarray, Doubles("d")] | None = None

    def check(self) -> None:
        """Raise ValueError unless the encoding belongs to the table."""
        if self.encoding is None:
            return
        if self.table is None or not are_consistent(self.table, self.encoding):
            msg = "expected an encoding of its table"
            raise ValueError(msg)

    def check_predictor(self, predictor: Predictor, /) -> None:
        """Raise RefusedError unless a predictor takes these rows."""
        n_features, encoder = predictor.n_features, getattr(predictor.values, "encoder", None)
        widths = [] if self.medians is None else [len(self.medians)]
        if self.encoding is not None:
            widths.append(self.encoding.n_features)
        elif self.table is not None:
            widths.append(len(self.table.coded))
        sound = all(width == n_features for width in widths)
        if isinstance(encoder, FoldEncodings):
            table = self.table
            sound = (
                sound
                and table is not None
                and are_level_columns(encoder.some, table.coded)
                and all(are_consistent(table, one) for one in encoder.by_fold)
            )
        if not sound or (encoder is None) != (self.table is None or self.encoding is not None):
            msg = "whose encoding is not one of its table, or makes no rows for its predictor"
            raise RefusedError(msg)


def open_model(archive: Archive, /) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the header and the arrays of a model file, also of an older version.

    Raises
    ------
    RefusedError
        If the version is not readable.
    """
    check_version(archive.header)
    return read_older(archive.header, archive.arrays, archive.read)


def decode_predictor(
    header: Mapping[str, Any], decoder: Decoder, /
) -> tuple[Predictor, RowReading]:
    """Decode a predictor, and the conversion of its rows.

    Raises
    ------
    RefusedError, MisfitError
        If parts are missing or do not match.
    """
    predictor = decoder.decode(header.get("predictor"), Predictor, "predictor", {})
    reading = decoder.decode(header.get("reading"), RowReading, "reading", {})
    reading.check_predictor(predictor)
    return predictor, reading
