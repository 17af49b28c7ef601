"""Is everything that the user wrote read, and every mistake reported at once, where it stands?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from backhaul.errors import ConfigError
from backhaul.findings import Level
from backhaul.project.loader import check_project, load_project
from backhaul.project.translate import did_you_mean
from backhaul.schema.model import Relation
from tests.project.folder import CONNECTION, Folder


def test_a_whole_project(folder: Folder) -> None:
    folder.project("""
        name: example
        x-usual: &usual {adapter: postgres, user: reader, database: shop}
        connections:
          - {name: shop, host: a, pass: '{{ env("PASS") }}', <<: *usual}
          - {name: books, url: 'postgresql://u@b/books', replica_host: c}
        store: {url: 's3://bucket/prefix', endpoint: 'http://localhost:9000', region: x}
        state: {url: 'postgresql://state/backhaul'}
        spark: {master: 'local[2]', conf: {spark.ui.enabled: false}, packages: ['a:b:1']}
        lake: {warehouse: 's3://lake', catalog: ice}
        extract: {chunk_rows: 1_000, overlap: 5m}
        variables: {IDS: '(1, 2)', DAYS: 7}
    """)
    folder.manifest("""
        tables:
          orders: {source: shop, watermark: updated_at}
          books:
            source: books
            query: SELECT * FROM books WHERE id IN {IDS}
    """)
    folder.manifest("tables: {users: {source: shop, table: 'auth.*'}}", "sub/b.yaml")
    project = folder.load({"PASS": "0123"})
    assert (project.name, project.folder) == ("example", folder.path)
    assert list(project.connections) == ["shop", "books"]
    password = project.connections["shop"].password
    assert password is not None
    assert password.get_secret_value() == "0123"
    assert project.connections["books"].has_replica
    assert (project.store.url, project.store.region) == ("s3://bucket/prefix", "x")
    assert project.spark.conf == {"spark.ui.enabled": "false"}
    assert (project.lake.catalog, project.spark.packages) == ("ice", ("a:b:1",))
    assert project.variables == {"IDS": "(1, 2)", "DAYS": "7"}
    assert [table.name for table in project.tables] == ["orders", "books", "users"]
    orders = project.table("orders")
    assert orders is not None
    assert (orders.relation, orders.chunk_rows) == (Relation("public", "orders"), 1_000)
    assert orders.overlap == timedelta(minutes=5)
    assert str(orders.place) == "manifest/shop.yml:2 tables.orders"


def test_an_empty_project_has_defaults(folder: Folder) -> None:
    project = folder.project("").load()
    assert (project.name, project.store.url, project.tables) == (folder.path.name, "data", ())
    assert project.state.url is None
    assert project.spark.master == "local[*]"
    assert project.extract.resume_within == timedelta(hours=24)


def test_connections_by_name(folder: Folder) -> None:
    folder.project("connections: {a: {host: h, database: d}, b: {host: h, database: d}}")
    assert list(folder.load().connections) == ["a", "b"]


def test_the_only_connection_needs_no_naming(folder: Folder) -> None:
    folder.project(CONNECTION).manifest("tables: {orders: , users: {}}")
    assert [table.source for table in folder.load().tables] == ["shop", "shop"]


def test_numbers_may_be_columns_and_passwords(folder: Folder) -> None:
    folder.project("connections: {a: {host: h, database: 007, pass: 0123}}")
    folder.manifest("tables: {t: {key: [1, no], columns: [1, no]}}")
    project = folder.load()
    assert project.connections["a"].database == "007"
    assert project.tables[0].key == ("1", "no")


def test_all_mistakes_of_all_files_at_once(folder: Folder) -> None:
    folder.project("""
        connections:
          - name: shop
            host: localhost
            prot: 5433
            database: shop
            port: many
            pass: {{ env("GONE") }}
          - host: other
            adapter: oracle
            database: d
        store: {url: 'ftp://x'}
        extract:
          chunk_rows: 0
          overlap: 3x
          window_cap: later
        lake: 5
        nonsense: 1
        variables: {1x: a, LIST: [1]}
    """)
    folder.manifest("""
        tables:
          orders: {source: shp}
          users: {table: a.b.c, source: shop, kye: id}
          both: {source: shop, table: a, query: SELECT 1}
          text: hello
        more: 1
    """)
    folder.manifest("tables: [", "z.yml")
    assert folder.found() == [
        "backhaul.yml:4 unknown_key connections[0].prot",
        "backhaul.yml:6 wrong_type connections[0].port",
        "backhaul.yml:7 env_missing",
        "backhaul.yml:8 missing_key connections[1].name",
        "backhaul.yml:9 wrong_value connections[1].adapter",
        "backhaul.yml:11 wrong_value store.url",
        "backhaul.yml:13 wrong_value extract.chunk_rows",
        "backhaul.yml:14 wrong_value extract.overlap",
        "backhaul.yml:15 wrong_value extract.window_cap",
        "backhaul.yml:16 wrong_type lake",
        "backhaul.yml:17 unknown_key nonsense",
        "backhaul.yml:18 wrong_value variables.1x",
        "backhaul.yml:18 wrong_type variables.LIST",
        "manifest/shop.yml:2 unknown_connection tables.orders.source",
        "manifest/shop.yml:3 unknown_key tables.users.kye",
        "manifest/shop.yml:4 contradiction tables.both.query",
        "manifest/shop.yml:5 wrong_type tables.text",
        "manifest/shop.yml:6 unknown_key more",
        "manifest/z.yml:2 yaml_invalid tables",
    ]


def test_messages_show_the_value_and_what_is_valid(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {hots: h, host: h, database: d, port: many, sslmode: on}}
    """)
    said = folder.said()
    assert "did you mean `host`? valid: name, adapter, host," in said
    assert "`port` must be a whole number, not 'many'" in said
    assert "`sslmode` must be 'disable', 'allow', " in said
    assert "not 'on'" in said


