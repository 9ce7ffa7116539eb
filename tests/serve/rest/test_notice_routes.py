"""The routes of notices over real HTTP: links acknowledge by POST only; silences; bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from forewarn.config import Config, NoticesConfig
from forewarn.operate.notices.notice import Message, Notice, NoticeState, hash_token, notice_id
from forewarn.operate.notices.outbox import Outbox
from forewarn.store.opening import open_people_store, open_store
from tests.serve.rest.running import start_service

pytestmark = pytest.mark.slow

TOKEN = "t0ken-of-the-link-0123456789"
NOTICE = Notice(
    id=notice_id("risk", "user:ann", "alps", "7"),
    rule="risk",
    recipient="user:ann",
    cluster="alps",
    subject="7",
    at=1_800_000_000,
    message=Message(title="Job 7 (<script>alert(1)</script>) at risk", facts=(("Risk", "<b>71%</b>"),)),
    user="ann",
    state=NoticeState.SENT,
    sent_at=1_800_000_000,
    token_hash=hash_token(TOKEN),
)
LINK = f"/v1/notices/{NOTICE.id}/acknowledge"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service of an empty home, with one notice in its outbox."""
    folder = tmp_path_factory.mktemp("notices")
    config = Config(home=folder / "home", notices=NoticesConfig())
    open_store(config).close()
    with open_people_store(config) as people:
        Outbox(people).save(NOTICE)
    service = start_service(config.home, folder / "service.log", collect="never")
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client
    assert service.stop() == 0
    assert TOKEN not in service.text, "no log has the token"
    assert "Traceback" not in service.text


def test_a_link_acknowledges_by_post_only(http: httpx.Client) -> None:
    for _ in range(2):  # a program that follows links, then the person
        page = http.get(LINK, params={"token": TOKEN}, headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "<script>" not in page.text
        assert "<b>" not in page.text
        assert "<form method='post'" in page.text
        assert "script-src" not in page.headers["content-security-policy"]
    assert http.head(LINK, params={"token": TOKEN}).status_code in (200, 405)
    shown = http.get(LINK, params={"token": TOKEN}).json()
    assert shown["acknowledged_at"] is None
    assert "token_hash" not in shown
    wrong = http.post(LINK, params={"token": "x" * 30})
    assert (wrong.status_code, wrong.json()["code"]) == (404, "unknown_notice")
    done = http.post(LINK, params={"token": TOKEN}, headers={"Accept": "text/html"})
    assert "Acknowledged" in done.text
    assert "<form" not in done.text
    first = http.get(LINK, params={"token": TOKEN}).json()["acknowledged_at"]
    assert first is not None
    assert http.post(LINK, params={"token": TOKEN}).json()["acknowledged_at"] == first


def test_a_list_with_precision(http: httpx.Client) -> None:
    answer = http.get("/v1/notices").json()
    assert [one["id"] for one in answer["notices"]] == [NOTICE.id]
    assert {one["rule"]: one["judged"] for one in answer["precision"]} == {"risk": 0, "node": 0}
    assert http.get("/v1/notices", params={"unacknowledged": True}).status_code == 200


def test_silences(http: httpx.Client) -> None:
    created = http.post("/v1/notices/silences", json={"rule": "risk", "user": "ann", "reason": "a\r\nb"})
    assert created.status_code == 201, created.text
    silence = created.json()
    assert (silence["rule"], silence["user"], silence["reason"]) == ("risk", "ann", "a b")
    listed = http.get("/v1/notices/silences").json()["silences"]
    assert [one["id"] for one in listed] == [silence["id"]]
    lifted = http.delete(f"/v1/notices/silences/{silence['id']}").json()
    assert lifted["lifted_at"] is not None
    assert http.get("/v1/notices/silences").json()["silences"] == []
    assert len(http.get("/v1/notices/silences", params={"past": True}).json()["silences"]) == 1


def test_a_subscription(http: httpx.Client) -> None:
    before = http.get("/v1/notices/subscription").json()
    assert (before["rules"], before["chosen"]) == (["risk", "failure"], False)
    after = http.put("/v1/notices/subscription", json={"rules": []}).json()
    assert (after["rules"], after["chosen"]) == ([], True)
    assert http.get("/v1/notices/subscription").json() == after


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/notices?rule=x", None, 400),
        ("GET", "/v1/notices?limit=0", None, 422),
        ("GET", "/v1/notices?lmit=1", None, 422),
        ("POST", "/v1/notices/silences", {"rule": "x"}, 400),
        ("POST", "/v1/notices/silences", {"rule": 1}, 422),
        ("POST", "/v1/notices/silences", {"rules": "risk"}, 422),
        ("POST", "/v1/notices/silences", {"rule": "risk", "until": 5}, 400),
        ("POST", "/v1/notices/silences", {"rule": "risk", "until": 1e300}, 422),
        ("POST", "/v1/notices/silences", [], 422),
        ("DELETE", "/v1/notices/silences/" + "x" * 32, None, 404),
        ("DELETE", "/v1/notices/silences/..%2F..%2Fetc", None, 404),
        ("PUT", "/v1/notices/subscription", {"rules": ["node"]}, 400),
        ("PUT", "/v1/notices/subscription", {"rules": "risk"}, 422),
        ("POST", f"/v1/notices/{'0' * 24}/acknowledge", None, 404),
        ("POST", "/v1/notices/';--/acknowledge", None, 422),
        ("GET", LINK + "?token=x", None, 422),
    ],
)
def test_bad_input(http: httpx.Client, method: str, path: str, body: object, status: int) -> None:
    answer = http.request(method, path, json=body) if body is not None else http.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_the_log_of_actions_has_them(http: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    homes = list(Path(tmp_path_factory.getbasetemp()).glob("notices*/home"))
    with open_people_store(Config(home=homes[0])) as people:
        actions = {entry.value["action"] for entry in people.entries("audit")}
    assert {"notice.silence", "notice.lift", "notice.subscribe", "notice.acknowledge"} <= actions


def test_wrong_links_are_limited_and_not_audited(tmp_path: Path) -> None:
    config = Config(home=tmp_path / "home", notices=NoticesConfig())
    open_store(config).close()
    with open_people_store(config) as people:
        Outbox(people).save(NOTICE)
    service = start_service(config.home, tmp_path / "service.log", collect="never")
    with httpx.Client(base_url=service.url, timeout=30) as client:
        answers = [client.post(LINK, params={"token": f"{number:030}"}).status_code for number in range(32)]
        assert set(answers) == {404, 429}
        assert answers[:30] == [404] * 30
        assert client.get(LINK, params={"token": "x" * 30}).status_code == 429
        assert client.post(LINK, params={"token": TOKEN}).status_code == 200, "the right one always works"
    assert service.stop() == 0
    with open_people_store(config) as people:
        lines = [entry.value for entry in people.entries("audit")]
    assert [(one["action"], one["result"]) for one in lines] == [("notice.acknowledge", "done")]
