"""The routes over real HTTP: what a program gets, and how mistakes are answered."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from forewarn.assess.assessment import Assessment
from forewarn.job.units import expand_nodes
from forewarn.serve.rest.examples import CHECK, JOB, JOBS
from tests.serve.rest.running import RunningService

pytestmark = pytest.mark.slow
# They act on a Slurm (test_resubmit.py), or need a token of the site (test_strangers.py).
ELSEWHERE = ("/v1/jobs", "/v1/jobs/{job_id}/resubmit", "/auth/session")


def examples_of(http: httpx.Client) -> Iterator[tuple[str, str, Any]]:
    """Each example of a request in the service's own document: its method, path and body."""
    for path, operations in http.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for example in content.get("examples", {}).values():
                yield method, path, example["value"]


def newest_job(http: httpx.Client) -> dict[str, Any]:
    jobs = http.get("/v1/jobs", params={"order": "submit", "limit": 1}).json()["jobs"]
    assert jobs
    return dict(jobs[0])


def known_job(http: httpx.Client) -> dict[str, Any]:
    """A request as some user made it many times, so that a model can say something."""
    jobs = http.get("/v1/jobs", params={"order": "submit", "limit": 500}).json()["jobs"]
    users = [job["user"] for job in jobs]
    user = max(set(users), key=users.count)
    one = next(job for job in jobs if job["user"] == user)
    names = ("user", "name", "partition", "nodes_asked", "cpus_asked", "time_limit")
    return {name: one[name] for name in names if one.get(name) is not None}


def test_it_is_alive_and_ready(http: httpx.Client) -> None:
    alive = http.get("/healthz")
    assert (alive.status_code, alive.json()["status"]) == (200, "alive")
    assert alive.headers["x-content-type-options"] == "nosniff"
    ready = http.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert set(ready.json()["parts"]) == {"store", "models", "updates"}


def test_assess_brief_and_full_state_one_risk(http: httpx.Client) -> None:
    job = known_job(http)
    full = http.post("/v1/assess", json=job)
    brief = http.post("/v1/assess", params={"detail": "brief"}, json=job)
    assert (full.status_code, brief.status_code) == (200, 200)
    both = [Assessment.from_json(answer.json()) for answer in (full, brief)]
    assert both[0].failure is not None
    assert both[0].failure == both[1].failure
    assert full.json()["summary"]  # English for people
    assert "summary" not in brief.json()  # codes and numbers for programs
    assert len(brief.content) < len(full.content)


def test_a_batch_answers_in_its_order(http: httpx.Client) -> None:
    job = known_job(http)
    jobs = [{**job, "job_id": str(number)} for number in range(1, 301)]
    answer = http.post("/v1/assess/batch", json={"jobs": jobs})
    assert answer.status_code == 200
    assert [one["job_id"] for one in answer.json()["assessments"]] == [one["job_id"] for one in jobs]


