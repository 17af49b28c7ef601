"""Who asks, and may they? A token says so; on this machine alone, being on it may be enough.

A browser on this machine runs pages of anybody, so that being on it is not enough by itself: the
request must name this machine as its host (a page whose name was pointed at 127.0.0.1 names its own),
and what changes something must not come from another site's page. A proxy makes everybody local, so
what came through one needs a token too.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from backhaul.control.callbacks import callback_token
from backhaul.control.tokens import Role
from backhaul.web.problems import Refused
from backhaul.web.services import Services

__all__ = [
    "Asking",
    "Person",
    "Reporting",
    "Role",
    "admit",
    "attempt_of_job",
    "callback_token",
    "is_loopback",
]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PROXIED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_MAKE_ONE = (
    "send `Authorization: Bearer bh_…`; `backhaul token create NAME --role viewer` makes one"
)


@dataclass(frozen=True)
class Person:
    """Who asks: a token's name, or `local:` and the user that the server runs as."""

    name: str
    role: Role


def admit(request: Request, services: Services, needed: Role) -> Person:
    """Whoever asks, if they may do this; Refused otherwise."""
    person = _person(request, services)
    if not person.role.includes(needed):
        raise Refused(
            403,
            f"this needs the role {needed.value}, and {person.name} is {person.role.value}",
            "ask an admin for a token with that role",
        )
    return person


def _person(request: Request, services: Services) -> Person:
    if "authorization" not in request.headers:
        return _local(request, services)
    token = services.tokens.find(bearer(request))
    if token is None:
        raise Refused(401, "the token is not known, or was revoked", _MAKE_ONE)
    return Person(token.token_name, Role(token.role))


def bearer(request: Request) -> str:
    """The token of a request; Refused if it has none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Refused(401, "this needs a token", _MAKE_ONE)
    return text.strip()


def attempt_of_job(request: Request, services: Services) -> int:
    """The attempt of the path's run that a request's token is for; Refused for any other token."""
    run_id = request.path_params.get("run_id", "").lower()
    attempt = services.callbacks.attempt_of(bearer(request), run_id)
    if attempt is None:
        raise Refused(401, "the token is not of this run", "send the one that the job was given")
    return attempt


def _local(request: Request, services: Services) -> Person:
    proxied = any(name in request.headers for name in _PROXIED)
    here = request.client is not None and is_loopback(request.client.host)
    if not services.loopback_is_trusted or proxied or not here:
        raise Refused(401, "this needs a token", _MAKE_ONE)
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not is_loopback(_host_of(hosts[0])):
        raise Refused(
            403,
            "without a token, the Host header must name this machine",
            "ask http://127.0.0.1 or http://localhost, or send a token",
        )
    if request.method not in SAFE and _is_cross_site(request, hosts[0]):
        raise Refused(403, "a page of another site cannot change anything here", _MAKE_ONE)
    return Person(f"local:{services.user}", Role.ADMIN)


def _is_cross_site(request: Request, host: str) -> bool:
    """Browsers say where a change comes from; programs say nothing."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origins = request.headers.getlist("origin")
    return any(origin.lower() != f"{request.url.scheme}://{host}".lower() for origin in origins)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(header: str) -> str:
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port  # a ValueError where it is none
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.netloc == header and "@" not in header else ""


async def _asking(request: Request) -> Person:
    person: Person = request.state.person
    return person


async def _attempt(request: Request) -> int:
    attempt: int = request.state.attempt
    return attempt


Asking = Annotated[Person, Depends(_asking)]
Reporting = Annotated[int, Depends(_attempt)]
