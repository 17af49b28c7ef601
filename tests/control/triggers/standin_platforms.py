"""Which platforms do the tests of triggers talk to? Servers that keep the documented APIs as far as we
use them, and count what they started."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, ClassVar

from tests.control.triggers.standins import SECRET, Asked, Platform, Reply, Run


class Databricks(Platform):
    """Jobs API 2.2, and the machine-to-machine log-in."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.output_error: str | None = "Boom in cell 3"
        super().__init__()

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/.well-known/databricks-config":
            return Reply(document={"oidc_endpoint": f"{self.url}/oidc", "workspace_id": "7"})
        if asked.path.startswith("/oidc/"):
            return self._oidc(asked)
        if self.is_locked_out or asked.headers.get("authorization") != f"Bearer {SECRET}":
            return Reply(401, {"error_code": "UNAUTHENTICATED", "message": f"bad token {SECRET}"})
        name = asked.path.removeprefix("/api/2.2/jobs/")
        answers: dict[str, Callable[[Asked], Reply]] = {
            "run-now": self._run_now,
            "runs/get": self._get,
            "runs/get-output": lambda _asked: Reply(document={"error": self.output_error}),
            "runs/cancel": self._cancel,
        }
        return answers[name](asked)

    def _oidc(self, asked: Asked) -> Reply:
        if asked.path.endswith("oauth-authorization-server"):
            endpoints = {"authorization_endpoint": f"{self.url}/oidc/v1/authorize"}
            return Reply(document={**endpoints, "token_endpoint": f"{self.url}/oidc/v1/token"})
        if asked.headers.get("authorization") != _basic("me", SECRET) or self.is_locked_out:
            document = {
                "error": "invalid_client",
                "error_description": "Client authentication failed",
            }
            return Reply(401, document)
        token = {"access_token": SECRET, "token_type": "Bearer", "expires_in": 3600}
        return Reply(document=token)

    def _run_now(self, asked: Asked) -> Reply:
        given = asked.json
        if given["job_id"] == 404:
            return Reply(
                400, {"error_code": "INVALID_PARAMETER_VALUE", "message": "Job 404 does not exist."}
            )
        token = given["idempotency_token"]
        if token not in self.tokens:
            self.tokens[token] = self.begin(given)[0]
        number = int(self.tokens[token])
        return Reply(document={"run_id": number, "number_in_job": number})

    def _get(self, asked: Asked) -> Reply:
        number = asked.query["run_id"]
        if number not in self.runs:
            document = {
                "error_code": "INVALID_PARAMETER_VALUE",
                "message": f"Run {number} does not exist.",
            }
            return Reply(400, document)
        return Reply(document=self._document(number, self.runs[number]))

    def _document(self, number: str, run: Run) -> dict[str, Any]:
        life = "RUNNING" if run.state == "running" else "TERMINATED"
        state = {"life_cycle_state": life, "state_message": run.message}
        words = {"succeeded": "SUCCESS", "failed": "FAILED", "cancelled": "CANCELED"}
        if run.state != "running":
            state["result_state"] = words.get(run.state, run.state)
        page = f"{self.url}/#job/1/run/{number}"
        task = {"run_id": 9000, "task_key": "load", "state": state}
        found = {"run_id": int(number), "state": state, "run_page_url": page, "tasks": [task]}
        return {**found, "run_duration": 1500}

    def _cancel(self, asked: Asked) -> Reply:
        run = self.runs[str(asked.json["run_id"])]
        if run.state != "running":
            document = {"error_code": "INVALID_STATE", "message": "The run has ended."}
            return Reply(400, document)
        run.state = "cancelled"
        return Reply(document={})


