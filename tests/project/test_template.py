"""What do templates stand for, and can they do anything but read a variable?"""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.findings import Finding
from backhaul.project.document import read_text
from backhaul.project.template import UNSET, Templates

ENVIRON = {"USER_NAME": "ann", "PORT": "5432", "NASTY": "a: b # c\n- '\"{{ env('PORT') }}"}


def read(text: str) -> tuple[Any, list[Finding]]:
    document, findings = read_text(text, "f.yml", Templates(ENVIRON))
    assert document is not None
    return document.root.plain(), findings


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{{ env("USER_NAME") }}', "ann"),
        ("{{env('USER_NAME')}}", "ann"),
        ('"{{ env(\\"USER_NAME\\") }}"', "ann"),
        ("'{{ env(''USER_NAME'') }}'", "ann"),
        ('{{ env("GONE", "default") }}', "default"),
        ('{{ env("GONE", "") }}', ""),
        ('{{ env("GONE", "}}") }}', "}}"),
        ('x-{{ env("USER_NAME") }}-{{ env("PORT") }}', "x-ann-5432"),
        ('{{ env("PORT") }}', "5432"),
        ('{{ env("NASTY") }}', ENVIRON["NASTY"]),
        ('{{ "{{" }}', "{{"),
        ("a {b} {% c %} {# d", "a {b} {% c %} {# d"),
    ],
)
def test_values(written: str, value: str) -> None:
    assert read(f"a: {written}\n") == ({"a": value}, [])


def test_a_block_keeps_its_lines() -> None:
    value, findings = read('a: |\n  one {{ env("PORT") }}\n  two\nb: 1\n')
    assert (value, findings) == ({"a": "one 5432\ntwo\n", "b": 1}, [])


def test_a_missing_variable_is_named_with_its_line() -> None:
    value, findings = read('# {{ env("COMMENTED_OUT") }}\na: 1\nb: {{ env("GONE") }}\n')
    assert value["b"] == UNSET
    (finding,) = findings
    assert (finding.code, str(finding.place)) == ("env_missing", "f.yml:3")
    assert "GONE" in finding.message


@pytest.mark.parametrize(
    "expression",
    [
        "env.__globals__",
        "''.__class__.__mro__",
        "env('PORT').format.__self__",
        "nothing",
        "env(",
        "import os",
        "1 / 0",
        "don't",
        "[].append(1)",
        "range(10)",
        "{1,2},{3,4}",
        "'%s' % (1, 2)",
    ],
)
def test_anything_else_is_a_finding(expression: str) -> None:
    value, findings = read(f"a: x{{{{ {expression} }}}}\n")
    assert len(findings) == 1
    assert findings[0].code in ("template_invalid", "template_unsafe")
    assert UNSET in value["a"]


def test_a_marker_in_the_text_is_left_alone() -> None:
    text = 'a: backhaultemplate0x0z {{ env("PORT") }}\n'
    assert read(text) == ({"a": "backhaultemplate0x0z 5432"}, [])


def test_many_braces_are_read_quickly() -> None:
    value, findings = read("a: '" + "{" * 200_000 + "'\n")
    assert len(value["a"]) == 200_000
    assert not findings


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{{ env("GONE") }}', '{{ env("GONE") }}'),
        ('"x {{ env(\\"GONE\\") }}"', 'x {{ env("GONE") }}'),
        ("'{{ date | format(''%Y'') }}'", "{{ date | format('%Y') }}"),
        ("{{ date }} # no", "{{ date }}"),
    ],
)
def test_templates_for_later_are_kept(written: str, value: str) -> None:
    document, findings = read_text(f"a: {written}\n", "f.yml", Templates({}).for_later())
    assert document is not None
    assert (document.root.plain(), findings) == ({"a": value}, [])
