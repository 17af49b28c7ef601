"""Does it hold in the real Airflow? `dag.test()` over a real project, and over a stand-in's exit codes."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from backhaul.control.calendar import due_between
from backhaul.project.loader import load_project
from backhaul.state.database import State
from tests import servers as running
from tests.airflow.home import AirflowHome, is_alive
from tests.load.project import SHOP, LoadProject, write_project
from tests.servers import SourceDatabase

pytestmark = [pytest.mark.all, pytest.mark.timeout(900)]
DAYS = "CronDataIntervalTimetable('0 0 * * *', timezone='Europe/Berlin')"
FINE = """echo '{"tables": [{"table": "orders", "rows": 2, "folder": "x"}], "exit_code": 0}'"""


@pytest.fixture
def project(
    tmp_path: Path, source: SourceDatabase, state: State, servers: running.Servers
) -> Iterator[LoadProject]:
    """Orders that are loaded into a PostgreSQL, deletes too."""
    folder = tmp_path / "project"
    folder.mkdir()
    source.execute(SHOP)
    warehouse = servers.get("18").create_database()
    made = write_project(folder, source, state.url, warehouse)
    made.manifest(
        """
        orders:
          source: shop
          table: public.orders
          key: id
          watermark: updated_at
          deletes: true
          load: {to: warehouse, table: analytics.orders, deletes: hard}
        """
    )
    yield made
    servers.get("18").drop_database(warehouse)


def built(project: LoadProject, arguments: str = "") -> str:
    return f"""
    from datetime import timedelta
    from backhaul.airflow import build_dags

    def note(context):
        with open({str(project.folder)!r} + "/noted", "a") as file:
            error = type(context.get("exception")).__name__
            file.write(f"{{context['ti'].task_id}} {{error}}\\n")

    globals().update(
        build_dags({str(project.folder)!r}, python={sys.executable!r}, {arguments})
    )
    """


def single(operator: str, arguments: str, schedule: str = DAYS) -> str:
    """A DAG `one` with one task, whose runs have a day of Berlin's for their data."""
    return f"""
    from datetime import datetime, timedelta
    from zoneinfo import ZoneInfo
    from backhaul.airflow import {operator}
    from backhaul.airflow.sdk import DAG, CronDataIntervalTimetable

    with DAG(
        "one",
        start_date=datetime(2025, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        schedule={schedule},
        default_args={{"retry_delay": timedelta(0)}},
    ) as dag:
        {operator}(task_id="task", {arguments})
    """


def test_a_table_goes_all_the_way(home: AirflowHome, project: LoadProject) -> None:
    name = project.folder.name
    home.write(built(project))
    run = home.test(f"{name}.orders")
    assert run.states() == dict.fromkeys(
        ["check", "extract", "deletes", "load", "verify"], "success"
    ), run.printed
    with psycopg.connect(project.warehouse_url) as connection:
        found = connection.execute("SELECT count(*), sum(total) FROM analytics.orders").fetchone()
    assert found == (200, 25125)
    extracted, loaded, verified = (
        run.tasks[task]["result"] for task in ("extract", "load", "verify")
    )
    assert extracted["tables"][0]["rows"] == 200
    assert loaded["loads"][0]["rows_inserted"] == 200
    assert verified["tables"][0]["equal"] is True
    assert "customer 1" not in str(run.tasks)


def test_the_sensor_sees_what_is_shown(home: AirflowHome, project: LoadProject) -> None:
    waits = f'project={str(project.folder)!r}, table="orders", python={sys.executable!r}'
    home.write(single("BackhaulTableSensor", f"{waits}, soft_fail=True, timeout=0"))
    run = home.test("one")
    assert run.states() == {"task": "skipped"}
    assert "shows the source of no time" in run.printed
    (loaded,) = project.run("orders")
    assert loaded.ok
    home.write(single("BackhaulTableSensor", f'{waits}, destination="warehouse"'))
    run = home.test("one")
    assert run.states() == {"task": "success"}, run.printed
    (shown,) = run.tasks["task"]["result"]["loads"]
    assert (shown["target"], shown["load_id"]) == ("analytics.orders", loaded.load_id)


