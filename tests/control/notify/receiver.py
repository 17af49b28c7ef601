"""Who receives in these tests? A real HTTP server and a real mail server, which fail as they are told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "only-for-tests"


@dataclass(frozen=True)
class Answer:
    """What the receiver does with a request. `hang_up`: read it, and close without a word."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    hang_up: bool = False
    silent: bool = False


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers in the order of `answers`, and then always with 200."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook/secret-path"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append(Request(self.path, headers, body))
                answer = receiver.answers.pop(0) if receiver.answers else Answer()
                self._answer(answer)

            def _answer(self, answer: Answer) -> None:
                if answer.silent:
                    receiver.released.wait(10)
                if answer.silent or answer.hang_up:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(answer.status)
                headers = {"Content-Length": str(len(answer.body)), **answer.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler


@dataclass(frozen=True)
class Certificate:
    """Of 127.0.0.1 and localhost, signed by itself."""

    file: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


def make_certificate(folder: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(folder / "server.pem", folder / "server.key")
    certificate.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    certificate.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate


class Mailbox:
    """aiosmtpd's handler: keeps mails, and refuses recipients and data as it is told."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.encrypted: list[bool] = []
        self.logins: list[Any] = []
        self.recipients: list[list[str]] = []
        self.refused: dict[str, str] = {}
        self.answer = "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if not self.answer.startswith("250"):
            return self.answer
        content = envelope.content
        assert isinstance(content, bytes)
        self.mails.append(message_from_bytes(content, policy=policy.default))
        self.encrypted.append(session.ssl is not None)
        self.logins.append(session.auth_data)
        self.recipients.append(list(envelope.rcpt_tos))
        return self.answer


class _MailController(Controller):
    """Without STARTTLS where there is no certificate, and TLS from the first byte where asked."""

    def __init__(self, mailbox: Mailbox, certificate: Certificate | None, implicit: bool) -> None:
        context = certificate.context() if certificate else None
        own: dict[str, Any] = {"ssl_context": context} if implicit else {"tls_context": context}
        super().__init__(
            mailbox,
            hostname="127.0.0.1",
            port=free_port(),
            authenticator=_authenticate,
            auth_require_tls=not implicit,
            require_starttls=certificate is not None and not implicit,
            **own,
        )


def _authenticate(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
) -> AuthResult:
    good = data.password == PASSWORD.encode()
    return AuthResult(success=good, handled=good, auth_data=data.login.decode())


@contextmanager
def mail_server(
    mailbox: Mailbox, certificate: Certificate | None = None, *, implicit: bool = False
) -> Iterator[int]:
    """The port of a running mail server."""
    controller = _MailController(mailbox, certificate, implicit)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@contextmanager
def closing_server(say: bytes = b"") -> Iterator[int]:
    """A port where whoever connects is told something, and hung up on."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(say)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