def test_no_message_shows_a_secret(folder: Folder) -> None:
    folder.project("""
        connections:
          a: {host: h, database: d, pass: [sekret], replica_pass: {x: sekret}}
          b: {url: 'mysql://u:sekret@h/d'}
          c: {url: ['sekret']}
          d: {host: h, database: d, port: '{{ env("PORT") }}', sslmode: '{{ env("PORT") }}'}
          e: {host: h, database: d, port_path: secret.txt}
          sekret_is_a_name: {url: 'postgresql://u:sekret@h/d', pass: sekret}
        store: {secret_access_key: [sekret], url: 'ftp://sekret'}
        state: {url: 'sekret'}
    """)
    folder.write("secret.txt", "sekret")
    assert len(folder.found({"PORT": "sekret"})) == 11
    said = folder.said({"PORT": "sekret"}).replace("sekret_is_a_name", "")
    assert "sekret" not in said
    assert "••••" in said


def test_secrets_come_from_files(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {host: h, database: d, user_path: u, pass_path: secrets/p, port_path: n}}
        store: {url: data, secret_access_key_path: secrets/p}
        state: {url_path: secrets/url}
    """)
    folder.write("u", "ann\n").write("secrets/p", "pass # word \n").write("n", "6000")
    folder.write("secrets/url", "postgresql://h/d\n")
    project = folder.load()
    one = project.connections["shop"]
    assert (one.user, one.port) == ("ann", 6000)
    assert one.password and one.password.get_secret_value() == "pass # word "
    assert project.store.secret_access_key is not None
    assert project.state.url is not None
    assert project.state.url.get_secret_value() == "postgresql://h/d"


def test_bad_secret_files(folder: Folder) -> None:
    folder.project("""
        connections:
          shop:
            host: h
            database: d
            user_path: gone
            pass: x
            pass_path: empty
            port_path: empty
            replica_pass_path: "."
    """).write("empty", "\n")
    assert folder.found() == [
        "backhaul.yml:5 secret_unreadable connections.shop.user_path",
        "backhaul.yml:7 contradiction connections.shop.pass_path",
        "backhaul.yml:8 secret_unreadable connections.shop.port_path",
        "backhaul.yml:9 secret_unreadable connections.shop.replica_pass_path",
    ]


def test_a_url_and_its_parts_are_a_contradiction(folder: Folder) -> None:
    folder.project("""
        connections:
          shop:
            url: postgresql://h/d
            host: h
            pass_path: p
            replica_host: fine
            sslmode: require
    """).write("p", "x")
    assert folder.found() == [
        "backhaul.yml:4 contradiction connections.shop.host",
        "backhaul.yml:5 contradiction connections.shop.pass_path",
    ]


def test_connection_names(folder: Folder) -> None:
    folder.project("""
        connections:
          - {name: a, host: h, database: d}
          - {name: a, host: h, database: d}
          - {name: a b, host: h, database: d}
    """)
    assert folder.found() == [
        "backhaul.yml:3 duplicate_connection connections[1].name",
        "backhaul.yml:4 wrong_value connections[2].name",
    ]
    folder.project("connections: {a: {name: b, host: h, database: d}}")
    assert folder.found() == ["backhaul.yml:1 contradiction connections.a.name"]


def test_a_broken_connection_does_not_blame_its_tables(folder: Folder) -> None:
    folder.project("connections: {shop: {host: h}}").manifest("tables: {a: {source: shop}}")
    assert folder.found() == ["backhaul.yml:1 missing_key connections.shop.database"]


def test_a_missing_variable_is_told_once(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {url: '{{ env("URL") }}'}, b: {host: h, database: d, port: {{ env("P") }} }}
    """)
    assert [found.split()[1] for found in folder.found()] == ["env_missing", "env_missing"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x80abc"])
def test_files_that_are_not_text(folder: Folder, content: bytes) -> None:
    (folder.path / "backhaul.yml").write_bytes(content)
    assert folder.found() == ["backhaul.yml:0 not_text"]


def test_a_byte_order_mark_is_no_matter(folder: Folder) -> None:
    (folder.path / "backhaul.yml").write_bytes(b"\xef\xbb\xbfname: x\n")
    assert folder.load().name == "x"


def test_no_project_and_two_projects(folder: Folder) -> None:
    assert folder.found() == ["backhaul.yml:0 no_project"]
    assert "backhaul init" in folder.said()
    folder.write("backhaul.yaml", "name: x\n")
    assert folder.load().name == "x"
    folder.write("backhaul.yml", "name: y\n")
    assert folder.found() == ["backhaul.yaml:0 two_projects"]


def test_loading_raises_with_every_finding(folder: Folder) -> None:
    folder.project("extract: {chunk_rows: 0, overlap: x}")
    with pytest.raises(ConfigError) as raised:
        load_project(folder.path, {})
    assert len(raised.value.findings) == 2
    assert "backhaul.yml:1 extract.overlap" in str(raised.value)


def test_warnings_come_with_the_project(folder: Folder) -> None:
    folder.project().manifest("tables: {a: {watermark: w, incremental: false}}")
    project, findings = check_project(folder.path, {})
    assert project is not None
    assert project.findings == tuple(findings)
    assert [finding.level for finding in findings] == [Level.WARNING]


def test_ten_thousand_tables_are_read_in_seconds(folder: Folder) -> None:
    entry = "  t{0}:\n    table: s.t{0}\n    key: [id, other]\n    watermark: updated_at\n"
    folder.project().manifest("tables:\n" + "".join(entry.format(i) for i in range(10_000)))
    assert len(folder.load().tables) == 10_000


def test_did_you_mean() -> None:
    assert did_you_mean("Shp", ["shop", "books"]) == "did you mean `shop`? valid: shop, books"
    assert did_you_mean("xyz", ["shop"]) == "valid: shop"
    assert did_you_mean("xyz", []) == "none is defined"
