"""`GET /v1/assessments`: the newest assessment of each listed job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from forewarn.assess.json_form import brief_form
from forewarn.operate.job_list import JobListFilters
from forewarn.operate.stored_assessments import newest_assessments
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.json_body import json_bytes_response, to_bytes
from forewarn.serve.rest.parameters import Several, SeveralTexts
from forewarn.serve.rest.work import in_thread

router = APIRouter(tags=["assess"])


@router.get("/assessments", summary="Newest assessments of jobs", responses=answers(named("AssessmentPage")))
async def assessments(
    service: ServiceDependency,
    identity: IdentityDependency,
    state: Annotated[
        SeveralTexts, Query(max_length=200, description="By default pending and running.")
    ] = None,
    user: Several = None,
    cluster: Several = None,
    partition: Several = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str | None, Query(max_length=2048, description="`next` of the page before.")] = None,
) -> Response:
    """Return the newest assessment of each job, in brief; those with most node hours at risk first.

    The service assesses a live job whenever something about it changes. Jobs without an assessment are left
    out.
    """
    which: JobListFilters = {"state": state or ["pending", "running"]}
    if user is not None:
        which["user"] = user
    if cluster is not None:
        which["cluster"] = cluster
    if partition is not None:
        which["partition"] = partition

    def answer() -> Response:
        page = service.workspace.job_list().page(
            visible=identity.visibility(), limit=limit, after=after, **which
        )
        found = newest_assessments(service.workspace.reading(), page.jobs)
        return json_bytes_response(to_bytes({"assessments": found, "next": page.next}, brief_form))

    return await in_thread(answer)
