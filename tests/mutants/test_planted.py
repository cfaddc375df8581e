"""Every mistake can be planted: the text that it replaces is there, once."""

from pathlib import Path

import pytest
from kernels import KERNELS
from planted import MUTANTS

PACKAGE = Path(__file__).parents[2] / "gpukfl"


@pytest.mark.parametrize("mutant", [*MUTANTS, *KERNELS], ids=lambda one: f"{one.path}: {one.what}")
def test_the_text_is_there_once(mutant):
    assert (PACKAGE / mutant.path).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.new != mutant.old
