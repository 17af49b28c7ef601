"""Who may come in, and how is that changed? Tokens are shown once, and never again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from backhaul.web.api.shapes import Changed
from backhaul.web.api.types import Given, Page, Shown
from backhaul.web.auth import Asking, Role
from backhaul.web.problems import responses
from backhaul.web.route import GuardedRoute, Serving, needs

router = APIRouter(route_class=GuardedRoute, responses=responses(), tags=["tokens"])
_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}$"


class TokenGiven(Given):
    """Who, and what they may do."""

    token_name: Annotated[str, Field(pattern=_PATTERN)]
    role: Role


class TokenShown(Shown):
    """A row of `api_tokens`, without the hash."""

    token_name: str
    role: str
    created_at: datetime
    revoked_at: datetime | None


class TokenMade(TokenShown):
    """`token` is shown this once: keep it."""

    token: str


@router.get("/tokens", openapi_extra=needs(Role.ADMIN))
def list_tokens(services: Serving) -> Page[TokenShown]:
    """By name; with those that were revoked."""
    return Page(items=[TokenShown.model_validate(one) for one in services.tokens.list()])


@router.post("/tokens", status_code=201, openapi_extra=needs(Role.ADMIN))
def create_token(services: Serving, person: Asking, given: TokenGiven) -> TokenMade:
    """Make a token."""
    token, text = services.tokens.create(given.token_name, given.role, actor=person.name)
    return TokenMade(**TokenShown.model_validate(token).__dict__, token=text)


@router.delete("/tokens/{token_name}", openapi_extra=needs(Role.ADMIN))
def revoke_token(
    services: Serving, person: Asking, token_name: Annotated[str, Path(pattern=_PATTERN)]
) -> Changed:
    """From now on nobody comes in with it."""
    services.tokens.revoke(token_name, actor=person.name)
    return Changed(changed=1)
