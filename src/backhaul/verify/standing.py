"""How far is a target, row by row? From its loads in the state: the snapshot and the watermark that it has.

Not simply the last load's position: a load of keys alone, or of a window of the past, brings no newer
rows, and the chunks of an export that was resumed were read at several instants, of which the oldest
is what all of its rows have.
"""

from __future__ import annotations

from backhaul.state.database import State
from backhaul.state.load_records import SETTLED, LoadRow
from backhaul.state.records import ExportRow

_LOOK_BACK = 200


def standing(state: State, destination: str, target: str) -> dict[str, str] | None:
    """`load-id` of the last load, `snapshot` and `watermark` of the last that brought all new rows."""
    history = state.loads.history(destination=destination, target=target, limit=_LOOK_BACK)
    loads = [load for load in history if load.status in SETTLED]
    if not loads:
        return None
    found = {"load-id": str(loads[0].load_id)}
    for load in loads:
        export = _newest_rows(state, load)
        if export is not None:
            known = {"snapshot": _oldest_snapshot(state, export), "watermark": load.watermark}
            return found | {name: value for name, value in known.items() if value is not None}
    return found


def _newest_rows(state: State, load: LoadRow) -> ExportRow | None:
    exports = [state.exports.get(number) for number in sorted(load.exports, reverse=True)]
    regular = [one for one in exports if one and one.kind != "deletes" and not one.past_window]
    return regular[0] if regular else None


def _oldest_snapshot(state: State, export: ExportRow) -> str | None:
    chunks = [row.snapshot for row in state.metadata.of_export(export.id) if row.snapshot]
    known = chunks or ([export.snapshot] if export.snapshot else [])
    return min(known, key=lambda text: int(text.split(":")[0]), default=None)
