"""Short ways to write parameters that are grouped into values."""

from dataclasses import replace

from gpukfl import Backend
from gpukfl.estimators.bkernn import Knots
from gpukfl.estimators.bkernn._estimator import _OPTIMIZER
from gpukfl.estimators.hkrr import Centers, HoldOut
from gpukfl.estimators.hkrr._estimator import OPTIMIZERS
from gpukfl.estimators.selection import Path, Permutations, Stability, Weights
from gpukfl.estimators.weighting import Pruning
from gpukfl.estimators.weighting._settings import LEARNERS
from gpukfl.methods import DegreeLaw, Reweighting
from gpukfl.penalties import PENALTIES
from gpukfl.solvers import ProjectedGradient


def _moved(options, names):
    return {name: options.pop(name) for name in names if name in options}


def without_seconds(tuning):
    """What was tried, less the time that it took."""
    return [{**trial, "seconds": None} for trial in tuning]


def placed(options):
    """Options with a precision in their backend."""
    if "dtype" in options:
        library = options.pop("backend", "auto")
        options["backend"] = Backend(library, options.pop("dtype"))
    return options


def bkernn(**options):
    """Parameters of BKerNN, with fields of its optimiser, knots and penalty among them."""
    optimizer = _moved(options, ("max_iter", "tol", "step_size"))
    if optimizer:
        options["optimizer"] = replace(_OPTIMIZER, **optimizer)
    if "concavity" in options:
        penalty = options.get("penalty", "concave_feature")
        options["penalty"] = PENALTIES[penalty](options.pop("concavity"))
    if "knot_tolerance" in options:
        options["knots"] = Knots(options.get("knots", "auto"), options.pop("knot_tolerance"))
    if "validation_fraction" in options:
        options["early_stopping"] = options.pop("validation_fraction")
    return placed(options)


def weighting(**options):
    """Parameters of RKHS weightings, with fields of a descent and of pruning among them."""
    descent = _moved(options, ("radius", "batch_size"))
    if descent:
        options["learner"] = replace(LEARNERS[options["learner"]], **descent)
    tolerance = options.pop("prune_tolerance", None)
    if tolerance is not None and options["prune"] is not None:
        options["prune"] = Pruning(options["prune"], tolerance)
    return placed(options)


def selection(**options):
    """Parameters of kernel feature selection, with fields of its values among them."""
    permutations, path = options.pop("n_permutations", None), options.pop("n_sparsities", None)
    sparsity = options.get("sparsity", "auto")
    if sparsity == "auto" and permutations is not None:
        options["sparsity"] = Permutations(permutations)
    if sparsity == "tune" and path is not None:
        options["sparsity"] = Path(path)
    halves = options.pop("n_subsamples", 0)
    stability = _moved(options, ("max_false",))
    if halves:
        options["error_control"] = Stability(halves, **stability)
    if "radius" in options:
        options["anchor"] = Weights(options.get("anchor", "auto"), options.pop("radius"))
    optimizer = _moved(options, ("max_iter", "tol"))
    if optimizer:
        options["optimizer"] = ProjectedGradient(**optimizer)
    return placed(options)


def hkrr(**options):
    """Parameters of HKRR, with fields of its optimiser and centres among them."""
    steps = _moved(options, ("max_iter", "tol"))
    name = options.get("optimizer", "lbfgs")
    if steps and name in OPTIMIZERS:
        options["optimizer"] = OPTIMIZERS[name](**{"max_iter": 100, "tol": 1e-4, **steps})
    names = {"refit_centers": "refit", "center_selection": "selection"}
    centers = _moved(options, tuple(names))
    if centers:
        fields = {names[name]: value for name, value in centers.items()}
        options["n_centers"] = Centers(options.pop("n_centers", "auto"), **fields)
    starts = _moved(options, ("n_starts", "warm_start"))
    if starts:
        options["criterion"] = HoldOut(**starts)
    return placed(options)


def regfeal(**options):
    """Parameters of RegFeaL, with fields of its optimiser, and laws of the degrees, among them."""
    names = {"n_iter": "n_iter", "sparsity_exponent": "exponent", "over_c": "over_c"}
    fields = {names[name]: value for name, value in _moved(options, tuple(names)).items()}
    if fields:
        options["optimizer"] = Reweighting(**fields)
    largest = options.pop("max_degree", None)
    decay = options.pop("degree_decay", None)
    if decay is not None and "degrees" not in options:
        options["degrees"] = decay
    if largest is not None:
        options["degrees"] = DegreeLaw(largest=largest)
    return placed(options)
