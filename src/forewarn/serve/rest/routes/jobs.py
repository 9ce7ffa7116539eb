"""`GET /v1/jobs` and what is known about one job: record, explanation, advice, retry verdict."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.assess.post_mortem.find_job import MaySee
from forewarn.assess.post_mortem.log_reading import log_of_text
from forewarn.assess.wording.reader import Reader
from forewarn.job.json_form import job_to_json
from forewarn.job.record import Job
from forewarn.operate.access.identity import Identity
from forewarn.operate.explain import explain_job
from forewarn.operate.job_advice import job_advice
from forewarn.operate.job_list import ORDERS
from forewarn.operate.job_page import job_page
from forewarn.operate.retry import retry_job
from forewarn.serve.rest.bounded_route import BoundedRoute
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.examples import LOG
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.parameters import ClusterParameter, JobIdParameter, Several, Since, Until
from forewarn.serve.rest.work import in_thread

router = APIRouter(route_class=BoundedRoute, prefix="/jobs", tags=["jobs"])
OrderParameter = Literal[*ORDERS]  # type: ignore[valid-type]
_PROBLEMS = (404,)


class LogRequest(BaseModel):
    """The output of a job, which the service does not read itself."""

    model_config = ConfigDict(extra="forbid", strict=True)

    log: Annotated[str, Field(max_length=6 << 20, description="Its beginning and its end are enough.")]
    tail: Annotated[str, Field(max_length=6 << 20, description="Its end, if `log` is not all.")] | None = None
    size: Annotated[int, Field(ge=0, le=1 << 53, description="Bytes of the whole file.")] | None = None
    path: Annotated[str, Field(max_length=4096)] = "log"


@router.get("", summary="List jobs", responses=answers(named("JobListPage")))
async def list_jobs(
    service: ServiceDependency,
    identity: IdentityDependency,
    user: Several = None,
    account: Several = None,
    partition: Several = None,
    state: Several = None,
    job_id: Several = None,
    cluster: Several = None,
    since: Since = None,
    until: Until = None,
    verdict: Several = None,
    cause: Several = None,
    phase: Several = None,
    warns: Annotated[bool | None, Query(description="Only jobs that are warned of, or only others.")] = None,
    least_probability: Annotated[float | None, Query(ge=0, le=1, description="Of failure, at least.")] = None,
    search: Annotated[str | None, Query(max_length=200, description="A part of the id or name.")] = None,
    order: Annotated[OrderParameter, Query(description="What to sort by.")] = "hours_at_risk",
    descending: Annotated[bool | None, Query(description="By default numbers fall and texts rise.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str | None, Query(max_length=2048, description="`next` of the page before.")] = None,
) -> Response:
    """List the jobs that the caller may see, by default those with most node hours at risk first.

    A pending array is listed once, unless jobs are asked for by id: `pending_tasks` is the number of its
    pending tasks, whose hours are added. By hours at risk, ended jobs come after all others.
    """
    given: dict[str, Any] = {
        "user": user,
        "account": account,
        "partition": partition,
        "state": state,
        "job_id": job_id,
        "cluster": cluster,
        "since": since,
        "until": until,
        "verdict": verdict,
        "cause": cause,
        "phase": phase,
        "warns": warns,
        "least_probability": least_probability,
        "search": search,
    }
    which = {name: value for name, value in given.items() if value is not None}

    def answer() -> Response:
        page = service.workspace.job_list().page(
            visible=identity.visibility(),
            order=order,
            descending=descending,
            limit=limit,
            after=after,
            **which,
        )
        return json_response(page.to_json())

    return await in_thread(answer)


@router.get("/{job_id}", summary="One job", responses=answers(named("JobPage"), problems=_PROBLEMS))
async def one_job(
    job_id: JobIdParameter,
    service: ServiceDependency,
    identity: IdentityDependency,
    cluster: ClusterParameter = None,
    submit: Annotated[
        int | None,
        Query(ge=0, le=1 << 53, description="Of several jobs with this id; one of `other_submits`."),
    ] = None,
) -> Response:
    """Return the record, its changes, the assessments over time, and the outcome when it is known."""

    def answer() -> Response:
        page = job_page(
            service.workspace.reading(),
            job_id,
            policy=service.config.policy,
            cluster=cluster,
            submit=submit,
            visible=identity.visibility(),
        )
        return json_response(page.to_json(Reader.of(page.job.user, identity.user)))

    return await in_thread(answer)


@router.get(
    "/{job_id}/explanation",
    summary="Why a job failed or is pending",
    responses=answers(named("Explanation"), problems=_PROBLEMS),
)
async def explanation(
    job_id: JobIdParameter,
    service: ServiceDependency,
    identity: IdentityDependency,
    cluster: ClusterParameter = None,
) -> Response:
    """Explain a job by its record, its nodes and similar jobs. Its output is not read here: post it."""
    return await _explain(job_id, service, identity, cluster, None)


@router.post(
    "/{job_id}/explanation",
    summary="Why a job failed, with its output",
    responses=answers(named("Explanation"), problems=(404, 413)),
)
async def explanation_with_log(
    job_id: JobIdParameter,
    wanted: Annotated[LogRequest, Body(openapi_examples={"its output": {"value": LOG}})],
    service: ServiceDependency,
    identity: IdentityDependency,
    cluster: ClusterParameter = None,
) -> Response:
    """Explain a job, with its output as sent by the caller. Nothing of it is kept."""
    return await _explain(job_id, service, identity, cluster, wanted)


async def _explain(
    job_id: str, service: ServiceDependency, identity: Identity, cluster: str | None, sent: LogRequest | None
) -> Response:
    def answer() -> Response:
        found = explain_job(
            service.workspace,
            job_id,
            cluster=cluster,
            log=None if sent is None else log_of_text(sent.path, sent.log, sent.tail, sent.size),
            reads_logs=False,
            may_see=_may_see(identity),
            sees_all=identity.sees_all,
        )
        reader = Reader.of(found.job.user, identity.user)
        more = {"timezone": found.timezone, "job": job_to_json(found.job)}
        return json_response({**found.report.to_json(reader), **more})

    return await in_thread(answer)


@router.get(
    "/{job_id}/advice",
    summary="What to change about a job",
    responses=answers(named("JobAdvice"), problems=_PROBLEMS),
)
async def advice(
    job_id: JobIdParameter,
    service: ServiceDependency,
    identity: IdentityDependency,
    cluster: ClusterParameter = None,
) -> Response:
    """Advise changes to a pending job as commands to run; to an ended one as options for its resubmission."""

    def answer() -> Response:
        assessment = job_advice(service.workspace, job_id, cluster=cluster, may_see=_may_see(identity))
        return json_response(assessment.to_json(Reader.of(assessment.user, identity.user)))

    return await in_thread(answer)


@router.get(
    "/{job_id}/retry",
    summary="Whether to retry a job, and how",
    responses=answers(named("RetryVerdict"), problems=_PROBLEMS),
)
async def retry(
    job_id: JobIdParameter,
    service: ServiceDependency,
    identity: IdentityDependency,
    cluster: ClusterParameter = None,
) -> Response:
    """Judge whether to retry: as it is, with more memory, with more time, on another node, or not."""

    def answer() -> Response:
        verdict = retry_job(
            service.workspace,
            job_id,
            cluster=cluster,
            reads_logs=False,
            may_see=_may_see(identity),
            sees_all=identity.sees_all,
        )
        return json_response(verdict.to_json(Reader.of(verdict.user, identity.user)))

    return await in_thread(answer)


def _may_see(identity: Identity) -> MaySee:
    def may_see(job: Job) -> bool:
        return identity.sees(job.user, job.account)

    return may_see
