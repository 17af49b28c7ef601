"""Are variables filled in where SQL would read them, and braces of other kinds left alone?"""

from __future__ import annotations

import pytest

from backhaul.project.variables import filled, unknown_names
from tests.project.folder import Folder

VARIABLES = {"IDS": "(1, 2)", "NAME": "o'neil"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("id IN {IDS}", "id IN (1, 2)"),
        ("id IN { IDS } OR x IN {IDS}", "id IN (1, 2) OR x IN (1, 2)"),
        ("name = '{NAME}'", "name = 'o''neil'"),
        ("tags = '{a}' OR path = '{a,b}'", "tags = '{a}' OR path = '{a,b}'"),
        ('"{IDS}" > 1 -- {IDS}', '"{IDS}" > 1 -- {IDS}'),
        ("x /* {IDS} */ = 'it''s {IDS}'", "x /* {IDS} */ = 'it''s (1, 2)'"),
        ("x ~ 'a{2}'", "x ~ 'a{2}'"),
    ],
)
def test_filled(text: str, result: str) -> None:
    assert filled(text, VARIABLES) == result


def test_unknown_names() -> None:
    text = "{IDS} {GONE} '{x}' \"{y}\" /* {z} */ {BEGIN_TIMESTAMP} {GONE} -- {w}"
    assert list(unknown_names(text, VARIABLES)) == ["GONE"]


def test_where_is_filled_by_loading(folder: Folder) -> None:
    folder.project("""
        connections: {shop: {host: h, database: d}}
        variables: {IDS: '(1, 2)'}
    """).manifest("tables: {a: {where: 'id IN {IDS}'}}")
    assert folder.load().tables[0].where == "id IN (1, 2)"
