"""Which schema does a target have since this load, and why may a load not begin at all?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from backhaul.errors import SchemaIncompatible
from backhaul.schema import diff
from backhaul.schema.evolve import Evolution, Problem, side_by_side
from backhaul.schema.model import TableSchema
from backhaul.state.load_records import SchemaVersion
from backhaul.state.schema_versions import SchemaVersions


def register(
    schemas: SchemaVersions,
    destination: str,
    target: object,
    evolution: Evolution,
    staged: TableSchema,
    load_id: int | None,
) -> SchemaVersion | None:
    """Write the target's schema down if it is another than the last that is known.

    Harmless to repeat. Keys do not count: a load of deletes alone, or of a `select:`, knows none.
    """
    known = schemas.latest(destination, str(target))
    if known is not None and not diff.compare(known.schema, evolution.table):
        return None
    return schemas.add(
        destination,
        str(target),
        schema=evolution.table,
        staged=staged,
        verdict=evolution.verdict,
        changes=_changes(known, evolution),
        load_id=load_id,
    )


def refuse(evolution: Evolution, target: object) -> None:
    """Raise where the staged columns do not fit; called before anything is written."""
    if not evolution.problems:
        return
    assert evolution.before is not None  # a new table has no problems
    said = "; ".join(
        f"{problem.column} is {problem.before}, staged as {problem.after}"
        for problem in evolution.problems
    )
    raise SchemaIncompatible(
        f"the staged columns do not fit {target}: {said}\n"
        f"{side_by_side(evolution.before, evolution.staged)}",
        remedy=_remedy(evolution.problems),
    )


def _remedy(problems: tuple[Problem, ...]) -> str:
    casts = [problem.column for problem in problems if problem.setting]
    others = [problem.column for problem in problems if not problem.setting]
    parts = []
    if casts:
        parts.append(
            f"permit the cast to the target's type with `allow_casts: [{', '.join(map(_quoted, casts))}]` "
            "beside `table:`, or change the target's type"
        )
    if others:
        parts.append(
            f"there is no cast for {', '.join(others)}: compute the target's type in `select:`, "
            "or drop the target's column and load the table anew"
        )
    return "; ".join(parts)


def _quoted(name: str) -> str:
    """As a YAML list takes it."""
    if name.isidentifier():
        return name
    doubled = name.replace("'", "''")
    return f"'{doubled}'"


def _changes(known: SchemaVersion | None, evolution: Evolution) -> dict[str, Any]:
    """Against the last version; the missing and the cast columns are this batch's."""
    before = known.schema if known else TableSchema(())
    found = diff.compare(before, evolution.table)
    return {
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": [asdict(change) for change in found.changed],
        "missing": [column.name for column in evolution.missing],
        "casts": [column.name for column in evolution.casts],
    }
