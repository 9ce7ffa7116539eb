"""Requests that are nearly right: the answer says what is wrong and where, and never returns too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow


def problem(answer: httpx.Response) -> tuple[int, str, list[tuple[str, str]]]:
    body: dict[str, Any] = answer.json()
    return answer.status_code, body["code"], [(one["path"], one["reason"]) for one in body.get("errors", [])]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/assessments", "/v1/trends"])
@pytest.mark.parametrize("value", ["", " ", ","])
def test_a_filter_without_a_value_does_not_return_everything(
    http: httpx.Client, path: str, value: str
) -> None:
    """As `?user=$USER` where the variable is not set."""
    status, code, ((where, reason),) = problem(http.get(path, params={"user": value}))
    assert (status, code, where) == (422, "bad_fields", "?user/0")
    assert "leave it out" in reason


@pytest.mark.parametrize("part", ["", "/explanation", "/advice", "/retry"])
def test_a_job_of_another_cluster_is_not_found(http: httpx.Client, part: str) -> None:
    job = http.get("/v1/jobs", params={"state": "failed", "limit": 1}).json()["jobs"][0]
    path = f"/v1/jobs/{job['job_id']}{part}"
    assert http.get(path, params={"cluster": job["cluster"]}).status_code == 200
    assert problem(http.get(path, params={"cluster": "mars"}))[:2] == (404, "unknown_job")


def test_another_job_with_the_same_id_is_chosen_by_its_submit(http: httpx.Client) -> None:
    job = http.get("/v1/jobs", params={"limit": 1}).json()["jobs"][0]
    path = f"/v1/jobs/{job['job_id']}"
    found = http.get(path, params={"submit": job["submit"]})
    assert found.json()["job"]["submit"] == job["submit"]
    assert problem(http.get(path, params={"submit": job["submit"] + 1}))[:2] == (404, "unknown_job")


@pytest.mark.parametrize("path", ["/v1/check", "/v1/assess", "/v1/notices/silences", "/auth/session"])
def test_a_binary_body_is_refused_with_its_place(http: httpx.Client, path: str) -> None:
    body = b'{"script": "' + Path("/bin/ls").read_bytes()[:3000] + b'"}'
    answer = http.post(path, content=body, headers={"Content-Type": "application/json"})
    status, code, ((where, reason),) = problem(answer)
    assert (status, code, where) == (422, "bad_fields", "")
    assert reason.startswith("not UTF-8 at byte ")


def test_the_form_of_a_field_is_named_in_plain_words(http: httpx.Client) -> None:
    answer = http.post("/v1/check", json={"script": "#!/bin/sh\n", "work_dir": "here"})
    assert problem(answer)[2] == [("/work_dir", "expected an absolute path of at most 4096 characters")]


def test_a_fixed_limit_does_not_blame_a_setting(http: httpx.Client) -> None:
    answer = http.post("/auth/session", json={"token": "x" * 40_000})
    assert (answer.status_code, "serve.body_limit" in answer.json()["detail"]) == (413, False)


def test_no_redirect_follows_the_caller_s_host_header(http: httpx.Client) -> None:
    answer = http.get("/v1/jobs/", headers={"Host": "localhost"})
    assert problem(answer)[:2] == (404, "no_such_route")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_checks_may_ask_by_head(http: httpx.Client, path: str) -> None:
    answer = http.head(path)
    assert (answer.status_code, answer.content) == (200, b"")
