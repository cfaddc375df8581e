"""Arrays with rows in parts on several devices or machines, and passes over them."""

from typing import TYPE_CHECKING

from gpukfl.core._lazy import deprecated_names
from gpukfl.partitioned._array import PartitionedArray
from gpukfl.partitioned._collections import (
    Collections,
    Parts,
    Read,
    check_places,
    is_dask,
    name_partition_in_errors,
    read_partitions,
)
from gpukfl.partitioned._dask import ClusterLostError, compute_values
from gpukfl.partitioned._partitioning import Described, Holders, Partitioning
from gpukfl.partitioned._program import (
    Combine,
    Holder,
    Part,
    Partitioned,
    Pass,
    ThreadHolders,
    Window,
)

__all__ = [
    "ClusterLostError",
    "Collections",
    "Combine",
    "Described",
    "Holder",
    "Holders",
    "Part",
    "Partitioned",
    "PartitionedArray",
    "Partitioning",
    "Parts",
    "Pass",
    "Read",
    "ThreadHolders",
    "Window",
    "check_places",
    "compute_values",
    "is_dask",
    "name_partition_in_errors",
    "read_partitions",
]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {
            "partition_named": "name_partition_in_errors",
            "in_parts": "read_partitions",
            "computed": "compute_values",
        },
    )
