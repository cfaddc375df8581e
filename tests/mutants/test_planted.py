"""Every mistake can be planted: the text that it replaces is there, once."""

from pathlib import Path

import pytest
from kernels import KERNELS
from planted import MUTANTS

PACKAGE = Path(__file__).parents[2] / "gpukfl"
PLANTED = [*MUTANTS, *KERNELS]


@pytest.mark.parametrize("path", dict.fromkeys(one.path for one in PLANTED))
def test_the_texts_are_there_once(path):
    text = (PACKAGE / path).read_text(encoding="utf-8")
    mutants = [one for one in PLANTED if one.path == path]
    assert [one.what for one in mutants if text.count(one.old) != 1] == []
    assert [one.what for one in mutants if one.new == one.old] == []
