"""The blend of an earlier fit, for a fit of its members to other rows without a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator, clone

from gpukfl.core._warnings import warn
from gpukfl.estimators._base import copy_to_host
from gpukfl.estimators._learner import Learner, WarmStart, mean_start
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._members import CONSTANT, NAMES, Member, Task, make_members
from gpukfl.portfolio._names import class_name
from gpukfl.portfolio._refit import BESIDE
from gpukfl.portfolio._scored import own_names
from gpukfl.predictor import LogTransform, RankTransform
from gpukfl.tables import Table

_TRANSFORM_NAMES: dict[type, str] = {LogTransform: "log", RankTransform: "rank"}
REFIT_FOLDS = 3  # largest number of folds of "auto": the members are already chosen


@dataclass(frozen=True, eq=False)
class PreviousBlend:
    """The parts of a fitted blend that a fit to other rows keeps.

    Attributes
    ----------
    named : list or None
        Members that the user named; None if there are none, or a file left them out.
    blended : tuple of Blended
        Members of the blend.
    encodings : Encodings or None
        Encodings of its columns, if these are not numbers.
    target_transform : str or None
        Name of the transform of the targets.
    own_names : frozenset of str
        Names that the user chose: these are not members of gpukfl, even if names are equal.
    """

    named: Any
    blended: tuple[Blended, ...]
    encodings: Encodings | None
    target_transform: str | None
    own_names: frozenset[str] = frozenset()

    @classmethod
    def from_blend(cls, auto: Any, /) -> PreviousBlend:
        """Return the parts of a fitted `AutoRegressor` or `AutoClassifier`."""
        transform = _TRANSFORM_NAMES.get(type(auto.target_transform_))
        own = frozenset(own_names(auto))
        return cls(auto.members, tuple(auto.members_), auto.encodings_, transform, own)

    @property
    def table(self) -> Table | None:
        """The schema of the columns."""
        return None if self.encodings is None else self.encodings.table

    @property
    def is_constant(self) -> bool:
        """Whether its target was constant, so that no member was chosen."""
        return [one.name for one in self.blended] == [CONSTANT]

    def choose_refit(self, asked: bool | str, n_folds: int, /) -> bool | str:
        """Return the `refit` parameter: "auto" refits in addition to folds, as these are few."""
        return BESIDE if asked == "auto" and n_folds > 1 else asked

    def keep_levels(self, encodings: Encodings | None, /) -> Encodings | None:
        """Return new encodings in which members see the levels of the same columns."""
        if encodings is None or self.encodings is None:
            return encodings
        return replace(encodings, folds=replace(encodings.folds, some=self.encodings.some))

    def make_members(self, task: Task, encodings: Encodings | None, /) -> list[Member]:
        """Return the members of the blend for other rows; all their folds will be fitted.

        Raises
        ------
        ValueError
            If none can be fitted again.
        """
        is_list = isinstance(self.named, (list, tuple))
        named = make_members(self.named, "quick", task) if is_list else []
        known = {one.name: one for one in named}
        found = []
        for one in self.blended:
            member = self._make_member(one, known, task)
            if member is None:
                warn(f"the blend drops {one.name}: it cannot be refitted from a file")
                continue
            start = self._mean_start(one, encodings)
            member = replace(member, blended=True, reference=True, like="")
            found.append(replace(member, sees=one.sees, start=start))
        if not found:
            names = ", ".join(one.name for one in self.blended)
            msg = (
                f"expected members that can be refitted, got {names}, which come from a file: "
                "fit a new model with gpukfl.fit"
            )
            raise ValueError(msg)
        return found

    def _mean_start(self, member: Blended, encodings: Encodings | None) -> WarmStart[Any] | None:
        """Return the mean settings of the fits of a member, if the encoded columns are equal."""
        if encodings is not None and self.encodings is not None:
            names = [one.outputs(member.sees) for one in (self.encodings, encodings)]
            if names[0] != names[1]:
                return None
        models = [one for one in member.models if isinstance(one, Learner)]
        starts = [start for one in models if (start := one.to_warm_start()) is not None]
        found: WarmStart[Any] | None = copy_to_host(mean_start(starts))
        return found

    def _make_member(
        self, blended: Blended, known: Mapping[str, Member], task: Task
    ) -> Member | None:
        """Return a member of the blend, not fitted; None if a file has only its arrays."""
        name, model = blended.name, blended.models[-1]
        if name in known:
            return known[name]
        if name in NAMES and name not in self.own_names:
            return make_members([name], "quick", task)[0]
        if not isinstance(model, BaseEstimator):
            return None
        return Member(name, clone(model), model=class_name(model))
