"""Does a worker start on a machine that has none of the optional parts?"""

from __future__ import annotations

import json
import subprocess
import sys

# Every package that only an extra brings is not there.
PROGRAM = """
import json, sys
from pathlib import Path
for name in ("databricks", "dbt", "snowflake", "airflow", "pyspark", "google", "boto3"):
    sys.modules[name] = None
from backhaul.clock import SystemClock
from backhaul.control.triggers.registry import PLATFORMS, open_triggers
made = open_triggers(Path("."), Path("logs"), SystemClock(), None)
print(json.dumps([sorted(made) == sorted(PLATFORMS), "databricks.sdk" in sys.modules]))
for one in made.values():
    one.close()
"""


def test_platforms_are_opened_without_the_extras() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert json.loads(ended.stdout) == [True, False]
