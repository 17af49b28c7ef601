"""What can a destination do, and what must the loader do for it? Plain facts, no code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What differs between destinations; everything that is not here, each of them can do."""

    audits_target: bool
    """The table can be queried as it would be, before anybody else sees it (a branch)."""

    takes_files: bool
    """Staged Parquet files can go into the table as they are, without passing through Spark's rows."""

    rolls_back: bool
    """An earlier load's table can be brought back."""

    needs_maintenance: bool
    """Small files and old snapshots pile up until somebody compacts and expires them."""

    partitions: bool
    """New tables are made as `partition_by` says; elsewhere it is passed over."""

    checks_keys: bool
    """It refuses NULLs and duplicates in the merge key itself; elsewhere the loader asks what was
    written."""
