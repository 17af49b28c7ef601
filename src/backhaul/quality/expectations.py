"""What is each of Great Expectations' expectations in our own words? Pure.

Every function gives the items that parse.py would have read under `checks:`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backhaul.findings import Level
from backhaul.spark.sql import quote_literal, quote_name

Item = dict[str, Any]
Kwargs = Mapping[str, Any]


class Untranslatable(Exception):
    """An expectation that cannot be said here; one that is wrong in itself is an error."""

    level = Level.WARNING

    def __init__(self, message: str, remedy: str | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.remedy, self.key = remedy, key


class Malformed(Untranslatable):
    """An expectation that Great Expectations would not understand either."""

    level = Level.ERROR


def _not_null(kwargs: Kwargs) -> list[Item]:
    return [{"not_null": _given(kwargs, "column")}]


def _is_null(kwargs: Kwargs) -> list[Item]:
    return _condition(f"{_name(kwargs)} IS NULL")


def _unique(kwargs: Kwargs) -> list[Item]:
    return [{"unique": _given(kwargs, "column")}]


def _compound_unique(kwargs: Kwargs) -> list[Item]:
    return [{"unique": _given(kwargs, "column_list")}]


def _in_set(kwargs: Kwargs) -> list[Item]:
    values = kwargs.get("value_set")
    return [{"accepted_values": {"column": kwargs.get("column"), "values": values}}]


def _not_in_set(kwargs: Kwargs) -> list[Item]:
    return _condition(f"{_name(kwargs)} NOT IN ({_literals(_given(kwargs, 'value_set'))})")


def _between(kwargs: Kwargs) -> list[Item]:
    return [{"between": {"column": kwargs.get("column"), **_limits(kwargs)}}]


def _limits(kwargs: Kwargs) -> Item:
    strict = bool(kwargs.get("strict_min")), bool(kwargs.get("strict_max"))
    sides: dict[tuple[bool, bool], Any] = {(True, False): "min", (False, True): "max"}
    limits = {"min": kwargs.get("min_value"), "max": kwargs.get("max_value")}
    if limits["min"] is None and limits["max"] is None:
        raise Untranslatable("an expectation with neither `min_value` nor `max_value` says nothing",
                          "give one of them, or remove it", "min_value")  # fmt: skip
    return {**limits, "strict": sides.get(strict, strict[0])}


def _lengths(kwargs: Kwargs) -> list[Item]:
    limits, length = _limits(kwargs), f"length({_name(kwargs)})"
    low = f"{length} {'>' if kwargs.get('strict_min') else '>='} {_literal(limits['min'])}"
    high = f"{length} {'<' if kwargs.get('strict_max') else '<='} {_literal(limits['max'])}"
    wanted = [(limits["min"], low), (limits["max"], high)]
    return _condition(" AND ".join(text for limit, text in wanted if limit is not None))


def _regex(kwargs: Kwargs) -> list[Item]:
    return [{"regex": {"column": kwargs.get("column"), "pattern": kwargs.get("regex")}}]


def _not_regex(kwargs: Kwargs) -> list[Item]:
    pattern = quote_literal(str(_given(kwargs, "regex")))
    return _condition(f"NOT ({_name(kwargs)} RLIKE {pattern})")


def _row_count(kwargs: Kwargs) -> list[Item]:
    limits = _limits(kwargs)
    return [{"row_count": {"min": limits["min"], "max": limits["max"]}}]


def _row_count_equals(kwargs: Kwargs) -> list[Item]:
    return [{"row_count": {"equals": _given(kwargs, "value")}}]


def _exists(kwargs: Kwargs) -> list[Item]:
    return [{"schema": {"columns": [_given(kwargs, "column")]}}]


def _of_type(kwargs: Kwargs) -> list[Item]:
    return [{"schema": {"columns": {_given(kwargs, "column"): kwargs.get("type_")}}}]


def _column_set(kwargs: Kwargs) -> list[Item]:
    exact = kwargs.get("exact_match")
    columns = list(_given(kwargs, "column_set"))
    return [{"schema": {"columns": columns, "strict": exact is None or bool(exact)}}]


def _column_list(kwargs: Kwargs) -> list[Item]:
    columns = _given(kwargs, "column_list")
    return [{"schema": {"columns": columns, "strict": True, "ordered": True}}]


def _statistic(of: str) -> Callable[[Kwargs], list[Item]]:
    def translate(kwargs: Kwargs) -> list[Item]:
        return [{"statistic": {"column": kwargs.get("column"), "of": of, **_limits(kwargs)}}]

    return translate


def _quantiles(kwargs: Kwargs) -> list[Item]:
    """One check per quantile, as they fail one by one."""
    ranges = kwargs.get("quantile_ranges")
    if not isinstance(ranges, Mapping):
        raise Malformed("`quantile_ranges` is missing", "give quantiles and value_ranges", "kwargs")
    pairs = zip(ranges.get("quantiles", ()), ranges.get("value_ranges", ()), strict=False)
    column = kwargs.get("column")
    return [
        {"statistic": {"column": column, "of": "quantile", "quantile": share, "min": low, "max": high},
         "name": f"quantile {share}({column})"}
        for share, (low, high) in pairs
        if low is not None or high is not None
    ]  # fmt: skip


def _non_null_share(kwargs: Kwargs) -> list[Item]:
    if kwargs.get("max_value") not in (None, 1, 1.0):
        raise Untranslatable("`max_value` of a share of values that are not NULL is not supported",
                          "leave it out, or write it as a check of kind sql", "max_value")  # fmt: skip
    least = _given(kwargs, "min_value")
    share = round(1 - least, 12) if isinstance(least, int | float) else least
    return [{"null_ratio": {"column": kwargs.get("column"), "max": share}}]


def _null_share(kwargs: Kwargs) -> list[Item]:
    if kwargs.get("min_value") not in (None, 0, 0.0):
        raise Untranslatable("`min_value` of a share of NULLs is not supported",
                          "leave it out, or write it as a check of kind sql", "min_value")  # fmt: skip
    return [{"null_ratio": {"column": kwargs.get("column"), "max": _given(kwargs, "max_value")}}]


def _pair_equal(kwargs: Kwargs) -> list[Item]:
    first, second = _pair(kwargs)
    return _condition(_pairs_looked_at(kwargs, f"{first} = {second}"))


def _pair_greater(kwargs: Kwargs) -> list[Item]:
    first, second = _pair(kwargs)
    sign = ">=" if kwargs.get("or_equal") else ">"
    return _condition(_pairs_looked_at(kwargs, f"{first} {sign} {second}"))


def _pair_in_set(kwargs: Kwargs) -> list[Item]:
    first, second = _pair(kwargs)
    allowed = " OR ".join(
        f"({first} <=> {_literal(one)} AND {second} <=> {_literal(two)})"
        for one, two in _given(kwargs, "value_pairs_set")
    )
    return _condition(_pairs_looked_at(kwargs, f"({allowed})"))


def _pair(kwargs: Kwargs) -> tuple[str, str]:
    return quote_name(_given(kwargs, "column_A")), quote_name(_given(kwargs, "column_B"))


def _pairs_looked_at(kwargs: Kwargs, condition: str) -> str:
    """A pair with one NULL is bad unless the expectation says to ignore it."""
    first, second = _pair(kwargs)
    ignored = kwargs.get("ignore_row_if") or "both_values_are_missing"
    if ignored == "either_value_is_missing":
        return f"{first} IS NULL OR {second} IS NULL OR {condition}"
    if ignored == "both_values_are_missing":
        return f"({first} IS NULL AND {second} IS NULL) OR coalesce({condition}, false)"
    return f"coalesce({condition}, false)"


def _condition(text: str) -> list[Item]:
    return [{"sql": {"condition": text}, "name": text[:120]}]


def _name(kwargs: Kwargs) -> str:
    return quote_name(str(_given(kwargs, "column")))


def _given(kwargs: Kwargs, key: str) -> Any:
    value = kwargs.get(key)
    if value is None or value == []:
        raise Malformed(f"`{key}` is missing", "give it in the expectation's kwargs", key)
    return value


def _literals(values: Any) -> str:
    return ", ".join(_literal(value) for value in values)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else quote_literal(str(value))


EXPECTATIONS: dict[str, Callable[[Kwargs], list[Item]]] = {
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_null": _is_null,
    "expect_column_values_to_be_unique": _unique,
    "expect_compound_columns_to_be_unique": _compound_unique,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": _not_in_set,
    "expect_column_values_to_be_between": _between,
    "expect_column_value_lengths_to_be_between": _lengths,
    "expect_column_values_to_match_regex": _regex,
    "expect_column_values_to_not_match_regex": _not_regex,
    "expect_column_values_to_be_of_type": _of_type,
    "expect_table_row_count_to_be_between": _row_count,
    "expect_table_row_count_to_equal": _row_count_equals,
    "expect_column_to_exist": _exists,
    "expect_table_columns_to_match_set": _column_set,
    "expect_table_columns_to_match_ordered_list": _column_list,
    "expect_column_mean_to_be_between": _statistic("mean"),
    "expect_column_stdev_to_be_between": _statistic("stddev"),
    "expect_column_median_to_be_between": _statistic("median"),
    "expect_column_min_to_be_between": _statistic("min"),
    "expect_column_max_to_be_between": _statistic("max"),
    "expect_column_sum_to_be_between": _statistic("sum"),
    "expect_column_quantile_values_to_be_between": _quantiles,
    "expect_column_proportion_of_non_null_values_to_be_between": _non_null_share,
    "expect_column_proportion_of_null_values_to_be_between": _null_share,
    "expect_column_pair_values_to_be_equal": _pair_equal,
    "expect_column_pair_values_a_to_be_greater_than_b": _pair_greater,
    "expect_column_pair_values_to_be_in_set": _pair_in_set,
}
