"""A manifest of 143 tables in GitLab's form: our own shop, with every turn that their manifests take.

Each shape says in plain SQL which rows its export must hold, so that the source is the oracle.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent
from typing import Literal

COUNT = 143
# A window of the past, with rows on both of its ends, and a microsecond outside of them.
BEGIN, END = "2026-03-01 00:00:00", "2026-03-02 00:00:00"
DATABASES = ("main", "ci", "customers")

CONNECTIONS = "connection_info:\n" + "".join(
    f"""  postgres_source_connection_{name}: # one login each
    database: {name.upper()}_DB_NAME
    host: {name.upper()}_DB_HOST
    pass: {name.upper()}_DB_PASS
    port: PG_PORT
    user: {name.upper()}_DB_USER
"""
    for name in (*DATABASES, "not_used_by_any_table")
)
VARIABLES = """
variables:
  INTERNAL_PROJECT_IDS: (1, 2)
  INTERNAL_NAMESPACE_IDS: 5, 6
  INTERNAL_PATHS: ('shop/a%%b', 'it''s')
"""

# Columns named like words of SQL, as theirs are.
COLUMNS = """
    id bigint {key}, parent_id bigint, project_id bigint, path text, label text, position text,
    "role" text, "when" text, "authorization" text, date date, time time, type smallint,
    usage real, tags text[], path_ids bigint[], details jsonb, active boolean, due_on date,
    expires_at timestamp, created_at timestamp, updated_at timestamp, zoned_at timestamptz"""
ROWS = f"""
    SELECT g, g / 3, g % 4, CASE g % 3 WHEN 0 THEN 'shop/a%b' WHEN 1 THEN 'it''s' END,
        CASE g % 3 WHEN 0 THEN 'SAST of the day' WHEN 1 THEN '100%' ELSE NULL END, 'p', 'r', 'w',
        'a', '2026-01-01', '12:00', g % 3, 0.5, '{{{{a,b}}}}', ARRAY[g, g % 2], '[1]',
        g % 2 = 0, '1969-12-25'::date + g, '2261-12-25'::timestamp + g * interval '1 day',
        CASE WHEN g = 4 THEN '0001-01-01' WHEN g = 6 THEN '4714-11-24 00:00:00 BC'
            WHEN g = 7 THEN NULL ELSE coalesce(at, '2021-01-01') END,
        at, at AT TIME ZONE 'UTC'
    FROM (SELECT g, CASE WHEN g % 5 = 0 THEN NULL WHEN g = 1 THEN '{BEGIN}'::timestamp
        WHEN g = 2 THEN '{END}' WHEN g = 16 THEN '{BEGIN}'::timestamp - interval '1 microsecond'
        WHEN g = 17 THEN '{END}'::timestamp + interval '1 microsecond'
        WHEN g IN (3, 11, 12) THEN '2026-03-01 09:30:00.123456'
        ELSE '2020-01-01'::timestamp + g * interval '1 day' END AS at
        FROM generate_series({{first}}, {{last}}) AS g) AS g"""

BETWEEN = "BETWEEN '{BEGIN_TIMESTAMP}'::timestamp\n  AND '{END_TIMESTAMP}'::timestamp"
FROM = f"FROM @\nWHERE updated_at {BETWEEN}"
# How theirs of old name the window: its end, and how long it is.
OLD = (
    "updated_at BETWEEN '{EXECUTION_DATE}'::timestamp - interval '{%s}'\n"
    "  AND '{EXECUTION_DATE}'::timestamp"
)
Reading = Literal["window", "whole", "by id"]


@dataclass(frozen=True)
class Shape:
    """One way to write an entry; `@` stands for the table's name.

    `rows` is the query's other conditions, and `inside` is its window condition, `inclusive` if its
    end belongs to it; `column` is what the shape's rows are told apart by.
    """

    query: str
    settings: str = "is_incremental: True\ndeletes_exempt: True"
    key: str = "id"
    rows: str = "true"
    inside: str = "updated_at"
    inclusive: bool = True
    column: str = "id"
    reading: Reading = "window"
    warning: str | None = None

    @property
    def past(self) -> str:
        """The rows of the window of the past."""
        upper = "<=" if self.inclusive else "<"
        return f"({self.rows}) AND {self.inside} >= '{BEGIN}' AND {self.inside} {upper} '{END}'"

    def oracle(self, table: str, rows: str) -> str:
        return f"SELECT {self.column} FROM {table} WHERE {rows.replace('@', table)}"


WHOLE = "is_incremental: False"
FILTERED = "\ndbt_snapshots: true\nis_incremental: True"
SHAPES: dict[str, Shape] = {
    "plain": Shape(f"SELECT id\n, updated_at\n{FROM}"),
    "with deletes": Shape(f"SELECT id\n, label\n{FROM}", "dbt_source_model: true\nis_incremental: True"),
    "half open": Shape(
        "SELECT id FROM @ WHERE updated_at >= '{BEGIN_TIMESTAMP}' AND updated_at < '{END_TIMESTAMP}'",
        inclusive=False,
    ),
    "of what was created": Shape(
        f"SELECT id\n, created_at\nFROM @\nWHERE created_at {BETWEEN}", inside="created_at"
    ),
    "with a time zone": Shape(f"SELECT id FROM @ WHERE zoned_at {BETWEEN}", inside="updated_at"),
    "whole": Shape("SELECT id\n, tags\nFROM @", WHOLE, reading="whole"),
    "whole, and says nothing": Shape("SELECT id FROM @", "advanced_metadata: true", reading="whole"),
    "incremental without a window": Shape("SELECT id FROM @", reading="whole"),
    "whole in spite of its window": Shape(f"SELECT id\n{FROM}", WHOLE, reading="whole"),
    "by id": Shape(
        "SELECT label\n, parent_id\n, id\nFROM @",
        "deletes_exempt: True\nis_incremental: True\nincremental_type: 'load_by_id'",
        key="parent_id # not the real one, fyi",
        reading="by id",
    ),
    "with a filter": Shape(
        f"SELECT id\n{FROM}",
        "additional_filtering: AND project_id in {INTERNAL_PROJECT_IDS}" + FILTERED,
        rows="project_id IN (1, 2)",
    ),
    "with impossible dates": Shape(
        f"SELECT id\n{FROM}",
        "additional_filtering: AND created_at NOT IN ( '0001-01-01 00:00:00+00',"
        " '10000-01-01 00:00:00+00','4714-11-24 00:00:00+00 BC') AND type NOT IN (2)" + FILTERED,
        rows="type <> 2 AND created_at NOT IN ('0001-01-01', '4714-11-24 00:00:00 BC')",
    ),
    "with a filter of many lines": Shape(
        f"SELECT id\n{FROM}",
        """additional_filtering: |-
  AND (
    id IN {INTERNAL_NAMESPACE_IDS}
    OR parent_id IN {INTERNAL_NAMESPACE_IDS}
    OR project_id = 3
    OR id IN (
      SELECT parent_id
      FROM lookup
      WHERE id IN {INTERNAL_PROJECT_IDS}
      )
    )
  AND (type in {INTERNAL_PROJECT_IDS} OR active)"""
        + FILTERED,
        rows="(id IN (5, 6, 10, 20) OR parent_id IN (5, 6) OR project_id = 3)"
        " AND (type IN (1, 2) OR active)",
    ),
    "with a filter that casts": Shape(
        f"SELECT id\n{FROM}",
        "additional_filtering: AND COALESCE(created_at,'3000-01-01 00:00:00.000'::TIMESTAMP)"
        " >= '2000-01-01 00:00:00.000'::TIMESTAMP" + FILTERED,
        rows="created_at >= '2000-01-01' OR created_at IS NULL",
    ),
    "whole with a filter": Shape(
        "SELECT id FROM @",
        "additional_filtering: WHERE project_id in {INTERNAL_PROJECT_IDS}\n" + WHOLE,
        rows="project_id IN (1, 2)",
        reading="whole",
    ),
    "whole with a filter that begins with AND": Shape(
        "SELECT id FROM @ -- all of them",
        "additional_filtering: AND path in {INTERNAL_PATHS}\n" + WHOLE,
        rows="path IN ('shop/a%b', 'it''s')",
        reading="whole",
    ),
    "with alternatives of its own": Shape(
        "SELECT id FROM @ WHERE (active OR type = 2)\n  AND updated_at " + BETWEEN,
        "additional_filtering: AND project_id > 0 OR id = 8" + FILTERED,
        rows="(active OR type = 2) AND (project_id > 0 OR id = 8)",
    ),
    "with the window in the middle": Shape(
        f"SELECT id FROM @ WHERE active AND updated_at {BETWEEN} AND\npath IN {{INTERNAL_PATHS}}",
        rows="active AND path IN ('shop/a%b', 'it''s')",
    ),
    "with percent signs": Shape(
        "SELECT id\n, CASE\n      WHEN label ilike '%%sast%%' THEN 'sast'\n"
        "      WHEN label LIKE '100!%%' ESCAPE '!' THEN '%%'\n      ELSE NULL\n"
        f"  END as label -- it's {{explained}} elsewhere: https://shop.example/#note_1\n{FROM}",
    ),
    "with clamped times": Shape(
        "SELECT id\n, CASE WHEN expires_at > '2262-01-01' THEN '2262-01-01' ELSE expires_at END"
        " AS expires_at\n, CASE WHEN due_on < '1970-01-01' THEN NULL ELSE due_on END AS due_on\n"
        f", NULL AS path\n{FROM}",
    ),
    "with masked columns": Shape(
        "SELECT id\n, CASE WHEN project_id IN\n    (1\n    , 2 ) THEN '**MASKED**' ELSE label END AS"
        f" label --NULL values for ours - it's WHERE updated_at\n{FROM}",
    ),
    "with a column twice": Shape(
        "SELECT id\n, CASE WHEN path_ids[1] = id THEN label ELSE NULL END AS label --the top only\n"
        f", path_ids\n, path_ids\n, NULL AS path\n, NULL AS path\n{FROM}",
    ),
    "with a key that is an expression": Shape(
        "SELECT id\n, CONCAT(id,'_',project_id) as own_id\nFROM @",
        WHOLE,
        key="CONCAT(id, '_', project_id)",
        column="concat(id, '_', project_id) AS own_id",
        reading="whole",
    ),
    "with an expression as id": Shape(
        f"SELECT CONCAT(id,'_', type) AS id\n, type\n{FROM}",
        key="CONCAT(id,'_', type)",
        column="concat(id, '_', type) AS id",
    ),
    "with an expression that is not selected": Shape(
        f"SELECT id\n, project_id\n{FROM}",
        key="CONCAT(project_id,'_',path)",
        warning="key-not-selected",
    ),
    "with a key that is not selected": Shape(
        "SELECT parent_id AS p\n, updated_at\n" + FROM,
        column="parent_id AS p",
        warning="key-not-selected",
    ),
    "with two columns as its key": Shape(f"SELECT id\n, type\n{FROM}", key="[id, type]"),
    "with a key that repeats": Shape(f"SELECT id, type\n{FROM}", key="'type'"),
    "of old, in hours": Shape(f"SELECT id FROM @\nWHERE {OLD % 'HOURS} hours'}", "advanced_metadata: true"),
    "of old, in days": Shape(f"SELECT\nid,\nlabel\nFROM @\nWHERE {OLD % 'DAYS} day'}", "export_db: EXPORT_DB"),
    "with a join": Shape(
        "SELECT t.id\n, l.parent_id AS found -- may be NULL\nFROM @ t\nLEFT JOIN lookup AS l\n"
        f"  ON l.id = t.project_id AND l.id > 0\nWHERE t.updated_at {BETWEEN}\n  AND t.id <> 13",
        rows="id <> 13",
    ),
    "with words of SQL": Shape(
        'SELECT id\n, "role"\n, "when"\n, "authorization"\n, position\n, date\n, time as spent_time\n'
        f", type\n, usage\n{FROM}",
    ),
    "with casts": Shape(
        "SELECT id\n, CAST(updated_at AS VARCHAR) AS updated_at\n, details::VARCHAR\n"
        f", MD5(label) AS label_md5\n, details->0 AS first\n{FROM}",
    ),
    "in small letters": Shape(
        "select id\n     , \"role\"\n     , search.vector\n  from @,\n       lateral (select to_tsvector(label)"
        " as vector) as search\n where updated_at between '{BEGIN_TIMESTAMP}'::timestamp"
        " and '{END_TIMESTAMP}'::timestamp",
        "import_schema: information_schema\nis_incremental: True",
    ),
    "with everything": Shape(f"SELECT *\n{FROM};", key='"id"'),
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """An entry of the manifest with its shape."""

    name: str
    shape: Shape
    text: str


def tables() -> list[Table]:
    """143 of them, every shape several times."""
    shapes = itertools.islice(itertools.cycle(SHAPES.values()), COUNT)
    return [_table(number, shape) for number, shape in enumerate(shapes)]


def _table(number: int, shape: Shape) -> Table:
    name = f"shop_table_{number}"
    quote = "'" if number % 2 else '"'
    settings = f"""{shape.settings}
