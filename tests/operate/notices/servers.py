"""Real servers for notices: SMTP by aiosmtpd, HTTP by the standard library, TLS by our own certificate."""

from __future__ import annotations

import json
import ssl
import threading
from asyncio import Transport
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import socket
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "correct horse"


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Mailbox:
    """What a mail server does with each command, and the mail that it took."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.envelopes: list[Envelope] = []
        self.users: list[str] = []
        self.was_encrypted: list[bool] = []
        self.answers: list[str] = []  # of the next RCPT commands; then 250
        self.data_answers: list[str] = []  # of the next DATA commands; "hang up" and "take and hang up" too
        self.data_seen = 0

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.answers and not (answer := self.answers.pop(0)).startswith("250"):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.data_seen += 1
        answer = self.data_answers.pop(0) if self.data_answers else "250 OK"
        if answer == "hang up":
            assert isinstance(server.transport, Transport)
            server.transport.abort()
            return "421 gone"
        if answer.startswith("250") or answer == "take and hang up":
            assert isinstance(envelope.content, bytes)
            mail = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
            self.envelopes.append(envelope)
            self.was_encrypted.append(session.ssl is not None)
        if answer == "take and hang up":
            assert isinstance(server.transport, Transport)
            server.transport.abort()
            return "421 gone"
        return answer

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, given: Any
    ) -> AuthResult:
        if isinstance(given, LoginPassword) and given.password == PASSWORD.encode():
            self.users.append(given.login.decode())
            return AuthResult(success=True)
        return AuthResult(success=False, handled=False)


@contextmanager
def smtp_server(
    mailbox: Mailbox,
    *,
    port: int | None = None,
    starttls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    login: bool = False,
) -> Iterator[str]:
    """Serve a mailbox; yield HOST:PORT."""
    more: dict[str, Any] = {}
    if login:
        more = {"auth_required": True, "authenticator": mailbox.authenticate, "auth_require_tls": True}
    port = port or free_port()
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=port,
        tls_context=starttls,
        require_starttls=starttls is not None,
        ssl_context=tls,
        **more,
    )
    controller.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        controller.stop()


class Hook:
    """A web server that takes posts, and what it answers."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answers: list[int | str] = []  # statuses, or "hang up"; then 200
        self.headers: dict[str, str] = {}
        self.url = ""


@contextmanager
def http_server(hook: Hook) -> Iterator[Hook]:
    """Serve a hook."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            hook.paths.append(self.path)
            answer = hook.answers.pop(0) if hook.answers else 200
            if isinstance(answer, str):
                self.connection.close()
                return
            self.send_response(answer)
            for name, value in hook.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_address[1]}/hook/T0P-SECRET"
    try:
        yield hook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for this machine: its file, and a context for a server."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    alternative = x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key_file)
    return file, context
