"""How are all checks of a table asked with as little work as possible? Pure: checks become Spark SQL.

Whatever can be counted while the rows are written is an aggregate, and equal aggregates are one. They
belong to a place:

seen    the batch before rows are rejected: what the rules that reject rows find
kept    the batch as it is written: all other checks of it that need no other table
later   the batch as it was written, read again: references, where their check stops or warns
target  the table as it would be after the load

Uniqueness and queries need rows to meet: they are passes of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from backhaul.quality.checks import Check, Problem
from backhaul.quality.measures import Footer, Wanted, counted, measures
from backhaul.quality.predicates import Unfit, bad_row, count_where, enclosed
from backhaul.schema.model import TableSchema
from backhaul.spark.sql import quote_name

PLACES = ("seen", "kept", "later", "target")
_TARGET = re.compile(r"\btarget\b", re.IGNORECASE)
_INCOMPARABLE = ("map<", "variant", "struct<", "array<map<")


@dataclass(frozen=True)
class Metric:
    """An aggregate under the name that its value will have."""

    name: str
    sql: str
    footer: Footer | None = None


@dataclass(frozen=True)
class Rule:
    """A predicate that is TRUE for a bad row; `flag` is set where it needs another table."""

    index: int
    check: Check
    predicate: str
    flag: str | None = None


@dataclass(frozen=True)
class Unique:
    """A key (in SQL, NULL where a row is not looked at) that no two rows may share."""

    index: int
    check: Check
    key: str
    name: str


@dataclass
class Compiled:
    """What is asked of which rows. `uses` tells where each check's numbers are: index, role, name."""

    checks: tuple[Check, ...]
    schema: TableSchema
    target_schema: TableSchema
    metrics: dict[str, list[Metric]] = field(default_factory=lambda: {p: [] for p in PLACES})
    rules: dict[str, list[Rule]] = field(default_factory=lambda: {p: [] for p in PLACES})
    uses: dict[int, dict[str, str]] = field(default_factory=dict)
    uniques: list[Unique] = field(default_factory=list)
    queries: list[tuple[int, Check]] = field(default_factory=list)
    vouched: set[int] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def aggregates(self, place: str) -> dict[str, str]:
        return {metric.name: metric.sql for metric in self.metrics[place]}

    @property
    def rejecting(self) -> list[Rule]:
        """The rules that keep rows out of the target."""
        return self.rules["seen"]

    def schema_of(self, check: Check) -> TableSchema:
        return self.target_schema if check.on == "target" else self.schema


def compile_checks(
    checks: Sequence[Check],
    schema: TableSchema,
    *,
    target_schema: TableSchema | None = None,
    unique_by: Sequence[Sequence[str]] = (),
) -> Compiled:
    """`unique_by`: columns of which the loader itself has made sure that no two rows share them."""
    compiled = Compiled(tuple(checks), schema, target_schema or schema)
    compiled.metrics["kept"].append(Metric("kept_rows", "count(1)", Footer("rows")))
    for index, check in enumerate(checks):
        problems = _missing(index, check, compiled.schema_of(check))
        compiled.problems += problems
        if problems:
            continue
        try:
            _place(compiled, index, check, unique_by)
        except Unfit as error:
            message = f"{check.name}: {error}"
            compiled.problems.append(Problem(index, message, error.remedy, error.key))
    _count_rejected(compiled)
    return compiled


def needs_target(check: Check) -> bool:
    """A query may look at both; its words tell."""
    return check.on == "target" or bool(_TARGET.search(check.params.get("query", "")))


def _missing(index: int, check: Check, schema: TableSchema) -> list[Problem]:
    where = "the target" if check.on == "target" else "the batch"
    problems = []
    for name in check.columns:
        if schema.column(name) is None:
            near = _near(name, schema)
            remedy = f"did you mean `{near}`?" if near else f"columns: {', '.join(schema.names)}"
            message = f"{check.name}: {where} has no column `{name}`"
            problems.append(Problem(index, message, remedy, "column"))
    return problems


