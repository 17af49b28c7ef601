"""How does each message reach its channel at least once, and the same event nobody twice?

    enqueue(connection, message=…, channels=…, pipeline_id=…, now=…)   in the transaction of the news
    Sender(connect, channels, config, clock).send_due(limit)           as often as something is due

A message is in the same commit as what it tells of: neither is there without the other. It is sent
outside of any transaction. A sender that dies between sending and marking leaves a row whose lease
ends; it is then sent again, under the same delivery id.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from psycopg.types.json import Jsonb

from backhaul.clock import Clock
from backhaul.control.notify.base import Channel, Message
from backhaul.control.notify.claims import SQL, Claimed, Claims, Pace, stored_message
from backhaul.control.notify.config import NotifyConfig
from backhaul.control.notify.recipients import Recipient
from backhaul.control.notify.render import TEXT_CHARACTERS, TITLE_CHARACTERS, render
from backhaul.control.notify.text import clean, one_line
from backhaul.errors import BackhaulError, TransientError
from backhaul.observe.log import get_log
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain, plain_text
from backhaul.state.session import Connection

# Longer than any channel takes to answer or to give up.
LEASE = timedelta(minutes=10)
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=1)
MAX_ATTEMPTS = 10
# After a failure, before the channel is asked with another message.
REST = timedelta(minutes=1)
_KEY_CHARACTERS = 500
_ERROR_CHARACTERS = 1000

log = get_log(__name__)


def enqueue(
    connection: Connection,
    *,
    message: Message,
    channels: Sequence[Recipient | str],
    pipeline_id: int | None,
    now: datetime,
) -> int:
    """Rows for the channels that want this kind and do not have the event; how many are new."""
    asked = [Recipient(one) if isinstance(one, str) else one for one in channels]
    wanted = {one.channel: one for one in asked if one.wants(message.kind)}
    if not wanted:
        return 0
    bounded = _bounded(message)
    stored = [Jsonb(plain(stored_message(bounded, to=one.to, also=one.also)))
              for one in wanted.values()]  # fmt: skip
    values = {
        "pipeline_id": pipeline_id,
        "run_id": message.run_id,
        "kind": message.kind.value,
        "event_key": _key(message.event_key),
        "channels": list(wanted),
        "messages": stored,
        "now": now,
    }
    new = len(connection.execute(SQL["add"], values).fetchall())
    if new:
        connection.execute(SQL["tell"])
    return new


class Sender:
    """Sends what is due. Any number of them work side by side, in any number of processes."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        channels: Mapping[str, Channel],
        config: NotifyConfig,
        clock: Clock,
        *,
        name: str | None = None,
    ) -> None:
        self._connect = connect
        self._channels = channels
        self._settings = config.known
        self._clock = clock
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"

    def send_due(self, limit: int = 100) -> int:
        """Try at most so many messages, the channels in turn; how many were sent."""
        tried = sent = 0
        with translated("send notifications"), closing(self._connect()) as connection:
            claims = Claims(connection, self._name, LEASE)
            waiting = deque(claims.channels(self._clock.now()))
            while waiting and tried < limit:
                channel = waiting.popleft()
                claimed = claims.take(channel, self._pace(channel), self._clock.now())
                if claimed is None:
                    continue
                tried += 1
                if self._handled(claims, claimed):
                    sent += 1
                waiting.append(channel)
        return sent

    def next_due(self) -> datetime | None:
        """When `send_due` is worth calling again, unless something is added before."""
        with translated("look for notifications"), closing(self._connect()) as connection:
            return Claims(connection, self._name, LEASE).next_due()

    def _handled(self, claims: Claims, claimed: Claimed) -> bool:
        """Send it and write down what came of it; whether it is sent."""
        problem = self._problem(claimed)
        if problem is not None:
            self._give_up(claims, claimed, problem)
            return False
        try:
            self._send(claimed)
        except TransientError as error:
            self._try_again(claims, claimed, error)
        except BackhaulError as error:
            self._give_up(claims, claimed, str(error))
        except Exception as error:  # noqa: BLE001 - one message must not keep all others
            self._try_again(claims, claimed, error)
        else:
            ours = claims.sent(claimed, self._clock.now())
            log.info("notification sent", ours=ours, **_about(claimed))
            return True
        return False

    def _send(self, claimed: Claimed) -> None:
        template = self._settings[claimed.channel].template
        outgoing = render(claimed.message, template, to=claimed.to, also=claimed.also)
        self._channels[claimed.channel].send(outgoing, claimed.notification_id)

    def _problem(self, claimed: Claimed) -> str | None:
        if claimed.channel not in self._channels or claimed.channel not in self._settings:
            return (
                f"there is no channel {claimed.channel!r}; define it in `notify.channels`, or correct "
                f"the pipeline's notification_channel (valid: {', '.join(self._settings)})"
            )
        if claimed.attempts > MAX_ATTEMPTS:
            return f"given up after {MAX_ATTEMPTS} attempts, of which the last did not come back"
        return claimed.problem

    def _try_again(self, claims: Claims, claimed: Claimed, error: Exception) -> None:
        said = str(error) if isinstance(error, BackhaulError) else _unexpected(error)
        if claimed.attempts >= MAX_ATTEMPTS:
            self._give_up(claims, claimed, f"given up after {claimed.attempts} attempts: {said}")
            return
        now = self._clock.now()
        asked = getattr(error, "retry_after", None) or timedelta()
        at = now + max(backoff(claimed.attempts), asked)
        rest = max(now + asked, min(at, now + REST))
        claims.again(claimed, clean(said, _ERROR_CHARACTERS), at, rest)
        log.warning("notification waits", error=one_line(said, 300), **_about(claimed))

    def _give_up(self, claims: Claims, claimed: Claimed, said: str) -> None:
        claims.failed(claimed, clean(said, _ERROR_CHARACTERS))
        log.warning("notification failed", error=one_line(said, 300), **_about(claimed))

    def _pace(self, channel: str) -> Pace:
        settings = self._settings.get(channel)
        return Pace(settings.rate, settings.folds) if settings else Pace()


def backoff(attempts: int) -> timedelta:
    """How long after so many attempts: 30 s, and twice as long each time, up to an hour."""
    # The power is bounded too, or a number that somebody wrote would overflow.
    times: int = 2 ** min(max(attempts - 1, 0), 20)
    return min(FIRST_WAIT * times, LONGEST_WAIT)


def _bounded(message: Message) -> Message:
    return replace(
        message,
        title=plain_text(one_line(message.title, TITLE_CHARACTERS)),
        text=plain_text(clean(message.text, TEXT_CHARACTERS)),
    )


def _key(event_key: str) -> str:
    """The key, or a hash of one that an index would not take."""
    key = plain_text(event_key)
    if len(key) <= _KEY_CHARACTERS:
        return key
    return f"{key[:200]}…{sha256(key.encode()).hexdigest()}"


def _unexpected(error: Exception) -> str:
    # Its text may hold anything, an address with its secret too.
    return f"the channel failed in a way that it should not: {type(error).__name__}"


def _about(claimed: Claimed) -> dict[str, object]:
    return {
        "notification_id": claimed.notification_id,
        "channel": claimed.channel,
        "kind": claimed.message.kind.value,
        "attempt": claimed.attempts,
    }
