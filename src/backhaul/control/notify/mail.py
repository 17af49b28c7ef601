"""How does a message travel by mail, so that nobody gets it twice, or somebody else's headers in it?

The Message-ID is the same each time a message is sent: mail programs show a repeat once. A server
that takes a mail for some of its recipients only has sent it; sending it again would repeat it for
them, so the message fails and names those who did not get it.
"""

from __future__ import annotations

import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from backhaul.clock import Clock, SystemClock
from backhaul.control.notify.base import Message
from backhaul.control.notify.config import EmailSettings, is_address
from backhaul.control.notify.post import ChannelUnavailable
from backhaul.control.notify.render import addressees, delivery_id
from backhaul.control.notify.text import one_line
from backhaul.errors import TerminalError

MOST_RECIPIENTS = 50
_AGAIN = "it is tried again; look whether the server works"
_REFUSED = "put right the channel's `user`, `password`, `sender` and `to`"


class MailChannel:
    """One mail server and sender."""

    def __init__(self, settings: EmailSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()

    def send(self, message: Message, notification_id: int) -> None:
        mail = self.mail(message, notification_id)
        try:
            self._deliver(mail)
        except smtplib.SMTPException as error:
            raise self._translated(error) from None
        except OSError as error:
            raise self._unavailable(_reason(error)) from None

    def mail(self, message: Message, notification_id: int) -> EmailMessage:
        """The mail; each text is one line before it becomes a header."""
        mail = EmailMessage(policy=SMTP)
        domain = self._settings.sender.rpartition("@")[2]
        mail["From"] = self._settings.sender
        mail["To"] = ", ".join(recipients(message, self._settings.to))
        mail["Subject"] = f"[backhaul] {one_line(message.title, 180)}"
        mail["Date"] = format_datetime(self._clock.now())
        mail["Message-ID"] = f"<backhaul.{delivery_id(message, notification_id)}@{domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Backhaul-Event"] = message.kind.value
        about = (("run", message.run_id), ("see", message.url))
        told = [f"{name}: {one_line(value, 500)}" for name, value in about if value]
        mail.set_content(
            "\n\n".join([message.text or message.title, "\n".join(told)]).strip() + "\n"
        )
        return mail

    def _deliver(self, mail: EmailMessage) -> None:
        server = self._server()
        try:
            self._open(server)
            refused = server.send_message(mail)
        finally:
            # The mail is taken, or it is not; how the server says goodbye changes nothing of that.
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
            server.close()
        if refused:
            names = ", ".join(sorted(refused))
            raise TerminalError(f"{self._settings.host} refused {names}; the others got the mail")

    def _server(self) -> smtplib.SMTP:
        settings = self._settings
        seconds = settings.timeout.total_seconds()
        if settings.security == "tls":
            return smtplib.SMTP_SSL(
                settings.host, settings.port_used, timeout=seconds, context=self._tls()
            )
        return smtplib.SMTP(settings.host, settings.port_used, timeout=seconds)

    def _open(self, server: smtplib.SMTP) -> None:
        settings = self._settings
        if settings.security == "starttls":
            # Raises where the server does not offer it: never on in the clear.
            server.starttls(context=self._tls())
        if settings.user is not None and settings.password is not None:
            server.login(settings.user, settings.password.get_secret_value())

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._settings.ca_file)
        except OSError as error:
            reason = error.strerror or "it holds no certificate"
            raise TerminalError(
                f"`ca_file` {self._settings.ca_file!r} cannot be used: {reason}"
            ) from None

    def _translated(self, error: smtplib.SMTPException) -> Exception:
        """By the server's code: 4xx may pass, 5xx stays. Its words may hold the mail, and are not
        repeated."""
        if isinstance(error, smtplib.SMTPServerDisconnected):
            return self._unavailable("broke off")
        if isinstance(error, smtplib.SMTPNotSupportedError):
            remedy = "set `security: tls` with its port, or `security: none` in a trusted network"
            lacks = "does not offer what `security`, `user` or the addresses need"
            return TerminalError(f"{self._settings.host} {lacks}", remedy=remedy)
        codes = _codes(error)
        said = f"answered {', '.join(str(code) for code in codes)}"
        if codes and min(codes) >= 500:
            return TerminalError(f"{self._settings.host} {said}", remedy=_REFUSED)
        # Also what is no answer of a mail server at all: -1.
        return self._unavailable(said if codes and min(codes) > 0 else "does not speak SMTP")

    def _unavailable(self, said: str) -> ChannelUnavailable:
        return ChannelUnavailable(f"{self._settings.host} {said}", remedy=_AGAIN)


def recipients(message: Message, own: tuple[str, ...]) -> tuple[str, ...]:
    """`to` instead of the channel's own, `also` beside them; mentions of Slack are not for us."""
    to, also = addressees(message)
    named = tuple(one for one in to if is_address(one))
    added = (one for one in also if is_address(one))
    return tuple(dict.fromkeys((*(named or own), *added)))[:MOST_RECIPIENTS]


def _codes(error: smtplib.SMTPException) -> list[int]:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return sorted({code for code, _ in error.recipients.values()})
    if isinstance(error, smtplib.SMTPResponseException):
        return [error.smtp_code]
    return []


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer in time"
    said = getattr(error, "verify_message", None) or error.strerror or type(error).__name__
    return f"cannot be reached: {said}"
