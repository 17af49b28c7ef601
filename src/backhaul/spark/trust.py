"""Which certificate authorities does a Java from a wheel trust?

Its own list, which knows nothing of a company's private authority. Where the machine has a bundle
(SSL_CERT_FILE, or the system's), Java gets that very bundle instead. It is written here as a JKS
file, a format of a few dozen bytes around the certificates: `keytool` would import one certificate
per start of a JVM, so the usual 140 would take a minute.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

PASSWORD = "changeit"  # noqa: S105 - Java's well-known one: the file holds public certificates
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def certificate_bundle(environ: Mapping[str, str]) -> Path | None:
    """The PEM file that everything else on this machine trusts."""
    given = environ.get("SSL_CERT_FILE")
    for name in [given] if given else SYSTEM_BUNDLES:
        if Path(name).is_file():
            return Path(name)
    return None


def read_certificates(bundle: Path) -> list[bytes]:
    """The certificates of a PEM file as DER, each once, in the file's order."""
    text = bundle.read_text(encoding="ascii", errors="ignore")
    return list(dict.fromkeys(ssl.PEM_cert_to_DER_cert(block) for block in PEM.findall(text)))


def trust_store(certificates: Iterable[bytes]) -> bytes:
    """A Java key store (JKS, version 2) of trusted certificates."""
    entries = [_entry(number, one) for number, one in enumerate(certificates)]
    body = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    # The format's own checksum, with the phrase that Sun's engineers put into it.
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    return body + digest.digest()


def _entry(number: int, certificate: bytes) -> bytes:
    kind, no_date = 2, 0
    head = struct.pack(">I", kind) + _text(f"ca-{number}") + struct.pack(">q", no_date)
    return head + _text("X.509") + struct.pack(">I", len(certificate)) + certificate


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded
