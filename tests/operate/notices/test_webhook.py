"""Webhooks against a real HTTP server: shapes, markup, refusals, secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.config.notices import Webhook
from forewarn.errors import DeliveryError
from forewarn.operate.notices.delivery import Letter
from forewarn.operate.notices.notice import Message
from forewarn.operate.notices.webhook import WebhookChannel
from tests.operate.notices.servers import Hook, free_port, http_server

EVIL = "<!channel> <http://evil.example|click> & [x](http://evil.example) **bold** <at>all</at>"
LETTER = Letter(
    id="abc",
    rule="risk",
    message=Message(
        title=f"Job 7 ({EVIL}) on alps", facts=(("User", EVIL),), advice=(EVIL,), command=f"echo {EVIL}"
    ),
    acknowledge_url="https://f.example.org/v1/notices/abc/acknowledge?token=t0",
    footer=("Of the last 40 such warnings 31 came true.",),
)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with http_server(Hook()) as served:
        yield served


def send(hook: Webhook, letter: Letter = LETTER) -> None:
    channel = WebhookChannel(hook, timeout=2)
    try:
        channel.open()
        channel.send("", letter)
    finally:
        channel.close()


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def test_slack_gets_no_markup_of_others(hook: Hook) -> None:
    send(Webhook(name="ops", shape="slack", url=hook.url))
    (post,) = hook.posts
    ours = f"<{LETTER.acknowledge_url}|Acknowledge>"
    assert ours in list(texts(post))
    for text in texts(post):
        assert text == ours or ("<" not in text and ">" not in text), text
    assert "&lt;!channel&gt;" in post["text"]
    assert all(block["text"]["type"] == "plain_text" for block in post["blocks"][:2])
    assert "31 came true" in json.dumps(post)


def test_long_texts_fit_slack(hook: Hook) -> None:
    long = Letter(id="a", rule="risk", message=Message(title="<" * 5000, facts=(("n", "&" * 9000),)))
    send(Webhook(name="ops", shape="slack", url=hook.url), long)
    header, section, *_ = hook.posts[0]["blocks"]
    assert header["text"]["text"].startswith("&lt;")
    assert len(header["text"]["text"].replace("&lt;", "<")) <= 150
    assert len(section["text"]["text"].replace("&amp;", "&")) <= 3000


def test_teams_gets_runs_without_markdown(hook: Hook) -> None:
    send(Webhook(name="ops", shape="teams", url=hook.url))
    (post,) = hook.posts
    (attachment,) = post["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert {run["type"] for block in card["body"] for run in block["inlines"]} == {"TextRun"}
    assert [action["url"] for action in card["actions"]] == [LETTER.acknowledge_url]
    assert "msteams" not in card, "no entities: nobody is mentioned"
    assert any(EVIL in text for text in texts(card))


def test_plain_json(hook: Hook, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    (tmp_path / "url").write_text(hook.url + "\n")
    send(Webhook(name="ops", shape="json", url_file=tmp_path / "url"))
    assert hook.posts[0]["message"]["command"] == LETTER.message.command
    assert hook.paths == ["/hook/T0P-SECRET"]
    assert "SECRET" not in caplog.text, "no library logs the address"


@pytest.mark.parametrize(
    ("answer", "transient", "uncertain"),
    [
        (500, True, False),
        (429, True, False),
        (404, False, False),
        (302, False, False),
        ("hang up", False, True),
    ],
)
def test_refusals_never_show_the_address(
    hook: Hook, answer: int | str, transient: bool, uncertain: bool
) -> None:
    hook.answers, hook.headers = [answer], {"Retry-After": "120", "Location": hook.url + "/elsewhere"}
    with pytest.raises(DeliveryError) as caught:
        send(Webhook(name="ops", url=hook.url))
    error = caught.value
    assert (error.transient, error.uncertain) == (transient, uncertain)
    assert error.wait == (0 if uncertain else 120)
    assert str(error).startswith("webhook ops: ")
    assert "SECRET" not in str(error)
    assert error.__cause__ is None
    assert len(hook.posts) == 1, "a redirect is not followed"


def test_nothing_listens_or_no_address(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="cannot be reached: Connection refused") as caught:
        send(Webhook(name="ops", url=f"http://127.0.0.1:{free_port()}/SECRET"))
    assert caught.value.transient
    assert "SECRET" not in str(caught.value)
    with pytest.raises(DeliveryError, match="No such file"):
        send(Webhook(name="ops", url_file=tmp_path / "absent"))
    (tmp_path / "url").write_text("ftp://SECRET")
    with pytest.raises(DeliveryError, match="https://") as caught:
        send(Webhook(name="ops", url_file=tmp_path / "url"))
    assert "SECRET" not in str(caught.value)
    assert "SECRET" not in repr(Webhook(name="ops", url="https://SECRET"))


@pytest.mark.parametrize("shape", ["slack", "teams"])
def test_a_message_without_a_footer_has_no_empty_text(hook: Hook, shape: Any) -> None:
    """Slack refuses one that has."""
    send(Webhook(name="ops", shape=shape, url=hook.url), replace(LETTER, footer=()))
    assert "" not in set(texts(hook.posts[0]))
