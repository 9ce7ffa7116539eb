"""The OpenAPI document of a running service: complete, and true to what the routes answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest

from forewarn.serve.rest.examples import CHECK, JOB, JOBS
from tests.serve.rest.closed_schema import closed

pytestmark = pytest.mark.slow
METHODS = ("get", "put", "post", "delete")
MODEL = "small.submit.generic"


@pytest.fixture(scope="module")
def document(service: Any) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{service.url}/openapi.json", timeout=30).json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_route_is_documented(document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema({"$defs": document["components"]["schemas"]})
    references = []
    for path, method, operation in operations(document):
        where = f"{method} {path}"
        assert method in METHODS, where
        assert operation["summary"], where
        assert operation["description"], where
        for status, answer in operation["responses"].items():
            assert answer["description"], (where, status)
            kinds = set(answer.get("content", {}))
            if int(status) >= 400 and (path, status) != ("/readyz", "503"):
                assert kinds == {"application/problem+json"}, (where, status)
            elif int(status) not in (204, 303):
                assert kinds, (where, status)
                (schema,) = {str(one["schema"]) for one in answer["content"].values()} - {
                    "{'type': 'string'}"
                } or {"text"}
                assert schema not in ("{}", "{'type': 'object'}"), where
        body = operation.get("requestBody")
        if body is not None:
            assert "413" in operation["responses"], where
            assert body["content"]["application/json"].get("examples"), f"{where} has no example"
        if "{job_id}" in path:
            assert "404" in operation["responses"], where
        references += [operation["operationId"]]
    assert len(set(references)) == len(references)
    assert "HTTPValidationError" not in str(document)


# method, path, options of the request, status. Every route with a JSON answer has a row.
REQUESTS: list[tuple[str, str, dict[str, Any], int]] = [
    ("get", "/healthz", {}, 200),
    ("get", "/readyz", {}, 200),
    ("post", "/v1/assess", {"json": JOB}, 200),
    ("post", "/v1/assess", {"json": JOB, "params": {"detail": "brief"}}, 200),
    ("post", "/v1/assess/batch", {"json": JOBS}, 200),
    ("post", "/v1/assess/batch", {"json": JOBS, "params": {"detail": "full"}}, 200),
    ("post", "/v1/assess/batch", {"json": {}}, 422),
    ("post", "/v1/check", {"json": CHECK}, 200),
    ("post", "/v1/check", {"json": {"script": "#!/bin/sh\n#SBATCH --tim=1 --mem=4QB\nsrun a\n"}}, 200),
    ("get", "/v1/assessments", {}, 200),
    ("get", "/v1/jobs", {"params": {"limit": 1000}}, 200),
    ("get", "/v1/jobs", {"params": {"limit": 0}}, 422),
    ("get", "/v1/jobs/{job_id}", {}, 200),
    ("get", "/v1/jobs/{job_id}/explanation", {}, 200),
    ("post", "/v1/jobs/{job_id}/explanation", {"json": {"log": "slurmstepd: error: oom-kill\n"}}, 200),
    ("get", "/v1/jobs/{job_id}/advice", {}, 200),
    ("get", "/v1/jobs/{job_id}/retry", {}, 200),
    ("post", "/v1/jobs", {"json": {"script": "#!/bin/sh\n", "work_dir": "/tmp"}}, 503),
    ("post", "/v1/jobs/{job_id}/cancel", {}, 503),
    ("post", "/v1/jobs/{job_id}/resubmit", {"json": {}}, 503),
    ("get", "/v1/nodes/health", {}, 200),
    ("get", "/v1/nodes/exclude", {}, 200),
    ("get", "/v1/models", {}, 200),
    ("get", "/v1/thresholds", {}, 200),
    ("put", "/v1/thresholds", {"json": {"model": MODEL, "threshold": 0.4, "reason": "quiet"}}, 200),
    ("put", "/v1/thresholds", {"json": {"model": MODEL, "threshold": 0.3, "preview": True}}, 200),
    ("get", "/v1/thresholds", {}, 200),
    ("delete", "/v1/thresholds", {"params": {"model": MODEL}}, 200),
    ("get", "/v1/trends", {"params": {"by": "user", "every": "month"}}, 200),
    ("get", "/v1/trends", {}, 200),
    ("post", "/v1/notices/silences", {"json": {"rule": "risk"}}, 201),
    ("get", "/v1/notices/silences", {}, 200),
    ("delete", "/v1/notices/silences/{silence_id}", {}, 404),
    ("get", "/v1/notices", {}, 200),
    ("get", "/v1/notices/subscription", {}, 200),
    ("put", "/v1/notices/subscription", {"json": {"rules": ["failure"]}}, 200),
    ("get", "/v1/notices/{notice_id}/acknowledge", {}, 404),
    ("post", "/v1/notices/{notice_id}/acknowledge", {}, 404),
    ("get", "/auth/session", {}, 200),
    ("post", "/auth/session", {"json": {"token": "fwt_wrong"}}, 401),
    ("get", "/auth/login", {}, 400),
    ("get", "/auth/callback", {}, 400),
]
OTHERS = {  # without a JSON answer: tested in test_events.py, test_metrics.py, tests/serve/auth
    ("get", "/v1/events"),
    ("get", "/metrics"),
    ("post", "/auth/logout"),
}


def test_every_route_is_asked(document: dict[str, Any]) -> None:
    documented = {(method, path) for path, method, _ in operations(document)}
    assert documented == {(method, path) for method, path, _, _ in REQUESTS} | OTHERS


def test_answers_are_as_documented(document: dict[str, Any], http: httpx.Client) -> None:
    """Each field that is answered is in the schema, and each that the schema requires is answered."""
    failed = http.get("/v1/jobs", params={"state": "failed", "limit": 1, "order": "submit"}).json()["jobs"][0]
    ids = {"job_id": failed["job_id"], "silence_id": "0" * 32, "notice_id": "0" * 24}
    schemas = closed(document["components"]["schemas"])
    problems = []
    for method, path, options, status in REQUESTS:
        answer = http.request(method, path.format(**ids), **options)
        where = f"{method} {path} {options}"
        if answer.status_code != status:
            problems.append(f"{where}: {answer.status_code} instead of {status}: {answer.text[:300]}")
            continue
        documented = document["paths"][path][method]["responses"][str(status)]["content"]
        kind = answer.headers["content-type"]
        assert kind in documented, where
        schema = {**documented[kind]["schema"], "components": {"schemas": schemas}}
        for error in list(jsonschema.Draft202012Validator(schema).iter_errors(answer.json()))[:3]:
            best = jsonschema.exceptions.best_match([error])
            problems.append(f"{where}: {best.json_path}: {best.message[:300]}")
    assert not problems, "\n".join(problems)
