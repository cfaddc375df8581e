"""Arrays whose rows lie in parts, on several devices or machines, and passes over them."""

from gpukfl.partitioned._array import PartitionedArray
from gpukfl.partitioned._collections import (
    Collections,
    Parts,
    Read,
    check_places,
    in_parts,
    is_dask,
    partition_named,
)
from gpukfl.partitioned._dask import ClusterLostError, computed
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
    "computed",
    "in_parts",
    "is_dask",
    "partition_named",
]