def test_concurrent_requests_share_model_calls_and_get_their_own_answers(
    service: RunningService, http: httpx.Client
) -> None:
    """What is gathered into one call comes back to whom it belongs, the same as if asked alone."""
    known, now = known_job(http), int(time.time())
    jobs = [
        {**known, "job_id": str(number), "name": f"n{number}", "submit": now, "time_limit": 600 * number}
        for number in range(1, 200)
    ]

    def ask(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
        answer = client.post("/v1/assess", params={"detail": "brief"}, json=job)
        return {name: value for name, value in answer.json().items() if name != "made_at"}

    before = gathered(http)
    limits = httpx.Limits(max_connections=64)
    with (
        httpx.Client(base_url=service.url, timeout=60, limits=limits) as client,
        ThreadPoolExecutor(32) as pool,
    ):
        found = list(pool.map(lambda job: ask(client, job), jobs))
    calls, requests = (after - old for after, old in zip(gathered(http), before, strict=True))
    assert requests == len(jobs)
    assert calls < 0.5 * requests  # measured: 12 to 16 calls
    assert [(one["job_id"], one["name"]) for one in found] == [(one["job_id"], one["name"]) for one in jobs]
    some = jobs[::20]
    assert [ask(http, job) for job in some] == found[::20]
    assert len({one["failure"]["probability"] for one in found}) > 1
    assert gathered(http)[0] - before[0] == calls + len(some)  # alone: a call each


def gathered(http: httpx.Client) -> tuple[float, float]:
    """How many calls of the model there were, and how many requests they answered."""
    text = http.get("/metrics").text
    found = [
        re.search(rf"^forewarn_gathered_requests_{name} (\S+)$", text, re.M) for name in ("count", "sum")
    ]
    calls, requests = (float(one[1]) for one in found if one)
    return calls, requests


def test_check(http: httpx.Client) -> None:
    answer = http.post("/v1/check", json=CHECK)
    assert answer.status_code == 200
    checked = answer.json()
    assert checked["verdict"] in {"fine", "warning", "likely_to_fail", "cannot_say"}
    broken = http.post(
        "/v1/check", json={"script": "#!/bin/bash\n#SBATCH --tim=1:00:00\n#SBATCH --mem=4QB\nsrun a\n"}
    )
    assert broken.json()["verdict"] == "likely_to_fail"
    assert any(one["severity"] == "error" for one in broken.json()["findings"])


def test_check_looks_at_nothing_of_the_services_machine(http: httpx.Client) -> None:
    """A script that names files must not tell its author which files the service can see."""
    script = "#!/bin/bash\ncat /etc/passwd /no/such/file\nmodule load none\nsrun /usr/bin/nothing-here\n"
    found = http.post("/v1/check", json={"script": script, "work_dir": "/etc"}).json()["findings"]
    assert not [
        one for one in found if "file" in one["rule"] or "program" in one["rule"] or "module" in one["rule"]
    ]


def test_examples_of_the_document_run(http: httpx.Client) -> None:
    failed = http.get("/v1/jobs", params={"state": "failed", "limit": 1, "order": "submit"}).json()["jobs"][0]
    ran, others = set(), set()
    for method, path, example in examples_of(http):
        if path in ELSEWHERE:
            others.add(path)
            continue
        answer = http.request(method, path.format(job_id=failed["job_id"]), json=example)
        assert answer.is_success, (path, answer.text)
        ran.add(path)
    assert others == set(ELSEWHERE)
    assert ran >= {"/v1/assess", "/v1/assess/batch", "/v1/check", "/v1/jobs/{job_id}/explanation"}


def test_jobs_are_listed_filtered_and_paged(http: httpx.Client) -> None:
    first = http.get("/v1/jobs", params={"limit": 50, "order": "submit"}).json()
    assert first["total"] == 3000
    second = http.get("/v1/jobs", params={"limit": 50, "order": "submit", "after": first["next"]}).json()
    listed = [job for page in (first, second) for job in page["jobs"]]
    assert len({job["job_id"] for job in listed}) == 100
    submits = [job["submit"] for job in listed]
    assert submits == sorted(submits, reverse=True)
    failed = http.get("/v1/jobs", params={"state": "failed", "limit": 1000}).json()
    user = Counter(job["user"] for job in failed["jobs"]).most_common(1)[0][0]
    own = http.get("/v1/jobs", params={"user": user, "state": "failed", "limit": 1000}).json()
    expected = {job["job_id"] for job in failed["jobs"] if job["user"] == user}
    assert {job["job_id"] for job in own["jobs"]} == expected
    assert own["total"] == len(expected) < failed["total"]
    assert {(job["user"], job["state"]) for job in own["jobs"]} == {(user, "FAILED")}


def test_one_job_with_all_that_is_known(http: httpx.Client) -> None:
    failed = http.get("/v1/jobs", params={"state": "failed", "limit": 1, "order": "submit"}).json()["jobs"][0]
    job_id = failed["job_id"]
    page = http.get(f"/v1/jobs/{job_id}").json()
    assert (page["job"]["job_id"], page["outcome"]) == (job_id, "failed")
    explained = http.get(f"/v1/jobs/{job_id}/explanation").json()
    assert explained["outcome"] == "failed"
    assert explained["cause"]
    log = {"log": "Traceback (most recent call last):\nModuleNotFoundError: No module named 'torch'\n"}
    with_log = http.post(f"/v1/jobs/{job_id}/explanation", json=log).json()
    assert with_log["log"][0]["family"] == "python_package"
    advice = http.get(f"/v1/jobs/{job_id}/advice").json()
    assert (advice["job_id"], advice["submit"], advice["state"]) == (job_id, failed["submit"], "FAILED")
    assert advice["summary"]
    assert advice["route"]["phase"] == "submit"


@pytest.mark.parametrize(
    ("state", "verdict", "cause", "field"),
    [
        ("out_of_memory", "more_memory", "memory", "memory"),
        ("timeout", "more_time", "time", "time_limit"),
        ("node_fail", "another_node", "node", "exclude"),
        ("cancelled", "do_not_retry", None, None),
    ],
)
def test_the_retry_verdict_fits_the_end_of_the_job(
    http: httpx.Client, state: str, verdict: str, cause: str | None, field: str | None
) -> None:
    """The newest job that ended in some way: what would help it, with the value and the option to type."""
    job = http.get("/v1/jobs", params={"state": state, "limit": 1, "order": "submit"}).json()["jobs"][0]
    found = http.get(f"/v1/jobs/{job['job_id']}/retry").json()
    assert (found["verdict"], found["cause"]) == (verdict, cause)
    assert found["evidence"]
    assert {name for name in ("memory", "time_limit", "exclude") if found[name]} == ({field} - {None})
    assert len(found["options"]) == (0 if field is None else 1)
    if field == "time_limit":
        assert found["time_limit"] > job["time_limit"]
        assert found["options"][0].startswith("--time=")
    if field == "memory":
        assert found["options"][0].startswith("--mem")
    if field == "exclude":
        assert set(found["exclude"]) == set(expand_nodes(job["nodes"]))


def test_nodes_and_which_to_exclude(http: httpx.Client) -> None:
    nodes = http.get("/v1/nodes/health").json()["nodes"]
    assert len(nodes) == 24
    bad = [node["node"] for node in nodes if node["health"] != "healthy" and node["in_service"]]
    assert bad  # the simulated history has one that fails its jobs
    assert all(node["evidence"] for node in nodes if node["node"] in bad)
    exclude = http.get("/v1/nodes/exclude").json()
    assert exclude["nodes"]
    assert set(exclude["nodes"]) <= set(bad)
    assert expand_nodes(exclude["option"].removeprefix("--exclude=")) == exclude["nodes"]


def test_models_and_thresholds(http: httpx.Client) -> None:
    (model,) = http.get("/v1/models").json()["models"]
    assert (model["model"], model["version"]) == ("small.submit.generic", 1)
    assert model["trained_on"]["jobs"] > model["tested_on"]["jobs"] > 0
    low, high = model["intervals"]["roc_auc"]
    assert 0.5 < low < model["metrics"]["roc_auc"] < high <= 1  # better than chance, and how sure
    (threshold,) = http.get("/v1/thresholds").json()["thresholds"]
    assert (threshold["model"], threshold["is_set"]) == ("small.submit.generic", False)
    assert 0 < threshold["threshold"] == threshold["own_threshold"] < 1


@pytest.mark.parametrize("by", ["user", "account", "partition", "profile"])
def test_trends_add_up_to_the_jobs(http: httpx.Client, by: str) -> None:
    rows = http.get("/v1/trends", params={"by": by}).json()["rows"]
    jobs = http.get("/v1/jobs", params={"limit": 1}).json()["total"]
    assert sum(row["jobs"] for row in rows) == jobs
    assert len({row["group"] for row in rows}) > 1
    assert len({row["period"] for row in rows}) > 1
    for row in rows:
        assert 0 <= row["failed"] <= row["judged"] <= row["jobs"]
        assert 0 <= row["wasted_node_hours"] <= row["node_hours"]
        assert row["failure_rate"] == (row["failed"] / row["judged"] if row["judged"] else None)
    assert any(row["wasted_node_hours"] for row in rows)


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "where"),
    [
        ("POST", "/v1/assess", {"json": {"tme_limit": 5}}, 422, "/tme_limit"),
        ("POST", "/v1/assess", {"json": {"time_limit": "long"}}, 422, "/time_limit"),
        ("POST", "/v1/assess", {"json": {**JOB, "cluster": "mars"}}, 422, "/cluster"),
        ("POST", "/v1/assess", {"content": b"{"}, 422, ""),
        ("POST", "/v1/assess", {"content": b"\xff\xfe"}, 422, ""),
        ("POST", "/v1/assess", {"content": b'{"name": "\\ud800"}'}, 422, ""),
        ("POST", "/v1/assess", {"content": b"[" * 100_000}, 422, ""),
        ("POST", "/v1/assess", {"json": [1]}, 422, ""),
        ("POST", "/v1/assess/batch", {"json": {"jobs": []}}, 422, "/jobs"),
        ("POST", "/v1/assess/batch", {"json": {"jobs": [{}] * 10_001}}, 422, "/jobs"),
        ("POST", "/v1/assess/batch?detail=full", {"json": {"jobs": [{}] * 201}}, 422, "/jobs"),
        (
            "POST",
            "/v1/assess/batch",
            {"json": {"jobs": [JOB, {"nodes_asked": -1}]}},
            422,
            "/jobs/1/nodes_asked",
        ),
        ("POST", "/v1/assess/batch", {"json": {"jobs": [JOB], "more": 1}}, 422, "/more"),
        ("POST", "/v1/check", {"json": {}}, 422, "/script"),
        ("POST", "/v1/check", {"json": {"script": "x", "skript": 1}}, 422, "/skript"),
        ("POST", "/v1/check", {"json": {"script": "\x7fELF\0\0"}}, 400, None),
        ("GET", "/v1/jobs", {"params": {"limt": 3}}, 422, "?limt"),
        ("GET", "/v1/jobs", {"params": {"order": "beauty"}}, 422, "?order"),
        ("GET", "/v1/jobs", {"params": {"since": "yesteryear"}}, 400, None),
        ("GET", "/v1/jobs/999999999", {}, 404, None),
        ("GET", "/v1/jobs/..%2f..%2fetc%2fpasswd", {}, 404, None),
        ("GET", "/v1/jobs/1%20or%201=1", {}, 422, "/job_id"),
        ("GET", "/v2/jobs", {}, 404, None),
        ("DELETE", "/v1/jobs", {}, 405, None),
        (
            "PUT",
            "/v1/thresholds",
            {"json": {"model": "small.submit.generic", "threshold": 2}},
            422,
            "/threshold",
        ),
        ("PUT", "/v1/thresholds", {"json": {"model": "x", "threshold": 0.5}}, 400, None),
    ],
)
def test_mistakes_are_problems(
    http: httpx.Client, method: str, path: str, options: dict[str, Any], status: int, where: str | None
) -> None:
    answer = http.request(method, path, **options)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["detail"]
    assert "Traceback" not in answer.text
    if where is not None:
        assert where in [one["path"] for one in problem["errors"]]


