"""Does a mail arrive encrypted, once, at the right people, with nothing in its head that is not ours?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.config import EmailSettings
from backhaul.control.notify.mail import MailChannel
from backhaul.control.notify.post import ChannelUnavailable
from backhaul.control.notify.render import render
from backhaul.errors import TerminalError
from tests.control.notify.conftest import NOW
from tests.control.notify.receiver import (
    PASSWORD,
    Certificate,
    Mailbox,
    closing_server,
    free_port,
    mail_server,
)
from tests.control.notify.samples import message


def channel(port: int, clock: FixedClock, **settings: Any) -> MailChannel:
    given = {
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "sender": "backhaul@example.com",
        "to": ["ops@example.com", "data@example.com"],
        "timeout": "2s",
        **settings,
    }
    return MailChannel(EmailSettings.model_validate(given), clock)


def test_starttls_with_a_login(certificate: Certificate, clock: FixedClock) -> None:
    mailbox = Mailbox()
    login = {"user": "me", "password": PASSWORD, "ca_file": str(certificate.file)}
    with mail_server(mailbox, certificate) as port:
        channel(port, clock, security="starttls", **login).send(message(), 42)
    assert mailbox.encrypted == [True]
    assert mailbox.logins == ["me"]
    mail = mailbox.mails[0]
    assert mail["Subject"] == "[backhaul] orders 2026-01-30: attempt 1 of 4 failed"
    assert (mail["From"], mail["To"]) == (
        "backhaul@example.com", "ops@example.com, data@example.com",
    )  # fmt: skip
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"].datetime == NOW
    lines = mail.get_content().splitlines()
    assert lines == ["exit code 1", "", "see: https://jobs/1?a=1&b=2"]


def test_tls_from_the_first_byte(certificate: Certificate, clock: FixedClock) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox, certificate, implicit=True) as port:
        channel(port, clock, security="tls", ca_file=str(certificate.file)).send(message(), 1)
    assert len(mailbox.mails) == 1


def test_never_in_the_clear_where_tls_is_wanted(clock: FixedClock) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port, pytest.raises(TerminalError, match="does not offer"):
        channel(port, clock, security="starttls").send(message(), 1)
    assert mailbox.mails == []


@pytest.mark.parametrize(("security", "implicit"), [("starttls", False), ("tls", True)])
def test_a_stranger_gets_nothing(
    security: str, implicit: bool, certificate: Certificate, clock: FixedClock
) -> None:
    mailbox = Mailbox()
    with (
        mail_server(mailbox, certificate, implicit=implicit) as port,
        pytest.raises(ChannelUnavailable, match="self-signed certificate"),
    ):
        channel(port, clock, security=security).send(message(), 1)
    assert mailbox.mails == []


def test_a_wrong_password(certificate: Certificate, clock: FixedClock) -> None:
    login = {"user": "me", "password": "hidden", "ca_file": str(certificate.file)}
    with (
        mail_server(Mailbox(), certificate) as port,
        pytest.raises(TerminalError, match="answered 535") as error,
    ):
        channel(port, clock, security="starttls", **login).send(message(), 1)
    assert "hidden" not in str(error.value)


def test_a_missing_ca_file(certificate: Certificate, clock: FixedClock) -> None:
    with (
        mail_server(Mailbox(), certificate) as port,
        pytest.raises(TerminalError, match="`ca_file` '/nowhere' cannot be used"),
    ):
        channel(port, clock, security="starttls", ca_file="/nowhere").send(message(), 1)


def test_a_repeat_has_the_same_id(clock: FixedClock) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        sender = channel(port, clock)
        sender.send(message(), 42)
        clock.move_to(NOW + timedelta(hours=1))
        sender.send(message(), 42)
        sender.send(message(), 43)
    first, again, other = (mail["Message-ID"] for mail in mailbox.mails)
    assert first == again != other
    assert first.endswith("@example.com>")


def test_no_text_becomes_a_header(clock: FixedClock) -> None:
    hostile = "x\r\nBcc: all@example.com\r\n\r\nbody\u2028\x85"
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        bare = Message(Kind.FAILURE, hostile, hostile, hostile, pipeline=hostile, url=hostile)
        channel(port, clock).send(bare, 1)
    mail = mailbox.mails[0]
    assert mail["Bcc"] is None
    assert mail["Subject"] == "[backhaul] x Bcc: all@example.com body"
    assert mailbox.recipients == [["ops@example.com", "data@example.com"]]


def test_texts_of_all_languages(clock: FixedClock) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        said = Message(Kind.FAILURE, "k", "Aufträge 注文 🔴" * 10, "Größe\n.\n注文\n" + "x" * 2500)
        channel(port, clock).send(said, 1)
    assert mailbox.mails[0]["Subject"].startswith("[backhaul] Aufträge 注文 🔴")
    assert mailbox.mails[0].get_content().replace("\r\n", "\n").startswith("Größe\n.\n注文\nxxx")


def test_to_is_instead_and_also_is_beside(clock: FixedClock) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        sender = channel(port, clock)
        sender.send(render(message(), to=("team@example.com", "<@U024BE7LH>")), 1)
        sender.send(render(message(), also=("team@example.com", "@here")), 2)
        sender.send(render(message(), to=("@here", "a@b\r\nBcc: c@d")), 3)
    own = ["ops@example.com", "data@example.com"]
    assert mailbox.recipients == [["team@example.com"], [*own, "team@example.com"], own]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("451 try later", ChannelUnavailable),
        ("452 full", ChannelUnavailable),
        ("550 spam hidden", TerminalError),
        ("554 no", TerminalError),
    ],
)
def test_the_servers_answer(answer: str, kind: type[Exception], clock: FixedClock) -> None:
    mailbox = Mailbox()
    mailbox.answer = answer
    with mail_server(mailbox) as port, pytest.raises(kind, match=answer[:3]) as error:
        channel(port, clock).send(message(), 1)
    assert "hidden" not in str(error.value)


def test_all_recipients_refused(clock: FixedClock) -> None:
    mailbox = Mailbox()
    mailbox.refused = dict.fromkeys(("ops@example.com", "data@example.com"), "550 unknown")
    with mail_server(mailbox) as port:
        with pytest.raises(TerminalError, match="answered 550"):
            channel(port, clock).send(message(), 1)
        mailbox.refused["ops@example.com"] = "450 busy"
        with pytest.raises(ChannelUnavailable):
            channel(port, clock).send(message(), 1)


def test_some_recipients_refused(clock: FixedClock) -> None:
    mailbox = Mailbox()
    mailbox.refused = {"ops@example.com": "450 busy"}
    with (
        mail_server(mailbox) as port,
        pytest.raises(TerminalError, match=r"refused ops@example\.com; the others got"),
    ):
        channel(port, clock).send(message(), 1)
    assert mailbox.recipients == [["data@example.com"]]


@pytest.mark.parametrize("say", [b"", b"220 hello\r\n", b"garbage\r\n", b"421 busy\r\n"])
def test_a_server_that_hangs_up(say: bytes, clock: FixedClock) -> None:
    with closing_server(say) as port, pytest.raises(ChannelUnavailable):
        channel(port, clock).send(message(), 1)


def test_nobody_listens(clock: FixedClock) -> None:
    with pytest.raises(ChannelUnavailable, match="cannot be reached: Connection refused"):
        channel(free_port(), clock).send(message(), 1)
