"""Does a manifest in GitLab's form load as it is, with the connections that it names?

The manifest here was written for this test, with every key and every turn that theirs have.
"""

from __future__ import annotations

import pytest

from backhaul.project.gitlab import selected_as
from backhaul.project.models import Project
from tests.project.folder import Folder

ENVIRON = {
    **dict.fromkeys(("MAIN_HOST", "CI_HOST"), "db"),
    **dict.fromkeys(("MAIN_NAME", "CI_NAME"), "gitlab"),
    **dict.fromkeys(("MAIN_USER", "CI_USER"), "reader"),
    **dict.fromkeys(("MAIN_PASS", "CI_PASS"), "p#ss: word"),
    "MAIN_PORT": "6432",
    "CI_PORT": "5432",
}
INFO = """
    connection_info:
      postgres_source_connection_main: # the application
        database: MAIN_NAME
        host: MAIN_HOST
        pass: MAIN_PASS
        port: MAIN_PORT
        user: MAIN_USER
      postgres_source_connection_ci:
        {database: CI_NAME, host: CI_HOST, pass: CI_PASS, port: CI_PORT, user: CI_USER}
      postgres_metadata_connection:
        {database: META_NAME, host: META_HOST, pass: META_PASS, port: META_PORT, user: META_USER}
"""
TABLES = """
    tables:
      builds:
        additional_filtering: AND project_id in {INTERNAL_PROJECT_IDS}
        dbt_source_model: true
        deletes_exempt: True
        is_incremental: True
        database_type: ci
        export_schema: 'shop_com'
        export_table: builds
        export_table_primary_key: id
        import_db: SHOP_DB
        import_query: |-
          SELECT id
          , CASE
                WHEN name ilike '%%dast%%' THEN 'dast'
                ELSE NULL
            END as name -- see #1
          FROM p_builds
          WHERE updated_at BETWEEN '{BEGIN_TIMESTAMP}'::timestamp
            AND '{END_TIMESTAMP}'::timestamp
      notes:
        incremental_type: load_by_id
        database_type: main
        export_table: notes
        export_table_primary_key: 'note_id'
        import_db: SHOP_DB
        import_schema: information_schema
        import_query: select note_id from notes
      links:
        advanced_metadata: true
        dbt_snapshots: true
        is_incremental: False
        database_type: main
        additional_filtering: WHERE id in {INTERNAL_PROJECT_IDS}
        export_db: OTHER
        export_table: 'links'
        export_table_primary_key: CONCAT(left_id,'_',right_id)
        import_db: SHOP_DB
        import_query: |-
          SELECT left_id
          , right_id
          , concat(left_id, '_', right_id) as link_id
          FROM links
"""
PROJECT = "variables: {INTERNAL_PROJECT_IDS: '(1, 2)'}"


@pytest.fixture
def project(folder: Folder) -> Project:
    folder.project(PROJECT).manifest(TABLES, "el_shop.yaml").manifest(INFO, "connections.yaml")
    return folder.load(ENVIRON)


def test_connections_come_from_the_environment(project: Project) -> None:
    assert set(project.connections) == {"main", "ci"}
    main = project.connections["main"]
    assert main.describe() == "db:6432/gitlab"
    assert main.password and main.password.get_secret_value() == "p#ss: word"


def test_a_windowed_query(project: Project) -> None:
    builds = project.table("builds")
    assert builds is not None
    assert (builds.source, builds.key, builds.form) == ("ci", ("id",), "gitlab")
    assert builds.windowed
    assert builds.incremental
    assert not builds.deletes
    assert builds.query and "'%%dast%%'" in builds.query
    assert builds.additional_filtering == "AND project_id in {INTERNAL_PROJECT_IDS}"
    assert builds.extras["export_schema"] == "shop_com"
    assert builds.extras["dbt_source_model"] is True


def test_load_by_id(project: Project) -> None:
    notes = project.table("notes")
    assert notes is not None
    assert (notes.load_by_id, notes.incremental, notes.windowed) == ("note_id", True, False)
    assert notes.deletes


def test_a_full_copy_with_an_expression_as_its_key(project: Project) -> None:
    links = project.table("links")
    assert links is not None
    assert links.key == ("link_id",)
    assert (links.incremental, links.deletes, links.advanced_metadata) == (False, False, True)


def test_only_the_connections_in_use_need_their_variables(folder: Folder) -> None:
    folder.project(PROJECT).manifest(INFO, "connections.yaml")
    folder.manifest("""
        tables:
          a: {import_query: SELECT 1, database_type: ci, export_table_primary_key: id}
    """)
    environ = {name: value for name, value in ENVIRON.items() if name.startswith("CI")}
    assert list(folder.load(environ).connections) == ["ci"]


def test_missing_variables_are_named(folder: Folder) -> None:
    folder.project(PROJECT).manifest(TABLES, "a.yaml").manifest(INFO, "connections.yaml")
    environ = {name: value for name, value in ENVIRON.items() if name != "MAIN_PASS"}
    assert folder.found(environ) == [
        "manifest/connections.yaml:2 env_missing connection_info.postgres_source_connection_main"
    ]
    assert "MAIN_PASS" in folder.said(environ)


def test_a_connection_of_the_project_goes_first(folder: Folder) -> None:
    folder.project(f"""
        {PROJECT}
        connections:
          main: {{host: own, database: own}}
          ci: {{host: own, database: own}}
    """).manifest(TABLES, "a.yaml").manifest(INFO, "connections.yaml")
    assert folder.load({}).connections["main"].host == "own"
    assert folder.load(ENVIRON).connections["main"].host == "own"


