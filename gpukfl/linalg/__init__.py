"""Linear algebra and sorted sums that the array-API standard lacks.

Each function is written once in the array API; some hand over to a compiled twin in
`gpukfl._accel` when the array's library has one.
"""

from gpukfl.linalg._bins import (
    MAX_KNOTS,
    Positions,
    bin_products,
    bin_sums,
    interpolate_bins,
    knot_levels,
    levels_of_sums,
    pair_sums,
    part_sums,
)
from gpukfl.linalg._block_factor import BlockCholeskyFactor
from gpukfl.linalg._blocks import each_block
from gpukfl.linalg._decay import decay
from gpukfl.linalg._difference_sums import (
    SortedColumns,
    difference_sums,
    factored_difference_sums,
    factored_square_sums,
)
from gpukfl.linalg._distances import distances, power_sums, sign_sums, squared_distances
from gpukfl.linalg._factor import (
    CholeskyFactor,
    add_to_diagonal,
    eigh,
    eigh_and_measure,
    eigvalsh,
    factor_and_measure,
    host_eigh,
    map_singular_values,
    mean_diagonal,
    move_small_to_host,
    orthonormal_range,
    restore_device,
    solve_and_measure,
    svd,
)
from gpukfl.linalg._hermite import hermite_table, row_products
from gpukfl.linalg._knots import interpolate_columns, interpolate_knots
from gpukfl.linalg._ridge_sums import (
    SortedRows,
    absolute_differences,
    ridge_curves,
    ridge_sums,
    sign_products,
    sort_rows,
)
from gpukfl.linalg._special import drop_negligible, erf
from gpukfl.linalg._steps import (
    center_columns,
    column_dots,
    column_dots_in_one_pass,
    conjugate_direction,
    conjugate_step,
    record,
)

__all__ = [
    "MAX_KNOTS",
    "BlockCholeskyFactor",
    "CholeskyFactor",
    "Positions",
    "SortedColumns",
    "SortedRows",
    "absolute_differences",
    "add_to_diagonal",
    "bin_products",
    "bin_sums",
    "center_columns",
    "column_dots",
    "column_dots_in_one_pass",
    "conjugate_direction",
    "conjugate_step",
    "decay",
    "difference_sums",
    "distances",
    "drop_negligible",
    "each_block",
    "eigh",
    "eigh_and_measure",
    "eigvalsh",
    "erf",
    "factor_and_measure",
    "factored_difference_sums",
    "factored_square_sums",
    "hermite_table",
    "host_eigh",
    "interpolate_bins",
    "interpolate_columns",
    "interpolate_knots",
    "knot_levels",
    "levels_of_sums",
    "map_singular_values",
    "mean_diagonal",
    "move_small_to_host",
    "orthonormal_range",
    "pair_sums",
    "part_sums",
    "power_sums",
    "record",
    "restore_device",
    "ridge_curves",
    "ridge_sums",
    "row_products",
    "sign_products",
    "sign_sums",
    "solve_and_measure",
    "sort_rows",
    "squared_distances",
    "svd",
]
