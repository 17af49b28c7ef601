"""Are a run's templates filled in, their mistakes told without a value, and Python out of reach?"""

from __future__ import annotations

import time
from datetime import date
from typing import Any

import pytest

from backhaul.errors import ConfigError
from backhaul.project.runtime import mistakes, named, named_parameters, render, run_values

SECRET = "hunter2secret"
ENVIRON = {"TOKEN": SECRET, "BRACES": "{{ date }}"}
DATES = (date(2026, 1, 30), date(2026, 1, 31), date(2026, 2, 1))


def values(*dates: date, **params: str) -> dict[str, Any]:
    return run_values(dates=dates, run_id="r-1", pipeline="daily_orders", attempt=2, params=params)


def rendered(text: str, *dates: date, **params: str) -> Any:
    return render(text, values(*(dates or DATES[:1]), **params), ENVIRON)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ date }}", "2026-01-30"),
        ("{{date}}/{{ date }}", "2026-01-30/2026-01-30"),
        ("{{ date.strftime('%Y/%m/%d') }}", "2026/01/30"),
        ("{{ date | format('%Y%m%d') }}", "20260130"),
        ("{{ date.year }}-{{ date.month }}", "2026-1"),
        ("{{ date.replace(day=1) }}", "2026-01-01"),
        ("{{ end + days(1) }}", "2026-01-31"),
        ("{{ date - days(7) }}", "2026-01-23"),
        ("{{ (end - start).days + 1 }}", "1"),
        ("{{ start }}..{{ end }}", "2026-01-30..2026-01-30"),
        ("{{ dates | join(',') }}", "2026-01-30"),
        ("{{ dates[0] }}", "2026-01-30"),
        ("{{ run_id }} {{ pipeline }} {{ attempt }} {{ is_backfill }}", "r-1 daily_orders 2 false"),
        ("{{ params.region }}", "eu"),
        ("{{ params['region'] | upper }}", "EU"),
        ("{{ params.items }}", "a parameter"),
        ("{{ params.gone | default('none') }}", "none"),
        ("{{ params.region | tojson }}", '"eu"'),
        ("{{ params.region | replace('e', 'a') }}", "au"),
        ("{{ 'a b/c' | urlencode }}", "a%20b%2Fc"),
        ("{{ 'x' if params.region == 'eu' else 'y' }}", "x"),
        ('{{ env("TOKEN") }}', SECRET),
        ('{{ env("GONE", "default") }}', "default"),
        ('{{ env("BRACES") }}', "{{ date }}"),
        ('{{ "{{" }} x }}', "{{ x }}"),
        ('{"a": {"b": "{{ date }}"}}', '{"a": {"b": "2026-01-30"}}'),
        ("{% raw %} {# no #}", "{% raw %} {# no #}"),
        ("{{ 7 // 2 * 3 }}", "9"),
        ("nothing", "nothing"),
    ],
)
def test_values(text: str, said: str) -> None:
    assert list(mistakes(text)) == []
    assert rendered(text, region="eu", items="a parameter") == said


def test_several_dates() -> None:
    assert rendered("{{ dates | format('%d') | join('+') }}", *DATES) == "30+31+01"
    assert rendered("{{ start }} {{ end }} {{ dates | length }}", *DATES).endswith("2026-02-01 3")


def test_a_run_of_several_dates_has_no_date() -> None:
    with pytest.raises(ConfigError, match="has no value in this run") as caught:
        rendered("{{ date }}", *DATES)
    assert "a run of several dates has start and end" in str(caught.value)


def test_a_run_without_dates_has_none() -> None:
    with pytest.raises(ConfigError):
        render("{{ start }}", values(), ENVIRON)
    assert render("{{ dates | length }}", values(), ENVIRON) == "0"


def test_mappings_and_lists_keep_their_shape() -> None:
    value = {"a": ["{{ date }}", 5, {"b": "{{ params.region }}"}], "c": None, "d": True, "e": 1.5}
    found = render(value, values(DATES[0], region="eu"), ENVIRON)
    assert found == {"a": ["2026-01-30", 5, {"b": "eu"}], "c": None, "d": True, "e": 1.5}
    assert value["a"] == ["{{ date }}", 5, {"b": "{{ params.region }}"}]


