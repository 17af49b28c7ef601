"""What of Snowflake do the tests stand in for? What the emulator has not: statements that the server
runs on its own, their states, the query history, tasks and their history, and cancelling.

It speaks the connector's own protocol, as that is what the real connector sends.
"""

from __future__ import annotations

import uuid
from typing import Any

from tests.control.triggers.standins import SECRET, Asked, Fault, Platform, Reply, Run

IN_PROGRESS_ASYNC = "333334"
SESSION_GONE = "390112"


class Snowflake(Platform):
    """Login, async queries, /monitoring, query_history, EXECUTE TASK, task_history."""

    def __init__(self) -> None:
        self.by_request: dict[str, str] = {}
        self.tasks: dict[str, Run] = {}
        self.cancelled_tasks: list[str] = []
        self.is_session_gone = False
        self.logins = 0
        self.lost_text: str | None = None
        super().__init__()

    def lose_answers_to(self, text: str) -> None:
        """A start and a look into the history have the same path: they differ by their text."""
        self.lost_text = text

    def mend(self) -> None:
        super().mend()
        self.lost_text = None

    def fault_for(self, asked: Asked) -> Fault | None:
        is_query = asked.path.endswith("/query-request")
        if self.lost_text and is_query and asked.json["sqlText"].startswith(self.lost_text):
            return Fault(lost=True)
        return super().fault_for(asked)

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/session/v1/login-request":
            return self._login(asked)
        if asked.path == "/queries/v1/query-request":
            return self._gone() if self.is_session_gone else self._query(asked)
        if asked.path.startswith("/monitoring/queries/"):
            return self._gone() if self.is_session_gone else self._monitoring(asked)
        return Reply(document={"success": True, "data": None, "code": None, "message": None})

    def _gone(self) -> Reply:
        message = "Session no longer exists.  New login required to access the service."
        return Reply(
            document={"data": None, "code": "390111", "message": message, "success": False}
        )

    def _login(self, asked: Asked) -> Reply:
        if self.is_locked_out or asked.json["data"].get("PASSWORD") != SECRET:
            message = f"Incorrect username or password was specified: {SECRET}"
            document = {"data": {}, "code": "390100", "message": message, "success": False}
            return Reply(document=document)
        self.logins, self.is_session_gone = self.logins + 1, False
        data = {"token": "t", "masterToken": "m", "parameters": [], "sessionInfo": {}}
        return Reply(document={"data": data, "success": True, "code": None, "message": None})

    def _query(self, asked: Asked) -> Reply:
        text, given = asked.json["sqlText"], asked.json
        values = [one["value"] for _, one in sorted((given.get("bindings") or {}).items())]
        if "query_history_by_user" in text:
            return _rows(["QUERY_ID"], [[key] for key in self._tagged(values[0])[:1]])
        if "task_history" in text:
            return self._task_history(values[0])
        if "cancel_query" in text:
            return self._cancel(values[0])
        if "cancel_ongoing" in text:
            self.cancelled_tasks.append(values[0])
            self._end_tasks(values[0])
            return _rows(["STATUS"], [["cancelled"]])
        return self._submit(asked, given)

    def _submit(self, asked: Asked, given: dict[str, Any]) -> Reply:
        if "nowhere" in given["sqlText"]:
            message = "Object 'NOWHERE' does not exist or not authorized."
            data = {"errorCode": "002003", "sqlState": "42S02", "queryId": str(uuid.uuid4())}
            document = {"data": data, "code": "002003", "message": message, "success": False}
            return Reply(document=document)
        # The connector repeats a request with its id, and the server runs it once.
        request = asked.query["requestId"]
        if request not in self.by_request:
            self.by_request[request] = self.begin(given, str(uuid.uuid4()))[0]
            if given["sqlText"].startswith("EXECUTE TASK"):
                self.runs[self.by_request[request]].state = "succeeded"
                self.tasks[str(uuid.uuid4())] = Run(1, given["sqlText"])
        query = self.by_request[request]
        data = {"queryId": query, "getResultUrl": f"/queries/{query}/result"}
        return Reply(
            document={"data": data, "code": IN_PROGRESS_ASYNC, "message": "", "success": True}
        )

    def _tagged(self, tag: str) -> list[str]:
        return [
            key
            for key, run in self.runs.items()
            if (run.given.get("parameters") or {}).get("QUERY_TAG") == tag
        ]

    def _monitoring(self, asked: Asked) -> Reply:
        run = self.runs.get(asked.path.rsplit("/", 1)[1])
        if run is None:
            return Reply(document={"data": {"queries": []}, "success": True})
        words = {
            "running": ("RUNNING", "0"),
            "succeeded": ("SUCCESS", "0"),
            "failed": ("FAILED_WITH_ERROR", "100051"),
            "cancelled": ("FAILED_WITH_ERROR", "604"),
            "timed out": ("ABORTED", "630"),
        }
        status, code = words[run.state]
        query = {"status": status, "errorCode": code, "errorMessage": run.message}
        return Reply(document={"data": {"queries": [query]}, "success": True})

    def _task_history(self, name: str) -> Reply:
        names = ["STATE", "ERROR_MESSAGE", "QUERY_ID", "RUN_ID", "CONFIG"]
        rows = [
            [run.state.upper(), run.message or None, key, "1", run.given.split("$$")[1]]
            for key, run in self.tasks.items()
            if name.upper() in run.given.upper()
        ]
        for row in rows:
            row[0] = "EXECUTING" if row[0] == "RUNNING" else row[0]
            row[2] = None if row[0] == "SCHEDULED" else row[2]
        return _rows(names, rows)

    def _cancel(self, query: str) -> Reply:
        run = self.runs.get(query) or self.tasks[query]
        if run.state == "running":
            run.state, run.message = "cancelled", "SQL execution canceled"
        return _rows(["STATUS"], [["query terminated."]])

    def _end_tasks(self, name: str) -> None:
        for run in self.tasks.values():
            if name in run.given:
                run.state = "cancelled"


def _rows(names: list[str], rows: list[list[Any]]) -> Reply:
    types = [
        {"name": name, "type": "text", "nullable": True, "length": 100, "byteLength": 400}
        | {"scale": None, "precision": None}
        for name in names
    ]
    data = {
        "parameters": [],
        "rowtype": types,
        "rowset": rows,
        "total": len(rows),
        "returned": len(rows),
        "queryId": str(uuid.uuid4()),
        "queryResultFormat": "json",
        "statementTypeId": 4096,
    }
    return Reply(document={"data": data, "success": True, "code": None, "message": None})
