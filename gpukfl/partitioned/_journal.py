"""What was computed, in order, so that a part that is lost can be made again."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpukfl.partitioned._holder import Pass

_PRUNED_EVERY = 256  # passes


@dataclass(frozen=True)
class _Entry:
    offset: int
    length: int
    kept: frozenset[int]
    reads: frozenset[int]
    last_read: frozenset[int] = frozenset()  # of what was made, nothing later asks for these


class Journal:
    """Passes that left values, on disk because there are thousands; those needed can be repeated.

    What nobody can ask for again, and what only such values were made of, is forgotten.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is
        self._entries: list[_Entry] = []
        self._live: set[int] = set()

    def forget(self, freed: frozenset[int], /) -> None:
        """Note what nobody will ask for again."""
        self._live -= freed

    def add(self, work: Pass, /) -> None:
        """Note a pass that all parts have done."""
        self._live -= work.replaced
        if not work.kept:
            return
        self._live |= work.kept
        data = pickle.dumps(replace(work, asked=None))
        offset = self._file.seek(0, 2)
        self._file.write(data)
        self._entries.append(_Entry(offset, len(data), work.kept, work.reads))
        if len(self._entries) % _PRUNED_EVERY == 0:
            self._entries = self._needed()

    def passes(self) -> Iterator[Pass]:
        """Give the passes that what is alive was made by; they leave only that."""
        for entry in self._needed():
            self._file.seek(entry.offset)
            work = pickle.loads(self._file.read(entry.length))  # written by this
            yield replace(work, kept=entry.kept, replaced=entry.last_read)

    def _needed(self) -> list[_Entry]:
        made = frozenset(key for entry in self._entries for key in entry.kept)
        wanted, needed = set(self._live), []
        for entry in reversed(self._entries):
            if kept := entry.kept & wanted:
                last_read = (entry.reads & made) - wanted
                needed.append(replace(entry, kept=kept, last_read=last_read))
                wanted |= entry.reads
        return needed[::-1]

    def close(self) -> None:
        """Forget all."""
        self._file.close()
        self._entries = []