def _near(name: str, schema: TableSchema) -> str | None:
    lower = {column.lower(): column for column in schema.names}
    near = get_close_matches(name.lower(), list(lower), 1)
    return lower[near[0]] if near else None


def _place(
    compiled: Compiled, index: int, check: Check, unique_by: Sequence[Sequence[str]]
) -> None:
    if check.kind == "schema":
        return
    if check.kind == "unique":
        _unique(compiled, index, check, unique_by)
    elif "query" in check.params:
        compiled.queries.append((index, check))
    elif check.by_row:
        _rule(compiled, index, check)
    else:
        place = "target" if check.on == "target" else "kept"
        wanted = measures(check, compiled.schema_of(check))
        _use(compiled, place, index, [counted(check), *wanted])


def _unique(
    compiled: Compiled, index: int, check: Check, unique_by: Sequence[Sequence[str]]
) -> None:
    schema = compiled.schema_of(check)
    for name in check.columns:
        column = schema.column(name)
        if column and column.type.startswith(_INCOMPARABLE):
            message = f"`{name}` is of type {column.type}, which cannot be compared"
            raise Unfit(message, "name columns of plain types", "columns")
    place = "target" if check.on == "target" else "kept"
    _use(compiled, place, index, [counted(check)])
    if check.on == "batch" and any(set(known) <= set(check.columns) for known in unique_by):
        compiled.vouched.add(index)
        return
    names = [quote_name(name) for name in check.columns]
    conditions = [f"{name} IS NOT NULL" for name in names]
    if check.filter:
        conditions.insert(0, enclosed(check.filter))
    value = names[0] if len(names) == 1 else f"struct({', '.join(names)})"
    key = f"CASE WHEN {' AND '.join(conditions)} THEN {value} END"
    compiled.uniques.append(Unique(index, check, key, f"duplicates_{index}"))
    compiled.uses[index]["bad"] = f"duplicates_{index}"


def _rule(compiled: Compiled, index: int, check: Check) -> None:
    place = _rule_place(check)
    flag = f"_backhaul_found_{index}" if check.kind == "referential" else None
    predicate = bad_row(check, compiled.schema_of(check), flag or "")
    compiled.rules[place].append(Rule(index, check, predicate, flag))
    plain = check.kind == "not_null" and not check.filter
    footer = Footer("nulls", check.columns) if plain else None
    if check.kind == "between" and not check.filter:
        footer = Footer("outside", check.columns)
    _use(compiled, place, index, [counted(check), Wanted("bad", count_where(predicate), footer)])


def _rule_place(check: Check) -> str:
    if check.on == "target":
        return "target"
    if check.rejects:
        return "seen"
    return "later" if check.kind == "referential" else "kept"


def _use(compiled: Compiled, place: str, index: int, wanted: Sequence[Wanted]) -> None:
    known = {metric.sql: metric for metric in compiled.metrics[place]}
    roles = compiled.uses.setdefault(index, {})
    for one in wanted:
        if one.sql not in known:
            name = f"{place}_{len(known)}"
            known[one.sql] = Metric(name, one.sql, one.footer)
            compiled.metrics[place].append(known[one.sql])
        roles[one.role] = known[one.sql].name


def _count_rejected(compiled: Compiled) -> None:
    """How many rows are set aside, and how many are dropped and nothing else."""
    if not compiled.rejecting:
        return
    aside, drop = quarantined(compiled.rejecting), dropped(compiled.rejecting)
    compiled.metrics["seen"] += [
        Metric("seen_rows", "count(1)", Footer("rows")),
        Metric("seen_quarantined", count_where(aside)),
        Metric("seen_dropped", count_where(f"{drop} AND NOT {aside}")),
    ]


def any_of(rules: Sequence[Rule]) -> str:
    return f"({' OR '.join(rule.predicate for rule in rules)})" if rules else "false"


def quarantined(rules: Sequence[Rule]) -> str:
    """TRUE for rows to be set aside: also for those that another rule would drop, so none is lost."""
    return any_of([rule for rule in rules if rule.check.on_fail == "quarantine"])


def dropped(rules: Sequence[Rule]) -> str:
    return any_of([rule for rule in rules if rule.check.on_fail == "drop"])