class DbtCloud(Platform):
    """Administrative API v2."""

    STATES: ClassVar[dict[str, int]] = {
        "running": 3,
        "succeeded": 10,
        "failed": 20,
        "cancelled": 30,
    }

    def __init__(self) -> None:
        self.run_results: dict[str, Any] | None = None
        self.steps: list[dict[str, Any]] = []
        super().__init__()

    def answer(self, asked: Asked) -> Reply:
        if self.is_locked_out or asked.headers.get("authorization") != f"Token {SECRET}":
            return self._wrapped(None, 401, f"Invalid token {SECRET}")
        parts = asked.path.removeprefix("/api/v2/accounts/1/").strip("/").split("/")
        if parts[0] == "jobs":
            if parts[1] == "404":
                return self._wrapped(None, 404, "Not found.")
            return self._wrapped(self._document(*self.begin(asked.json)))
        if len(parts) == 1:
            return self._wrapped(self._page(asked))
        if len(parts) > 2 and parts[2] == "artifacts":
            return self._artifact(asked)
        if parts[-1] == "cancel":
            self.runs[parts[1]].state = "cancelled"
        return self._wrapped(self._document(parts[1], self.runs[parts[1]]))

    def _artifact(self, asked: Asked) -> Reply:
        if self.run_results is None:
            return self._wrapped(None, 404, "Not found.")
        return Reply(document=self.run_results)

    def _page(self, asked: Asked) -> list[dict[str, Any]]:
        begin, size = int(asked.query.get("offset", 0)), int(asked.query.get("limit", 100))
        newest = sorted(self.runs.items(), key=lambda item: -item[1].number)
        return [self._document(*item) for item in newest[begin : begin + size]]

    def _document(self, number: str, run: Run) -> dict[str, Any]:
        return {
            "id": int(number),
            "status": self.STATES[run.state],
            "status_humanized": run.state.title(),
            "status_message": run.message or None,
            "href": f"{self.url}/runs/{number}",
            "trigger": {"cause": (run.given or {}).get("cause")},
            "run_steps": self.steps,
        }

    def _wrapped(self, data: Any, status: int = 200, message: str = "Success!") -> Reply:
        said = {"code": status, "is_success": status == 200, "user_message": message}
        return Reply(status, {"status": said, "data": data})


class Airflow(Platform):
    """REST API v2 of Airflow 3: /auth/token, dagRuns, taskInstances."""

    def __init__(self) -> None:
        self.token = "jwt-1-" + SECRET
        self.failed_tasks = ["load"]
        self.stale_status = 403
        self.dates: set[str] = set()
        super().__init__()

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/auth/token":
            if self.is_locked_out or asked.json["password"] != SECRET:
                return Reply(401, {"detail": f"Invalid credentials {SECRET}"})
            return Reply(201, {"access_token": self.token})
        if self.is_locked_out:
            return Reply(401, {"detail": "Not authenticated"})
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return Reply(self.stale_status, {"detail": "Invalid JWT token"})
        parts = asked.path.removeprefix("/api/v2/dags/").split("/")
        if parts[0] == "404":
            return Reply(404, {"detail": "DAG with dag_id: '404' not found"})
        if len(parts) == 2:
            return self._trigger(asked.json)
        run = self.runs.get(parts[2])
        if run is None:
            return Reply(404, {"detail": f"The DagRun with run_id: `{parts[2]}` was not found"})
        if len(parts) > 3:
            found = [{"task_id": name, "state": "failed"} for name in self.failed_tasks]
            return Reply(document={"task_instances": found, "total_entries": len(found)})
        if asked.method == "PATCH":
            run.state, run.message = asked.json["state"], asked.json["note"]
        return Reply(document=self._document(parts[2], run))

    def _trigger(self, given: dict[str, Any]) -> Reply:
        run_id, logical_date = given["dag_run_id"], given["logical_date"]
        if run_id in self.runs or logical_date in self.dates:
            return Reply(409, {"detail": {"reason": "Unique constraint violation"}})
        self.dates |= {logical_date} if logical_date else set()
        self.begin(given, run_id)
        return Reply(document=self._document(run_id, self.runs[run_id]))

    def _document(self, run_id: str, run: Run) -> dict[str, Any]:
        states = {"succeeded": "success", "cancelled": "failed"}
        ended = None if run.state == "running" else "2026-03-01T00:00:05Z"
        return {
            "dag_run_id": run_id,
            "state": states.get(run.state, run.state),
            "note": run.message or None,
            "start_date": "2026-03-01T00:00:00Z",
            "end_date": ended,
        }


class AnyJob(Platform):
    """A service of somebody's own: POST /jobs, GET /jobs/{id}, DELETE /jobs/{id}."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.redirect: str | None = None
        super().__init__()

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/hop" and self.redirect:
            return Reply(307, headers={"Location": self.redirect})
        if asked.path == "/moved":
            return Reply(301, headers={"Location": "/jobs"})
        if asked.path == "/big":
            return Reply(content=b'{"id": "' + b"x" * 3_000_000 + b'"}')
        if self.is_locked_out or asked.headers.get("authorization") != f"Bearer {SECRET}":
            return Reply(401, {"error": f"who is {SECRET}?"})
        if asked.path == "/404/jobs":
            return Reply(404, {"error": "no such job"})
        if asked.path == "/jobs":
            key = asked.headers["idempotency-key"]
            if key not in self.keys:
                self.keys[key] = self.begin(asked.body)[0]
            return Reply(202, {"data": [{"id": int(self.keys[key])}]})
        run = self.runs[asked.path.rsplit("/", 1)[1]]
        if asked.method == "DELETE":
            run.state = "cancelled"
        return Reply(document={"job": {"state": run.state.upper(), "why": run.message}})


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
