"""`POST /v1/assess` and `/v1/assess/batch`: assess jobs that a program describes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from forewarn.assess.assessment import Assessment
from forewarn.assess.json_form import brief_form
from forewarn.assess.wording.reader import Reader
from forewarn.errors import BadField, BadFieldsError, ForbiddenError
from forewarn.job.json_form import job_from_json, wrong_moments
from forewarn.job.record import Job
from forewarn.operate.access.identity import Identity
from forewarn.operate.service.service import Service
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, body, named
from forewarn.serve.rest.examples import JOB, JOBS
from forewarn.serve.rest.gather import Gatherer
from forewarn.serve.rest.json_body import json_bytes_response, json_response, parse_json, read_json, to_bytes
from forewarn.serve.rest.work import in_thread

MOST_JOBS = 10_000  # in a batch in brief
MOST_FULL = 200  # in a batch in full, each of which takes some 20 ms
Detail = Literal["brief", "full"]
JobGatherer: TypeAlias = Gatherer[Job, Assessment]
router = APIRouter(tags=["assess"])

DetailParameter = Annotated[
    Detail,
    Query(
        description="brief: the prediction alone (risk by cause, run time, memory, hours at risk), as codes "
        "and numbers. full: with reasons, similar jobs and advice, in English too."
    ),
]


@router.post(
    "/assess",
    summary="Assess a job",
    responses=answers(named("AssessmentInEitherForm"), "The assessment of the job.", problems=(413,)),
    openapi_extra=body(named("JobRequest"), ("a job about to be submitted", JOB)),
)
async def assess(
    request: Request,
    service: ServiceDependency,
    identity: IdentityDependency,
    detail: DetailParameter = "full",
) -> Response:
    """Assess a job as if it were submitted now; one that runs, as it stands.

    `cluster` may be left out where there is one, `user` is the caller if it is not given. Concurrent requests
    in brief share one call of the model.
    """
    if detail == "brief":
        gatherer: JobGatherer = request.app.state.gatherer
        return json_bytes_response(await assess_in_brief(await request.body(), service, gatherer, identity))
    job = _read_job(await read_json(request), "", service, identity)
    (assessment,) = await in_thread(service.assess, [job], full=True)
    return json_response(assessment.to_json(Reader.of(job.user, identity.user)))


async def assess_in_brief(raw: bytes, service: Service, gatherer: JobGatherer, identity: Identity) -> bytes:
    """Assess a job in one call of the model with those of concurrent requests (`quick_route.py`)."""
    job = _read_job(parse_json(raw), "", service, identity)
    return to_bytes(await gatherer.ask(job), brief_form)


@router.post(
    "/assess/batch",
    summary="Assess many jobs",
    responses=answers(
        named("AssessmentBatch"), "One assessment for each job, in the order of the jobs.", problems=(413,)
    ),
    openapi_extra=body(named("JobBatch"), ("two jobs", JOBS)),
)
async def assess_batch(
    request: Request,
    service: ServiceDependency,
    identity: IdentityDependency,
    detail: DetailParameter = "brief",
) -> Response:
    """Assess up to 10,000 jobs in brief, or up to 200 in full."""
    most = MOST_FULL if detail == "full" else MOST_JOBS
    value = await read_json(request)
    return await in_thread(_assess_batch, value, detail, most, service, identity)


def _assess_batch(value: Any, detail: Detail, most: int, service: Service, identity: Identity) -> Response:
    listed = _listed(value, most)
    jobs: list[Job] = []
    wrong: list[BadField] = []
    for index, one in enumerate(listed):
        try:
            jobs.append(_read_job(one, f"/jobs/{index}", service, identity))
        except BadFieldsError as error:
            wrong += error.fields
            if len(wrong) > 100:
                break
    if wrong:
        raise BadFieldsError("the batch", wrong)
    assessments = service.assess(jobs, full=detail == "full")
    if detail == "brief":
        return json_bytes_response(to_bytes({"assessments": assessments}, brief_form))
    shown = [
        one.to_json(Reader.of(job.user, identity.user)) for one, job in zip(assessments, jobs, strict=True)
    ]
    return json_response({"assessments": shown})


def _listed(value: Any, most: int) -> list[Any]:
    jobs = value.get("jobs") if isinstance(value, dict) else None
    if not isinstance(jobs, list):
        raise BadFieldsError("the batch", [BadField("/jobs", "expected a list of jobs")])
    if unknown := sorted(set(value) - {"jobs"}):
        raise BadFieldsError("the batch", [BadField(f"/{unknown[0]}", "there is no such field")])
    if not 1 <= len(jobs) <= most:
        reason = f"expected 1 to {most} jobs, got {len(jobs)}"
        raise BadFieldsError("the batch", [BadField("/jobs", reason)])
    return jobs


def _read_job(value: Any, at: str, service: Service, identity: Identity) -> Job:
    now = service.workspace.now()
    job = job_from_json(value, at=at, defaults={**service.job_defaults, "submit": now, "user": identity.user})
    if job.cluster not in service.clusters:
        known = ", ".join(sorted(service.clusters)) or "none yet"
        raise BadFieldsError("the job", [BadField(f"{at}/cluster", f"unknown cluster; known are: {known}")])
    if wrong := list(wrong_moments(job, now)):
        raise BadFieldsError("the job", [BadField(f"{at}/{name}", reason) for name, reason in wrong])
    # Another user's risk tells about that user's jobs; who coordinates an account sees only jobs of it.
    if job.user != identity.user and not identity.sees_all:
        raise ForbiddenError(f"{identity.user} has the role {identity.role} and may assess only own jobs")
    return job
