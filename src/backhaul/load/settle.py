"""Which files are done with? Those that every destination has move from staging/ to processed/.

Asked of the state and the store anew each time: whatever a crash left half moved is moved next time.
"""

from __future__ import annotations

from dataclasses import dataclass

from backhaul.project.manifest import TableEntry
from backhaul.state.database import State
from backhaul.store.latest import ROW_KINDS
from backhaul.store.layout import STAGING, processed_path, table_prefix
from backhaul.store.store import Store


@dataclass(frozen=True)
class Mover:
    """Moves files; safe to repeat, and to run beside an export of the same table."""

    state: State
    store: Store

    def settle(self, entry: TableEntry) -> int:
        """Move what no destination of the entry waits for; how many files that were."""
        if not entry.loads:
            return 0
        # In this order: an export that has a file by now is found unfinished, or complete and needed.
        there = self._staged(entry)
        kept = self._unfinished(entry)
        needed = self._needed(entry)
        done = [path for path in there if path not in needed and not path.startswith(kept)]
        for path in done:
            self.store.move(path, processed_path(path))
        return len(done)

    def _staged(self, entry: TableEntry) -> list[str]:
        prefixes = [table_prefix(STAGING, kind, entry.name) for kind in self._kinds(entry)]
        return [file.path for prefix in prefixes for file in self.store.list(prefix)]

    def _kinds(self, entry: TableEntry) -> tuple[str, ...]:
        """Keys that none of the destinations uses are somebody else's to take."""
        uses_keys = any(load.deletes != "ignore" for load in entry.loads)
        return (*ROW_KINDS, "deletes") if uses_keys else ROW_KINDS

    def _unfinished(self, entry: TableEntry) -> tuple[str, ...]:
        """Folders that an export still writes to, or will when it is resumed."""
        known = self.state.exports.history([(entry.source, entry.name)])
        history = known[entry.source, entry.name]
        unfinished = (history.unfinished, history.unfinished_deletes)
        return tuple(f"{one.export.folder}/" for one in unfinished if one)

    def _needed(self, entry: TableEntry) -> set[str]:
        needed: set[str] = set()
        for load in entry.loads:
            name = (entry.source, entry.name, load.to, load.target)
            waiting = list(self.state.loads.waiting(*name).exports)
            if load.deletes != "ignore":
                waiting += self.state.loads.waiting_keys(*name).exports
            needed.update(file.path for one in waiting for file in one.files)
        return needed
