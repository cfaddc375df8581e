"""Put the stand-in in CuPy's place, in this process."""

from __future__ import annotations

import ctypes
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGES = pathlib.Path(__file__).with_name("packages")
# A driver that sees two devices; a library of this soname that is loaded is found by its name. In
# a process that was forked after the first call it answers CUDA_ERROR_NOT_INITIALIZED, cuda.h
_DRIVER = """
#include <unistd.h>
static pid_t first;
int cuInit(unsigned int flags) {
    if (!first) first = getpid();
    return getpid() == first ? flags != 0 : 3;
}
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
"""


def put() -> None:
    """Let ``import cupy`` find the stand-in, and the library a driver.

    Raises
    ------
    RuntimeError
        If CuPy is imported already, or there is no compiler for the kernels.
    """
    if "cupy" in sys.modules:
        msg = "expected cupy not to be imported before its stand-in is put in its place"
        raise RuntimeError(msg)
    if shutil.which("g++") is None:
        msg = "the stand-in for CuPy compiles kernels with g++, which is not installed"
        raise RuntimeError(msg)
    sys.path.insert(0, str(PACKAGES))
    importlib.invalidate_caches()
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "libcuda.so.1"
        command = ["g++", "-x", "c", "-shared", "-fPIC", f"-Wl,-soname,{target.name}"]
        subprocess.run([*command, "-o", str(target), "-"], input=_DRIVER, text=True, check=True)
        ctypes.CDLL(str(target), mode=os.RTLD_GLOBAL)
