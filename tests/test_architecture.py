"""The layering, the array rules and the weight of an import, as tests."""

import ast
import contextlib
import functools
import gc
import graphlib
import pathlib
import re
import subprocess
import sys
import typing

import gpukfl
from gpukfl.core import _array

TESTS = pathlib.Path(__file__).parent
SRC = TESTS.parent / "gpukfl"

# Imports go to a line above, or stay inside one package
LAYERS = """
_version
core
_accel
partitioned
linalg
selftest kernels
instantiations solvers penalties losses
operators knockoffs
methods
predictor
export inspection
tables
estimators
tables._encoding tables._reader
portfolio
runtime inference datasets _registry
deployment
_refit
_call _predictions
_explanations
_model
_multilabel
_fit
cli
__init__ __main__
"""
# Methods of every fitted estimator that a layer above performs: imported when they are called
CALLED_UP = {
    ("estimators/_base.py", "gpukfl._model.Model"),  # save
    ("estimators/_base.py", "gpukfl.inference.infer"),  # inference
}
LAYER = {name: k for k, line in enumerate(LAYERS.split("\n")) for name in line.split()}

LIBRARIES = {"numpy", "cupy", "cupyx", "torch", "scipy", "array_api_compat", "array_api_extra"}
BLIND = (
    "kernels",
    "instantiations",
    "operators",
    "solvers",
    "penalties",
    "methods",
    "knockoffs",
)  # folders that know no library
ALLOWED = {
    # A weighted median of a small sample, on the host
    "kernels/_bandwidth.py": {"numpy"},
    # Parameters are drawn on the host
    "instantiations.py": {"numpy.ndarray", "numpy.random.RandomState", "numpy.stack"},
    # Weights of rows and ranks of scores are held on the host
    "methods/_conformal.py": {"numpy"},
    # The standard has no random numbers and no error class: drawn on the host, placed by `beside`
    # Some numbers are optimised on the host
    "methods/_evidence.py": {"numpy"},
    "methods/_all_rows.py": {"numpy.linalg.LinAlgError"},
    # Prior means of few classes are numbers of the host
    "methods/_logistic_evidence.py": {"numpy"},
    "methods/_evidence_bound.py": {"numpy.linalg.LinAlgError"},
    # Folds are drawn on the host
    "methods/_kernel_ridge.py": {"numpy"},
    "methods/_nystrom.py": {"numpy.linalg.LinAlgError"},
    "methods/_ridge.py": {"numpy.linalg.LinAlgError", "numpy.random.RandomState"},
    "solvers/_nystrom.py": {"numpy.random.RandomState"},
    # One weight for each variable: steps, projections and working sets are decided on the host
    "methods/_selection.py": {"numpy"},
    # The Lasso is solved on the host, of few columns
    "methods/_selection_contest.py": {"numpy", "scipy.special.ndtri"},
    # Folds and batches are drawn, and the small T x T problems of the Lasso solved, on the host
    "methods/_weighting.py": {"numpy"},
    "methods/_functional_gradient.py": {"numpy.ndarray"},
    "methods/_selection_objective.py": {"numpy"},
    # Orders and subsets of players, and what they are paid, are host arrays
    "methods/_shapley.py": {"numpy"},
    # Nodes of a quadrature, and tables of shares, are host numbers
    "methods/_closed_shapley.py": {"numpy"},
    "solvers/_projected_gradient.py": {"numpy"},
    # Noise is drawn, ranks and their correlation are taken, on the host
    "knockoffs/_samplers.py": {"numpy", "scipy.special.ndtri", "scipy.stats.rankdata"},
    # One number for each variable
    "knockoffs/_filter.py": {"numpy"},
    # Tuples of degrees are drawn, and their laws held in logarithms, on the host
    "methods/_multi_indices.py": {"numpy", "scipy.special.gammaln"},
    # Rotation and shares of a few directions are decided on the host
    "methods/_regfeal.py": {"numpy", "scipy.sparse", "scipy.sparse.coo_array"},
    # Indices of samples are host arrays
    "operators/_kernel.py": {"numpy.ndarray"},
    "methods/_ridge_path.py": {"numpy.ndarray"},
    # A line search, of host arrays too
    "solvers/_two_block.py": {"numpy.ndarray"},
    # Which factors a tuple has
    "operators/_hermite.py": {"numpy"},
    # A T x T problem: the rows were summed up where they live, what is left is small
    "solvers/_lasso.py": {"numpy"},
    # Indices of samples are chosen, and small matrices of draws factored, on the host
    "methods/_centers.py": {"numpy"},
    # Weights of a sample of the rows are a host array
    "methods/_agop.py": {"numpy.ndarray"},
    # Norm and new rows of a (k, d) map
    "methods/_hkrr.py": {
        "numpy.concatenate",
        "numpy.float64",
        "numpy.linalg.norm",
        "numpy.linalg.svd",
        "numpy.random.RandomState",
        "numpy.sqrt",
    },
    # SciPy's loop over a small point; the function is computed where it lives
    "solvers/_lbfgs.py": {"numpy", "scipy.optimize.minimize"},
}
TYPED = (
    "core",
    "linalg",
    *BLIND,
)  # folders whose annotations mypy can use
CREATION = {"zeros", "ones", "empty", "full", "eye", "arange", "linspace"}
HEAVY = ("torch", "cupy", "numba", "sklearn", "pandas", "matplotlib")


