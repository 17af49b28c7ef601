"""What waits to be loaded into a destination's table, and where do its files lie? Looks, touches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from backhaul.destinations.base import TableFacts
from backhaul.errors import FileCorrupt
from backhaul.load.plan import LoadFacts
from backhaul.project.load import LoadEntry
from backhaul.project.manifest import TableEntry
from backhaul.state.database import State
from backhaul.state.load_records import LoadFile, WaitingExport
from backhaul.store.layout import processed_path
from backhaul.store.store import Store


@dataclass(frozen=True)
class Gatherer:
    """Asks the state and the store."""

    state: State
    store: Store

    def facts(self, entry: TableEntry, load: LoadEntry, there: TableFacts | None) -> LoadFacts:
        """Everything that the plan looks at; `there` is the destination's table."""
        target = load.target
        chunks = load.when == "as_chunks_arrive"
        name = (entry.source, entry.name)
        rows = self.state.loads.waiting(*name, load.to, target, unfinished_exports=chunks)
        keys = self.state.loads.waiting_keys(*name, load.to, target)
        waiting = [self._located(entry, one) for one in rows.exports]
        return LoadFacts(
            entry=entry,
            load=load,
            waiting=waiting,
            superseded=rows.superseded,
            keys=self._located(entry, keys.exports[-1]) if keys else None,
            superseded_keys=keys.superseded,
            snapshots=self._snapshots(waiting),
            last=self.state.loads.last(load.to, target),
            exists=there is not None,
            is_empty=there is not None and there.rows == 0,
        )

    def _snapshots(self, waiting: Iterable[WaitingExport]) -> dict[str, str]:
        """At which snapshot each file was read, by where it lies now."""
        found: dict[str, str] = {}
        for one in waiting:
            for row in self.state.metadata.of_export(one.export.id):
                if row.upload_file_name:
                    found[row.upload_file_name] = row.snapshot or ""
                    found[processed_path(row.upload_file_name)] = row.snapshot or ""
        return found

    def _located(self, entry: TableEntry, one: WaitingExport) -> WaitingExport:
        """With the paths that the files have now: another consumer may have taken them."""
        here = {file.path for file in self.store.list(one.export.folder)}
        if all(file.path in here for file in one.files):
            return one
        taken = {file.path for file in self.store.list(processed_path(one.export.folder))}
        files = tuple(_found(entry, file, here, taken) for file in one.files)
        return replace(one, files=files)


def _found(entry: TableEntry, file: LoadFile, here: set[str], taken: set[str]) -> LoadFile:
    if file.path in here:
        return file
    moved = processed_path(file.path)
    if moved in taken:
        return replace(file, path=moved)
    raise FileCorrupt(
        f"{file.path} is neither under staging/ nor under processed/: somebody has deleted it",
        remedy=f"run `backhaul extract {entry.name} --full`, then load again",
    )
