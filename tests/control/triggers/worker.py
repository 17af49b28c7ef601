"""A worker that starts one job and then does nothing until it is killed (see processes.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from backhaul.control.triggers.command import CommandTrigger
from backhaul.control.triggers.own import OwnTrigger
from backhaul.control.triggers.process import ProcessTrigger
from tests.control.triggers.processes import unplain

PLATFORMS: dict[str, type[ProcessTrigger]] = {"command": CommandTrigger, "backhaul": OwnTrigger}


def main() -> None:
    told = json.loads(sys.stdin.readline())
    folder = Path(told["folder"])
    trigger = PLATFORMS[told["platform"]](folder, folder / "logs")
    started = trigger.start(unplain(told["job"]))
    sys.stdout.write(started.external_id + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    trigger.close()


if __name__ == "__main__":
    main()
