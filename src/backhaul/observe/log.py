"""What happened, step by step? Quiet on the screen unless asked; JSON lines in the project.

    log = get_log(__name__)
    log.info("chunk recorded", table="orders", chunk="3", rows=250_000)

Events carry shapes, counts and ids, never values of rows. They travel through the standard
library's logging, so that a Spark task, where nobody calls `watched`, stays quiet too.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import cast

import structlog
from structlog.typing import Processor

_ROOT = "backhaul"
_FILE = Path(".backhaul") / "logs" / "backhaul.jsonl"
_FILE_BYTES, _FILE_COUNT = 5_000_000, 3
_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)

logging.getLogger(_ROOT).addHandler(logging.NullHandler())


def get_log(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module."""
    wrapped = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return cast("structlog.stdlib.BoundLogger", wrapped)


@contextmanager
def watched(command: str, folder: Path, verbose: int = 0) -> Iterator[None]:
    """For one command: JSON lines into the project's folder, and onto the screen with -v or -vv."""
    root = logging.getLogger(_ROOT)
    handlers = [_screen_handler(verbose)] if verbose else []
    file_handler = _file_handler(folder)
    handlers += [file_handler] if file_handler else []
    before = root.level
    root.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    for handler in handlers:
        root.addHandler(handler)
    log = get_log(__name__)
    try:
        log.info("command began", command=command)
        yield
        log.info("command ended", command=command)
    except BaseException as error:
        # The screen gets two lines without a traceback; whoever has to find out why needs it.
        log.info("command stopped", command=command, error=type(error).__name__, exc_info=True)
        raise
    finally:
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


def _screen_handler(verbose: int) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=30)
    handler.setFormatter(_formatter(renderer))
    return handler


def _file_handler(folder: Path) -> logging.Handler | None:
    """None without a project, or where we may not write: a log stops nothing."""
    if not (folder / "backhaul.yml").exists():
        return None
    try:
        (folder / _FILE).parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            folder / _FILE, maxBytes=_FILE_BYTES, backupCount=_FILE_COUNT, encoding="utf-8"
        )
    except OSError:
        return None
    handler.setFormatter(_formatter(structlog.processors.JSONRenderer(ensure_ascii=False)))
    return handler


def _formatter(renderer: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=_SHARED,
    )
