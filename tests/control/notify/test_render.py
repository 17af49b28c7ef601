"""Does each message say what happened, and can neither a template nor a text do more than that?"""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.render import (
    GRAVEST_FIRST,
    TEXT_CHARACTERS,
    TITLE_CHARACTERS,
    Folded,
    compose,
    delivery_id,
    digest,
    render,
    template_mistake,
)
from backhaul.control.notify.text import clean, one_line
from tests.control.notify.samples import message

GOLDEN = {
    Kind.FAILURE: (
        "orders 2026-01-30: attempt 1 of 4 failed",
        "exit code 1\nTried again at 2026-01-31 06:30 UTC.",
    ),
    Kind.RETRY_EXHAUSTED: (
        "orders 2026-01-30: failed for good after 4 attempts",
        "exit code 1\nNobody tries it again before a person does.",
    ),
    Kind.RECOVERY: ("orders 2026-01-30: is well again", "It succeeded after it had failed."),
    Kind.SLA_AT_RISK: (
        "orders 2026-01-30: may be late",
        "It is to be done by 2026-01-31 07:00 UTC, and may not be.",
    ),
    Kind.SLA_BREACH: (
        "orders 2026-01-30: is late",
        "It was to be done by 2026-01-31 07:00 UTC.",
    ),
    Kind.QUALITY: (
        "orders 2026-01-30: checks failed",
        "Failed: not_null(id), row_count.\nexit code 1",
    ),
    Kind.BACKFILL_DONE: ("orders 2026-01-30: backfill is done", "7 dates done, 1 failed"),
    Kind.BUDGET: ("orders 2026-01-30: over its budget", "exit code 1\n12.5 of 10 EUR"),
    Kind.TEST: ("orders 2026-01-30: this is a test", "Messages of the project shop arrive here."),
}


@pytest.mark.parametrize("kind", list(Kind))
def test_our_words(kind: Kind) -> None:
    said = message(
        kind,
        dates=[date(2026, 1, 30)],
        next_attempt_at=datetime(2026, 1, 31, 6, 30, tzinfo=UTC),
        sla_at=datetime(2026, 1, 31, 7, tzinfo=UTC),
        checks=["not_null(id)", "row_count"],
        done=7,
        failed=1,
        spent=12.5,
        budget=10,
        currency="EUR",
        project="shop",
    )
    assert (said.title, said.text) == GOLDEN[kind]


@pytest.mark.parametrize("kind", list(Kind))
def test_our_words_need_no_fact(kind: Kind) -> None:
    said = compose(kind, event_key="k")
    assert said.title.startswith("backhaul: ")
    assert "None" not in said.title + said.text


def test_every_kind_has_its_place_in_a_digest() -> None:
    assert set(GRAVEST_FIRST) == set(Kind)


def test_many_dates_are_not_all_listed() -> None:
    said = compose(Kind.FAILURE, event_key="k", facts={"dates": [date(2026, 1, 1)] * 400})
    assert said.title.count("2026") == 10
    assert "and 390 more" in said.title


def test_a_template_has_a_title_and_a_text() -> None:
    template = "{{ kind }}: {{ title }}\n{% if facts.error %}why: {{ facts.error }}{% endif %}"
    assert template_mistake(template) is None
    sent = render(message(), template)
    assert sent.title == "failure: orders 2026-01-30: attempt 1 of 4 failed"
    assert sent.text == "why: exit code 1"


def test_a_template_without_facts_renders() -> None:
    bare = Message(Kind.BUDGET, "k", "title", "text")
    assert render(bare, "{{ title }}\n{{ facts.error or '-' }}").text == "-"


@pytest.mark.parametrize(
    "hostile",
    [
        "{{ ().__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ facts.__init__.__globals__ }}",
        "{{ facts.update({'a': 1}) }}",
        "{{ title.format.__globals__ }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{% for i in range(10**8) %}x{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ facts.eror }}",
        "{{ pipline }}",
        "{{ title",
        "{{ 1/0 }}",
        "{{ 'x' | nosuchfilter }}",
        "x" * 20_001,
    ],
)
def test_a_bad_template_is_refused_when_it_is_read(hostile: str) -> None:
    said = template_mistake(hostile) or "accepted"
    assert "cannot be used" in said or "is longer than" in said


def test_a_template_that_fails_later_gives_way_to_our_words() -> None:
    sent = render(message(), "{{ facts.attempt + 'x' }}")
    assert sent.title == message().title


def test_values_are_no_templates() -> None:
    said = compose(Kind.FAILURE, event_key="k", pipeline="{{ 7*7 }}", facts={"error": "{{ 7*7 }}"})
    sent = render(said, "{{ title }}\n{{ facts.error }}")
    assert "49" not in sent.title + sent.text


@given(st.text(max_size=8000), st.text(max_size=8000))
def test_what_is_sent_is_bounded_and_harmless(title: str, text: str) -> None:
    sent = render(Message(Kind.FAILURE, "k", title, text))
    assert 0 < len(sent.title) <= TITLE_CHARACTERS
    assert len(sent.text) <= TEXT_CHARACTERS
    assert len(sent.title.splitlines()) == 1
    assert not any(ord(c) < 32 and c not in "\n\t" for c in sent.title + sent.text)
    (sent.title + sent.text).encode()


def test_lines_stay_lines_and_headers_one() -> None:
    assert clean("a\r\nb\rc\x00\x1b[31m", 100) == "a\nb\nc[31m"
    assert one_line("a\r\nBcc: x\u2028y", 100) == "a Bcc: x y"


def test_a_digest_names_the_gravest_first() -> None:
    kinds = [Kind.RECOVERY, Kind.FAILURE, Kind.RETRY_EXHAUSTED, *[Kind.FAILURE] * 11]
    folded = [Folded(number, kind, f"title {number}") for number, kind in enumerate(kinds, 3)]
    said = digest("ops", folded)
    assert said.title == "14 more: 1 failed for good, 12 failed attempts, 1 well again"
    assert said.kind is Kind.RETRY_EXHAUSTED
    assert said.text.splitlines()[0] == "title 3"
    assert said.text.splitlines()[-1] == "and 4 more"
    assert said.facts == {"folded": 14, "first": 3, "last": 16}


def test_two_databases_give_two_delivery_ids() -> None:
    first, other = message(key="a"), message(key="b")
    assert delivery_id(first, 1) == delivery_id(first, 1)
    assert len({delivery_id(first, 1), delivery_id(other, 1), delivery_id(first, 2)}) == 3
