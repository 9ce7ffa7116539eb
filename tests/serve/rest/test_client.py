"""`Client` and `AsyncClient` against a running service, and against servers that are none."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from forewarn import Assessment, AsyncClient, Client, RetryVerdict, ServiceError
from forewarn.config import Config
from forewarn.errors import (
    BadFieldsError,
    ForbiddenError,
    OverloadedError,
    RateLimitError,
    SchedulerError,
    ServiceAwayError,
    UnauthenticatedError,
    UnknownJobError,
    UsageError,
)
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from forewarn.operate.explanation import Explanation
from forewarn.operate.health_result import HealthResult
from forewarn.serve.client import calls
from forewarn.serve.client.address import service_address
from tests.serve.rest.conftest import Start
from tests.serve.rest.running import RunningService

SCRIPT = "#!/bin/bash\n#SBATCH --time=1:00:00\n#SBATCH --mem=4G\nsrun ./a\n"


@pytest.fixture
def client(service: RunningService) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


def ended_job(client: Client) -> str:
    return client.jobs_page(state="failed", order="submit", limit=1)["jobs"][0]["job_id"]


# --- a real service ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_kind_of_answer(client: Client) -> None:
    job_id = ended_job(client)
    assert client.alive()["status"] == "alive"
    assert client.ready()["ready"] is True
    assert isinstance(client.assess({"nodes_asked": 1, "time_limit": 3600}), Assessment)
    brief = client.assess_batch([{"job_id": "1"}, {"job_id": "2"}])
    assert [one.job_id for one in brief] == ["1", "2"]
    assert client.check(SCRIPT, options=["--mem=8G"]).verdict
    assert client.job(job_id)["outcome"] == "failed"
    explained = client.explain(job_id)
    assert isinstance(explained, Explanation)
    assert (explained.job.job_id, explained.report.outcome) == (job_id, "failed")
    assert explained.report.similar == () or explained.report.tally is not None
    assert isinstance(client.advise(job_id), Assessment)
    assert isinstance(client.retry(job_id), RetryVerdict)
    health = client.health()
    assert isinstance(health, HealthResult)
    assert [one.node for one in client.health(health.nodes[0].node).nodes] == [health.nodes[0].node]
    assert client.exclude()["option"] == health.exclude
    (model,) = client.models()
    (threshold,) = client.thresholds()
    assert model["model"] == threshold["model"] == "small.submit.generic"
    preview = client.set_threshold(model["model"], 0.5, preview=True)
    assert preview
    assert client.trends("partition", every="month")
    assert client.notices()["notices"] == []
    assert client.silences() == []


@pytest.mark.slow
def test_the_log_of_a_job_is_read_from_both_ends(client: Client) -> None:
    tail = "ModuleNotFoundError: No module named 'torch'\n"
    found = client.explain(
        ended_job(client), log="begin\n", log_tail=tail, log_size=10**9, log_path="/a/b.out"
    )
    (line,) = found.report.log
    assert (line.line, line.path) == (-1, "/a/b.out")
    assert found.report.logs[0].whole is False


@pytest.mark.slow
def test_all_pages_of_a_list(client: Client) -> None:
    total = client.jobs_page(state="failed", limit=1)["total"]
    ids = [(job["job_id"], job["submit"]) for job in client.jobs(state="failed", limit=97)]
    assert len(ids) == len(set(ids)) == total > 97


@pytest.mark.slow
def test_the_same_from_asyncio(service: RunningService, client: Client) -> None:
    async def ask() -> None:
        async with AsyncClient(service.url) as asynchronous:
            assert (await asynchronous.alive())["status"] == "alive"
            jobs = [{"job_id": str(number)} for number in range(20)]
            found = await asyncio.gather(*(asynchronous.assess(job, detail="brief") for job in jobs))
            assert [one.job_id for one in found] == [job["job_id"] for job in jobs]
            listed = [job async for job in asynchronous.jobs(state="failed", limit=500)]
            assert len(listed) == client.jobs_page(state="failed", limit=1)["total"]
            with pytest.raises(UnknownJobError):
                await asynchronous.job("999999999")

    asyncio.run(ask())


@pytest.mark.slow
def test_errors_are_those_of_the_library(client: Client) -> None:
    with pytest.raises(UnknownJobError) as unknown:
        client.explain("999999999")
    assert isinstance(unknown.value.__cause__, ServiceError)
    assert (unknown.value.__cause__.status, unknown.value.__cause__.code) == (404, "unknown_job")
    assert unknown.value.__cause__.request_id
    with pytest.raises(BadFieldsError) as bad:
        client.assess({"tme_limit": 3})
    assert [field.path for field in bad.value.fields] == ["/tme_limit"]
    with pytest.raises(UsageError):
        client.jobs_page(since="yesteryear")
    with pytest.raises(SchedulerError):  # this one has no Slurm
        client.cancel("1")
    with pytest.raises(ServiceError) as elsewhere:  # a path in place of an id leads nowhere
        client.job("../../healthz")
    assert elsewhere.value.code == "no_such_route"


@pytest.mark.slow
def test_a_unix_socket_and_tokens(home: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = home / "rest.sock"
    token, _ = create_token(Config(home=home), "bot", Role.USER, user="ann")
    running = start(home, socket=socket, collect="never", access__service_tokens=True)
    for url in (running.url, f"unix:{socket}"):
        with Client(url) as client, pytest.raises(UnauthenticatedError):
            client.models()
        with Client(url, token="wrong") as client, pytest.raises(UnauthenticatedError):
            client.models()
        monkeypatch.setenv("FOREWARN_TOKEN", token)
        with Client(url) as client:
            assert token not in repr(client) + repr(client.address)
            assert client.models()
            with pytest.raises(ForbiddenError):
                client.set_threshold("small.submit.generic", 0.5)
            assert {job["user"] for job in client.jobs()} <= {"ann"}
        monkeypatch.delenv("FOREWARN_TOKEN")


@pytest.mark.slow
def test_events_go_on_after_a_break(home: Path, start: Start) -> None:
    """A stream is resumed by its last id: nothing twice, nothing lost."""
    settings = {
        "scheduler": "simulator",
        "simulator": "small",
        "simulator_days": "2",
        "simulator_speed": "900",
    }
    environment = {f"FOREWARN_{name.upper()}": str(value) for name, value in settings.items()}
    running = start(home.parent / "simulated", environment=environment)
    with Client(running.url) as client:
        first = client.events()
        seen = [next(first) for _ in range(3)]
        first.close()
        second = client.events(after=seen[0]["id"])
        again = [next(second) for _ in range(2)]
        second.close()
    assert [one["id"] for one in again] == [one["id"] for one in seen[1:]]
    assert {one["specversion"] for one in seen} == {"1.0"}


# --- servers that are none -------------------------------------------------------------------------------


class _Answer:
    """What a server sends, whatever it is asked."""

    def __init__(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.body, self.status, self.headers = body, status, headers
        self.requests = 0


@contextmanager
def serving(answer: _Answer | Callable[[Any], object]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not isinstance(answer, _Answer):
                answer(self)
                return
            answer.requests += 1
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "answer",
    [
        _Answer(b""),
        _Answer(b"<html>login</html>"),
        _Answer(b"[" * 100_000),
        _Answer(b"null"),
        _Answer(b'{"schema_version": 99}'),
        _Answer(b'{"schema_version": 1, "route": []}'),
        _Answer(b"\xff\xfe"),
        _Answer(b"", 302, Location="http://127.0.0.1:1/"),
        _Answer(b"nginx", 502),
        _Answer(b"[1]", 500),
        _Answer(b'{"code": ["x"], "detail": 5, "errors": {"a": 1}}', 400),
    ],
)
def test_hostile_answers_are_a_service_error(answer: _Answer) -> None:
    with serving(answer) as url, Client(url) as client:
        with pytest.raises(ServiceError) as found:
            client.advise("1")
        assert found.value.exit_code == 10
        assert len(str(found.value)) < 1000


def test_text_of_an_answer_is_one_line_without_controls() -> None:
    detail = "no\x1b[2J\nforewarn: all is fine" + "x" * 10_000
    body = json.dumps({"code": "unknown_job", "detail": detail}).encode()
    with serving(_Answer(body, 404)) as url, Client(url) as client:
        with pytest.raises(UnknownJobError) as found:
            client.job("1")
        assert str(found.value).isprintable()
        assert len(str(found.value)) <= 500


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.serve.client.exchange.LARGEST", 1000)
    with (
        serving(_Answer(b" " * 100_000)) as url,
        Client(url) as client,
        pytest.raises(ServiceError, match="in one answer"),
    ):
        client.alive()


def test_what_acts_is_sent_once_and_what_asks_twice() -> None:
    seen: list[str] = []

    def hang_up(handler: Any) -> None:
        seen.append(f"{handler.command} {handler.path}")
        handler.connection.shutdown(2)
        handler.close_connection = True

    with serving(hang_up) as url, Client(url) as client:
        for ask in (lambda: client.cancel("1"), lambda: client.alive(), lambda: client.check("#!/bin/sh\n")):
            with pytest.raises(ServiceAwayError):
                ask()
    assert seen == ["POST /v1/jobs/1/cancel", *2 * ["GET /healthz"], *2 * ["POST /v1/check"]]


def test_too_slow_and_away() -> None:
    gate = threading.Event()
    with serving(lambda _: gate.wait(10)) as url, Client(url, timeout=0.2) as client:
        with pytest.raises(ServiceAwayError, match="in time"):
            client.alive()
        gate.set()
    with Client("http://127.0.0.1:1") as client, pytest.raises(ServiceAwayError, match="refused"):
        client.alive()


# httpcore leaves a unix socket that it cannot connect to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_socket_that_is_not_there() -> None:
    with Client("unix:/no/such/socket") as client, pytest.raises(ServiceAwayError):
        client.alive()
    gc.collect()


def test_rate_limit_says_how_long() -> None:
    answer = _Answer(b'{"code": "rate_limited", "detail": "slow down"}', 429, Retry_After="7")
    with serving(answer) as url, Client(url) as client, pytest.raises(RateLimitError) as found:
        client.alive()
    assert found.value.retry_after == 7


def test_an_overloaded_service_says_how_long() -> None:
    answer = _Answer(b'{"code": "overloaded", "detail": "too much to do"}', 503, Retry_After="5")
    with serving(answer) as url, Client(url) as client, pytest.raises(OverloadedError) as found:
        client.check("#!/bin/bash\n")
    assert found.value.retry_after == 5


# --- addresses and proofs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("", "forewarn.example.org", "ftp://a", "unix:relative", "http://", "http://a:0", "http://a b"),
        *("http://a:b", "http://u:p@a", "http://a/?x=1", "http://a\n", "http://[::1"),
    ],
)
def test_wrong_addresses(url: str) -> None:
    with pytest.raises(UsageError):
        service_address(url, environ={})


def test_what_proves_who_is_asking() -> None:
    environ = {"FOREWARN_URL": "https://a", "SLURM_JWT": "jwt"}
    slurm = service_address(environ=environ, user="ann")
    assert slurm.headers == {"X-SLURM-USER-TOKEN": "jwt", "X-SLURM-USER-NAME": "ann"}
    own = service_address(environ={**environ, "FOREWARN_TOKEN": "t"})
    assert own.headers == {"Authorization": "Bearer t"}
    both = service_address(environ=environ, token="t", slurm_token="s", user="ann")
    assert both.headers == {**own.headers, "X-SLURM-USER-TOKEN": "s", "X-SLURM-USER-NAME": "ann"}
    with pytest.raises(UsageError) as found:
        service_address(environ=environ, token="secret\r\nX: y")
    assert "secret" not in str(found.value)


def test_both_clients_have_every_call() -> None:
    names = {
        name
        for name, one in inspect.getmembers(calls, inspect.isfunction)
        if one.__module__ == calls.__name__ and not name.startswith("_")
    }
    for kind in (Client, AsyncClient):
        assert names <= set(vars(kind)), kind
