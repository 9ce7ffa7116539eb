"""Mail against a real SMTP server: TLS, login, refusals, lost connections, hostile names."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.config import NoticesConfig
from forewarn.errors import DeliveryError, UsageError
from forewarn.operate.notices.delivery import Letter
from forewarn.operate.notices.mail import MailChannel, as_html, compose_mail
from forewarn.operate.notices.notice import Message
from tests.operate.notices.servers import PASSWORD, Mailbox, certificate, free_port, smtp_server

pytestmark = pytest.mark.slow

LETTER = Letter(
    id="abc123",
    rule="risk",
    message=Message(
        title="Job 7 (run) on alps: 71% risk of failure",
        facts=(("Reason", "3 of your last 4 jobs failed"),),
        advice=("Request more time.",),
        command="scontrol update JobId=7 TimeLimit=4:00:00",
    ),
    acknowledge_url="https://f.example.org/v1/notices/abc123/acknowledge?token=t0ken",
    footer=("Of the last 40 such warnings 31 came true.",),
)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def plain_server(mailbox: Mailbox) -> Iterator[str]:
    with smtp_server(mailbox) as address:
        yield address


def settings(address: str, **more: object) -> NoticesConfig:
    values = {"smtp": address, "smtp_tls": "none", "sender": "forewarn@example.org"} | more
    return NoticesConfig(**values)  # type: ignore[arg-type]


def send(config: NoticesConfig, letter: Letter = LETTER, to: str = "ann@example.org") -> None:
    channel = MailChannel(config, timeout=2)
    try:
        channel.open()
        channel.send(to, letter)
    finally:
        channel.close()


def test_a_mail_has_text_and_html_and_all_that_helps(plain_server: str, mailbox: Mailbox) -> None:
    send(settings(plain_server))
    (mail,) = mailbox.mails
    assert mail["Subject"] == LETTER.message.title
    assert (mail["From"], mail["To"]) == ("forewarn@example.org", "ann@example.org")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == "<abc123@example.org>"
    assert mailbox.envelopes[0].rcpt_tos == ["ann@example.org"]
    for kind in ("plain", "html"):
        body = mail.get_body((kind,))
        assert body is not None
        text = body.get_content()
        for part in (
            "3 of your last 4",
            "Request more time.",
            "TimeLimit=4:00:00",
            "31 came true",
            "token=t0ken",
        ):
            assert part in text, (kind, part)


def test_starttls_and_login(mailbox: Mailbox, tmp_path: Path) -> None:
    file, context = certificate(tmp_path)
    (tmp_path / "password").write_text(PASSWORD + "\n")
    with smtp_server(mailbox, starttls=context, login=True) as address:
        config = settings(
            address,
            smtp_tls="starttls",
            smtp_ca_file=file,
            smtp_user="forewarn",
            smtp_password_file=tmp_path / "password",
        )
        send(config)
        assert (mailbox.users, mailbox.was_encrypted) == (["forewarn"], [True])
        (tmp_path / "password").write_text("wrong")
        with pytest.raises(DeliveryError, match="refuses the login as forewarn") as caught:
            send(config)
        assert caught.value.transient
        assert "wrong" not in str(caught.value)
    assert len(mailbox.mails) == 1


def test_tls_from_the_start(mailbox: Mailbox, tmp_path: Path) -> None:
    file, context = certificate(tmp_path)
    with smtp_server(mailbox, tls=context) as address:
        send(settings(address, smtp_tls="tls", smtp_ca_file=file))
    assert len(mailbox.mails) == 1


def test_no_tls_no_mail(plain_server: str, mailbox: Mailbox, tmp_path: Path) -> None:
    """Neither a server without STARTTLS nor an unknown certificate nor another name gets anything."""
    with pytest.raises(DeliveryError, match="STARTTLS"):
        send(settings(plain_server, smtp_tls="starttls"))
    _, context = certificate(tmp_path)
    other, other_context = certificate(tmp_path, "other.example.org")
    with smtp_server(mailbox, starttls=context) as address, pytest.raises(DeliveryError, match="verif"):
        send(settings(address, smtp_tls="starttls"))
    with smtp_server(mailbox, starttls=other_context) as address, pytest.raises(DeliveryError, match="verif"):
        send(settings(address, smtp_tls="starttls", smtp_ca_file=other))
    with pytest.raises(DeliveryError, match=r"smtp_ca_file: .*absent\.pem"):
        send(settings(plain_server, smtp_tls="starttls", smtp_ca_file=tmp_path / "absent.pem"))
    assert mailbox.mails == []


def test_a_password_is_not_sent_in_the_clear() -> None:
    with pytest.raises(UsageError, match="without TLS"):
        MailChannel(settings("mail.example.org:25", smtp_user="forewarn", smtp_password="x"))
    with pytest.raises(UsageError, match=r"notices\.smtp and notices\.sender"):
        MailChannel(NoticesConfig())


def test_refusals(plain_server: str, mailbox: Mailbox) -> None:
    mailbox.answers = ["550 no such user\x1b[2J", "451 greylisted"]
    mailbox.data_answers = ["554 spam", "452 full"]
    for answer, transient in (
        ("550 no such user", False),
        ("451", True),
        ("554 spam", False),
        ("452 full", True),
    ):
        with pytest.raises(DeliveryError, match=answer) as caught:
            send(settings(plain_server))
        error = caught.value
        assert (error.transient, error.uncertain, error.whole_channel) == (transient, False, False)
        assert "\x1b" not in str(error)
    send(settings(plain_server))
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize(("answer", "mails"), [("hang up", 0), ("take and hang up", 1)])
def test_a_server_that_dies_after_the_data_is_uncertain(
    plain_server: str, mailbox: Mailbox, answer: str, mails: int
) -> None:
    """Whether it took the mail cannot be known: it is not sent again."""
    mailbox.data_answers = [answer]
    with pytest.raises(DeliveryError) as caught:
        send(settings(plain_server))
    assert (caught.value.uncertain, caught.value.transient, caught.value.whole_channel) == (True, False, True)
    assert len(mailbox.mails) == mails


def test_a_server_that_is_away_or_slow() -> None:
    with pytest.raises(DeliveryError, match="refused") as caught:
        send(settings(f"127.0.0.1:{free_port()}"))
    assert caught.value.transient
    assert caught.value.whole_channel
    with socket.create_server(("127.0.0.1", 0)) as silent:
        channel = MailChannel(settings(f"127.0.0.1:{silent.getsockname()[1]}"), timeout=0.2)
        with pytest.raises(DeliveryError, match=r"timed out|in time") as caught:
            channel.open()
        assert caught.value.transient


def test_a_server_that_dies_before_the_data_is_tried_again() -> None:
    """It answers up to MAIL and closes: nothing was handed over."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 hello\r\n")
                connection.recv(1000)
                connection.sendall(b"250 hello\r\n")
                connection.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(DeliveryError) as caught:
            send(settings(f"127.0.0.1:{server.getsockname()[1]}"))
        thread.join()
    assert (caught.value.transient, caught.value.uncertain) == (True, False)


