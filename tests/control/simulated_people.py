"""What do people do to a simulated control plane? Ask, pause, cancel, and edit with psql."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backhaul.control.backfills import Which, Wish
from backhaul.control.records import ACTIVE
from backhaul.errors import ConfigError
from tests.control.world import World


@dataclass
class People:
    """Ann and Bob, at the keyboard."""

    world: World
    chance: random.Random
    names: Sequence[str]
    paused: dict[str, datetime] = field(default_factory=dict)

    def act(self) -> None:
        acts = (
            self._ask, self._mend, self._steer, self._cancel_run, self._pause, self._edit,
            self._insert, self._insert, self._insert,
        )  # fmt: skip
        with suppress(ConfigError):  # what makes no sense at this moment is refused
            self.chance.choice(acts)()

    def _ask(self) -> None:
        first = self.world.now.date() - timedelta(days=self.chance.randint(0, 90))
        last = first + timedelta(days=self.chance.randint(0, 8))
        wish = Wish(
            self.chance.choice(self.names),
            first,
            last,
            only=self.chance.choice(("missing", "failed", "open", "all")),
            newest_first=self.chance.random() < 0.5,
            priority=self.chance.randint(-100, 100),
        )
        self.world.backfills.request(wish, actor="ann")
        again = self.world.backfills.request(wish, actor="bob")
        assert again.queued == (), f"a repeat added {again.queued}"

    def _mend(self) -> None:
        for name in self.names:
            first = self.world.now.date() - timedelta(days=60)
            wish = Wish(name, first, self.world.now.date(), only="failed", priority=10)
            self.world.backfills.request(wish, actor="ann")

    def _steer(self) -> None:
        which = Which(pipeline=self.chance.choice(self.names))
        action = self.chance.choice(("pause", "resume", "cancel", "priority"))
        if action == "priority":
            self.world.backfills.set_priority(self.chance.randint(-50, 50), which, actor="ann")
        else:
            self.world.backfills.steer(action, which, actor="ann")

    def _cancel_run(self) -> None:
        runs = [one for one in self.world.desk.runs(limit=10) if one.status in ACTIVE]
        if runs:
            self.world.steering.cancel(self.chance.choice(runs).run_id, actor="ann")

    def _pause(self) -> None:
        name = self.chance.choice(self.names)
        self.world.desk.set_paused(name, True, actor="ann")
        self.paused[name] = self.world.now + timedelta(days=self.chance.randint(1, 20))

    def resume(self) -> None:
        for name, until in list(self.paused.items()):
            if until <= self.world.now:
                self.world.desk.set_paused(name, False, actor="bob")
                del self.paused[name]

    def _edit(self) -> None:
        """With psql: another version of the code."""
        self.world.connection.execute(
            "UPDATE pipelines SET code_version = %s WHERE pipeline_name = %s",
            [f"v{self.chance.randint(1, 3)}", self.chance.choice(self.names)],
        )

    def _insert(self) -> None:
        """With psql: dates that are due just now, run just now, or are not due yet."""
        days = [self.world.now.date() + timedelta(days=number) for number in range(-2, 3)]
        self.world.connection.execute(
            "INSERT INTO backfill_queue (pipeline_id, date_to_process, requested_at) "
            "SELECT pipeline_id, day, %s FROM pipelines, unnest(%s::date[]) AS day "
            "WHERE pipeline_name = %s ON CONFLICT DO NOTHING",
            [self.world.now, days, self.chance.choice(self.names)],
        )
