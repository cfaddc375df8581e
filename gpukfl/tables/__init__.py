"""Tables of mixed columns: their kinds, their codes, and numeric encodings for kernels.

Names are imported when first used: a table that was learned is read with NumPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpukfl.core._lazy import lazy_getattr

if TYPE_CHECKING:
    from gpukfl.tables._column import KINDS, Coded, Column
    from gpukfl.tables._encoder import TableEncoder
    from gpukfl.tables._encoding import IMPUTE, Encoding
    from gpukfl.tables._table import Table

_HOMES = {
    "IMPUTE": "_encoding",
    "KINDS": "_column",
    "Coded": "_column",
    "Column": "_column",
    "Encoding": "_encoding",
    "Table": "_table",
    "TableEncoder": "_encoder",
}

__all__ = ["IMPUTE", "KINDS", "Coded", "Column", "Encoding", "Table", "TableEncoder"]


__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
