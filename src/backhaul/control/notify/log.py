"""Who reads a message where no channel is set? Whoever reads backhaul's log: it is an event there."""

from __future__ import annotations

from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.render import delivery_id
from backhaul.observe.log import get_log

_GOOD = frozenset((Kind.RECOVERY, Kind.BACKFILL_DONE, Kind.TEST))


class LogChannel:
    """Events of the logger `backhaul.control.notify.log`."""

    def send(self, message: Message, notification_id: int) -> None:
        log = get_log(__name__)
        tell = log.info if message.kind in _GOOD else log.warning
        tell(
            "notification",
            kind=message.kind.value,
            title=message.title,
            text=message.text,
            pipeline=message.pipeline,
            run_id=message.run_id,
            delivery=delivery_id(message, notification_id),
        )
