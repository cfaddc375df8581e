"""Frozen values become JSON and arrays, and come back checked by their annotations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypedDict

import numpy as np
import pytest

from gpukfl.core._annotations import (
    NOT_STORED,
    AnyValue,
    Choice,
    Count,
    Doubles,
    Floats,
    Integers,
    Labels,
    Length,
)
from gpukfl.core._archive import RefusedError
from gpukfl.kernels import Gaussian, Kernel, Laplace
from gpukfl.predictor import KernelSum, Predictor, ShapeSum
from gpukfl.predictor._codec import Decoder, Encoder, MisfitError

KINDS = {Kernel: (Gaussian,)}


class Step(TypedDict):
    size: float
    kind: Literal["long", "short"]


@dataclass(frozen=True)
class Inner:
    word: Annotated[str, Choice(("one", "two"))]
    low: Annotated[float, AnyValue()] = 0.0


@dataclass(frozen=True, eq=False)
class Value:
    count: Annotated[int, Count("n")]
    points: Annotated[np.ndarray, Floats("n", "d")]
    weights: Annotated[np.ndarray, Doubles("n")] | None
    places: Annotated[np.ndarray, Integers(2, "d")]
    names: Annotated[np.ndarray, Labels("n")]
    inner: tuple[Inner, ...]
    steps: Annotated[list[Step], Length("k")]
    kernel: Kernel
    shift: float | Literal["auto"] = "auto"
    cached: list[int] = field(default_factory=list, metadata=NOT_STORED)

    def check(self) -> None:
        if self.count > 5:
            msg = "expected a small count"
            raise ValueError(msg)


def value(**changes):
    made = {
        "count": 3,
        "points": np.arange(6.0, dtype=np.float32).reshape(3, 2),
        "weights": None,
        "places": np.zeros((2, 2), dtype=np.int64),
        "names": np.array(["a", 1, True], dtype=object),
        "inner": (Inner("one", np.inf), Inner("two")),
        "steps": [{"size": 1.0, "kind": "long"}],
        "kernel": Gaussian(2.0),
        "cached": [1],
    }
    return Value(**made | changes)


def encoded(one):
    encoder = Encoder(KINDS)
    node = encoder.encode(one, "it")
    return json.loads(json.dumps(node)), encoder.arrays


def decoded(node, arrays, hint=Value):
    decoder = Decoder(arrays, None, KINDS)
    found = decoder.decode(node, hint, "it", {})
    decoder.finish()
    return found


@pytest.mark.parametrize("changes", [{}, {"weights": np.ones(3), "shift": 2.5}, {"steps": []}])
def test_a_value_comes_back(changes):
    one = value(**changes)
    found = decoded(*encoded(one))
    for name, kept in vars(one).items():
        if name == "cached":
            assert found.cached == []
        elif isinstance(kept, np.ndarray):
            np.testing.assert_array_equal(getattr(found, name), kept, strict=True)
        else:
            assert getattr(found, name) == kept


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"count": 2}, r"points is an array \(float32\) .*: expected .*\(2, d\)"),
        ({"count": -1}, "count is -1: expected an integer"),
        ({"count": 6, "points": np.zeros((6, 2)), "names": np.zeros(6)}, "small count"),
        ({"points": np.zeros((3, 2), dtype=np.int64)}, "expected an array"),
        ({"points": np.full((3, 2), np.nan)}, "points is not finite"),
        ({"weights": np.ones(3, dtype=np.float32)}, "weights is an array"),
        ({"places": np.zeros((2, 3), dtype=np.int64)}, r"places .*expected .*\(2, 2\)"),
        ({"names": np.array(["a"])}, "names is an array"),
        ({"inner": (Inner("three"),)}, "word is 'three': expected one of one, two"),
        ({"steps": [{"size": np.nan, "kind": "long"}]}, "size is nan"),
        ({"steps": [{"size": 1.0}]}, "expected a dict of size, kind"),
        ({"steps": [{"size": 1.0, "kind": "wide"}]}, "expected one of long, short"),
        ({"shift": "other"}, "shift is 'other'"),
        ({"shift": True}, "shift is True"),
    ],
)
def test_what_is_not_as_annotated_is_named(changes, said):
    with pytest.raises((MisfitError, RefusedError), match=said):
        decoded(*encoded(value(**changes)))


def test_unknown_classes_are_neither_written_nor_read():
    with pytest.raises(TypeError, match="got Laplace at it/kernel"):
        encoded(value(kernel=Laplace()))
    node, arrays = encoded(value())
    node["fields"]["kernel"]["record"] = "Laplace"
    with pytest.raises(RefusedError, match="kernel is no Gaussian"):
        decoded(node, arrays)


def test_each_array_is_used_once_and_in_its_place():
    node, arrays = encoded(value())
    with pytest.raises(RefusedError, match="arrays that nothing is made of: more"):
        decoded(node, arrays | {"more": np.zeros(1)})
    node["fields"]["weights"] = {"array": "it/points"}
    with pytest.raises(RefusedError, match="neither a value nor an array"):
        decoded(node, arrays)


@pytest.mark.parametrize("name", ["count", "points", "kernel", "inner"])
def test_parts_that_are_missing_or_too_many_are_named(name):
    node, arrays = encoded(value())
    node["fields"].pop(name)
    with pytest.raises(RefusedError, match="has not the parts of a Value"):
        decoded(node, arrays)
    node, arrays = encoded(value())
    node["fields"]["new"] = 1
    with pytest.raises(RefusedError, match="has not the parts of a Value"):
        decoded(node, arrays)


def test_fields_with_a_default_may_be_missing():
    node, arrays = encoded(value(shift=3.0))
    node["fields"].pop("shift")
    assert decoded(node, arrays).shift == "auto"


# ---------------------------------------------------------------------- functions


def test_centres_that_do_not_go_with_the_map_are_refused():
    made = {"intercept": np.zeros(1), "kernel": Gaussian(), "coef": np.ones((4, 1))}
    KernelSum(centers=np.zeros((4, 3)), B=np.zeros((2, 3)), **made).check()
    KernelSum(centers=np.zeros((4, 2)), B=np.zeros((2, 3)), is_mapped=True, **made).check()
    with pytest.raises(ValueError, match=r"centers of shape \(4, 3\), got \(4, 2\)"):
        KernelSum(centers=np.zeros((4, 2)), B=np.zeros((2, 3)), **made).check()


def test_knots_are_rounded_where_that_is_not_seen():
    rng = np.random.default_rng(0)
    knots = np.sort(rng.uniform(-1, 1, (4, 50)), axis=1)
    smooth = ShapeSum(
        intercept=np.zeros(1),
        W=rng.standard_normal((3, 4)),
        knots=knots,
        values=np.sin(knots)[..., None],
    )
    assert {one.dtype.name for one in smooth.rounded().values()} == {"float32"}
    X = rng.standard_normal((200, 3))
    again = replace(smooth, **smooth.rounded())
    assert again.knots.dtype == np.float64
    np.testing.assert_allclose(again(X), smooth(X), atol=1e-6 * smooth(X).std())
    steep = 1e9 + 1e-3 * knots  # which float32 does not tell apart
    assert replace(smooth, knots=steep).rounded() == {}


@pytest.mark.parametrize(
    ("labels", "said"), [(["a", "a"], "different classes"), ([], "different classes")]
)
def test_labels_differ(labels, said):
    values = ShapeSum(
        intercept=np.zeros(1),
        W=np.zeros((2, 1)),
        knots=np.zeros((1, 1)),
        values=np.zeros((1, 1, 1)),
    )
    with pytest.raises(ValueError, match=said):
        Predictor(values, 2, labels=np.array(labels)).check()
