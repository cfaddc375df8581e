"""Write ``surface.json``: names, signatures and loops of the CuPy that is installed.

Reading them needs no GPU. Run it with the Python of an environment that has CuPy's wheel, in this
folder; what a new version changed is then the difference that git shows.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pathlib
from types import ModuleType
from typing import Any

import cupy
import numpy as np

MODULES = ("cupy", "cupy.linalg", "cupy.fft", "cupyx", "cupyx.scipy.special")
# Not importable without CUDA's libraries: read from their text
SOURCES = {"cupyx.scipy.linalg": ["cupyx/scipy/linalg/_solve_triangular.py"]}


def loops(ufunc: Any) -> list[str]:
    """Dtypes that a ufunc computes with, as ``in->out``, in the order they are tried."""
    spelt = []
    for op in ufunc._ops.ops:
        sides = (
            (np.dtype(t).char if t else "." for t in side) for side in (op.in_types, op.out_types)
        )
        spelt.append("->".join("".join(side) for side in sides))
    return spelt


def parameters(function: Any) -> list[list[Any]] | None:
    """Names and kinds of the parameters, and whether they have defaults."""
    try:
        given = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    return [[p.name, int(p.kind), p.default is not p.empty] for p in given]


def described(x: Any) -> dict[str, Any]:
    """What one public name stands for."""
    if isinstance(x, cupy.ufunc):
        return {"kind": "ufunc", "nin": x.nin, "nout": x.nout, "loops": loops(x)}
    if inspect.isclass(x):
        return {"kind": "class", "module": x.__module__}
    if isinstance(x, ModuleType):
        return {"kind": "module"}
    if callable(x):
        return {"kind": "function", "parameters": parameters(x)}
    return {"kind": "value", "type": type(x).__name__}


def members(module: ModuleType) -> dict[str, Any]:
    """Public names of a module."""
    return {name: described(getattr(module, name)) for name in dir(module) if name[0] != "_"}


def from_text(paths: list[str], root: pathlib.Path) -> dict[str, Any]:
    """Public functions of files that cannot be imported."""
    found = {}
    for path in paths:
        for node in ast.parse((root / path).read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                names = [a.arg for a in node.args.args]
                required = len(names) - len(node.args.defaults)
                kind = int(inspect.Parameter.POSITIONAL_OR_KEYWORD)
                given = [[name, kind, k >= required] for k, name in enumerate(names)]
                found[node.name] = {"kind": "function", "parameters": given}
    return found


def spelt(surface: dict[str, Any]) -> str:
    """JSON with a line for each name."""
    sections = []
    for section, names in sorted(surface.items()):
        if isinstance(names, dict):
            lines = ",\n".join(
                f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(names.items())
            )
            sections.append(f"{json.dumps(section)}: {{\n{lines}\n}}")
        else:
            sections.append(f"{json.dumps(section)}: {json.dumps(names)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def main() -> None:
    """Write the surface beside this file."""
    root = pathlib.Path(cupy.__file__).parents[1]
    surface: dict[str, Any] = {name: members(importlib.import_module(name)) for name in MODULES}
    surface |= {name: from_text(paths, root) for name, paths in SOURCES.items()}
    surface["cupy.ndarray"] = sorted(dir(cupy.ndarray))
    surface["cupy.linalg.__all__"] = sorted(cupy.linalg.__all__)
    surface["version"] = cupy.__version__
    pathlib.Path(__file__).with_name("surface.json").write_text(spelt(surface), encoding="ascii")


if __name__ == "__main__":
    main()
