"""What does a new project look like? Three commented files, written where there are none."""

from __future__ import annotations

from pathlib import Path

_PROJECT = """\
# A backhaul project. Any value may be a template: {{ env("NAME") }}, {{ env("NAME", "default") }}.
# `backhaul check` tells what is wrong, with line numbers; `backhaul schema project` prints the
# schema that editors use. All settings: docs/reference/project.md

connections:
  - name: source
    adapter: postgres
    host: {{ env("SOURCE_HOST", "localhost") }}
    port: {{ env("SOURCE_PORT", "5432") }}
    database: {{ env("SOURCE_DATABASE", "postgres") }}
    user: {{ env("SOURCE_USER", "postgres") }}
    pass: {{ env("SOURCE_PASS", "") }}
    # pass_path: /run/secrets/source-pass   # each key can also be read from a file
    # replica_host: replica.internal        # reads go here where it is set
    # max_connections: 4                    # at once, whatever the cluster's size

# Where files go: a folder, s3://bucket/prefix or gs://bucket/prefix.
store:
  url: data

# backhaul's own database. Without this an embedded one is kept in .backhaul/.
# state:
#   url: postgresql://backhaul@state.internal/backhaul

# spark:
#   master: local[*]
#   conf:
#     spark.driver.memory: 4g

# lake:
#   warehouse: s3://bucket/lake

# What things cost here, so that loads can be estimated and limited in money.
# prices:
#   currency: USD
#   executor_hour: 0.12
#   read_tb: 5
#   write_tb: 5

# For every table that does not say it itself.
# extract:
#   chunk_rows: 5_000_000
#   resume_within: 24h
#   overlap: 30m
#   window_cap: 24h

# The control plane: how many runs at once, and who is told. Pipelines: pipelines/*.yml
# control:
#   max_runs: 20
# notify:
#   channels:
#     ops: {type: log}        # or slack, email, pagerduty, webhook
#   default: [ops]

# `{INTERNAL_PROJECT_IDS}` in a query stands for the value given here.
# variables:
#   INTERNAL_PROJECT_IDS: (1, 2, 3)
"""

_MANIFEST = """\
# What to read. `backhaul plan` shows what would happen.
# All settings: docs/reference/manifest.md

tables:
  # Remove this entry's `#` and name a table of yours.
  # orders:
  #   source: source
  #   table: public.orders
  #   watermark: updated_at     # incremental windows; without it each run is a full copy
  #   deletes: true             # `backhaul deletes` exports the keys
  #   load:                     # where it goes; a list where there are several targets
  #     to: lake                # or a connection's name
  #     table: analytics.fct_orders
  #     partition_by: days(created_at)
  #     deletes: soft           # rows that are gone at the source get `_deleted_at`
  #
  # everything_else:
  #   source: source
  #   table: public.*
  #   exclude: [public.orders, public.tmp_*]
  #
  # paid_orders:
  #   source: source
  #   query: SELECT id, amount FROM orders WHERE paid
  #   key: id
"""

_PIPELINES = """\
# When what is to be done. `backhaul pipeline sync` brings this to the control plane.
# All settings: docs/reference/pipelines.md

pipelines:
  # Remove this entry's `#` and name tables of yours.
  # daily_orders:
  #   tables: [orders, paid_orders]
  #   schedule: daily           # or {weekly: "mon,thu", at: "06:00", timezone: Europe/Berlin}
  #   date_offset: 1            # each run is for the day before
  #   retry: 5m,30m,2h
  #   sla: "08:00"
  #   backfill: {auto: true}
  #
  # daily_report:               # another platform's work
  #   platform: http
  #   trigger_url: https://reports.internal/build?day={{ date }}
  #   settings:
  #     headers:
  #       Authorization: Bearer {{ env("REPORTS_TOKEN") }}
  #   schedule: daily
  #   date_offset: 1
  #   depends_on: [daily_orders]
"""

_IGNORED = """\
.backhaul/
data/
"""

FILES = {
    "backhaul.yml": _PROJECT,
    "manifest/example.yml": _MANIFEST,
    "pipelines/example.yml": _PIPELINES,
    ".gitignore": _IGNORED,
}


def scaffold(folder: Path) -> list[Path]:
    """The files that were written; one that is there already is never touched."""
    written = []
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        written.append(path)
    return written
