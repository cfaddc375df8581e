"""Constructors: few parameters, and words for those that are no longer."""

import inspect

import pytest
from sklearn.base import clone

import gpukfl
from gpukfl import estimators
from gpukfl.estimators._base import RENAMED

KINDS = [getattr(estimators, name) for name in estimators.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_few(kind):
    names = list(kind().get_params(deep=False))
    assert len(names) <= 15
    assert set(names) == set(inspect.signature(kind).parameters)
    assert {"backend", "random_state", "scaling"} <= set(names)
    assert ("class_weight" in names) == kind.__name__.endswith("Classifier")


@pytest.mark.parametrize("kind", KINDS)
def test_old_names_say_what_to_give(kind):
    for name, instead in (RENAMED | kind._renamed).items():
        with pytest.raises(TypeError) as caught:
            kind(**{name: 1})
        assert str(caught.value) == f"{kind.__name__} no longer has a parameter {name!r}: {instead}"
        with pytest.raises(TypeError, match="no longer has"):
            kind().set_params(**{name: 1})


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_names_are_refused(kind):
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        kind(depth=3)
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        kind().set_params(depth=3)


def test_a_class_of_ones_own_keeps_its_constructor():
    class Mine(gpukfl.BKerNNClassifier):
        def __init__(self, depth=3):
            super().__init__(10)
            self.depth = depth

    class Plain(gpukfl.BKerNNClassifier):
        pass

    assert clone(Mine(4)).get_params() == {"depth": 4}
    assert set(Plain().get_params()) == set(gpukfl.BKerNNClassifier().get_params())


def test_values_go_through_clone():
    model = gpukfl.BKerNNRegressor(backend=gpukfl.Backend("numpy", "float32"))
    assert clone(model).backend == gpukfl.Backend("numpy", "float32")


@pytest.mark.parametrize(
    ("backend", "error", "match"),
    [
        (
            "jax",
            ValueError,
            "expected backend to be one of 'auto', 'numpy', 'cupy', 'torch', got 'jax'",
        ),
        (3, TypeError, "or a Backend, got 3"),
    ],
)
def test_unknown_backends_are_refused(backend, error, match):
    with pytest.raises(error, match=match):
        gpukfl.KernelRidgeRegressor(backend=backend).fit([[0.0], [1.0]], [0.0, 1.0])


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="one of 'auto', 'float32', 'float64', got 'half'"):
        gpukfl.Backend(dtype="half")