@functools.cache
def modules():
    """Names, paths and trees of all modules; no test changes them."""
    inside = [(path.relative_to(SRC), path.read_text()) for path in sorted(SRC.rglob("*.py"))]
    with collector_at_rest():
        return [
            (path.with_suffix("").parts[0], path.as_posix(), ast.parse(text))
            for path, text in inside
        ]


@contextlib.contextmanager
def collector_at_rest():
    """Look for no garbage meanwhile: trees are many objects that stay, looked through each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def nodes(tree):
    """Everything in a tree, which is walked once."""
    return list(ast.walk(tree))


def imported(tree):
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(dotted):
    """Name of the folder or file at the top, and the layer of it or of the module."""
    name, inner = [*dotted.split("."), "__init__", ""][1:3]
    return name, LAYER.get(f"{name}.{inner}", LAYER[name])


def packages(tree):
    """Dotted names of array libraries, as far as they are spelt out: ``numpy.linalg.norm``."""
    alias = {}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            alias |= {a.asname or a.name.split(".")[0]: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in LIBRARIES:
            yield from (f"{node.module}.{a.name}" for a in node.names)
    inner = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Attribute)}
    for node in nodes(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            first, *rest = ast.unparse(node).split(".")
            full = alias.get(first, "")
            if full.split(".")[0] in LIBRARIES:
                yield ".".join([full, *rest])


def test_imports_point_down():
    for name, path, tree in modules():
        for target in imported(tree):
            if target.split(".")[0] != "gpukfl" or (path, target) in CALLED_UP:
                continue
            below, layer = layer_of(target)
            _, own = layer_of("gpukfl." + path.removesuffix(".py").replace("/", "."))
            assert below == name or layer < own, f"{path} imports {target}"


def test_no_module_needs_itself():
    """Not by way of others either, nor by imports inside functions."""
    files = {path: tree for _, path, tree in modules()}
    dotted = {
        ".".join(["gpukfl", *pathlib.PurePath(path).with_suffix("").parts]): path for path in files
    }
    home = {name.removesuffix(".__init__"): path for name, path in dotted.items()}
    needs = {
        path: {
            home.get(target) or home[target.rpartition(".")[0]]
            for target in imported(tree)
            if target.split(".")[0] == "gpukfl" and (path, target) not in CALLED_UP
        }
        for path, tree in files.items()
    }
    assert len(list(graphlib.TopologicalSorter(needs).static_order())) == len(files)


def test_solvers_and_penalties_do_not_know_each_other():
    for name, path, tree in modules():
        other = {"solvers": "penalties", "penalties": "solvers"}.get(name)
        assert not any(t.startswith(f"gpukfl.{other}") for t in imported(tree)), path


def test_only_the_lowest_layers_name_an_array_library():
    for name, path, tree in modules():
        if name in BLIND:
            named, allowed = set(packages(tree)), ALLOWED.get(path, set())
            extra = {n for n in named if n not in allowed and n.split(".")[0] not in allowed}
            assert not extra, f"{path} names {sorted(extra)}"


def test_creation_calls_state_dtype_and_device():
    for _, path, tree in modules():
        for node in nodes(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = ast.unparse(node.func.value)
            if (owner == "xp" or owner.startswith("array_namespace(")) and (
                node.func.attr in CREATION
            ):
                given = {keyword.arg for keyword in node.keywords}
                ok = None in given or {"dtype", "device"} <= given
                assert ok, f"{path}:{node.lineno}: {node.func.attr} without dtype and device"


def test_factorisations_go_through_one_door():
    """Each library fails in its own way, CuPy in silence; `gpukfl.linalg` makes all raise alike."""
    raising = {"cholesky", "eigh", "eigvalsh", "svd", "qr"}
    for _, path, tree in modules():
        if path in ("linalg/_factor.py", "core/_cuda.py"):  # which tries whether CuPy works
            continue
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr in raising:
                owner = ast.unparse(node.value)
                assert owner in ("np.linalg", "scipy.linalg"), f"{path}:{node.lineno}: {owner}"


def test_every_warning_points_at_the_caller():
    for _, path, tree in modules():
        for node in nodes(tree):
            if isinstance(node, ast.Call):
                ours = ast.unparse(node.func) != "warnings.warn" or path == "core/_warnings.py"
                assert ours, f"{path}:{node.lineno}: expected gpukfl.core._warnings.warn"
            literal = isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant)
            assert not (literal and node.arg == "stacklevel"), f"{path}:{node.lineno}: a literal"


def test_what_needs_torch_takes_the_fixture():
    """So that the marker `torch`, by which these tests run alone, is on each of them."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "torch" not in text:
            continue
        with collector_at_rest():
            tree = ast.parse(text)
        skips = {
            ast.unparse(node.args[0])
            for node in nodes(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("importorskip")
        }
        named = {name.split(".")[0] for name in imported(tree)}
        if path != TESTS / "conftest.py":
            named |= {name.strip("'") for name in skips}
        assert "torch" not in named, f"{path.name} asks for torch without the fixture"


def annotations(tree):
    for node in nodes(tree):
        if isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield node.returns


def says_any(annotation):
    """Also inside a string, and as ``typing.Any``."""
    return re.search(r"\bAny\b", ast.unparse(annotation)) is not None


def test_annotations_say_what_they_take():
    """A bare Any is not checked; an alias of it would hide from the count."""
    found = []
    for name, path, tree in modules():
        if name in TYPED and path != "core/_frames.py":  # where users give anything
            found += [(path, says_any(annotation)) for annotation in annotations(tree)]
            values = [n.value for n in nodes(tree) if isinstance(n, (ast.Assign, ast.AnnAssign))]
            aliases = [v for v in values if v and ast.unparse(v) in ("Any", "typing.Any")]
            assert not aliases, f"{path} hides Any behind another name"
    loose = [path for path, is_any in found if is_any]
    assert len(loose) < 0.02 * len(found), f"{len(loose)} of {len(found)}: {sorted(loose)}"


def test_an_array_is_a_protocol():
    assert typing.Protocol in _array.Array.__mro__
    assert {"shape", "dtype", "__matmul__", "__getitem__"} <= vars(_array.Array).keys()


def test_importing_the_package_is_light():
    code = (
        "import sys, time; t = time.process_time(); import gpukfl; gpukfl.fit;"
        f"print(time.process_time() - t, *[m for m in {HEAVY} if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=SRC.parent)
    seconds, *heavy = done.stdout.split()
    assert heavy == []
    assert float(seconds) < 1.5


def test_public_packages_are_attributes():
    modules = [getattr(gpukfl, name) for name in gpukfl._MODULES]
    named = {module.__name__.removeprefix("gpukfl.") for module in modules}
    inner = {"cli", "core", "deployment", "export", "linalg", "predictor", "selftest"}
    found = {path.parent.name for path in SRC.glob("[a-z]*/__init__.py")}
    found |= {path.stem for path in SRC.glob("[a-z]*.py")}
    assert named == found - inner
