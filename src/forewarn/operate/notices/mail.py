"""Mail over SMTP: plain text with a simple HTML form, TLS by default, at most once.

What follows the end of the data is the one moment in which a lost connection leaves it open whether the
server has taken the mail. It is reported as `uncertain`, and the mail is not sent a second time.
"""

from __future__ import annotations

import html
import smtplib
import socket
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, localtime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from forewarn.config import NoticesConfig
from forewarn.errors import DeliveryError, UsageError
from forewarn.operate.notices.delivery import Letter
from forewarn.operate.notices.plain_text import plain

TIMEOUT = 20.0  # seconds for each answer of the server
# A subject stays on one line: folded, Python begins it with a line break, which some readers show.
_ON_THE_WIRE = SMTP_POLICY.clone(max_line_length=300)
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


class MailChannel:
    """A connection to the configured mail server."""

    def __init__(self, config: NoticesConfig, *, timeout: float = TIMEOUT) -> None:
        if config.smtp is None or config.sender is None:
            raise UsageError("notices: to send mail, set notices.smtp and notices.sender")
        host, _, port = config.smtp.rpartition(":")
        self._host, self._port = (host, int(port)) if host else (config.smtp, _PORTS[config.smtp_tls])
        self._config, self._sender, self._timeout = config, config.sender, timeout
        self._session: _Session | None = None
        if config.smtp_user and config.smtp_tls == "none" and not _is_this_machine(self._host):
            raise UsageError("notices.smtp_user: a password is not sent without TLS; set notices.smtp_tls")

    def open(self) -> None:
        """Connect, with TLS and a login as configured."""
        try:
            self._session = self._connect()
        except smtplib.SMTPAuthenticationError:
            raise DeliveryError(
                f"mail server {self._host}: refuses the login as {self._config.smtp_user}; see "
                "notices.smtp_user and notices.smtp_password_file",
                transient=True,
                whole_channel=True,
            ) from None
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryError(
                f"mail server {self._host}:{self._port} (notices.smtp): {_reason(error)}",
                transient=True,
                whole_channel=True,
            ) from None

    def send(self, address: str, letter: Letter) -> None:
        """Send a letter to one address."""
        session = self._session
        if session is None:
            raise DeliveryError("mail server: not connected", transient=True, whole_channel=True)
        session.handed_over = False
        mail = compose_mail(letter, self._sender, address)
        try:
            session.sendmail(self._sender, [address], mail.as_bytes(policy=_ON_THE_WIRE))
        except smtplib.SMTPRecipientsRefused as error:
            code, text = next(iter(error.recipients.values()))
            raise DeliveryError(f"refused: {_answer(code, text)}", transient=code < 500) from None
        except smtplib.SMTPResponseException as error:
            answer = _answer(error.smtp_code, error.smtp_error)
            raise DeliveryError(f"refused: {answer}", transient=error.smtp_code < 500) from None
        except (OSError, smtplib.SMTPException, UnicodeError) as error:
            # smtplib's own errors are OSErrors too: of these only a lost connection is one.
            is_lost = isinstance(error, smtplib.SMTPServerDisconnected) or (
                isinstance(error, OSError) and not isinstance(error, smtplib.SMTPException)
            )
            raise DeliveryError(
                f"mail server {self._host}: {_reason(error)}",
                transient=is_lost and not session.handed_over,
                uncertain=is_lost and session.handed_over,
                whole_channel=is_lost,
            ) from None

    def close(self) -> None:
        """Say goodbye, if the server still listens."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(OSError, smtplib.SMTPException):
                session.quit()
            session.close()

    def _connect(self) -> _Session:
        config = self._config
        name = socket.gethostname() if socket.gethostname().isascii() else "localhost"
        if config.smtp_tls == "tls":
            session: _Session = _TlsSession(
                self._host, self._port, name, timeout=self._timeout, context=self._tls()
            )
        else:
            session = _Session(self._host, self._port, name, timeout=self._timeout)
        try:
            session.ehlo_or_helo_if_needed()
            if config.smtp_tls == "starttls":
                session.starttls(context=self._tls())  # raises where it is not offered: no fall back
            if config.smtp_user:
                session.login(config.smtp_user, _password(config))
        except BaseException:
            session.close()
            raise
        return session

    def _tls(self) -> ssl.SSLContext:
        file = self._config.smtp_ca_file
        try:
            return ssl.create_default_context(cafile=None if file is None else str(file))
        except OSError as error:  # a file that is absent or no certificate
            raise DeliveryError(
                f"notices.smtp_ca_file: {file}: {error.strerror or 'no certificates in it'}",
                transient=True,
                whole_channel=True,
            ) from None


class _Session(smtplib.SMTP):
    """A session that knows whether the content of a mail has begun to leave."""

    handed_over = False
    _may_send_data = False

    def send(self, s: Any) -> None:
        """Send bytes; whatever follows the go-ahead for data is content."""
        self.handed_over = self.handed_over or self._may_send_data
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        """Read an answer; 354 is the go-ahead for data."""
        self._may_send_data = False
        code, text = super().getreply()
        self._may_send_data = code == 354
        return code, text


class _TlsSession(_Session, smtplib.SMTP_SSL):
    """A session with TLS from the start."""


def compose_mail(letter: Letter, sender: str, address: str) -> EmailMessage:
    """Lay a letter out as mail. The policy refuses header values with line breaks; `plain` leaves none."""
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["From"], mail["To"] = sender, address
    mail["Subject"] = plain(letter.message.title, 200)
    mail["Date"] = format_datetime(localtime())
    # The same notice has the same id, so that a mail server can recognise a copy.
    mail["Message-ID"] = f"<{letter.id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers
    mail["X-Auto-Response-Suppress"] = "All"
    mail["X-Forewarn-Rule"] = letter.rule
    mail.set_content(as_text(letter), cte="quoted-printable")
    mail.add_alternative(as_html(letter), subtype="html", cte="quoted-printable")
    return mail


def as_text(letter: Letter) -> str:
    """Lay a letter out as plain text."""
    message = letter.message
    parts = [message.title]
    parts += [f"{name}: {text}" for name, text in message.facts]
    if message.advice:
        parts.append("\n".join(["What to do:", *(f"- {text}" for text in message.advice)]))
    if message.command:
        parts.append(f"To run:\n    {message.command}")
    if letter.acknowledge_url:
        parts.append(f"Acknowledge (you have seen it): {letter.acknowledge_url}")
    if letter.footer:
        parts.append("--\n" + "\n".join(letter.footer))
    return "\n\n".join(parts) + "\n"


def as_html(letter: Letter) -> str:
    """Lay a letter out as HTML without scripts, pictures or anything that is loaded."""
    message, text = letter.message, html.escape
    rows = "".join(
        f"<tr><td style='color:#666;padding-right:1em;vertical-align:top'>{text(name)}</td>"
        f"<td>{text(fact)}</td></tr>"
        for name, fact in message.facts
    )
    advice = "".join(f"<li>{text(one)}</li>" for one in message.advice)
    parts = [f"<h3>{text(message.title)}</h3>", f"<table>{rows}</table>"]
    if advice:
        parts.append(f"<p>What to do:</p><ul>{advice}</ul>")
    if message.command:
        parts.append(f"<pre>{text(message.command)}</pre>")
    if letter.acknowledge_url:
        parts.append(f'<p><a href="{text(letter.acknowledge_url)}">Acknowledge</a>: you have seen it.</p>')
    if letter.footer:
        footer = "<br>".join(text(line) for line in letter.footer)
        parts.append(f"<hr><p style='color:#666'>{footer}</p>")
    return f"<!doctype html><html><body>{''.join(parts)}</body></html>\n"


def read_secret(path: Path, name: str) -> str:
    """Read a secret from its file; the error names the file, not what is in it."""
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text"
        raise DeliveryError(f"{name}: {path}: {why}", transient=True, whole_channel=True) from None
    if not secret or not secret.isprintable():
        raise DeliveryError(f"{name}: {path}: must hold one line", transient=True, whole_channel=True)
    return secret


def _password(config: NoticesConfig) -> str:
    if config.smtp_password_file is not None:
        return read_secret(config.smtp_password_file, "notices.smtp_password_file")
    return config.smtp_password or ""


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _answer(code: int, text: bytes | str) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {plain(shown, 200)}"


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return _answer(error.smtp_code, error.smtp_error)
    if isinstance(error, TimeoutError):
        return "does not answer in time"
    return plain((isinstance(error, OSError) and error.strerror) or error, 200)
