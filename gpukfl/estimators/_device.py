"""Work where the data are: on their device, or on the partitions of a Dask collection."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from gpukfl._array import library_of, on_device_of
from gpukfl._cuda import check_not_forked
from gpukfl._memory import explain_full_gpu
from gpukfl.estimators._dask import by_partition
from gpukfl.partitioned import is_dask

Given = ParamSpec("Given")
Result = TypeVar("Result")


def on_its_device(
    method: Callable[Concatenate[Any, Any, Given], Result], /
) -> Callable[Concatenate[Any, Any, Given], Result]:
    """Decorate a method whose first argument is data X.

    Of a Dask collection, what is no fit is put off, partition by partition.
    """

    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if is_dask(X) and method.__name__ != "fit":
            lazy: Any = by_partition(method)(self.to_host(), X, *args, **kwargs)
            return lazy
        if library_of(X) == "cupy":
            check_not_forked()
        try:
            with on_device_of(X):
                return method(self, X, *args, **kwargs)
        except Exception as error:
            explain_full_gpu(error)
            raise

    return wrapped
