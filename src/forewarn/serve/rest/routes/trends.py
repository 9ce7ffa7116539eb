"""`GET /v1/trends`: failure rates and wasted hours over time."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.parameters import Several, Since, Until
from forewarn.serve.rest.work import in_thread

router = APIRouter(tags=["trends"])
GroupedBy = Literal["user", "account", "partition", "profile", "cluster", "outcome"]


@router.get("/trends", summary="Failure rates and wasted hours", responses=answers(named("Trend")))
async def trends(
    service: ServiceDependency,
    identity: IdentityDependency,
    by: Annotated[GroupedBy | None, Query(description="One row for each; by default for all jobs.")] = None,
    every: Annotated[Literal["day", "week", "month"], Query(description="The period of a row.")] = "week",
    since: Since = None,
    until: Until = None,
    cluster: Several = None,
    partition: Several = None,
    account: Several = None,
    user: Several = None,
) -> Response:
    """Count the jobs that ended in each period, those that failed, and the hours that these wasted.

    Callers see their own jobs by name; of others only groups of at least five users, by whole weeks.
    """
    given: dict[str, Any] = {
        "since": since,
        "until": until,
        "cluster": cluster,
        "partition": partition,
        "account": account,
        "user": user,
    }
    which = {name: value for name, value in given.items() if value is not None}

    def answer() -> Response:
        found = service.workspace.trends().trend(by, every=every, visible=identity.visibility(), **which)
        return json_response(found.to_json())

    return await in_thread(answer)
