"""When does a table of the lake need care, and what is done then?

Loads leave small files, deleted rows that are still in theirs, and snapshots that nobody goes back to.
Each kind of care costs a job, so it is done past a threshold only, or when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from backhaul.destinations.base import Maintained, MaintainPolicy, Target
from backhaul.destinations.iceberg import sql
from backhaul.destinations.iceberg.client import Statements
from backhaul.destinations.iceberg.look import Description, describe, read_snapshots
from backhaul.spark.sql import quote_literal

if TYPE_CHECKING:
    from pyspark.sql import Row

# Smaller ones are worth joining.
SMALL_BYTES = 32 * 1024 * 1024
# Younger files may belong to a writer that has not committed; Iceberg refuses less.
_ORPHAN_AGE = timedelta(hours=25)
_MANIFESTS = 50
# A table that small is read as quickly with its deleted rows as without.
_FEW_ROWS = 10_000


@dataclass(frozen=True)
class Wear:
    """How a table is. `small` counts the small files that could be joined with another."""

    small: int
    rows: int
    deleted: int
    manifests: int
    old_snapshots: int

    @property
    def delete_share(self) -> float:
        return self.deleted / self.rows if self.deleted > _FEW_ROWS else 0.0


@dataclass
class Care:
    """Maintenance of one table."""

    statements: Statements
    target: Target
    policy: MaintainPolicy

    def run(self) -> Maintained:
        there = describe(self.statements, self.target)
        wear = self._wear(there)
        files, snapshots = self._why_files(wear), self._why_snapshots(wear)
        compacted = self._compact(there, wear) if files else 0
        before = self._bytes() if snapshots else 0
        expired = self._expire() if snapshots else 0
        orphans = self._remove_orphans() if snapshots else 0
        freed = max(0, before - self._bytes()) if snapshots else 0
        reason = "; ".join(dict.fromkeys(filter(None, [files, snapshots])))
        return Maintained(self.target, compacted, expired, orphans, freed, reason)

    def _why_files(self, wear: Wear) -> str:
        if self.policy.force:
            return "asked for"
        if wear.small > self.policy.max_small_files:
            return f"{wear.small} small files"
        if wear.delete_share > self.policy.max_delete_share:
            return f"{wear.delete_share:.0%} of the rows in its files are deleted"
        return ""

    def _why_snapshots(self, wear: Wear) -> str:
        if self.policy.force:
            return "asked for"
        many = wear.old_snapshots > self.policy.min_snapshots
        return f"{wear.old_snapshots} snapshots past their time" if many else ""

    def _wear(self, there: Description) -> Wear:
        files = self.statements.run(
            f"SELECT coalesce(sum(greatest(small - 1, 0)), 0), coalesce(sum(records), 0), "
            f"coalesce(sum(gone), 0) FROM (SELECT "
            f"count_if(content = 0 AND file_size_in_bytes < {SMALL_BYTES}) AS small, "
            "sum(if(content = 0, record_count, 0)) AS records, "
            "sum(if(content <> 0, record_count, 0)) AS gone "
            f"FROM {self._part('files')}{' GROUP BY partition' if there.partitioned else ''})"
        )[0]
        manifests = self.statements.run(f"SELECT count(*) FROM {self._part('manifests')}")[0][0]
        old = self.statements.run(
            f"SELECT count(*) FROM {self._part('snapshots')} "
            f"WHERE committed_at < {_ago(self.policy.keep_snapshots)}"
        )[0][0]
        return Wear(int(files[0]), int(files[1]), int(files[2]), int(manifests), int(old))

    def _compact(self, there: Description, wear: Wear) -> int:
        """Small files joined, files with many deleted rows written anew; the table's order is kept."""
        options = {
            "min-input-files": "2",
            "delete-ratio-threshold": str(self.policy.max_delete_share),
            "remove-dangling-deletes": "true",
        }
        if self.policy.force:
            options |= {"delete-file-threshold": "1"}
        strategy = "sort" if there.clustered else "binpack"
        rows = self._call(
            "rewrite_data_files",
            strategy=quote_literal(strategy),
            options=sql.options(options),
        )
        if there.format_version < 3:
            self._call("rewrite_position_delete_files")
        if wear.manifests > _MANIFESTS:
            self._call("rewrite_manifests")
        return sum(int(row["rewritten_data_files_count"]) for row in rows)

    def _expire(self) -> int:
        """Snapshots past their time, but never the one that holds the table's position."""
        snapshots = read_snapshots(self.statements, self.target)
        keep = max(self.policy.min_snapshots, snapshots.back_to_load("main"), 1)
        cut = self._at(self.policy.keep_snapshots)
        before = len(snapshots.all)
        self._call("expire_snapshots", older_than=cut, retain_last=str(keep))
        return before - len(read_snapshots(self.statements, self.target).all)

    def _remove_orphans(self) -> int:
        age = max(self.policy.orphan_age, _ORPHAN_AGE)
        return len(self._call("remove_orphan_files", older_than=self._at(age)))

    def _bytes(self) -> int:
        row = self.statements.run(
            "SELECT coalesce(sum(bytes), 0) FROM (SELECT DISTINCT file_path, file_size_in_bytes "
            f"AS bytes FROM {self._part('all_files')})"
        )[0]
        return int(row[0])

    def _call(self, procedure: str, **arguments: str) -> list[Row]:
        text = sql.call(self.statements.catalog, procedure, self.target, **arguments)
        return self.statements.run(text)

    def _part(self, part: str) -> str:
        return sql.table(self.statements.catalog, self.target, part)

    def _at(self, age: timedelta) -> str:
        """A moment ago, as a literal: procedures take no expression. The clock is Spark's."""
        row = self.statements.run(f"SELECT CAST({_ago(age)} AS string)")[0]
        return f"TIMESTAMP {quote_literal(f'{row[0]}Z')}"


def _ago(age: timedelta) -> str:
    return f"(current_timestamp() - INTERVAL '{age.total_seconds():.6f}' SECOND)"