def test_an_error_names_the_key_path_and_what_is_there() -> None:
    with pytest.raises(ConfigError) as caught:
        render({"body": [{"day": "{{ params.regoin }}"}]}, values(DATES[0], region="eu"), ENVIRON,
               at="settings")  # fmt: skip
    assert caught.value.message == (
        "`settings.body[0].day`: {{ params.regoin }} has no value in this run"
    )
    assert "the parameters: region" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "text",
    [
        '{{ env("TOKEN").nothing }}',
        '{{ env("TOKEN") + 1 }}',
        '{{ params[env("TOKEN")] }}',
        '{{ dates[env("TOKEN")] }}',
        '{{ env("TOKEN") | format("%Y") }}',
        '{{ days(env("TOKEN")) }}',
        '{{ env(env("TOKEN")) }}',
        '{{ date.strftime(env("TOKEN"), 5) }}',
    ],
)
def test_an_error_never_shows_a_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rendered(text)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_variable_is_told() -> None:
    with pytest.raises(ConfigError, match="environment variable is not set where this run works"):
        rendered('{{ env("GONE") }}')


@pytest.mark.parametrize("text", ["{{ dates }}", "{{ params }}", "{{ none }}", "{{ days(1) }}"])
def test_what_is_no_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this is"):
        rendered(text)


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__",
        "date.__class__",
        "date.__init__.__globals__",
        "env.__globals__",
        "env.func.__globals__",
        "days.__globals__",
        "dates.__class__",
        "params.__class__",
        "params.pop('region')",
        "dates.append(1)",
        "date.today()",
        "date.fromordinal(5)",
        "'{0.__class__}'.format(date)",
        "'%s' % date",
        "'x' * 10",
        "2 ** 2",
        "'a'.ljust(10)",
        "'a'.zfill(10)",
        "'a'.replace('a', 'b')",
        "run_id.encode()",
        "self",
        "range(10)",
        "lipsum()",
        "cycler",
        "date | attr('__class__')",
        "'x' | center(100)",
        "dates | map('string')",
        "dates | pprint",
        "import os",
        "date; date",
        "(",
        "date +",
        "1 / 0",
        "(" * 200 + "1" + ")" * 200,
        "date" + "|first" * 70,
    ],
)
def test_nothing_of_python_is_reachable(expression: str) -> None:
    with pytest.raises(ConfigError):
        rendered(f"{{{{ {expression} }}}}", region="eu")


@pytest.mark.parametrize(
    "expression",
    [
        "'aaaaaaaaaa'" + "|replace('a','aaaaaaaaaaaaaaaa')" * 13,
        "'x'" + "|replace('','xxxxxxxxx')" * 18,
        "'\\\\'" + "|tojson" * 25,
        "'\"'" + "|tojson" * 25,
        "'%'" + "|urlencode" * 40,
        "9" * 400,
        "9" * 100 + " * " + "9" * 100,
        "date.strftime('%999999999d')",
        "date + days(99999999999)",
        "days(9**9**9)",
    ],
)
def test_no_expression_fills_the_memory_or_the_time(expression: str) -> None:
    began = time.monotonic()
    try:
        found = rendered(f"{{{{ {expression} }}}}")
    except ConfigError:
        found = ""
    assert len(found) <= 1_000_000
    assert time.monotonic() - began < 3


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ConfigError, match="longer than"):
        rendered("{{ params.x }}" * 20, x="x" * 100_000)
    with pytest.raises(ConfigError, match="more than"):
        render(["x"] * 30_000, {}, {})
    deep: Any = "{{ date }}"
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ConfigError, match="nested too deep"):
        render(deep, values(DATES[0]), {})


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("{{ dat }}", "template_unknown", "`dat` is not known here"),
        ("{{ date | formt('%Y') }}", "template_invalid", "formt"),
        ("{{ date + }}", "template_invalid", "cannot be read"),
        ("{{ date date }}", "template_invalid", "cannot be read"),
        ("{{ ref('orders') }}", "template_unknown", "`ref`"),
        ("{{ date }", "template_invalid", "does not end"),
        ("{{ params.x" + "|upper" * 60 + " }}", "template_invalid", "cannot be read"),
    ],
)
def test_mistakes_are_found_before_any_run(text: str, code: str, part: str) -> None:
    (mistake,) = mistakes(text)
    assert mistake.code == code
    assert part in mistake.message
    assert mistake.remedy


def test_names_may_be_fewer() -> None:
    (mistake,) = mistakes("{{ params.x }} {{ date }}", ("date",))
    assert (mistake.code, mistake.remedy) == ("template_unknown", "valid: date, env, days")


def test_what_a_text_names() -> None:
    text = "{{ date + days(1) }} {{ params.a }} {{ params['b'] }} {{ params.c | default('') }} {{ ("
    assert named(text) == {"date", "days", "params"}
    assert named_parameters(text) == {"a", "b"}
