"""What is answered when something is wrong? One shape for all of it: {error, remedy, findings}.

The status says whose turn it is: 404 nothing has that name; 409 well said, and does not go together
with how things stand (a state machine's refusal too); 422 the request itself is wrong; 503 the state
does not answer, and the same request may work later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from backhaul.errors import BackhaulError, ConfigError, Conflict, NotFound, TransientError
from backhaul.observe.log import get_log
from backhaul.state.jsonable import plain_text

RETRY_AFTER_SECONDS = 5
_MOST_FINDINGS, _MOST_CHARACTERS = 50, 2_000
_log = get_log(__name__)


class FoundWrong(BaseModel):
    """One thing that is wrong; `where` is a key path of the request."""

    code: str
    message: str
    remedy: str | None = None
    where: str | None = None


class Problem(BaseModel):
    """Why a request was not done, and what to do about it."""

    error: str = Field(description="what is wrong")
    remedy: str | None = Field(default=None, description="what to do about it")
    findings: list[FoundWrong] = Field(default_factory=list)


class Refused(Exception):
    """A request that is not even looked at."""

    def __init__(self, status: int, error: str, remedy: str | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.remedy = status, error, remedy


@contextmanager
def as_conflict() -> Iterator[None]:
    """Around what was found well said: what is refused now is refused for how things stand."""
    try:
        yield
    except (NotFound, Conflict):
        raise
    except ConfigError as error:
        raise Conflict(error.message, findings=error.findings, remedy=error.remedy) from error


def answers_to_problems(app: FastAPI) -> None:
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BackhaulError, _ours)
    app.add_exception_handler(psycopg.Error, _database)
    app.add_exception_handler(Exception, _fault)


def responses(*more: int) -> dict[int | str, dict[str, Any]]:
    """What every endpoint may answer beside its own, for the schema."""
    statuses = (400, 401, 403, 404, 409, 413, 422, 503, *more)
    return {status: {"model": Problem, "description": _phrase(status)} for status in statuses}


def problem(
    status: int,
    error: str,
    remedy: str | None = None,
    findings: Sequence[FoundWrong] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    found = [one.model_dump() for one in findings[:_MOST_FINDINGS]]
    more = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": str(RETRY_AFTER_SECONDS)}}
    body = {"error": _short(error), "remedy": remedy and _short(remedy), "findings": found}
    return JSONResponse(body, status, {**more.get(status, {}), **(headers or {})})


def status_of(error: BaseException) -> int:
    """Of an error of ours or of the database's; its cause counts where it is only translated."""
    match error:
        case NotFound():
            return 404
        case Conflict():
            return 409
        case ConfigError():
            return 422
        case psycopg.errors.IntegrityError():
            return 409
        case psycopg.DataError():
            return 422
        case TransientError() if isinstance(error.__cause__, psycopg.Error):
            return status_of(error.__cause__)
        case TransientError() | psycopg.Error():
            return 503
    return 500


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return problem(error.status, error.error, error.remedy)


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = str(error.detail) if error.detail else _phrase(error.status_code)
    return problem(error.status_code, detail, headers=error.headers)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # What was given is never said back: it may be a secret, and it may be no text at all.
    found = [
        FoundWrong(
            code=one["type"],
            message=_short(one["msg"].removeprefix("Value error, ")),
            where=_short(".".join(str(step) for step in one["loc"])),
        )
        for one in error.errors()
    ]
    first = f"{found[0].where}: {found[0].message}" if found else "the request is not valid"
    return problem(422, first, "see `findings`, and /api/openapi.json", found)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BackhaulError)
    status = status_of(error)
    findings = error.findings if isinstance(error, ConfigError) else ()
    found = [
        FoundWrong(
            code=one.code,
            message=_short(one.message),
            remedy=one.remedy and _short(one.remedy),
            where=one.place.key_path if one.place else one.subject,
        )
        for one in findings
    ]
    if status in (409, 422) and isinstance(error, TransientError):
        return problem(status, _primary(error.__cause__))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.warning("request failed", status=status, error=type(error).__name__)
    return problem(status, error.message, error.remedy, found)


async def _database(_request: Request, error: Exception) -> JSONResponse:
    status = status_of(error)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        _log.warning("the state does not answer", error=type(error).__name__)
        return problem(status, "the state's database does not answer", "try again in a moment")
    return problem(status, _primary(error))


async def _fault(_request: Request, error: Exception) -> JSONResponse:
    _log.error("a request failed", error=type(error).__name__)
    return problem(500, "backhaul itself failed", "this is a mistake in backhaul; see its log")


def _primary(error: BaseException | None) -> str:
    """What PostgreSQL says, without the row that it says it of."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return said or "the state refuses a value"


def _short(text: str) -> str:
    return plain_text(text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…")


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
