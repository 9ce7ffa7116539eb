"""`forewarn notices`: try out, list, silence, lift."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.operate.notices.notice import Message, Notice, NoticeState, notice_id
from forewarn.operate.notices.outbox import Outbox
from forewarn.store.opening import open_people_store
from tests.operate.notices.servers import Hook, Mailbox, free_port, http_server, smtp_server
from tests.serve.conftest import Forewarn

pytestmark = pytest.mark.slow


def configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)


def test_a_test_mail_arrives(forewarn: Forewarn, home: Path) -> None:
    mailbox = Mailbox()
    with smtp_server(mailbox) as address:
        configure(
            home, f'[notices]\nsmtp = "{address}"\nsmtp_tls = "none"\nsender = "forewarn@example.org"\n'
        )
        result = forewarn("notices", "test", "--to", "me@example.org")
        assert result.code == 0
        sent, note = result.err.splitlines()
        assert sent == "sent to me@example.org"
        assert "serve.url is not set" in note, "a message without a link cannot be acknowledged by it"
        assert [mail["To"] for mail in mailbox.mails] == ["me@example.org"]
        for bad in ("me", "me@example.org\nBcc: x@y", "a@b,c@d"):
            result = forewarn("notices", "test", "--to", bad)
            assert result.code == 2, bad
            assert "mail address" in result.err
    assert len(mailbox.mails) == 1


def test_a_test_post_arrives_and_its_address_is_never_shown(forewarn: Forewarn, home: Path) -> None:
    with http_server(Hook()) as hook:
        configure(home, f'[[notices.webhooks]]\nname = "ops"\nshape = "teams"\nurl = "{hook.url}"\n')
        assert forewarn("notices", "test", "--webhook", "ops").code == 0
        assert len(hook.posts) == 1
        hook.answers = [500]
        result = forewarn("-vv", "notices", "test", "--webhook", "ops")
        assert result.code == 1
        assert "webhook ops: answers 500" in result.err
        assert "SECRET" not in result.err + result.out
        shown = forewarn("config", "show")
        assert "(set, not shown)" in shown.out
        assert "SECRET" not in shown.out
        result = forewarn("notices", "test", "--webhook", "other")
        assert (result.code, "choose from: ops" in result.err) == (2, True)


def test_the_error_says_what_is_wrong(forewarn: Forewarn, home: Path) -> None:
    result = forewarn("notices", "test", "--to", "me@example.org")
    assert (result.code, "set notices.smtp and notices.sender" in result.err) == (2, True)
    assert forewarn("notices", "test").code == 2
    configure(home, f'[notices]\nsmtp = "127.0.0.1:{free_port()}"\nsender = "f@example.org"\n')
    result = forewarn("notices", "test", "--to", "me@example.org")
    assert (result.code, "refused" in result.err, "Traceback" in result.err) == (1, True, False)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('operators = ["no address"]', "mail addresses"),
        ('user_address = "x y"', "template"),
        ('user_address = "{user}{user}@x"', "template"),
        ('smtp = "host:port"', "mail server"),
        ("promise = 1.5", "between 0 and 1"),
        ("promise = nan", "between 0 and 1"),
        ("minimum_hours = -1", "hours"),
        ("digest_hour = 24", "hour of the day"),
        ("budget = 0", "1 or more"),
        ('webhooks = "https://T0P-SECRET"', "repeated table"),
        ('webhooks = [{name = "a", url = "https://T0P-SECRET", shape = "irc"}]', "repeated table"),
        ('webhooks = [{name = "a", url = "ftp://T0P-SECRET"}]', "repeated table"),
        ('webhooks = [{name = "a"}]', "repeated table"),
        ('webhooks = [{name = "a", url = "https://T0P-SECRET", rules = ["x"]}]', "rules of risk"),
        ('webhooks = [{name="a", url="https://T0P-SECRET"}, {name="a", url="https://x"}]', "name of its own"),
        ('smpt = "x"', "did you mean notices.smtp"),
    ],
)
def test_wrong_settings(forewarn: Forewarn, home: Path, line: str, wanted: str) -> None:
    configure(home, f"[notices]\n{line}\n")
    result = forewarn("notices", "list")
    assert result.code == 2
    assert wanted in result.err
    assert "SECRET" not in result.err


def test_list_and_silences(forewarn: Forewarn, home: Path) -> None:
    empty = forewarn("notices", "list")
    assert (empty.code, "no notices yet" in empty.err, "no notices are sent" in empty.err) == (0, True, True)
    notice = Notice(
        id=notice_id("risk", "user:ann", "alps", "7"),
        rule="risk",
        recipient="user:ann",
        cluster="alps",
        subject="7",
        at=int(time.time()),
        message=Message(title="Job 7 (\x1b[2Jevil) at risk"),
        state=NoticeState.SENT,
        token_hash="0" * 64,
    )
    with open_people_store(Config(home=home)) as people:
        Outbox(people).save(notice)
    listed = forewarn("notices", "list")
    assert "user:ann" in listed.out
    assert "\x1b[2J" not in listed.out
    assert "risk: No such warning has been judged yet." in listed.err
    found = forewarn("notices", "list", "--json").json
    assert [one["id"] for one in found["notices"]] == [notice.id]
    assert "token_hash" not in found["notices"][0]
    assert forewarn("notices", "list", "-u", "bob", "--json").json["notices"] == []
    added = forewarn(
        "notices", "silence", "--node", "n12", "--days", "7", "--reason", "repair", "--json"
    ).json
    assert abs(added["until"] - time.time() - 7 * 86400) < 60
    shown = forewarn("notices", "silences")
    assert "node n12" in shown.out
    assert "repair" in shown.out
    assert forewarn("notices", "lift", added["id"]).code == 0
    assert "nothing is silenced" in forewarn("notices", "silences").err
    assert "lifted" in forewarn("notices", "silences", "--past").out
    assert forewarn("notices", "silence").code == 2
    unknown = forewarn("notices", "lift", "x")
    assert (unknown.code, "no silence 'x'" in unknown.err) == (9, True)
    audit = forewarn("audit", "--json")
    assert "notice.silence" in audit.out
