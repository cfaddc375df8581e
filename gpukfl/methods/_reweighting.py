"""How RegFeaL weighs directions anew."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from gpukfl._checks import check_number, check_switch


@dataclass(frozen=True)
class Reweighting:
    """How often, and by what, the directions of RegFeaL are weighed anew.

    Parameters
    ----------
    n_iter : int
        Ridge regressions, with new directions before each but the first.
    exponent : float
        r, between 0 and 2: the smaller, the fewer directions.
    over_c : bool
        Divide squared derivatives by c, as the paper's M_f does; noise in high degrees is then
        multiplied by ρ^-k, and no features are learned where it is strong.
    """

    n_iter: int = 5
    exponent: float = 0.33
    over_c: bool = False

    def __post_init__(self) -> None:
        check_number("n_iter", self.n_iter, kind=Integral, low=1)
        check_number("exponent", self.exponent, low=0, high=2, low_allowed=False)
        if self.exponent >= 2:
            msg = f"expected an exponent between 0 and 2, got {self.exponent}"
            raise ValueError(msg)
        check_switch("over_c", self.over_c)