def test_the_flat_form_names_its_connection_after_the_file(folder: Folder) -> None:
    folder.project("").manifest(
        """
        connection_info: {database: CI_NAME, host: CI_HOST, pass: CI_PASS, port: CI_PORT, user: CI_USER}
        tables:
          a: {import_query: SELECT id FROM a, import_db: X, export_table_primary_key: id}
        """,
        "el_ops.yaml",
    )
    project = folder.load(ENVIRON)
    assert list(project.connections) == ["el_ops"]
    assert project.tables[0].source == "el_ops"


def test_a_connection_without_a_type_is_named_after_the_file(folder: Folder) -> None:
    folder.project("").manifest(
        """
        connection_info:
          postgres_source_connection: {database: CI_NAME, host: CI_HOST, pass: CI_PASS, user: CI_USER}
        tables:
          a: {import_query: SELECT id FROM a, import_db: X, export_table_primary_key: id}
        """,
        "el_shop.yaml",
    )
    project = folder.load(ENVIRON)
    assert list(project.connections) == ["el_shop"]
    assert project.tables[0].source == "el_shop"


def test_a_key_that_is_not_selected_loads_as_it_is(folder: Folder) -> None:
    """Planning reads such a table in one piece, and says so."""
    folder.project(
        "connections: {shop: {adapter: postgres, url: 'postgresql://u@h/d'}}"
    ).manifest("""
        tables:
          a: {import_query: SELECT a FROM t, export_table_primary_key: "CONCAT(a,'_',b)"}
    """)
    assert folder.load({}).tables[0].key == ("CONCAT(a,'_',b)",)


@pytest.mark.parametrize(
    ("written", "column"), [("ID", "id"), ('"Id"', "Id"), ("größe", "größe"), ("o.id", "id")]
)
def test_a_key_is_named_as_sql_names_it(folder: Folder, written: str, column: str) -> None:
    folder.project(
        "connections: {shop: {adapter: postgres, url: 'postgresql://u@h/d'}}"
    ).manifest(f"""
        tables:
          a: {{import_query: SELECT o.id FROM o, export_table_primary_key: '{written}'}}
    """)
    assert folder.load({}).tables[0].key == (column,)


def test_load_by_date_is_what_the_window_does(folder: Folder) -> None:
    folder.project(
        "connections: {shop: {adapter: postgres, url: 'postgresql://u@h/d'}}"
    ).manifest("""
        tables:
          a:
            import_query: SELECT id FROM t WHERE u > '{BEGIN_TIMESTAMP}'
            export_table_primary_key: id
            incremental_type: load_by_date
    """)
    (table,) = folder.load({}).tables
    assert (table.load_by_id, table.windowed, table.incremental) == (None, True, True)


def test_a_bad_value_in_the_environment_is_not_shown(folder: Folder) -> None:
    folder.project(PROJECT).manifest(TABLES, "a.yaml").manifest(INFO, "connections.yaml")
    said = folder.said({**ENVIRON, "MAIN_PORT": "sekret"})
    assert "`port` must be a whole number, not ••••" in said
    assert "sekret" not in said


def test_every_mistake(folder: Folder) -> None:
    folder.project(PROJECT).manifest("""
        connection_info:
          postgres_source_connection_main: {host: A, data: B, port: [1]}
          snowflake: {host: A}
        tables:
          a: {import_db: x, export_table_primary_key: id}
          b: {import_query: SELECT 1, database_typ: main}
          c: {import_query: SELECT 1, database_type: mian, incremental_type: by_id}
          d: {import_query: SELECT 1, database_type: gone, export_table_primary_key: [id, id]}
          e: {import_query: SELECT 1, database_type: gone, incremental_type: load_by_id}
          f: {import_query: "SELECT {X}", database_type: gone, additional_filtering: "AND {Y}"}
          g: {import_query: "SELECT 1", database_type: gone, is_incremental: true, deletes_exempt: yes}
    """)
    found = [line.removeprefix("manifest/shop.yml:") for line in folder.found({})]
    assert found == [
        "2 unknown_key connection_info.postgres_source_connection_main.data",
        "2 wrong_type connection_info.postgres_source_connection_main.port",
        "2 missing_key connection_info.postgres_source_connection_main",
        "3 unknown_key connection_info.snowflake",
        "5 missing_key tables.a.import_query",
        "6 unknown_key tables.b.database_typ",
        "7 wrong_value tables.c.incremental_type",
        "8 unknown_connection tables.d.database_type",
        "8 duplicate_column tables.d.key",
        "9 unknown_connection tables.e.database_type",
        "9 key_missing tables.e.incremental_type",
        "10 unknown_connection tables.f.database_type",
        "10 unknown_variable tables.f.import_query",
        "10 unknown_variable tables.f.additional_filtering",
        "11 unknown_connection tables.g.database_type",
        "11 no_window tables.g.is_incremental",
    ]


@pytest.mark.parametrize(
    ("expression", "query", "column"),
    [
        ("CONCAT(a,'_',b)", "SELECT a, Concat(a, '_', b) AS ab FROM t", "ab"),
        ("a||b", "SELECT a || b AS ab FROM t WHERE c LIKE '%%x'", "ab"),
        ("lower(a)", "SELECT lower(a) FROM t", None),
        ("lower(a)", "SELECT a FROM t", None),
        ("lower(a", "SELECT a FROM t", None),
        ("lower(a)", "not sql (", None),
    ],
)
def test_a_key_that_is_an_expression(expression: str, query: str, column: str | None) -> None:
    assert selected_as(expression, query) == column
