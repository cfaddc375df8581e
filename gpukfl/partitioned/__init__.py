"""Arrays whose rows lie in parts, on several devices or machines, and passes over them."""

from gpukfl.partitioned._array import PartitionedArray
from gpukfl.partitioned._cluster import ClusterLostError, computed
from gpukfl.partitioned._collections import (
    Collections,
    Parts,
    in_parts,
    is_dask,
)
from gpukfl.partitioned._holder import Combine, Holder, Pass
from gpukfl.partitioned._partitioning import Described, Holders, Partitioning
from gpukfl.partitioned._places import check_places
from gpukfl.partitioned._program import Part, Partitioned, Window
from gpukfl.partitioned._reading import Read, partition_named
from gpukfl.partitioned._threads import ThreadHolders

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