def test_the_sensor_sees_that_nothing_was_new(home: AirflowHome, project: LoadProject) -> None:
    """A quiet table must not keep others waiting: a load without rows is one too."""
    project.run("orders")
    since = datetime.now(UTC).isoformat()
    project.run("orders")
    home.write(
        single(
            "BackhaulTableSensor",
            f'project={str(project.folder)!r}, table="orders", python={sys.executable!r},'
            f" since={since!r}, timeout=0",
        )
    )
    run = home.test("one")
    assert run.states() == {"task": "success"}, run.printed


def test_the_sensor_frees_its_place_between_two_looks(home: AirflowHome) -> None:
    stand_in = home.stand_in(
        """test $(wc -l < $(dirname $0)/calls) -gt 2 && at='"2026-03-05T00:00:00+01:00"' || at=null
        echo '{"loads": [{"destination": "lake", "target": "a.b", "shows": '$at'}]}'"""
    )
    asked = f'project="/p", table="t", poke_interval=1, python={str(stand_in.python)!r}'
    home.write(single("BackhaulTableSensor", asked))
    run = home.test("one", "2026-03-05T01:00:00+01:00")
    assert run.states() == {"task": "success"}, run.printed
    assert (stand_in.calls, run.tasks["task"]["tries"]) == (3, 1)
    assert "Rescheduling task" in run.printed
    assert stand_in.arguments == ["-P", "-m", "backhaul.airflow.ask", "--project", "/p", "--", "t"]