HOSTILE = (
    "x\r\nBcc: eve@example.org",
    "x\nContent-Type: text/html\n\n<script>alert(1)</script>",
    "<img src=http://evil/x onerror=alert(1)>",
    "\u202egpj.exe\u2066\x00\x1b]0;owned\x07",
    "bro\udcffken",
    "=?utf-8?q?evil?=",
    "x" * 100_000,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_steer_neither_header_nor_page(plain_server: str, mailbox: Mailbox, name: str) -> None:
    from forewarn.operate.notices import wording
    from tests.operate.notices.samples import ended, warning

    for message in (
        wording.risk_message(warning(name=name, partition=name), jobs=1, hours=3.0, for_owner=False),
        wording.failure_message(ended(name=name), None, jobs=2, hours=3.0, for_owner=True),
    ):
        letter = Letter(id="abc", rule="risk", message=message)
        send(settings(plain_server), letter)
        mail = mailbox.mails[-1]
        assert set(mailbox.envelopes[-1].rcpt_tos) == {"ann@example.org"}
        assert mail["Bcc"] is None
        assert len(str(mail["Subject"])) <= 300
        assert mail.get_content_type() == "multipart/alternative"
        assert len(list(mail.iter_parts())) == 2
        page = as_html(letter)
        assert "<script" not in page
        assert "<img" not in page
        assert not any(one in str(mail) for one in ("\x1b", "\u202e", "\x00"))


def test_the_address_of_a_recipient_is_one_address() -> None:
    from forewarn.operate.notices.recipients import Recipient, mail_address

    config = NoticesConfig(user_address="{user}@example.org")
    assert mail_address(config, Recipient("user", "ann.b+c")) == "ann.b+c@example.org"
    for user in ("ann,eve", "ann@evil.org", "a b", "", "ann\r\nRCPT TO:<eve>", "<eve", "-x", "änn", "a" * 65):
        assert mail_address(config, Recipient("user", user)) is None, user
    assert compose_mail(LETTER, "a@b.c", "ann@example.org")["To"] == "ann@example.org"
