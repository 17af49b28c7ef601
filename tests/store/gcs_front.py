"""How does obstore talk to fake-gcs-server? It writes by GCS's XML API, of which that server has no part.

This front translates writes (put, conditional put, copy, upload in parts) to the JSON API's upload, so
that conditions are still decided by the server; reads, lists and deletes pass through as they are.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

_CONDITION = "x-goog-if-generation-match"
# Of one hop only, or written by our own server.
_HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server", "content-length"}


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream_port: int
    uploads: dict[str, dict[int, bytes]]

    def do_GET(self) -> None:
        self._pass()

    do_HEAD = do_DELETE = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        body, query = self._body(), self._query()
        if "partNumber" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{query["partNumber"]}"'})
        elif source := self.headers.get("x-goog-copy-source"):
            self._copy(source)
        else:
            self._upload(body)

    def do_POST(self) -> None:
        self._body()
        query = self._query()
        if "uploads" in query:
            name = uuid.uuid4().hex
            self.uploads[name] = {}
            self._answer_xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")
        else:
            parts = self.uploads.pop(query["uploadId"])
            self._upload(b"".join(parts[number] for number in sorted(parts)), in_parts=True)

    def _upload(self, body: bytes, *, in_parts: bool = False) -> None:
        bucket, key = self._place(self.path)
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        if condition := self.headers.get(_CONDITION):
            path += f"&ifGenerationMatch={condition}"
        response, answer = self._ask("POST", path, body)
        if response.status == 200 and in_parts:
            self._answer_xml("CompleteMultipartUploadResult", "<ETag>x</ETag>")
        else:
            self._answer(
                response.status, b"" if response.status == 200 else answer, {"ETag": '"x"'}
            )

    def _copy(self, source: str) -> None:
        bucket, key = self._place(f"/{source}")
        path = f"/download/storage/v1/b/{bucket}/o/{quote(key, safe='')}?alt=media"
        response, content = self._ask("GET", path)
        if response.status == 200:
            self._upload(content)
        else:
            self._answer(response.status, content, {})

    def _pass(self) -> None:
        response, content = self._ask(self.command, self.path, self._body())
        kept = {name: value for name, value in response.getheaders() if name.lower() not in _HOP}
        if self.command == "HEAD":
            kept["Content-Length"] = response.getheader("Content-Length", "0")
        self._answer(response.status, content, kept)

    def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[HTTPResponse, bytes]:
        kept = {
            name: self.headers[name] for name in ("range", "content-type") if self.headers[name]
        }
        connection = HTTPConnection("127.0.0.1", self.upstream_port, timeout=60)
        try:
            connection.request(method, path, body, kept)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def _place(self, path: str) -> tuple[str, str]:
        bucket, _, key = urlsplit(path).path.lstrip("/").partition("/")
        return unquote(bucket), unquote(key)

    def _query(self) -> dict[str, str]:
        values = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: value[0] for name, value in values.items()}

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer_xml(self, name: str, content: str) -> None:
        self._answer(200, f"<{name}>{content}</{name}>".encode(), {"Content-Type": "text/xml"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """The tests' output is not for this."""


@contextmanager
def in_front_of(port: int) -> Iterator[str]:
    """The address that obstore is given, for the server on this port."""
    handler = type("Front", (_Front,), {"upstream_port": port, "uploads": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(timeout=20)
        server.server_close()
