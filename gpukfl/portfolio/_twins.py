"""Members that would be what one before them is already."""

from __future__ import annotations

from collections.abc import Iterable

from gpukfl.estimators.scaling import SCALINGS
from gpukfl.portfolio._entry import Entry
from gpukfl.portfolio._members import Member


def twin_of(member: Member, finished: Iterable[Entry], /) -> str:
    """Name the member whose own choice of a scaling is what another asks for; "" if there is none.

    "auto" scales features as it finds them, so that what else they have in common is known only
    after a fit.
    """
    asked = member.estimator
    for one in finished:
        if type(one.member.estimator) is not type(asked) or not hasattr(asked, "scaling"):
            continue
        own = one.member.estimator.get_params()
        alike = own | {"scaling": asked.scaling} == asked.get_params()
        found = {type(getattr(model, "scaling_", None)) for model in one.models}
        if alike and own["scaling"] == "auto" and found == {SCALINGS.get(asked.scaling)}:
            return one.member.name
    return ""
