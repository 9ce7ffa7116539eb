"""The routes over real HTTP: what a program gets, and how mistakes are answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from forewarn.assess.assessment import Assessment
from forewarn.serve.rest.examples import CHECK, JOB, JOBS
from tests.serve.rest.running import RunningService

pytestmark = pytest.mark.slow


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


def test_concurrent_requests_get_their_own_answers(service: RunningService, http: httpx.Client) -> None:
    """What is gathered into one call comes back to whom it belongs."""
    job = known_job(http)
    limits = httpx.Limits(max_connections=64)
    with (
        httpx.Client(base_url=service.url, timeout=60, limits=limits) as client,
        ThreadPoolExecutor(32) as pool,
    ):

        def ask(number: int) -> tuple[str, str]:
            answer = client.post(
                "/v1/assess",
                params={"detail": "brief"},
                json={**job, "job_id": str(number), "name": f"n{number}"},
            )
            return answer.json()["job_id"], answer.json()["name"]

        found = list(pool.map(ask, range(1, 200)))
    assert found == [(str(number), f"n{number}") for number in range(1, 200)]


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
    document = http.get("/openapi.json").json()
    ran = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for example in content.get("examples", {}).values():
                if "{" in path or path in ("/v1/jobs", "/auth/session"):
                    continue  # they act on a Slurm (tests/lab), or need a token of the site
                answer = http.request(method, path, json=example["value"])
                assert answer.is_success, (path, answer.text)
                ran += 1
    assert ran >= 3


def test_jobs_are_listed_filtered_and_paged(http: httpx.Client) -> None:
    first = http.get("/v1/jobs", params={"limit": 50, "order": "submit"}).json()
    assert first["total"] > 1000
    second = http.get("/v1/jobs", params={"limit": 50, "order": "submit", "after": first["next"]}).json()
    ids = [job["job_id"] for page in (first, second) for job in page["jobs"]]
    assert len(set(ids)) == 100
    user = first["jobs"][0]["user"]
    own = http.get("/v1/jobs", params={"user": user, "state": "failed", "limit": 1000}).json()
    assert {job["user"] for job in own["jobs"]} <= {user}


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
    verdict = http.get(f"/v1/jobs/{job_id}/retry").json()
    assert verdict["verdict"] in {
        "retry",
        "more_memory",
        "more_time",
        "another_node",
        "do_not_retry",
        "cannot_say",
    }
    advice = http.get(f"/v1/jobs/{job_id}/advice")
    assert advice.status_code == 200


def test_nodes_models_thresholds_trends(http: httpx.Client) -> None:
    health = http.get("/v1/nodes/health").json()
    assert health["nodes"]
    exclude = http.get("/v1/nodes/exclude").json()
    assert exclude["option"] is None or exclude["option"].startswith("--exclude=")
    models = http.get("/v1/models").json()["models"]
    assert [one["model"] for one in models] == ["small.submit.generic"]
    (threshold,) = http.get("/v1/thresholds").json()["thresholds"]
    assert 0 < threshold["threshold"] < 1
    trends = http.get("/v1/trends", params={"by": "partition"})
    assert trends.status_code == 200, trends.text


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
