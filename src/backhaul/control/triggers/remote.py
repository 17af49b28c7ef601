"""What do all platforms elsewhere share? Settings read into a model, clients kept per settings, and
texts in which no secret stands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, SecretStr, ValidationError

from backhaul.control.triggers.base import Fate, Job, Started, Trigger
from backhaul.errors import TerminalError, TransientError
from backhaul.project.secret import MASK
from backhaul.project.settings import Settings

_SHOWN_CHARACTERS = 400

ModelT = TypeVar("ModelT", bound=Settings)
KeyT = TypeVar("KeyT")
ClientT = TypeVar("ClientT")


class AskedToWait(TransientError):
    """The platform works, and wants to be asked later; `retry_after`: when, where it said so."""

    retry_after: timedelta | None = None


def mistakes(model: type[Settings], job: Job) -> list[str]:
    """What is wrong with the settings of a job, each mistake with its key; never a value."""
    try:
        model.model_validate(dict(job.settings))
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        return [
            f"{'.'.join(map(str, at['loc'])) or 'settings'}: {at['msg'].removeprefix('Value error, ')}"
            for at in found
        ]
    return []


def read(model: type[ModelT], job: Job) -> ModelT:
    if found := mistakes(model, job):
        raise TerminalError(
            f"the platform settings of {job.pipeline} are not valid: {'; '.join(found)}",
            remedy="correct them in the pipeline's file; `backhaul check` shows all mistakes",
        )
    return model.model_validate(dict(job.settings))


def secrets_of(value: Any) -> tuple[str, ...]:
    """Every secret in settings, however deep."""
    if isinstance(value, SecretStr):
        return (value.get_secret_value(),)
    if isinstance(value, BaseModel):
        return secrets_of([getattr(value, name) for name in type(value).model_fields])
    if isinstance(value, Mapping):
        return secrets_of(list(value.values()))
    if isinstance(value, list | tuple):
        return tuple(secret for item in value for secret in secrets_of(item))
    return ()


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text of a platform as a message may show it: one short line without our secrets."""
    # The longest first: a secret may be a part of another one.
    for secret in sorted({each for each in secrets if each}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "…"


def asked_to_wait(message: str, retry_after: timedelta | None) -> AskedToWait:
    error = AskedToWait(message)
    error.retry_after = retry_after
    return error


def unless_ended(trigger: Trigger, job: Job, started: Started, ask: Callable[[], object]) -> None:
    """Cancel; a platform that refuses to cancel what has ended did nothing wrong."""
    try:
        ask()
    except TerminalError:
        if trigger.poll(job, started).fate is Fate.RUNNING:
            raise


class Pool(Generic[KeyT, ClientT]):
    """One client per key, made when first asked for; thread-safe."""

    def __init__(self, close: Callable[[ClientT], object] = lambda _client: None) -> None:
        self._close = close
        self._clients: dict[KeyT, ClientT] = {}
        self._lock = threading.Lock()

    def get(self, key: KeyT, make: Callable[[], ClientT]) -> ClientT:
        with self._lock:
            if key in self._clients:
                return self._clients[key]
        # Made outside the lock: a platform that does not answer must not hold up the others.
        made = make()
        with self._lock:
            kept = self._clients.setdefault(key, made)
        if kept is not made:
            self._close(made)
        return kept

    def drop(self, key: KeyT, client: ClientT) -> None:
        """Forget a client that is of no use any more, unless another has taken its place."""
        with self._lock:
            if self._clients.get(key) is not client:
                return
            del self._clients[key]
        self._close(client)

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            self._close(client)