def test_a_body_beyond_the_limit_is_refused_unread(service: RunningService) -> None:
    with httpx.Client(base_url=service.url, timeout=60) as client:
        answer = client.post("/v1/assess", content=b" " * (100 << 20))
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")

        def chunks() -> Any:  # of a size that nobody announces
            for _ in range(100):
                yield b" " * (1 << 20)

        try:
            answer = client.post("/v1/assess", content=chunks())
            assert answer.status_code == 413
        except httpx.WriteError:
            pass  # the service closed the connection before all was sent
        assert client.post("/v1/assess/batch", json=JOBS).status_code == 200


def test_a_body_of_very_many_wrong_fields_is_refused_quickly(http: httpx.Client) -> None:
    """Pydantic would list each of them, for seconds in which nobody else is answered."""
    body = {f"f{number}": number for number in range(200_000)}
    for path in ("/v1/check", "/v1/jobs"):
        answer = http.post(path, json=body)
        assert (answer.status_code, len(answer.content) < 10_000) == (422, True)
    assert http.post("/auth/session", json=body).status_code == 413


@pytest.mark.parametrize(
    ("moments", "where"),
    [({"submit": 99_999_999_999}, "/submit"), ({"submit": 1_000, "start": 1}, "/start")],
)
def test_clocks_that_differ(http: httpx.Client, moments: dict[str, int], where: str) -> None:
    answer = http.post("/v1/assess", json={**JOB, **moments})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, where)
