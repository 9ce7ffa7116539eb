"""What each role gets from every route, for its own and for another's job: the table of the tests of access.

`test_access_matrix.py` asks with service tokens, the tests in `tests/lab` with tokens of a real Slurm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from forewarn.operate.access.identity import Role
from forewarn.serve.rest.examples import CHECK, JOB, LOG

NOBODY = "nobody"
CALLERS = (NOBODY, *(role.value for role in Role))
Statuses = tuple[int, int, int, int, int, int]  # in the order of CALLERS

OPEN: Statuses = (200, 200, 200, 200, 200, 200)
KNOWN: Statuses = (401, 200, 200, 200, 200, 200)
CREATED: Statuses = (401, 201, 201, 201, 201, 201)
SEES_ALL: Statuses = (401, 403, 403, 200, 200, 200)
OTHERS_JOB: Statuses = (401, 404, 404, 200, 200, 200)  # it does not exist for whom may not see it
OPERATES: Statuses = (401, 403, 403, 403, 200, 200)
OPERATES_CREATED: Statuses = (401, 403, 403, 403, 201, 201)
MISSING: Statuses = (401, 404, 404, 404, 404, 404)
NOT_CONFIGURED: Statuses = (400, 400, 400, 400, 400, 400)  # no provider of OIDC
LOGGED_OUT: Statuses = (401, 204, 204, 204, 204, 204)
# Acting needs the caller's own token of Slurm, and helpers change nothing.
NOT_BY_SERVICE_TOKEN: Statuses = (401, 403, 403, 403, 403, 403)
ACTS: Statuses = (401, 200, 200, 403, 200, 200)
SUBMITS: Statuses = (401, 201, 201, 403, 201, 201)
# Slurm decides, which here knows the operator and the admin as such.
CANCELS_OTHERS: Statuses = (401, 409, 409, 403, 200, 200)
# Nobody runs a script that another wrote as themselves, unless they send it.
RESUBMITS_OTHERS: Statuses = (401, 404, 404, 403, 403, 403)

_OTHERS = {"user": "{other_user}"}
_SUBMIT = {"script": "#!/bin/sh\n#SBATCH --hold\ntrue\n", "work_dir": "/tmp"}


@dataclass(frozen=True, slots=True)
class Row:
    """One request, and what each caller gets."""

    method: str
    path: str
    expected: Statuses
    options: Mapping[str, Any] = field(default_factory=dict)
    by_slurm_token: Statuses | None = None  # where it is not as by a service token

    @property
    def route(self) -> tuple[str, str]:
        return self.method, route_path(self.path)

    def status(self, caller: str, *, slurm_token: bool) -> int:
        """Return the status that a caller of CALLERS must get."""
        expected = self.by_slurm_token if slurm_token and self.by_slurm_token else self.expected
        return expected[CALLERS.index(caller)]


ROWS = [
    Row("get", "/healthz", OPEN),
    Row("get", "/readyz", OPEN),
    Row("get", "/metrics", SEES_ALL),
    Row("post", "/v1/assess", KNOWN, {"json": JOB}),
    Row("post", "/v1/assess", KNOWN, {"json": JOB, "params": {"detail": "brief"}}),
    Row("post", "/v1/assess", SEES_ALL, {"json": JOB | _OTHERS}),
    Row("post", "/v1/assess", SEES_ALL, {"json": JOB | _OTHERS, "params": {"detail": "brief"}}),
    Row("post", "/v1/assess/batch", KNOWN, {"json": {"jobs": [JOB]}}),
    Row("post", "/v1/assess/batch", SEES_ALL, {"json": {"jobs": [JOB, JOB | _OTHERS]}}),
    Row("post", "/v1/check", KNOWN, {"json": CHECK}),
    Row("post", "/v1/check", SEES_ALL, {"json": CHECK | _OTHERS}),
    Row("get", "/v1/assessments", KNOWN),
    Row("get", "/v1/jobs", KNOWN),
    Row("get", "/v1/jobs/{own}", KNOWN),
    Row("get", "/v1/jobs/{other}", OTHERS_JOB),
    Row("get", "/v1/jobs/{own}/explanation", KNOWN),
    Row("get", "/v1/jobs/{other}/explanation", OTHERS_JOB),
    Row("post", "/v1/jobs/{own}/explanation", KNOWN, {"json": LOG}),
    Row("post", "/v1/jobs/{other}/explanation", OTHERS_JOB, {"json": LOG}),
    Row("get", "/v1/jobs/{own}/advice", KNOWN),
    Row("get", "/v1/jobs/{other}/advice", OTHERS_JOB),
    Row("get", "/v1/jobs/{own}/retry", KNOWN),
    Row("get", "/v1/jobs/{other}/retry", OTHERS_JOB),
    Row("post", "/v1/jobs", NOT_BY_SERVICE_TOKEN, {"json": _SUBMIT}, SUBMITS),
    Row("post", "/v1/jobs/{own}/resubmit", NOT_BY_SERVICE_TOKEN, {}, SUBMITS),
    Row("post", "/v1/jobs/{other}/resubmit", NOT_BY_SERVICE_TOKEN, {}, RESUBMITS_OTHERS),
    Row("post", "/v1/jobs/{own}/cancel", NOT_BY_SERVICE_TOKEN, {}, ACTS),
    Row("post", "/v1/jobs/{other}/cancel", NOT_BY_SERVICE_TOKEN, {}, CANCELS_OTHERS),
    Row("get", "/v1/nodes/health", KNOWN),
    Row("get", "/v1/nodes/exclude", KNOWN),
    Row("get", "/v1/models", KNOWN),
    Row("get", "/v1/thresholds", KNOWN),
    Row("put", "/v1/thresholds", OPERATES, {"json": {"model": "{model}", "threshold": 0.4}}),
    Row("delete", "/v1/thresholds", OPERATES, {"params": {"model": "{model}"}}),
    Row("get", "/v1/trends", KNOWN, {"params": {"by": "user"}}),
    Row("get", "/v1/events", KNOWN),
    Row("get", "/v1/notices", KNOWN),
    Row("get", "/v1/notices/silences", KNOWN),
    Row("post", "/v1/notices/silences", CREATED, {"json": {"rule": "risk"}}),
    Row("post", "/v1/notices/silences", OPERATES_CREATED, {"json": _OTHERS}),
    Row("delete", "/v1/notices/silences/{nothing}", MISSING),
    Row("get", "/v1/notices/subscription", KNOWN),
    Row("put", "/v1/notices/subscription", KNOWN, {"json": {"rules": ["failure"]}}),
    Row("get", "/v1/notices/{no_notice}/acknowledge", MISSING),
    Row("post", "/v1/notices/{no_notice}/acknowledge", MISSING),
    Row("get", "/auth/session", KNOWN),
    Row("post", "/auth/session", KNOWN, {"json": {"token": "{own_token}"}}),
    Row("post", "/auth/logout", LOGGED_OUT),
    Row("get", "/auth/login", NOT_CONFIGURED),
    Row("get", "/auth/callback", NOT_CONFIGURED),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What stands in the places of the table: jobs, people, a model."""

    own: str
    other: str
    other_user: str
    own_token: str
    model: str

    def filled(self, value: Any) -> Any:
        """Put them into a path or a body."""
        if isinstance(value, Mapping):
            return {key: self.filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.filled(one) for one in value]
        if isinstance(value, str):
            for name in ("own", "other", "other_user", "own_token", "model"):
                value = value.replace(f"{{{name}}}", getattr(self, name))
            return value.replace("{nothing}", "0" * 32).replace("{no_notice}", "0" * 24)
        return value


