"""How is a plan shown? Per table: the decision and why, how much it is, its window, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.text import Text

from backhaul.cli.figures import count, duration, size, stored_moment
from backhaul.cli.screen import Screen, aligned, harmless, labelled, show_finding
from backhaul.extract.decide import Action
from backhaul.findings import Finding

if TYPE_CHECKING:
    from backhaul.extract.plan import TablePlan

_INDENT = 4
_STYLES = {
    Action.RESUME: "magenta",
    Action.BACKFILL: "blue",
    Action.INCREMENTAL: "green",
    Action.DELETES: "cyan",
    Action.NOTHING: "dim",
}


def plans_dict(plans: Sequence[TablePlan], connections: Mapping[str, int]) -> dict[str, Any]:
    """The document that `plan --json` prints."""
    return {
        "tables": [
            {**plan.as_dict(_lanes(plan, connections)), "findings": _dicts(findings_of(plan))}
            for plan in plans
        ],
        "estimated_rows": sum(plan.estimated_rows for plan in plans),
        "estimated_bytes": sum(plan.estimated_bytes for plan in plans),
        "estimated_seconds": _time(plans, connections).total_seconds(),
    }


def show_plans(
    screen: Screen,
    plans: Sequence[TablePlan],
    connections: Mapping[str, int],
    *,
    with_chunks: bool = False,
) -> None:
    """The whole plan, as a person reads it."""
    heads = aligned([[plan.table, _verb(plan)] for plan in plans])
    for plan, head in zip(plans, heads, strict=True):
        _show_plan(screen, plan, head, connections, with_chunks)
    if not plans:
        screen.say("no tables: manifest/ names none")
        return
    screen.say()
    screen.say(_total(plans, connections), style="bold")


def findings_of(plan: TablePlan) -> list[Finding]:
    """The plan's and its decision's, each once."""
    return list(dict.fromkeys([*plan.decision.findings, *plan.findings]))


def _show_plan(
    screen: Screen,
    plan: TablePlan,
    head: str,
    connections: Mapping[str, int],
    with_chunks: bool,
) -> None:
    line = Text(head)
    name = len(harmless(plan.table))
    line.stylize("bold", 0, name)
    line.stylize("bold red" if plan.error else _STYLES[plan.action], name)
    screen.out.print(line, soft_wrap=True)
    if plan.error:
        labelled(screen.out, "error", plan.error.message, plan.error.remedy, _INDENT)
    else:
        screen.say(f"why     {plan.decision.reason}", indent=_INDENT)
        _show_work(screen, plan, connections, with_chunks)
    for finding in findings_of(plan):
        show_finding(screen.out, finding, _INDENT)


def _show_work(
    screen: Screen, plan: TablePlan, connections: Mapping[str, int], with_chunks: bool
) -> None:
    if plan.decision.discard is not None:
        screen.say("first   the staged files of the interrupted export are deleted", indent=_INDENT)
    if plan.window:
        capped = ", capped: the next run goes on from there" if plan.window.capped else ""
        begin, end = stored_moment(plan.window.begin), stored_moment(plan.window.end)
        screen.say(f"window  {begin} → {end}{capped}", indent=_INDENT)
    if plan.action is not Action.NOTHING:
        screen.say(f"work    {_work(plan, connections)}", indent=_INDENT)
    if with_chunks:
        _show_chunks(screen, plan)


def _show_chunks(screen: Screen, plan: TablePlan) -> None:
    rows = [
        [str(i), str(chunk.relation or ""), _span(chunk.range), f"~{chunk.estimated_rows:,} rows"]
        for i, chunk in enumerate(plan.chunks, start=1)
    ]
    for line in aligned(rows, right=(0, 3)):
        screen.say(line, indent=_INDENT + 4)


def _span(span: Any) -> str:
    """A half-open range of the chunk key."""
    if span.nulls:
        return "rows whose key is NULL"
    if span.low is None and span.high is None:
        return "every row"
    low = "the start" if span.low is None else ", ".join(span.low)
    high = "the end" if span.high is None else ", ".join(span.high)
    return f"from {low} up to {high}"


def _verb(plan: TablePlan) -> str:
    if plan.error:
        return "cannot be planned"
    if plan.action is Action.RESUME:
        return f"resume {plan.kind.replace('_', ' ')}"
    return plan.action.value if plan.kind != "load_by_id" else f"{plan.action.value} by id"


def _work(plan: TablePlan, connections: Mapping[str, int]) -> str:
    left = " left" if plan.action is Action.RESUME else ""
    if not plan.estimated_rows:
        # Statistics are older than what a window is after.
        rows = "what is new or changed" if plan.window else "no rows by the statistics"
        return f"{count(len(plan.chunks), 'chunk')}{left}, {rows}"
    time = plan.estimated_time(_lanes(plan, connections))
    return ", ".join(
        (
            f"{count(len(plan.chunks), 'chunk')}{left}",
            f"about {count(plan.estimated_rows, 'row')}",
            size(plan.estimated_bytes),
            _about(time),
        )
    )


def _total(plans: Sequence[TablePlan], connections: Mapping[str, int]) -> str:
    chunks = sum(len(plan.chunks) for plan in plans)
    rows = sum(plan.estimated_rows for plan in plans)
    if not rows:
        return f"{count(len(plans), 'table')}: {count(chunks, 'chunk')}{_trouble(plans)}"
    amount = size(sum(plan.estimated_bytes for plan in plans))
    return (
        f"{count(len(plans), 'table')}: {count(chunks, 'chunk')}, about {count(rows, 'row')}, "
        f"{amount}, {_about(_time(plans, connections))}{_trouble(plans)}"
    )


def _trouble(plans: Sequence[TablePlan]) -> str:
    failed = sum(plan.error is not None for plan in plans)
    return f"; {count(failed, 'table')} cannot be planned" if failed else ""


def _about(time: timedelta) -> str:
    seconds = time.total_seconds()
    return "about a second" if seconds <= 1 else f"about {duration(round(seconds))}"


def _time(plans: Sequence[TablePlan], connections: Mapping[str, int]) -> timedelta:
    """Tables share their source's connections; sources are read side by side."""
    by_source: dict[str, timedelta] = {}
    for plan in plans:
        spent = by_source.get(plan.source, timedelta())
        # One connection's time, spread over the source's connections with the other tables.
        lanes = connections.get(plan.source, 1)
        by_source[plan.source] = spent + plan.estimated_time(1) / lanes
    return max(by_source.values(), default=timedelta())


def _lanes(plan: TablePlan, connections: Mapping[str, int]) -> int:
    return connections.get(plan.source, 1)


def _dicts(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [finding.as_dict() for finding in findings]
