"""Tables as they come: what each column is, its codes, and the numbers that kernels take."""

from gpukfl.tables._column import KINDS, Coded, Column
from gpukfl.tables._encoder import TableEncoder
from gpukfl.tables._encoding import IMPUTE, Encoding
from gpukfl.tables._table import Table

__all__ = ["IMPUTE", "KINDS", "Coded", "Column", "Encoding", "Table", "TableEncoder"]
