"""A web server of some JSON documents, with TLS or without, which a test can change and slow down."""

from __future__ import annotations

import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class DocumentServer:
    """The documents by path, and how often each was asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.documents: dict[str, Any] = {}
        self.asked: Counter[str] = Counter()
        self.answers = threading.Event()  # cleared: requests wait
        self.answers.set()


@contextmanager
def serving_documents(tls: ssl.SSLContext | None = None) -> Iterator[DocumentServer]:
    """Serve documents on a free port."""
    documents = DocumentServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            documents.asked[self.path] += 1
            documents.answers.wait(30)
            body = json.dumps(documents.documents.get(self.path)).encode()
            self.send_response(200 if self.path in documents.documents else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        documents.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield documents
        finally:
            documents.answers.set()
            server.shutdown()
            thread.join()
