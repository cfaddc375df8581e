"""Example data: tables from files, bundled sets, and the papers' generators."""

from gpukfl.datasets._generators import (
    make_multi_index,
    make_sine_features,
    make_single_direction,
    random_directions,
)
from gpukfl.tables._files import BUNDLED, LoadedTable, load_frame, load_table

__all__ = [
    "BUNDLED",
    "LoadedTable",
    "load_frame",
    "load_table",
    "make_multi_index",
    "make_sine_features",
    "make_single_direction",
    "random_directions",
]
