"""Tests of the client of slurmrestd with a real HTTP server on loopback that answers as slurmrestd does."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import (
    ClockSkewError,
    ControllerDownError,
    DatabaseDownError,
    ExpiredTokenError,
    LargeAnswerError,
    LostAnswerError,
    NoAccessError,
    NoAccountingError,
    PausedError,
    RefusedError,
    SchedulerError,
    SlowAnswerError,
    TokenError,
    UnreachableError,
    UsageError,
    VersionGoneError,
    WrongUserError,
)
from forewarn.sources.slurm.connect import connect
from forewarn.sources.slurm.job_requests import JobSubmission
from forewarn.sources.slurm.windows import WindowLength
from forewarn.sources.slurmrestd.address import Address
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from forewarn.sources.slurmrestd.refusals import refusal
from forewarn.sources.slurmrestd.submit_request import submit_request
from forewarn.sources.slurmrestd.tokens import Token, Tokens, from_file, from_text
from forewarn.sources.slurmrestd.transport import Transport
from forewarn.sources.slurmrestd.versions import ServedVersions
from tests.sources.fake_slurmrestd import (
    NOW,
    FakeTime,
    HttpRequest,
    Reply,
    Script,
    client_of,
    jwt,
    openapi,
    serving,
)
from tests.sources.test_slurmrestd import FOLDER, META, slurm_job, slurmdb_job, wrapped

GONE = (404, b"Unable find requested URL. Please view /openapi/v3 for API reference.")
UNKNOWN = {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}], "jobs": []}


def script(*versions: int, **answers: Any) -> Script:
    """Return a script of answers by the last part of a path: `ping`, `jobs`, `jobs_db`, `job_7`."""

    def answer(request: HttpRequest) -> Reply:
        if request.path == "/openapi/v3":
            return 200, openapi(*(versions or (42,)))
        _, area, version, *rest = request.path.split("/")
        if int(version.rpartition(".")[2]) not in (versions or (42,)):
            return GONE
        reply = answers.get("_".join(rest).replace("-", "_") + ("_db" if area == "slurmdb" else ""), GONE)
        found: Reply = reply(request) if callable(reply) else reply
        return found

    return answer


def jobs(*records: Any, **more: Any) -> Reply:
    return 200, {"jobs": list(records), "errors": [], "meta": META} | more


# --- versions ------------------------------------------------------------------------------------


def test_the_newest_version_is_used() -> None:
    with (
        serving(script(40, 41, 42, ping=(200, {"pings": [{"responding": True}]}))) as fake,
        client_of(fake.address) as client,
    ):
        assert client.ping()
        assert client.ping()
    assert fake.paths == ["/openapi/v3", "/slurm/v0.0.42/ping", "/slurm/v0.0.42/ping"]


def test_a_version_that_goes_away_is_replaced_by_the_next() -> None:
    """slurmrestd was updated, or lists what it does not serve."""
    served, listed = [44, 45], [44, 45]

    def answer(request: HttpRequest) -> Reply:
        return (
            (200, openapi(*listed))
            if "openapi" in request.path
            else script(*served, nodes=(200, node))(request)
        )

    node = {"nodes": [{"name": "n1"}], "last_update": 5, "meta": META}
    with serving(answer) as fake, client_of(fake.address) as client:
        list(client.nodes())
        served[:] = [43, 44]  # 45 is still listed, and gone
        assert [batch.frame.height for batch in client.nodes()] == [1]
        served[:], listed[:] = [43], [43]
        list(client.nodes())
        assert client.session.version == "v0.0.43"
        served[:], listed[:] = [], []
        with pytest.raises(VersionGoneError, match=r"serves no version .* from v0.0.36 on"):
            list(client.nodes())


def test_a_version_that_nobody_knows_is_the_last_choice() -> None:
    assert ServedVersions.read(openapi(46, 45, 44, 35)).versions == ("v0.0.45", "v0.0.44", "v0.0.46")
    assert ServedVersions.read(openapi(47, 46)).versions == ("v0.0.46", "v0.0.47")
    assert ServedVersions.read("nonsense").versions == ()


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("place", "versions", "truncates"),
    [
        ("recorded/22.05.8/openapi.json", (38, 37, 36), False),
        ("recorded/24.11.5/openapi.json", (42, 41, 40), True),
        ("24.11/openapi-v3.json", None, True),
        ("25.05/openapi-v3.json", None, True),
        ("recorded/26.05.5/openapi.json", (45, 44, 43, 42), True),
    ],
)
def test_versions_of_recorded_servers(
    shared_data: Path, place: str, versions: tuple[int, ...] | None, truncates: bool
) -> None:
    served = ServedVersions.read(json.loads((FOLDER / place).read_bytes()))
    assert versions is None or served.versions == tuple(f"v0.0.{n}" for n in versions)
    best = served.best("x")
    assert served.has(best, "skip_steps")
    assert served.has(best, "disable_truncate_usage_time") == truncates


# --- records -------------------------------------------------------------------------------------


def test_live_records_are_seen_when_the_controller_answered() -> None:
    answers = {
        "jobs": jobs(slurm_job(), last_update=wrapped(5000)),
        "nodes": (200, {"nodes": [{"name": "n1"}], "meta": META}),
        "partitions": (200, {"partitions": [{"name": "p"}], "meta": META}),
    }
    with serving(script(**answers)) as fake, client_of(fake.address) as client:
        (live,), (nodes,), (partitions,) = client.live_jobs(), client.nodes(), client.partitions()
    assert live.frame.select("job_id", "cluster", "seen_at", "reconstructed").row(0) == (
        "8",
        "lab",
        5000,
        False,
    )
    # An answer without a time was given when it came.
    for batch in (nodes, partitions):
        assert batch.frame.select("cluster", "seen_at", "reconstructed").row(0) == ("lab", NOW, False)


def test_old_versions_do_not_name_the_cluster() -> None:
    answers: dict[str, Any] = {
        "ping": (200, {"pings": []}),
        "jobs": jobs({"job_id": 1, "submit_time": 5, "job_state": "PENDING"}),
    }
    one = (200, {"clusters": [{"name": "fox"}]})
    with serving(script(38, **answers, clusters_db=one)) as fake, client_of(fake.address) as client:
        (batch,) = client.live_jobs()
        assert batch.frame["cluster"].to_list() == ["fox"]
    two = (200, {"clusters": [{"name": "fox"}, {"name": "hen"}]})
    with serving(script(38, **answers, clusters_db=two)) as fake:
        with client_of(fake.address) as client, pytest.raises(UsageError, match="set `cluster`"):
            list(client.live_jobs())
        with client_of(fake.address, cluster="hen") as client:
            assert client.cluster == "hen"


def test_one_job() -> None:
    array = [
        slurm_job(job_id=8, array_job_id=wrapped(7), array_task_id=wrapped(1)),
        slurm_job(job_id=7, array_job_id=wrapped(7), array_task_string="2-5"),
    ]
    answers = {
        "job_7": jobs(*array),
        "job_9": (404, UNKNOWN),
        "job_9_db": jobs(slurmdb_job(job_id=9)),
        "job_10": (500, UNKNOWN),  # as 22.05 says it
        "job_10_db": jobs(),
    }

    def found(job_id: str) -> list[str]:
        return [name for batch in client.job(job_id) for name in batch.frame["job_id"]]

    with serving(script(**answers)) as fake, client_of(fake.address) as client:
        assert found("7") == ["7_1", "7_[2-5]"]
        assert found("7_1") == ["7_1"]
        assert found("7_3") == ["7_[2-5]"]  # waits with the others
        assert found("9") == ["9"]  # long gone from the controller
        assert found("10") == []
        with pytest.raises(UsageError, match="write an id like"):
            found("seven")


def test_diag_counts_calls() -> None:
    facts = {
        "req_time": wrapped(NOW),
        "jobs_running": 3,
        "rpcs_by_message_type": [{"message_type": "REQUEST_JOB_INFO", "count": 2, "total_time": 3000}],
    }
    with serving(script(diag=(200, {"statistics": facts}))) as fake, client_of(fake.address) as client:
        found = client.diag()
    assert (found.at, found.jobs_running, found.jobs_pending) == (NOW, 3, None)
    assert found.calls == {"REQUEST_JOB_INFO": (2, 0.003)}


# --- history -------------------------------------------------------------------------------------


def accounting(*records: tuple[int, int]) -> Callable[[HttpRequest], Reply]:
    """Return a script that answers with jobs by id and end, as slurmdbd does for a window."""

    def answer(request: HttpRequest) -> Reply:
        begin, end = (int(request.query[name].removeprefix("uts")) for name in ("start_time", "end_time"))
        inside = [r for r in records if r[1] >= begin and r[1] <= end and "COMPLETED" in request.all["state"]]
        times = ({"submission": e - 50, "eligible": e - 50, "start": e - 50, "end": e} for _, e in inside)
        return jobs(*(slurmdb_job(job_id=n, time=t) for (n, _), t in zip(inside, times, strict=True)))

    return answer


def test_history_is_whole_and_asks_so_that_times_are_not_cut() -> None:
    records = [(n, NOW - 1000 + n * 10) for n in range(1, 100)]
    with (
        serving(script(jobs_db=accounting(*records))) as fake,
        client_of(fake.address, span=WindowLength(seconds=100, shortest=10, rows=8)) as client,
    ):
        pieces = list(client.history(NOW - 1000, steps=False))
    names = [name for piece in pieces for name in piece.batch.frame["job_id"]]
    assert sorted(names, key=int) == [str(n) for n, _ in records]
    assert pieces[-1].reached == NOW
    queries = [a.query for a in fake.requests if a.path.startswith("/slurmdb")]
    assert len(queries) > 10
    assert all(query["skip_steps"] == query["show_duplicates"] == "true" for query in queries)
    states = [a.all["state"] for a in fake.requests if a.path.startswith("/slurmdb")]
    assert all(
        {"COMPLETED", "CANCELLED", "REQUEUED"} < set(some) and "RUNNING" not in some for some in states
    )
    assert all("disable_truncate_usage_time" not in query for query in queries)  # this one does not know it


@pytest.mark.parametrize("keeps", [True, False])
def test_history_holds_the_scripts(keeps: bool) -> None:
    """24.11 returns no scripts for a window of time, and all that are kept for jobs that are named."""
    times = {"submission": NOW - 90, "eligible": NOW - 90, "start": NOW - 80, "end": NOW - 50}
    named = {"submit_line": "sbatch a.sh", "time": times}
    records = [slurmdb_job(job_id=n, script="", **named) for n in (7, 8)]
    kept = [slurmdb_job(job_id=7, script="#!/bin/sh\nmodule load gcc\n" if keeps else "", **named)]
    flags = ("skip_steps", "show_duplicates", "show_batch_script")
    answers = script(
        jobs_db=lambda request: jobs(*(kept if "show_batch_script" in request.query else records))
    )

    def answer(request: HttpRequest) -> Reply:
        return (200, openapi(42, parameters=flags)) if request.path == "/openapi/v3" else answers(request)

    with serving(answer) as fake, client_of(fake.address) as client:
        for _ in range(2):  # a second round asks for no script again
            frame = pl.concat(piece.batch.frame for piece in client.history(NOW - 100))
            modules = dict(frame.select("job_id", "script_modules").iter_rows())
            assert modules == {"7": "gcc" if keeps else None, "8": None}
    queries = [a.query for a in fake.requests if "show_batch_script" in a.query]
    assert [(query["step"], query["skip_steps"]) for query in queries] == [("8", "true")]


def test_scripts_that_could_not_be_read_are_asked_for_again() -> None:
    """One failed answer, or jobs without a script where scripts are kept, do not stop the requests."""
    times = {"submission": NOW - 90, "eligible": NOW - 90, "start": NOW - 80, "end": NOW - 50}
    shown = {7: "#!/bin/sh\nmodule load gcc\n", 8: "", 9: "#!/bin/sh\nmodule load cuda\n"}
    ended, failures = [7], [3]

    def accounts(request: HttpRequest) -> Reply:
        named = {"array": {"job_id": 0}, "submit_line": "sbatch a.sh", "time": times}
        if "show_batch_script" not in request.query:
            return jobs(*(slurmdb_job(job_id=n, script="", **named) for n in ended))
        if failures[0]:
            failures[0] -= 1
            return 502, {"errors": [DATABASE]}
        return jobs(*(slurmdb_job(job_id=int(n), script=shown[int(n)], **named) for n in request.all["step"]))

    flags = ("skip_steps", "show_duplicates", "show_batch_script")
    answers = script(jobs_db=accounts)

    def answer(request: HttpRequest) -> Reply:
        return (200, openapi(42, parameters=flags)) if request.path == "/openapi/v3" else answers(request)

    def modules() -> dict[str, str | None]:
        frame = pl.concat(piece.batch.frame for piece in client.history(NOW - 100))
        return dict(frame.select("job_id", "script_modules").iter_rows())

    with serving(answer) as fake, client_of(fake.address) as client:
        assert modules() == {"7": None}, "twice in vain"
        assert modules() == {"7": "gcc"}, "at the second try: whoever reads a job once has them"
        ended.append(8)
        assert modules() == {"7": "gcc", "8": None}
        ended.append(9)
        assert modules() == {"7": "gcc", "8": None, "9": "cuda"}
    queries = [a.all["step"] for a in fake.requests if "show_batch_script" in a.query]
    assert queries == [["7"], ["7"], ["7"], ["7"], ["8"], ["9"]]


def test_a_history_goes_on_where_slurmrestd_died() -> None:
    """It dies of large windows, and is unreachable for a while."""
    records = [(n, NOW - 1000 + n * 10) for n in range(1, 100)]
    whole, away = accounting(*records), [0]

    def mortal(request: HttpRequest) -> Reply:
        begin, end = (int(request.query[name].removeprefix("uts")) for name in ("start_time", "end_time"))
        if end - begin > 300:
            away[0] = 2
            return None
        if away[0]:
            away[0] -= 1
            return 503, b"no server behind this proxy"
        return whole(request)

    time = FakeTime()
    with (
        serving(script(jobs_db=mortal)) as fake,
        client_of(
            fake.address, time=time, span=WindowLength(seconds=1000, longest=250, shortest=10)
        ) as client,
    ):
        pieces = list(client.history(NOW - 1000, NOW))
    assert sum(piece.batch.frame.height for piece in pieces) == 99
    assert len(time.waits) == 2


def test_up_to_v39_all_that_overlaps_is_asked_for() -> None:
    """It accepts no list of states: jobs cancelled before they were eligible are requested separately."""
    with (
        serving(script(38, jobs_db=jobs(), clusters_db=(200, {"clusters": [{"name": "lab"}]}))) as fake,
        client_of(fake.address, span=WindowLength(seconds=100)) as client,
    ):
        list(client.history(NOW - 200))
    states = [a.query.get("state") for a in fake.requests if a.path.endswith("jobs")]
    assert states == [None, "4"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("version", "questions"), [(42, 2), (38, 250)])
def test_jobs_that_accounting_is_asked_about(version: int, questions: int) -> None:
    ids = [str(n) for n in range(1, 250)] + ["300_4"]

    def answer(request: HttpRequest) -> Reply:
        numbers = request.all.get("step") or [request.path.rpartition("/")[2]]
        return jobs(*(slurmdb_job(job_id=int(n.partition("_")[0])) for n in numbers if n != "7"))

    one_by_one = {f"job_{n}_db": answer for n in (*range(1, 250), 300)}
    with (
        serving(script(version, jobs_db=answer, **one_by_one | {"job_7_db": (404, UNKNOWN)})) as fake,
        client_of(fake.address, cluster="lab") as client,
    ):
        numbers = [n for batch in client.accounting_records(ids) for n in batch.frame["raw_id"]]
    assert sorted(numbers) == sorted({*range(1, 250), 300} - {7})
    assert len([a for a in fake.requests if a.path.startswith("/slurmdb")]) <= questions + 1


@pytest.mark.parametrize(
    "body", [b"<html>busy</html>", b"", b"[]", b'{"jobs": [', b'{"jobs": [{"a": 1}]}', b"null"]
)
@pytest.mark.parametrize("part", ["jobs", "jobs_db", "diag", "ping", "openapi"])
def test_an_answer_that_makes_no_sense(body: bytes, part: str) -> None:
    """It is requested once more; if it stays, it is a transient error."""
    answers: dict[str, Any] = {
        "diag": (200, DIAG),
        "ping": (200, {"pings": []}),
        "jobs": jobs(),
        "jobs_db": jobs(),
    }
    left = [1]

    def mangled(request: HttpRequest) -> Reply:
        if part == "openapi" or "openapi" not in request.path:
            left[0] -= 1
            if left[0] >= 0:
                return 200, body
        return script(42, **answers)(request)

    calls: dict[str, Callable[[SlurmrestdScheduler], object]] = {
        "jobs": lambda client: list(client.live_jobs()),
        "jobs_db": lambda client: list(client.history(NOW - 50)),
        "diag": lambda client: client.diag(),
        "ping": lambda client: client.ping(),
        "openapi": lambda client: client.ping(),
    }
    with serving(mangled) as fake, client_of(fake.address, cluster="lab") as client:
        if b"{" not in body:
            calls[part](client)  # noticed at once, and requested again
        left[0] = 10**6
        client.session._served = None
        fine = part in ("diag", "ping", "openapi") and body.endswith(b"]}")
        if not fine:
            with pytest.raises(SchedulerError) as caught:
                calls[part](client)
            assert caught.value.transient or isinstance(caught.value, VersionGoneError)


def test_a_slurm_without_accounting() -> None:
    """Its slurmrestd serves nothing of slurmdb: the controller is asked as usual."""
    paths: dict[str, Any] = {"/slurm/v0.0.42/jobs/": {"get": {}}}

    def answer(request: HttpRequest) -> Reply:
        if "openapi" in request.path:
            return 200, {"paths": paths}
        return script(42, jobs=jobs(), job_7=(404, UNKNOWN))(request)

    with serving(answer) as fake, client_of(fake.address, cluster="lab") as client:
        for _ in range(2):
            with pytest.raises(NoAccountingError, match="serves no accounting"):
                list(client.history(NOW - 50))
            assert [batch.frame.height for batch in client.live_jobs()] == [0]
        assert list(client.job("7")) == []


DIAG = {"statistics": {"req_time": NOW, "dbd_agent_queue_size": 0}}


def test_an_answer_too_large_is_not_kept() -> None:
    big = jobs(*(slurmdb_job(job_id=n) for n in range(100)))
    with serving(script(jobs_db=big)) as fake:
        client = client_of(fake.address, most_bytes=10_000, span=WindowLength(seconds=60))
        with client as scheduler, pytest.raises(LargeAnswerError, match="larger than 0 MB"):
            list(scheduler.history(NOW - 100))


def test_one_request_at_a_time() -> None:
    busy, most = [0], [0]

    def slow(request: HttpRequest) -> Reply:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        threading.Event().wait(0.02)
        busy[0] -= 1
        return 200, {"pings": []}

    with serving(script(ping=slow)) as fake, client_of(fake.address) as client:
        threads = [threading.Thread(target=client.ping) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1]


# --- tokens and refusals -------------------------------------------------------------------------


def test_the_token_goes_with_each_request_and_a_new_one_after_a_refusal() -> None:
    time, issued = FakeTime(), list[str]()

    def fetch() -> str:
        issued.append(jwt(f"user{len(issued)}"))
        return issued[-1]

    def nodes(request: HttpRequest) -> Reply:
        if request.headers["x-slurm-user-name"] != "user1":
            return 511, {"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}
        return 200, {"nodes": []}

    tokens = Tokens(fetch, "test", renewable=True, clock=time.clock)
    with serving(script(nodes=nodes)) as fake, client_of(fake.address, tokens=tokens, time=time) as client:
        list(client.nodes())
    assert [request.headers["x-slurm-user-token"] for request in fake.requests] == [
        issued[0],
        issued[0],
        issued[1],
    ]


DATABASE = {"error_number": 7000, "error": "Unable to connect to database"}
ACCESS = "Access/permission denied"


@pytest.mark.parametrize(
    ("status", "reply", "error", "words"),
    [
        (401, None, TokenError, "rest_auth/jwt"),
        (511, {}, TokenError, "jwt_key"),
        (502, {"errors": [DATABASE]}, DatabaseDownError, "slurmdbd does not answer"),
        (502, {"errors": [DATABASE | {"description": "authentication error"}]}, TokenError, "jwt_key"),
        (502, {"errors": [{"error_number": 1800, "error": "x"}]}, ControllerDownError, "slurmctld"),
        (
            500,
            {"errors": [{"error": "Unable to contact slurm controller"}]},
            ControllerDownError,
            "slurmctld",
        ),
        (404, None, VersionGoneError, "is not served"),
        (503, None, UnreachableError, "a proxy answers with 503"),
        (
            500,
            {"errors": [{"error": f"unable to kill job 22: {ACCESS}", "error_code": 0}]},
            RefusedError,
            ACCESS,
        ),
        (200, {"errors": [], "status": [{"error": {"code": 2002, "message": ACCESS}}]}, RefusedError, ACCESS),
        (
            500,
            {"errors": [{"error": "slurmctld config is unable to load"}]},
            ControllerDownError,
            "or refuses",
        ),
        (500, {"errors": [{"error_number": -1, "error": "x"}]}, RefusedError, "error -1"),
        (422, {"errors": [{"error_number": 9000, "error": "not RFC7320"}]}, RefusedError, "9000"),
        (418, None, RefusedError, "HTTP status 418"),
    ],
)
def test_what_a_refusal_means(status: int, reply: Any, error: type[SchedulerError], words: str) -> None:
    found = refusal(status, reply, "here", token=Token.read(jwt()), user=None, at=NOW)
    assert type(found) is error
    assert words in str(found)


@pytest.mark.parametrize("path", ["diag", "jobs", "nodes", "partitions"])
def test_22_05_does_not_say_why_the_controller_gives_nothing(path: str) -> None:
    reply = {"errors": [{"error_number": -1, "error": "Unspecified error"}]}
    found = refusal(500, reply, f"here /slurm/v0.0.38/{path}", token=Token.read(jwt()), user=None, at=NOW)
    assert type(found) is ControllerDownError
    assert "or refuses the token" in str(found)


def test_why_a_token_is_not_accepted_is_in_the_token() -> None:
    def why(token: Token | None, user: str | None = None) -> SchedulerError | None:
        return refusal(511, {}, "here", token=token, user=user, at=NOW)

    assert type(why(Token.read(jwt(expires=NOW - 5)))) is ExpiredTokenError
    assert type(why(Token.read(jwt(issued=NOW + 100)))) is ClockSkewError
    assert type(why(Token.read(jwt("ann")), "bob")) is WrongUserError
    assert type(why(Token.read(jwt("root")), "bob")) is TokenError
    assert type(why(None)) is TokenError
    # 26.05 says of a token that slurmdbd refuses what it says of a slurmdbd that is down.
    old = Token.read(jwt(expires=NOW - 5))
    gone = refusal(502, {"errors": [DATABASE]}, "here", token=old, user=None, at=NOW)
    assert type(gone) is ExpiredTokenError
    none = refusal(401, None, "here", token=None, user=None, at=NOW)
    assert "none is configured" in str(none)
    assert refusal(200, {"errors": []}, "here", token=None, user=None, at=NOW) is None


def test_errors_that_come_as_if_all_were_well() -> None:
    """22.05 answers 200 to everything; an empty window is an error in it, too."""
    refused = {"jobs": [], "errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}
    empty = {"jobs": [], "errors": [{"error_number": 9003, "error": "Nothing found with query"}]}
    with (
        serving(script(38, jobs_db=(200, refused))) as fake,
        client_of(fake.address, user="bob") as client,
        pytest.raises(WrongUserError),
    ):
        list(client.history(NOW - 10))
    with serving(script(38, jobs_db=(200, empty))) as fake, client_of(fake.address) as client:
        assert sum(piece.batch.frame.height for piece in client.history(NOW - 10)) == 0
    assert fake.requests[-1].query["state"] == "4"


def test_passing_trouble_is_tried_again_and_a_refusal_is_not() -> None:
    replies = [(502, {"errors": [DATABASE]}), (502, {"errors": [DATABASE]}), jobs()]
    time = FakeTime()
    with (
        serving(script(jobs_db=lambda request: replies.pop(0) if replies else jobs())) as fake,
        client_of(fake.address, time=time) as client,
    ):
        list(client.history(NOW - 10))
    assert len(time.waits) == 2
    with (
        serving(script(nodes=(422, {"errors": [{"error": "no"}]}))) as fake,
        client_of(fake.address) as client,
    ):
        with pytest.raises(RefusedError, match="no"):
            list(client.nodes())
        assert fake.paths.count("/slurm/v0.0.42/nodes") == 1


def test_a_database_that_is_away_does_not_keep_us_from_the_controller() -> None:
    away = (502, {"errors": [DATABASE]})
    with (
        serving(script(jobs_db=away, nodes=(200, {"nodes": []}))) as fake,
        client_of(fake.address, tries=1) as client,
    ):
        for error in (DatabaseDownError,) * 3 + (PausedError,):
            with pytest.raises(error):
                list(client.history(NOW - 10))
        assert [batch.frame.height for batch in client.nodes()] == [0]


# --- submit and cancel ---------------------------------------------------------------------------

JOB = JobSubmission(
    script="#!/bin/sh\ntrue\n", work_dir="/w", name="x", time_limit=61, nodes=2, memory_per_node=1
)


def test_submit() -> None:
    with (
        serving(script(job_submit=(200, {"job_id": 5, "errors": []}))) as fake,
        client_of(fake.address) as client,
    ):
        assert client.submit(JOB) == "5"
    sent = fake.requests[-1].body
    assert sent["script"] == JOB.script
    assert sent["job"]["time_limit"] == {"set": True, "infinite": False, "number": 2}
    assert sent["job"]["memory_per_node"]["number"] == 1
    assert sent["job"]["environment"] == ["PATH=/usr/local/bin:/usr/bin:/bin"]
    assert "partition" not in sent["job"]


def test_submit_to_an_old_version() -> None:
    job = submit_request(JOB, "v0.0.38")["job"]
    assert (job["time_limit"], job["nodes"]) == (2, [2, 2])
    assert job["environment"] == {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ((500, {"errors": [{"error_number": 2000, "error": "Invalid partition"}]}), RefusedError),
        ((200, {"job_id": 0, "errors": [{"error": "Unspecified error"}]}), RefusedError),
        ((200, {"result": {"error_code": 2000, "error": "Invalid"}, "job_id": 0}), RefusedError),
        ((200, {"job_id": 0, "errors": []}), SchedulerError),
        (None, LostAnswerError),
        ((502, {"errors": [{"error_number": 1802, "error": "receive failure"}]}), ControllerDownError),
    ],
)
def test_a_submission_that_fails_is_never_repeated(reply: Reply, error: type[SchedulerError]) -> None:
    with (
        serving(script(job_submit=lambda request: reply)) as fake,
        client_of(fake.address) as client,
        pytest.raises(error),
    ):
        client.submit(JOB)
    assert fake.paths.count("/slurm/v0.0.42/job/submit") == 1


def test_cancel_and_its_refusals() -> None:
    refused = {"status": [{"error": {"code": 2002, "string": ACCESS, "message": ACCESS}}], "errors": []}
    with (
        serving(script(job_7=(200, refused), job_8=(200, {"status": [], "errors": []}))) as fake,
        client_of(fake.address) as client,
    ):
        client.cancel("8")
        with pytest.raises(RefusedError, match=ACCESS) as error:
            client.cancel("7")
    assert error.value.code == 2002


def test_a_version_that_says_nothing_of_a_refusal_is_not_believed() -> None:
    def job(request: HttpRequest) -> Reply:
        return (200, {"errors": []}) if request.method == "DELETE" else jobs(slurm_job(job_id=7))

    with (
        serving(script(40, job_7=job)) as fake,
        client_of(fake.address) as client,
        pytest.raises(RefusedError, match="is still RUNNING"),
    ):
        client.cancel("7")


def test_a_task_is_cancelled_by_its_own_number() -> None:
    task = slurm_job(job_id=12, array_job_id=wrapped(7), array_task_id=wrapped(1))
    with (
        serving(script(job_7=jobs(task), job_12=(200, {"status": []}))) as fake,
        client_of(fake.address) as client,
    ):
        client.cancel("7_1")
        with pytest.raises(RefusedError, match="unknown"):
            client.cancel("7_9")
    assert [a.path for a in fake.requests if a.method == "DELETE"] == ["/slurm/v0.0.42/job/12"]


# --- addresses and the network -------------------------------------------------------------------


def test_a_unix_socket(tmp_path: Path) -> None:
    with (
        serving(script(ping=(200, {"pings": [{"ping": "UP"}]})), tmp_path / "s.sock") as fake,
        client_of(fake.address) as client,
    ):
        assert client.ping()


def test_no_token_on_a_socket_until_one_is_wanted(tmp_path: Path) -> None:
    wanted = False

    def ping(request: HttpRequest) -> Reply:
        refused = wanted and "x-slurm-user-token" not in {name.lower() for name in request.headers}
        return (401, {}) if refused else (200, {"pings": [{"ping": "UP"}]})

    token = tmp_path / "token"
    token.write_text(jwt())
    tokens = from_file(token, FakeTime().clock)
    with (
        serving(script(ping=ping), tmp_path / "s.sock") as fake,
        client_of(fake.address, tokens=tokens, first_without=True) as client,
    ):
        assert client.ping()
        assert not client.session.needs_token
        wanted = True
        assert client.ping()
        assert client.session.needs_token
        assert len(fake.requests) == 4, "refused once, then with a token"


@pytest.mark.parametrize("as_if", [(401, {}), (500, {"errors": [{"error_number": 1800}]})])
def test_a_socket_that_requires_a_token_which_cannot_be_issued(as_if: Reply, tmp_path: Path) -> None:
    tokens = from_file(tmp_path / "none", FakeTime().clock)
    with (
        serving(script(ping=as_if, jobs=as_if), tmp_path / "s.sock") as fake,
        client_of(fake.address, tokens=tokens, first_without=True, tries=1) as client,
        pytest.raises((TokenError, ControllerDownError), match=r"none is configured|slurmctld"),
    ):
        list(client.live_jobs())
    assert not client.session.needs_token


def test_a_controller_that_goes_away_wants_no_token(tmp_path: Path) -> None:
    answers = [(200, {"pings": [{"ping": "UP"}]}), (500, {"errors": [{"error_number": 1800}]})]
    with (
        serving(script(ping=lambda _: answers.pop(0)), tmp_path / "s.sock") as fake,
        client_of(fake.address, first_without=True, tries=1) as client,
    ):
        assert client.ping()
        assert not client.ping()
        assert not client.session.needs_token


def test_whose_socket_is_asked_without_a_token(tmp_path: Path) -> None:
    def needs(place: str, environ: dict[str, str], **settings: Any) -> bool:
        with closing(connect(Config(slurmrestd=place, **settings), environ=environ)) as scheduler:
            assert isinstance(scheduler, SlurmrestdScheduler)
            return scheduler.session.needs_token

    socket = f"unix:{tmp_path}/s.sock"
    assert not needs(socket, {})
    assert needs("http://localhost:6820", {})
    assert needs(socket, {"SLURM_JWT": jwt()})
    assert needs(socket, {}, slurm_token_file=tmp_path / "token")


def test_sockets_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        client_of(f"unix:{tmp_path}/none.sock", tries=1) as client,
        pytest.raises(UnreachableError, match=r"none.sock: no such socket: .* \(unix:PATH\)"),
    ):
        client.ping()

    # Root may open any: what the system would say to others is put in its place.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    (tmp_path / "s.sock").touch()
    with pytest.raises(NoAccessError, match=r"s.sock: this user may not open the socket"):
        Transport(Address.read(f"unix:{tmp_path}/s.sock")).ask("GET", "/")


def test_nobody_there() -> None:
    with serving(script()) as fake:
        address = fake.address
    time = FakeTime()
    with (
        client_of(address, time=time) as client,
        pytest.raises(UnreachableError, match="nothing listens there"),
    ):
        client.ping()
    assert len(time.waits) == 2
    with (
        client_of("http://no-such-host.invalid:1", tries=1) as client,
        pytest.raises(UnreachableError, match="cannot be reached"),
    ):
        client.ping()


def test_a_connection_that_ends_and_an_answer_that_does_not_come() -> None:
    with (
        serving(lambda request: None) as fake,
        client_of(fake.address, tries=1) as client,
        pytest.raises(LostAnswerError, match="slurmrestd may have died"),
    ):
        client.ping()

    def late(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("late")

    transport = Transport(Address.read("http://h"), http=httpx.MockTransport(late))
    with pytest.raises(SlowAnswerError, match="no answer to / in time"):
        transport.ask("GET", "/")


def test_a_server_that_speaks_no_tls() -> None:
    with (
        serving(script()) as fake,
        client_of(fake.address.replace("http", "https"), tries=1) as client,
        pytest.raises(NoAccessError, match="begins with http://"),
    ):
        client.ping()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_tls_by_the_sites_own_certificates(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(lambda request: (200, {}), tls=context) as fake:
        transport = Transport(Address.read(fake.address), ca_file=certificate)
        with transport.ask("GET", "/") as answer:
            assert answer.status == 200
        transport.close()
        stranger = Transport(Address.read(fake.address))
        with pytest.raises(NoAccessError, match=r"no trusted TLS connection: self.signed certificate"):
            stranger.ask("GET", "/")
        stranger.close()


@pytest.mark.parametrize("text", ["slurm:6820", "ftp://x", "http://", "http://user:pw@host", "http://h?t=1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError):
        Address.read(text)


def test_a_ca_file_that_holds_none(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(UsageError, match="slurm_ca_file"):
        Transport(Address.read("https://h"), ca_file=file)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(script(ping=(200, {"pings": []}))) as fake, client_of(fake.address) as client:
        assert not client.ping()


def test_what_it_costs_is_counted() -> None:
    with serving(script(ping=(200, {"pings": []}))) as fake, client_of(fake.address) as client:
        client.ping()
        assert (client.session.transport.requests, client.session.transport.received > 0) == (2, True)


# --- real answers, served ------------------------------------------------------------------------


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("release", "version"),
    [("22.05.8", 36), ("22.05.8", 38), ("24.11.5", 40), ("24.11.5", 42), ("26.05.5", 45)],
)
def test_recorded_answers_over_the_wire(shared_data: Path, release: str, version: int) -> None:
    folder = FOLDER / "recorded" / release / f"v0.0.{version}"

    def recorded(name: str) -> Reply:
        return 200, (folder / f"{name}.json").read_bytes()

    answers = {
        "jobs": recorded("slurm_jobs"),
        "nodes": recorded("slurm_nodes"),
        "partitions": recorded("slurm_partitions"),
        "ping": recorded("slurm_ping"),
        "diag": recorded("slurm_diag"),
        "clusters_db": recorded("slurmdb_clusters"),
        "jobs_db": lambda request: jobs() if request.all.get("state") == ["4"] else recorded("slurmdb_jobs"),
        "job_submit": recorded("post_submit"),
        "job_99999999": (404, (folder / "slurm_job_missing.json").read_bytes()),
        "job_99999999_db": jobs(),
    }
    with (
        serving(script(version, **answers)) as fake,
        client_of(
            fake.address,
            tokens=from_text(jwt(), "t", FakeTime().clock),
            span=WindowLength(seconds=10**9, longest=10**9),
        ) as client,
    ):
        assert client.cluster == "lab"
        assert client.ping()
        assert client.diag().at > 1.7e9
        assert sum(batch.frame.height for batch in client.live_jobs()) > 15
        assert sum(batch.frame.height for batch in client.nodes()) in (2, 4)
        assert [batch.frame.height for batch in client.partitions()] == [2]
        assert sum(piece.batch.frame.height for piece in client.history(NOW - 10**8)) == 18
        assert int(client.submit(JOB)) > 0
        assert sum(batch.frame.height for batch in client.job("99999999")) == 0
