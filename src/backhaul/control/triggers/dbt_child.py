"""How does dbt Core run in a process of its own? By its own runner, with the exit codes of its command.

    python -m backhaul.control.triggers.dbt_child run --project-dir DIR …

A process of its own, because dbt keeps its adapters, flags and macros in globals: two runs in one
process would disturb each other. The runner and not the program `dbt`, because the program on PATH may
be another environment's.
"""

from __future__ import annotations

import sys

# dbt's: 0 everything went well, 1 a node failed, 2 nothing was run.
_FAILED, _NOT_RUN = 1, 2


def main(arguments: list[str]) -> int:
    from dbt.cli.main import dbtRunner

    ended = dbtRunner().invoke(arguments)
    if ended.exception is not None:
        sys.stderr.write(f"{ended.exception}\n")
        return _NOT_RUN
    return 0 if ended.success else _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