database_type: {DATABASES[number % 3]}
export_schema: {quote}shop_com{quote}
export_table: '{name}'
export_table_primary_key: {shape.key}
import_db: SHOP_DB
"""
    # A folded query is one long line, in which a comment would swallow the rest.
    folded = number % 4 == 1 and "--" not in shape.query
    query = (
        f"import_query: {'>' if folded else '|-'}\n{indent(shape.query.replace('@', name), '  ')}\n"
    )
    parts = (query, settings) if number % 3 else (settings, query)
    return Table(name, shape, f"  {name}:\n" + indent("".join(parts), "    "))


def manifest() -> str:
    """The file, with a comment between entries now and then."""
    return "tables:\n" + "".join(_with_comments(tables()))


def _with_comments(entries: list[Table]) -> Iterator[str]:
    for number, entry in enumerate(entries):
        if number % 20 == 7:
            yield f"#  gone_{number}:\n#    import_query: SELECT id FROM gone\n\n"
        yield entry.text


def schema() -> str:
    """The tables that the queries read; a few have no primary key."""
    plain = "CREATE TABLE lookup (id int PRIMARY KEY, parent_id int);"
    plain += "INSERT INTO lookup VALUES (1, 10), (2, 20), (3, 30);"
    return plain + "".join(
        f"CREATE TABLE {one.name} ({COLUMNS.format(key='PRIMARY KEY' if number % 5 else '')});"
        f"INSERT INTO {one.name} {ROWS.format(first=1, last=40)};"
        for number, one in enumerate(tables())
    )


def later(first: int, last: int, minutes: int) -> str:
    """More rows for each table, all of them changed some minutes ago."""
    at = f"now() AT TIME ZONE 'UTC' - interval '{minutes} minutes'"
    return "".join(
        f"INSERT INTO {one.name} {ROWS.format(first=first, last=last)};"
        f"UPDATE {one.name} SET created_at = {at}, updated_at = {at}, zoned_at = now() - interval "
        f"'{minutes} minutes' WHERE id >= {first};"
        for one in tables()
    )
