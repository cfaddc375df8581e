"""The blend of an earlier fit: its members, each with what it came to, for a fit to other rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator, clone

from gpukfl.core._warnings import warn
from gpukfl.estimators._base import copy_to_host
from gpukfl.estimators._learner import Learner, WarmStart, mean_start
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._members import NAMES, Member, Task, make_members
from gpukfl.portfolio._names import class_name
from gpukfl.portfolio._refit import BESIDE
from gpukfl.portfolio._scored import own_names
from gpukfl.predictor import LogTransform, RankTransform
from gpukfl.tables import Table

_WORDS: dict[type, str] = {LogTransform: "log", RankTransform: "rank"}  # of `target_transform`
KNOWN_FOLDS = 3  # at most: they weigh members that were chosen before, where "auto" is more
CONSTANT = "constant"  # the member of a target that does not vary


@dataclass(frozen=True, eq=False)
class Precedent:
    """What a fit to other rows keeps of a fitted blend.

    Attributes
    ----------
    asked : list or None
        The members that the user named; None where nobody named any, or a file left them out.
    blended : tuple of Blended
        Who is in the blend.
    encodings : Encodings or None
        Of its columns, where these are not numbers.
    target_transform : str or None
        The scale of the targets.
    own : frozenset of str
        Names that the user chose: what has one is none of our members, though one is called so.
    """

    asked: Any
    blended: tuple[Blended, ...]
    encodings: Encodings | None
    target_transform: str | None
    own: frozenset[str] = frozenset()

    @classmethod
    def from_blend(cls, auto: Any, /) -> Precedent:
        """Return what is kept of a fitted `AutoRegressor` or `AutoClassifier`."""
        word = _WORDS.get(type(auto.target_transform_))
        own = frozenset(own_names(auto))
        return cls(auto.members, tuple(auto.members_), auto.encodings_, word, own)

    @property
    def table(self) -> Table | None:
        """The schema of the columns."""
        return None if self.encodings is None else self.encodings.table

    @property
    def is_constant(self) -> bool:
        """Whether its target did not vary, so that nothing was chosen."""
        return [one.name for one in self.blended] == [CONSTANT]

    def choose_refit(self, asked: bool | str, n_folds: int, /) -> bool | str:
        """Return what is asked of the last fit: "auto" makes up for what few folds lack."""
        return BESIDE if asked == "auto" and n_folds > 1 else asked

    def keep_levels(self, encodings: Encodings | None, /) -> Encodings | None:
        """Return new encodings, of which members see the levels of the same columns."""
        if encodings is None or self.encodings is None:
            return encodings
        return replace(encodings, folds=replace(encodings.folds, some=self.encodings.some))

    def members(self, task: Task, encodings: Encodings | None, /) -> list[Member]:
        """Return the members of the blend for other rows, each to be fitted to the end.

        Raises
        ------
        ValueError
            If none can be fitted again.
        """
        found = list(self._members(task, encodings))
        if not found:
            names = ", ".join(one.name for one in self.blended)
            msg = (
                f"expected members that can be refitted, got {names}, which come from a file: "
                "fit a new model with gpukfl.fit"
            )
            raise ValueError(msg)
        return found

    def _members(self, task: Task, encodings: Encodings | None) -> Iterator[Member]:
        named = isinstance(self.asked, (list, tuple))
        asked = make_members(self.asked, "quick", task) if named else []
        known = {one.name: one for one in asked}
        for one in self.blended:
            member = _make_member(one, known, task, self.own)
            if member is None:
                warn(f"the blend drops {one.name}: it cannot be refitted from a file")
                continue
            start = self._start(one, encodings)
            yield replace(member, blended=True, reference=True, like="", sees=one.sees, start=start)

    def _start(self, member: Blended, encodings: Encodings | None) -> WarmStart[Any] | None:
        """Return the mean of what the fits of a member came to, if columns are the same."""
        if encodings is not None and self.encodings is not None:
            names = [one.outputs(member.sees) for one in (self.encodings, encodings)]
            if names[0] != names[1]:
                return None
        models = [one for one in member.models if isinstance(one, Learner)]
        starts = [start for one in models if (start := one.to_warm_start()) is not None]
        found: WarmStart[Any] | None = copy_to_host(mean_start(starts))
        return found


def _make_member(
    member: Blended, known: Mapping[str, Member], task: Task, own: frozenset[str]
) -> Member | None:
    """Return a member as it was, not fitted; None where only its arrays are left."""
    if member.name in known:
        return known[member.name]
    if member.name in NAMES and member.name not in own:
        return make_members([member.name], "quick", task)[0]
    model = member.models[-1]
    if not isinstance(model, BaseEstimator):
        return None
    return Member(member.name, clone(model), model=class_name(model))