def route_path(path: str) -> str:
    """Return a path with `{}` in place of each parameter."""
    return "/".join("{}" if "{" in part else part for part in path.split("/"))


def documented_routes(client: httpx.Client) -> set[tuple[str, str]]:
    """Return method and path of every route of the served OpenAPI."""
    paths = client.get("/openapi.json").json()["paths"]
    return {(method, route_path(path)) for path, methods in paths.items() for method in methods}


def ask(client: httpx.Client, rows: Iterable[Row], names: Names) -> Iterator[tuple[Row, int]]:
    """Send each request, and yield its status; a refusal must be a problem in JSON."""
    for row in rows:
        path, options = names.filled(row.path), names.filled(row.options)
        with client.stream(row.method, path, **options) as answer:  # `/v1/events` does not end
            kind = answer.headers.get("content-type", "")
        assert answer.status_code < 400 or kind == "application/problem+json", path
        yield row, answer.status_code


def wrong_answers(client: httpx.Client, caller: str, names: Names, *, slurm_token: bool) -> list[str]:
    """Send every request of the table, and describe each status that is not as expected."""
    return [
        f"{row.method} {row.path} {dict(row.options)}: {status} instead of {expected}"
        for row, status in ask(client, ROWS, names)
        if status != (expected := row.status(caller, slurm_token=slurm_token))
    ]
