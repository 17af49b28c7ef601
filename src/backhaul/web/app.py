"""How does the control plane answer over HTTP? `make_app` puts the subjects together."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from backhaul import __version__
from backhaul.web.api import backfills, dates, health, logs, pipelines, runs, tokens
from backhaul.web.limits import Limits
from backhaul.web.problems import answers_to_problems
from backhaul.web.services import Services

__all__ = ["API", "Services", "make_app"]

API = "/api"
_SUBJECTS = (pipelines, dates, runs, backfills, logs, health, tokens)


def make_app(services: Services) -> FastAPI:
    """The application over these services; it holds nothing of its own."""
    app = FastAPI(
        title="backhaul",
        version=__version__,
        description=f"The control plane of {services.project}.",
        # FastAPI's own pages load their scripts from elsewhere: the schema alone is served.
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        # A redirect would repeat a Host header that nobody has looked at.
        redirect_slashes=False,
    )
    app.state.services = services
    answers_to_problems(app)
    for subject in _SUBJECTS:
        app.include_router(subject.router, prefix=API)
    app.add_middleware(Limits)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """The schema, with how a request says who asks."""

    def described() -> dict[str, Any]:
        if not app.openapi_schema:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            parts = schema.setdefault("components", {})
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
