"""How does a command end when something fails? What failed, what to do, and the exit code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from backhaul.errors import BackhaulError, ConfigError, ExitCode

if TYPE_CHECKING:
    from backhaul.cli.screen import Screen


@contextmanager
def boundary(screen: Screen, *, debug: bool = False, as_json: bool = False) -> Iterator[None]:
    """Every command's body runs in here."""
    try:
        yield
    except BackhaulError as error:
        _tell(screen, error, debug, as_json)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        screen.warn("interrupted")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug is told, not thrown
        _tell(screen, _bug(error), debug, as_json)
        raise typer.Exit(ExitCode.FAILED) from None


def _bug(error: Exception) -> BackhaulError:
    return BackhaulError(
        f"backhaul itself failed: {type(error).__name__}: {error}",
        remedy="this is a mistake in backhaul; run the command again with --debug and report it",
    )


def _tell(screen: Screen, error: BackhaulError, debug: bool, as_json: bool) -> None:
    if debug:
        screen.err.file.write(traceback.format_exc())
    if as_json:
        screen.document({"error": error_dict(error), "exit_code": error.exit_code})
        return
    if isinstance(error, ConfigError):
        for finding in error.findings:
            screen.finding(finding, trouble=True)
    screen.error(error.message, error.remedy)


def error_dict(error: BackhaulError) -> dict[str, Any]:
    """The shape that `--json` prints for an error that stops the whole command."""
    findings = error.findings if isinstance(error, ConfigError) else ()
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "retry": error.retry.value,
        "findings": [finding.as_dict() for finding in findings],
    }
