"""Every error that backhaul raises on purpose, drawn once. Does a retry help, and what should the reader do?

BackhaulError
├── ConfigError            what the user wrote is wrong; carries every finding at once
│   ├── NotFound           nothing has that name
│   └── Conflict           it is well said, and does not go together with how things stand
├── TransientError         the same call may work later
│   ├── SourceUnavailable  the source cannot be reached, or went away mid-way
│   ├── SnapshotLost       the exported snapshot is gone: the holder of the transaction died
│   ├── StoreUnavailable
│   ├── StateUnavailable
│   └── DestinationUnavailable
├── TerminalError          the same call fails again until something else changes
│   ├── TableMissing, ColumnMissing, PrivilegeMissing, QueryInvalid, ValueUnreadable
│   ├── StoreRefused       full, read-only, or no right to write
│   ├── FileCorrupt        a Parquet file that cannot be read
│   ├── DestinationRefused no right to write there, or a statement that it does not take
│   ├── SchemaIncompatible the staged columns do not fit the target's
│   ├── MergeKeyInvalid    NULLs or duplicates where a merge needs one row per key
│   ├── CheckInvalid       a check that cannot be asked: no such column, SQL that does not compile
│   ├── ChecksFailed       checks that stop a load, before anything is published
│   ├── GuardTripped       more rows would be deleted than the settings allow
│   ├── BudgetExceeded     a load that would use more than its budget
│   └── NotSupported       what this destination cannot do
└── NeedsOperator          the machine or the setup lacks something
    ├── ExtraMissing, JavaMissing, PackageMissing, ServerMissing
    └── LeaseHeld          another command works on the same table
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.findings import Finding


class Retry(Enum):
    """Whether doing the same again can help."""

    LATER = "later"
    NEVER = "never"
    AFTER_OPERATOR = "after_operator"


class ExitCode:
    """What a command's exit code says to a program."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NEEDS_OPERATOR = 3
    INTERRUPTED = 130


class BackhaulError(Exception):
    """Root of the tree. The message says what failed and the value seen; `remedy` what to do."""

    retry: Retry = Retry.NEVER
    exit_code: int = ExitCode.FAILED

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Spark pickles errors across processes; keyword-only arguments need help to survive that.
        return (_rebuild, (type(self), self.message, self.remedy))


def _rebuild(kind: type[BackhaulError], message: str, remedy: str | None) -> BackhaulError:
    error = kind.__new__(kind)
    BackhaulError.__init__(error, message, remedy=remedy)
    return error


class ConfigError(BackhaulError):
    """The project's files are wrong; `findings` holds every mistake, each with file, line and key path."""

    exit_code = ExitCode.USAGE
    findings: Sequence[Finding] = ()

    def __init__(
        self, message: str, *, findings: Sequence[Finding] = (), remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.findings = tuple(findings)


class NotFound(ConfigError):
    """Nothing has the name, or the id, that was given."""


class Conflict(ConfigError):
    """What is asked is well said, and does not go together with how things stand."""


class TransientError(BackhaulError):
    """The same call may work later."""

    retry = Retry.LATER


class SourceUnavailable(TransientError):
    """The source cannot be reached, or went away mid-way."""


class SnapshotLost(TransientError):
    """The exported snapshot is gone, because the transaction that exported it ended."""


class StoreUnavailable(TransientError):
    """The object store does not answer."""


class StateUnavailable(TransientError):
    """backhaul's own database does not answer."""


class DestinationUnavailable(TransientError):
    """A destination cannot be reached, or went away mid-way."""


class TerminalError(BackhaulError):
    """The same call fails again until something else changes."""


class TableMissing(TerminalError):
    """A table of the manifest is not in the source."""


class ColumnMissing(TerminalError):
    """A column of the manifest is not in the source's table."""


class PrivilegeMissing(TerminalError):
    """The source's user may not read what the manifest asks for."""


class QueryInvalid(TerminalError):
    """A query of the manifest does not parse, or the source refuses it."""


class ValueUnreadable(TerminalError):
    """A value that no policy covers; never guessed, never skipped."""


class StoreRefused(TerminalError):
    """The store is full, read-only, or refuses our credentials."""


class FileCorrupt(TerminalError):
    """A file in the store is not the Parquet file that its name promises."""


class DestinationRefused(TerminalError):
    """A destination does not let us write, or does not take a statement."""


class SchemaIncompatible(TerminalError):
    """The staged columns do not fit the target's, and no setting permits the cast."""


class MergeKeyInvalid(TerminalError):
    """A merge key has NULLs or duplicates: which row is meant cannot be told."""


class CheckInvalid(TerminalError):
    """A check that cannot be asked: a column that is not there, SQL that does not compile."""


class ChecksFailed(TerminalError):
    """Checks failed whose failure stops a load; readers keep what they had."""


class GuardTripped(TerminalError):
    """More rows would be deleted than `max_delete_share` allows."""


class BudgetExceeded(TerminalError):
    """A load would use more than its budget; nothing was published."""


class NotSupported(TerminalError):
    """What this destination cannot do."""


class NeedsOperator(BackhaulError):
    """The machine or the setup lacks something that a person must give."""

    retry = Retry.AFTER_OPERATOR
    exit_code = ExitCode.NEEDS_OPERATOR


class ExtraMissing(NeedsOperator):
    """An optional driver is not installed; the message names the extra."""


class JavaMissing(NeedsOperator):
    """No Java that Spark works on."""


class PackageMissing(NeedsOperator):
    """A jar or server archive cannot be fetched, or is not the one we pinned."""


class ServerMissing(NeedsOperator):
    """The embedded PostgreSQL cannot be started here."""


class LeaseHeld(NeedsOperator):
    """Another command holds what this one needs."""
