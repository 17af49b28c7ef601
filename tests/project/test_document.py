"""Does a YAML file's every value keep its line, and is every bad file a finding and no crash?"""

from __future__ import annotations

import pytest

from backhaul.project.document import Document, read_text, resolve_plain


def document(text: str) -> Document:
    read, findings = read_text(text, "f.yml")
    assert not findings
    assert read is not None
    return read


def codes(text: str) -> list[str]:
    return [finding.code for finding in read_text(text, "f.yml")[1]]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("5_000_000", 5_000_000),
        ("1.5", 1.5),
        ("true", True),
        ("no", "no"),
        ("on", "on"),
        ("", None),
        ("~", None),
        ("null", None),
        ('"1"', "1"),
        ("'null'", "null"),
        ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"),
        ("[~]", [None]),
    ],
)
def test_scalars_follow_the_core_schema(written: str, value: object) -> None:
    assert document(f"a: {written}\n").root.plain() == {"a": value}


def test_text_is_kept_as_written() -> None:
    root = document("a: 0123\nb: [1_0, true]\nc:\n").root
    assert root.texts() == {"a": "0123", "b": ["1_0", "true"], "c": None}


def test_lines_are_those_of_the_keys() -> None:
    read = document("a:\n\n  b:\n    - x\n    - y: |\n        z\n")
    assert read.place("a").line == 1
    assert read.place("a", "b").line == 3
    assert read.place("a", "b", 1, "y").line == 5
    assert read.place("a", "b", 1, "y").key_path == "a.b[1].y"
    assert read.place("a", "missing", "deeper").line == 1


def test_anchors_and_merges() -> None:
    text = "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: {<<: [*x, {c: 4}]}\n"
    assert document(text).root.plain()["y"] == {"a": 1, "b": 3}
    assert document(text).root.plain()["z"] == {"a": 1, "b": 2, "c": 4}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [1\n", "yaml_invalid"),
        ("a: 1\n\tb: 2\n", "yaml_invalid"),
        ("a: 1\na: 2\n", "duplicate_key"),
        ("a: 1\n---\nb: 2\n", "yaml_documents"),
        ("a: *b\n", "yaml_alias"),
        ("a: &a [*a]\n", "yaml_alias"),
        ("a: !!python/object:os.system x\n", "yaml_tag"),
        ("{a: b}: c\n", "yaml_key"),
        ("a: {<<: 1}\n", "yaml_merge"),
        ("a: \x00\n", "yaml_character"),
        ("[" * 10_000, "yaml_depth"),
        (": : :\n  - }", "yaml_invalid"),
    ],
)
def test_bad_files_are_findings(text: str, code: str) -> None:
    assert code in codes(text)


def test_a_billion_laughs_are_not_laughed() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert codes("\n".join(lines)) == ["yaml_size"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n"])
def test_an_empty_file_is_an_empty_mapping(text: str) -> None:
    assert document(text).root.plain() in ({}, None)


@pytest.mark.parametrize("text", ["+", "-", ".", "1e", "0x1f", "9" * 5_000])
def test_almost_numbers_are_text(text: str) -> None:
    assert resolve_plain(text) == text
