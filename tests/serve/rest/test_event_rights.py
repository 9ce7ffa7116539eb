"""Open streams of events whose caller loses its rights: they end soon, and nothing is sent afterwards."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from forewarn.config import Config
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token, revoke_token
from forewarn.operate.ingest_file import ingest
from forewarn.operate.upkeep.erase import erase_user
from forewarn.operate.workspace import Workspace
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.store.opening import open_store
from tests.serve.rest.conftest import Start
from tests.serve.rest.test_events import Stream, assess, stream
from tests.sources.fake_slurmrestd import HttpRequest, Reply, openapi, serving

pytestmark = pytest.mark.slow
SOON = 40.0  # seconds: ten until a proof is looked up again, and what a busy machine adds
KEY = bytes(range(64))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of a cluster without a model: the assessments are those that a test saves."""
    folder = tmp_path / "home"
    simulate("small", 20, 5, tmp_path / "jobs.parquet", "parquet")
    with open_store(Config(home=folder)) as store:
        ingest(store, open_source(f"parquet:{tmp_path / 'jobs.parquet'}"))
    return folder


def bearer(text: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {text}"}}


def ends(reader: Stream) -> float:
    """Return how long a stream goes on; no event may come on it."""
    begun = time.monotonic()
    with pytest.raises(EOFError):
        raise AssertionError(f"sent afterwards: {reader.next_event()}")
    return time.monotonic() - begun


def wait_until_refused(url: str, path: str = "/v1/jobs", **options: Any) -> None:
    until = time.monotonic() + SOON
    while httpx.get(url + path, timeout=30, **options).status_code != 401:
        assert time.monotonic() < until
        time.sleep(0.2)


@contextmanager
def session(url: str, token: str) -> Iterator[httpx.Client]:
    """A browser that has logged in with a token; changes carry what they need."""
    with httpx.Client(base_url=url, timeout=30) as browser:
        browser.headers["X-CSRF-Token"] = browser.post("/auth/session", json={"token": token}).json()[
            "csrf_token"
        ]
        yield browser


def test_a_revoked_token(home: Path, start: Start) -> None:
    """Its own streams end, and those of a session that was begun with it; others go on."""
    config = Config(home=home)
    (lost, _), (kept, _) = (create_token(config, name, Role.HELPER) for name in ("lost", "kept"))
    service = start(home, collect="never", access__service_tokens=True)
    with (
        session(service.url, lost) as browser,
        stream(service.url, **bearer(lost)) as reader,
        stream(service.url, cookies=dict(browser.cookies)) as in_browser,
        stream(service.url, **bearer(kept)) as other,
    ):
        assess(home, "1")
        assert [one.subjects(1) for one in (reader, in_browser, other)] == [["1"]] * 3
        revoke_token(config, "lost")
        wait_until_refused(service.url, **bearer(lost))
        wait_until_refused(service.url, cookies=dict(browser.cookies))
        assess(home, "2")
        assert ends(reader) < SOON
        assert ends(in_browser) < SOON
        assert other.subjects(1) == ["2"]


def test_an_idle_stream_ends_too(home: Path, start: Start) -> None:
    """Without any event: the caller would never learn that it is no longer served."""
    text, _ = create_token(Config(home=home), "lost", Role.HELPER)
    service = start(home, collect="never", access__service_tokens=True)
    with stream(service.url, **bearer(text)) as reader:
        revoke_token(Config(home=home), "lost")
        assert ends(reader) < SOON


def test_a_logout(home: Path, start: Start) -> None:
    text, _ = create_token(Config(home=home), "ann", Role.USER, user="ann")
    service = start(home, collect="never", access__service_tokens=True)
    with (
        session(service.url, text) as browser,
        stream(service.url, cookies=dict(browser.cookies)) as reader,
        stream(service.url, **bearer(text)) as by_token,
    ):
        assess(home, "1", user="ann")
        assert (reader.subjects(1), by_token.subjects(1)) == (["1"], ["1"])
        assert browser.post("/auth/logout").status_code == 204
        assess(home, "2", user="ann")
        assert ends(reader) < 5  # at once, as for other requests
        assert by_token.subjects(1) == ["2"]


def test_an_erased_user(home: Path, start: Start) -> None:
    config = Config(home=home)
    (own, _), (all_jobs, _) = (
        create_token(config, "ann", Role.USER, user="ann"),
        create_token(config, "grafana", Role.HELPER),
    )
    service = start(home, collect="never", access__service_tokens=True)
    with (
        session(service.url, own) as browser,
        stream(service.url, **bearer(own)) as reader,
        stream(service.url, cookies=dict(browser.cookies)) as in_browser,
        stream(service.url, **bearer(all_jobs)) as other,
    ):
        assess(home, "1", user="ann")
        assert [one.subjects(1) for one in (reader, in_browser, other)] == [["1"]] * 3
        with Workspace(config) as workspace:
            erase_user(workspace, "ann", future=True)
        wait_until_refused(service.url, **bearer(own))
        assess(home, "2", user="ben")
        assert ends(reader) < SOON
        assert ends(in_browser) < SOON
        assert other.subjects(1) == ["2"]


def test_a_lost_role(home: Path, start: Start, tmp_path: Path) -> None:
    """An operator by Slurm's AdminLevel: without it, the stream ends, and the next one has own jobs only."""
    key_file = tmp_path / "jwt.key"
    key_file.write_bytes(KEY)
    key_file.chmod(0o600)
    levels = {"olga": "Operator"}

    def answer(request: HttpRequest) -> Reply:
        if request.path == "/openapi/v3":
            return 200, openapi(40)
        assert request.path == "/slurmdb/v0.0.40/users", request.path
        users = [{"name": name, "administrator_level": [level]} for name, level in levels.items()]
        return 200, {"users": users, "errors": []}

    def token(user: str) -> str:
        return jwt.encode({"sun": user, "exp": int(time.time()) + 3600}, KEY)

    with serving(answer) as slurm:
        service = start(
            home,
            collect="never",
            access__slurm_tokens="key",
            access__slurm_key_file=key_file,
            access__slurm_admins=True,
            access__roles_refresh=1,
            environment={"FOREWARN_SLURMRESTD": slurm.address, "FOREWARN_SLURM_TOKEN": token("root")},
        )
        olga = bearer(token("olga"))
        with stream(service.url, **olga) as reader:
            assess(home, "1", user="ann")
            assert reader.subjects(1) == ["1"]
            place = reader.last_id
            levels["olga"] = "None"
            until = time.monotonic() + SOON
            while httpx.get(f"{service.url}/auth/session", **olga).json()["role"] != "user":
                assert time.monotonic() < until
                time.sleep(0.1)
            assess(home, "2", user="ann")
            assess(home, "3", user="olga")
            assert ends(reader) < SOON
        with stream(service.url, params={"after": place}, **olga) as again:
            assert again.subjects(1) == ["3"]


def test_what_waits_for_a_caller_that_does_not_read_is_not_sent_later(home: Path, start: Start) -> None:
    text, _ = create_token(Config(home=home), "lost", Role.HELPER)
    service = start(home, collect="never", access__service_tokens=True)
    host, _, port = service.url.removeprefix("http://").rpartition(":")
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before it is connected
        stuck.settimeout(SOON)
        stuck.connect((host, int(port)))
        stuck.sendall(
            f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {text}\r\n\r\n".encode()
        )
        assert stuck.recv(12) == b"HTTP/1.1 200"
        number = 2400
        for first in range(0, number, 600):  # more than all buffers on the way hold
            assess(home, *(f"{first + one}" for one in range(600)), name="x" * 3000)
        time.sleep(2)
        revoke_token(Config(home=home), "lost")
        wait_until_refused(service.url, **bearer(text))
        time.sleep(15)  # until it is cut off
        sent = b"".join(iter(lambda: stuck.recv(1 << 16), b""))
    assert 0 < sent.count(b"id: ") < number
    assert not sent.endswith(b"0\r\n\r\n")  # cut off, not ended


def test_a_stream_is_no_use_of_a_session(home: Path, start: Start) -> None:
    """A session that nobody uses ends, though a page that somebody forgot follows the events."""
    text, _ = create_token(Config(home=home), "ann", Role.USER, user="ann")
    service = start(home, collect="never", access__service_tokens=True, access__session_idle=5)
    with session(service.url, text) as browser, stream(service.url, cookies=dict(browser.cookies)) as reader:
        assert ends(reader) < SOON
        assert browser.get("/v1/jobs").status_code == 401