def test_a_wrong_project_is_not_tried_again(home: AirflowHome, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    asked = f"project={nowhere!r}, retries=3, python={sys.executable!r}"
    home.write(single("BackhaulCheckOperator", asked))
    run = home.test("one")
    assert run.states() == {"task": "failed"}
    assert run.tasks["task"]["tries"] == 1
    assert "ended with exit code 2" in run.printed
    assert "no such file" in run.printed


@pytest.mark.parametrize(("code", "tries"), [(1, 3), (2, 1), (3, 1), (130, 3)])
def test_the_exit_code_decides(home: AirflowHome, code: int, tries: int) -> None:
    stand_in = home.stand_in(f"echo sorry >&2; exit {code}")
    arguments = f'project="/p", tables=["orders"], retries=2, python={str(stand_in.python)!r}'
    home.write(single("BackhaulLoadOperator", arguments))
    run = home.test("one")
    assert run.states() == {"task": "failed"}
    assert (run.tasks["task"]["tries"], stand_in.calls) == (tries, tries)
    assert "sorry" in run.printed


def test_the_data_interval_becomes_a_date(home: AirflowHome) -> None:
    stand_in = home.stand_in(FINE)
    asked = f'project="/p", tables=["-odd"], python={str(stand_in.python)!r}, env={{"A": "{{{{ ds }}}}"}}'
    home.write(single("BackhaulExtractOperator", asked))
    run = home.test("one", "2026-03-05T01:00:00+01:00")
    assert run.states() == {"task": "success"}, run.printed
    assert run.tasks["task"]["result"]["tables"] == [{"table": "orders", "rows": 2}]
    # From the 4th to the 5th in Berlin: in UTC it would begin on the 3rd.
    assert stand_in.environment["BACKHAUL_DATA_DATES"] == "2026-03-04"
    assert stand_in.environment["BACKHAUL_RUN_REASON"].startswith("airflow manual: one manual__")
    assert stand_in.environment["A"] == "2026-03-05"
    expected = ["-P", "-m", "backhaul", "extract", "--project", "/p", "--json", "--", "-odd"]
    assert stand_in.arguments == expected


def test_a_window_is_the_data_interval(home: AirflowHome) -> None:
    stand_in = home.stand_in(FINE)
    asked = f'project="/p", window=True, date_offset=3, python={str(stand_in.python)!r}'
    home.write(single("BackhaulExtractOperator", asked))
    home.test("one", "2026-03-05T01:00:00+01:00")
    window = ["--from", "2026-03-03T23:00:00+00:00", "--to", "2026-03-04T23:00:00+00:00"]
    assert stand_in.arguments[-4:] == window
    assert stand_in.environment["BACKHAUL_DATA_DATES"] == "2026-03-02"


def test_a_window_without_an_interval_is_refused(home: AirflowHome) -> None:
    asked = 'project="/p", window=True, retries=2'
    home.write(single("BackhaulExtractOperator", asked, schedule="None"))
    run = home.test("one")
    assert (run.states(), run.tasks["task"]["tries"]) == ({"task": "failed"}, 1)
    assert "CronDataIntervalTimetable" in run.printed


def test_a_timeout_ends_the_whole_group(home: AirflowHome) -> None:
    """The command's own children too, though it does not listen."""
    stand_in = home.stand_in("trap '' TERM; sleep 600 & echo $! > $(dirname $0)/child; wait; wait")
    asked = f'project="/p", execution_timeout=timedelta(seconds=2), python={str(stand_in.python)!r}'
    home.write(single("BackhaulRunOperator", asked))
    run = home.test("one")
    assert run.states() == {"task": "failed"}
    assert not is_alive(int((stand_in.folder / "child").read_text()))


def test_an_interpreter_that_is_not_there_fails_at_once(home: AirflowHome) -> None:
    home.write(single("BackhaulRunOperator", 'project="/p", retries=2, python="/nowhere/python"'))
    run = home.test("one")
    assert (run.states(), run.tasks["task"]["tries"]) == ({"task": "failed"}, 1)
    assert "BACKHAUL_PYTHON" in run.printed


def test_callbacks_are_called(home: AirflowHome, project: LoadProject) -> None:
    stand_in = home.stand_in("exit 1")
    arguments = (
        f'python={str(stand_in.python)!r}, default_args={{"retries": 1, "retry_delay": timedelta(0),'
        ' "on_failure_callback": note, "on_retry_callback": note}'
    )
    home.write(built(project, arguments).replace(f"python={sys.executable!r}, ", ""))
    run = home.test(f"{project.folder.name}.orders")
    assert run.states()["check"] == "failed"
    noted = (project.folder / "noted").read_text().splitlines()
    assert noted == ["check AirflowException", "check AirflowException"]


def test_tasks_have_retries_and_growing_pauses(home: AirflowHome, project: LoadProject) -> None:
    found = home.ask(
        f"""
        from datetime import timedelta
        from backhaul.airflow import build_dags

        folder = {str(project.folder)!r}
        own = build_dags(folder, per="project", default_args={{"retries": 7, "retry_delay": timedelta(0)}})
        found = [
            [
                task.task_id, task.retries, task.retry_delay.total_seconds(),
                task.retry_exponential_backoff, task.max_retry_delay.total_seconds(),
            ]
            for dags in (build_dags(folder), own)
            for dag in dags.values()
            for task in dag.tasks
        ]
        """
    )
    chain = ["check", "extract", "deletes", "load", "verify"]
    assert found[:5] == [[name, 3, 300.0, 2.0, 3600.0] for name in chain]
    assert found[5:] == [[name, 7, 0.0, 2.0, 3600.0] for name in ("check", "run", "verify")]


def test_pauses_really_grow(home: AirflowHome, project: LoadProject) -> None:
    """Airflow's own arithmetic over our values: each pause is about twice the one before."""
    found = home.ask(
        f"""
        from datetime import datetime, timezone
        from types import SimpleNamespace
        from airflow.models.taskinstance import TaskInstance
        from backhaul.airflow import build_dags

        (dag,) = build_dags({str(project.folder)!r}).values()
        end = datetime(2026, 3, 5, tzinfo=timezone.utc)
        found = []
        for attempt in range(1, 8):
            ti = SimpleNamespace(
                retry_delay_override=None, task=dag.task_dict["load"], try_number=attempt,
                dag_id=dag.dag_id, task_id="load", logical_date=end, end_date=end,
            )
            found.append((TaskInstance.next_retry_datetime(ti) - end).total_seconds())
        """
    )
    assert [300 * 2**n <= pause <= 600 * 2**n for n, pause in enumerate(found[:3])] == [True] * 3
    assert found[-1] == 3600


def test_schedules_have_data_intervals(home: AirflowHome, project: LoadProject) -> None:
    found = home.ask(
        f"""
        from airflow.sdk import Asset
        from backhaul.airflow import build_dags

        folder = {str(project.folder)!r}
        def schedule(**arguments):
            (dag,) = build_dags(folder, **arguments).values()
            made = dag.timetable
            return [type(made).__name__, getattr(made, "expression", None), str(dag.timezone)]

        found = [
            schedule(),
            schedule(schedule="0 6 * * 1", timezone="Europe/Berlin"),
            schedule(schedule={{"orders": None}}),
            schedule(schedule="@continuous"),
            schedule(schedule=[Asset("orders")]),
        ]
        """
    )
    assert found == [
        ["CronDataIntervalTimetable", "0 0 * * *", "UTC"],
        ["CronDataIntervalTimetable", "0 6 * * 1", "Europe/Berlin"],
        ["NullTimetable", None, "UTC"],
        ["ContinuousTimetable", None, "UTC"],
        ["AssetTriggeredTimetable", None, "UTC"],
    ]


def pipelines(project: LoadProject, text: str) -> None:
    (project.folder / "pipelines").mkdir()
    body = textwrap.indent(textwrap.dedent(text).strip("\n"), "  ")
    (project.folder / "pipelines" / "all.yml").write_text(f"pipelines:\n{body}\n")


def test_pipelines_become_dags(home: AirflowHome, project: LoadProject) -> None:
    pipelines(
        project,
        """
        nightly:
          tables: orders
          schedule: {daily: "", at: "02:30", timezone: Europe/Berlin, end: 2027-01-31}
          date_offset: 1
          retry: {schedule: "exponential 1m x3 max 10m", attempts: 5}
          timeout: 2h
          paused: true
        by_hand: {tables: orders, settings: {verb: extract}, retry: false}
        model: {platform: command, settings: {argv: [make]}}
        """,
    )
    found = home.ask(
        f"""
        from backhaul.airflow import build_dags

        made = build_dags({str(project.folder)!r}, per="pipeline")
        by_hand, nightly = [made[name] for name in sorted(made)]
        load, extract = nightly.task_dict["load"], by_hand.task_dict["extract"]
        found = [
            sorted(made), nightly.task_ids, by_hand.task_ids,
            [nightly.timetable.expression, str(nightly.timetable.timezone), str(nightly.timezone)],
            [nightly.end_date, nightly.is_paused_upon_creation, type(by_hand.timetable).__name__],
            [load.tables, load.date_offset, load.retries, load.retry_delay.total_seconds()],
            [load.retry_exponential_backoff, load.max_retry_delay.total_seconds()],
            [load.execution_timeout.total_seconds(), extract.retries, extract.execution_timeout],
        ]
        """
    )
    name = project.folder.name
    assert found == [
        [f"{name}.by_hand", f"{name}.nightly"],
        ["check", "extract", "deletes", "load", "verify"],
        ["check", "extract"],
        ["30 2 * * *", "Europe/Berlin", "Europe/Berlin"],
        ["2027-01-31 01:29:59+00:00", True, "NullTimetable"],
        [["orders"], 1, 5, 60.0],
        [3.0, 600.0],
        [7200.0, 0, None],
    ]


SCHEDULES = {
    "days": "{daily: '', at: '02:30', timezone: Europe/Berlin, start: 2026-02-27, end: 2026-11-01}",
    "weeks": "{weekly: 'mon,thu', start: 2026-03-03, end: 2026-06-30}",
    "sundays": "{weekly: sun, at: '23:00', start: 2026-03-01, end: 2026-06-30}",
    "months": "{monthly: '1,15', timezone: Asia/Tokyo, start: 2026-01-15, end: 2027-03-15}",
    "ends": "{monthly: last, start: 2026-01-31, end: 2028-03-31}",
    "seconds": "{monthly: 2nd-tue, start: 2026-01-01, end: 2027-12-31}",
    "twice": "{cron: '0 6,18 * * mon-fri', start: 2026-03-01, end: 2026-03-20}",
}


def test_airflow_runs_pipelines_when_the_control_plane_would(
    home: AirflowHome, project: LoadProject
) -> None:
    """Every run that Airflow's scheduler makes, first to last: what the clock says, and its date.

    The clock, not the instant: of an hour that it shows twice we take the first, Airflow the second.
    """
    text = "\n".join(
        f"{name}: {{tables: orders, date_offset: 1, schedule: {schedule}}}"
        for name, schedule in SCHEDULES.items()
    )
    pipelines(project, text)
    found = home.ask(
        f"""
        from airflow.serialization.encoders import coerce_to_core_timetable
        from airflow.timetables.base import TimeRestriction
        from backhaul.airflow import build_dags
        from backhaul.airflow.plan import data_date

        found = {{}}
        for dag_id, dag in build_dags({str(project.folder)!r}, per="pipeline").items():
            timetable = coerce_to_core_timetable(dag.timetable)
            bounds = TimeRestriction(dag.start_date, dag.end_date, catchup=True)
            runs, last = [], None
            while run := timetable.next_dagrun_info(
                last_automated_data_interval=last, restriction=bounds
            ):
                last = run.data_interval
                dated = data_date(last.start, last.end, dag.timezone, 1)
                at = run.run_after.in_timezone(dag.timezone).naive()
                runs.append([at.isoformat(), dated.isoformat()])
            found[dag_id.rpartition(".")[2]] = runs
        """
    )
    wide = datetime(2025, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    expected = {}
    for entry in load_project(project.folder).pipelines:
        due = due_between(entry.schedule(), *wide)
        zone = entry.schedule().zone
        expected[entry.pipeline_name] = [
            [
                one.scheduled_at.astimezone(zone).replace(tzinfo=None).isoformat(),
                one.data_date.isoformat(),
            ]
            for one in due
        ]
    assert all(expected.values())
    assert found == expected


def test_airflow_finds_the_dags_of_the_one_liner(home: AirflowHome, project: LoadProject) -> None:
    home.write(
        f"""
        from backhaul.airflow import build_dags

        globals().update(build_dags({str(project.folder)!r}))
        """
    )
    listed = home.command("-m", "airflow", "dags", "reserialize")
    listed = home.command("-m", "airflow", "dags", "list", "-o", "plain")
    assert f"{project.folder.name}.orders" in listed
    assert "No data" in home.command("-m", "airflow", "dags", "list-import-errors")


def test_a_wrong_project_is_an_import_error_of_airflow(
    home: AirflowHome, project: LoadProject
) -> None:
    project.manifest("orders: {source: nowhere, colour: red}")
    found = home.ask(
        f"""
        from backhaul.airflow import build_dags

        try:
            build_dags({str(project.folder)!r})
        except Exception as error:
            found = [type(error).__name__, str(error)]
        """
    )
    assert found[0] == "ConfigError"
    assert "colour" in found[1] and "manifest/shop.yml" in found[1]
