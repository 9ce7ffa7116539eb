"""`POST /v1/jobs`, `/v1/jobs/{id}/cancel`, `/resubmit`: act on Slurm with the caller's own token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.assess.assessment import Change
from forewarn.errors import BadField, BadFieldsError
from forewarn.operate.acting import SubmittedJob, actor_of, cancel_job, resubmit_job, submit_script
from forewarn.serve.rest.audited import audited
from forewarn.serve.rest.bounded_route import BoundedRoute
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.examples import RESUBMIT, SCRIPT
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.parameters import JobIdParameter
from forewarn.sources.slurm.script_submission import wrong_option

router = APIRouter(route_class=BoundedRoute, prefix="/jobs", tags=["act"])
OptionText = Annotated[str, Field(max_length=4096)]
Folder = Annotated[str, Field(pattern=r"^/[^\x00]{0,4095}$")]


class SubmitRequest(BaseModel):
    """A script to submit."""

    model_config = ConfigDict(extra="forbid", strict=True)

    script: Annotated[str, Field(max_length=4 << 20)]
    options: list[OptionText] = Field(default=[], max_length=500, description="Arguments of sbatch.")
    work_dir: Folder = Field(description="The folder in which the job runs.")
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], OptionText] | None = Field(
        default=None, max_length=1000, description="The job's environment; by default that of a login."
    )
    name: Annotated[str, Field(max_length=256)] | None = None


class ChangeRequest(BaseModel):
    """One option of sbatch with a new value."""

    model_config = ConfigDict(extra="forbid", strict=True)

    option: Annotated[str, Field(pattern=r"^[a-z][a-z-]{0,40}$", description="Without dashes: mem, time.")]
    value: Annotated[str, Field(max_length=1024, pattern=r"^[^\x00-\x1f]+$")]


class ResubmitRequest(BaseModel):
    """How to submit a job again."""

    model_config = ConfigDict(extra="forbid", strict=True)

    changes: list[ChangeRequest] = Field(default=[], max_length=50)
    script: Annotated[str, Field(max_length=4 << 20)] | None = Field(
        default=None, description="The script, where Slurm no longer has it."
    )


@router.post(
    "",
    summary="Submit a script",
    status_code=201,
    responses=answers(named("SubmittedJob"), status=201, problems=(409, 413)),
)
async def submit(
    request: Request,
    wanted: Annotated[
        SubmitRequest,
        Body(openapi_examples={"a script": {"value": {"script": SCRIPT, "work_dir": "/tmp"}}}),
    ],
    service: ServiceDependency,
    identity: IdentityDependency,
) -> Response:
    """Submit a script to Slurm as the caller. Its `#SBATCH` lines count as with sbatch."""

    def answer() -> SubmittedJob:
        return submit_script(
            service.config,
            actor_of(identity),
            wanted.script,
            options=wanted.options,
            work_dir=wanted.work_dir,
            environment=wanted.environment,
            name=wanted.name,
        )

    submitted = await audited(
        request,
        service,
        identity,
        "submit",
        wanted.name or "",
        answer,
        {"options": wanted.options, "name": wanted.name},
        subject_of=lambda job: job.job_id,
    )
    service.notice(submitted.cluster, submitted.job_id)
    return json_response(_shown(submitted), 201)


@router.post(
    "/{job_id}/cancel", summary="Cancel a job", responses=answers(named("CancelledJob"), problems=(404, 409))
)
async def cancel(
    request: Request, job_id: JobIdParameter, service: ServiceDependency, identity: IdentityDependency
) -> Response:
    """Cancel a job as the caller; Slurm refuses another user's."""
    cluster = await audited(
        request,
        service,
        identity,
        "cancel",
        job_id,
        lambda: cancel_job(service.config, actor_of(identity), job_id),
    )
    service.notice(cluster, job_id)
    return json_response({"cluster": cluster, "job_id": job_id, "cancelled": True})


@router.post(
    "/{job_id}/resubmit",
    summary="Submit a job again",
    status_code=201,
    responses=answers(named("SubmittedJob"), status=201, problems=(404, 409, 413)),
)
async def resubmit(
    request: Request,
    job_id: JobIdParameter,
    service: ServiceDependency,
    identity: IdentityDependency,
    wanted: Annotated[
        ResubmitRequest | None, Body(openapi_examples={"with more memory": {"value": RESUBMIT}})
    ] = None,
) -> Response:
    """Submit a job again as a new job, with changes such as those of its advice; never a requeue.

    Where Slurm has lost the script, the answer is the problem `script_unknown`: send it as `script`. A change
    that sbatch would refuse is named by its path (`/changes/0/value`), and nothing is submitted.
    """
    wanted = wanted or ResubmitRequest()
    _check_changes(wanted.changes)
    changes = [Change(option=one.option, before=None, after=one.value) for one in wanted.changes]

    def answer() -> SubmittedJob:
        return resubmit_job(
            service.config,
            actor_of(identity),
            job_id,
            changes=changes,
            script=wanted.script,
            may_see=lambda job: identity.sees(job.user, job.account),
        )

    submitted = await audited(
        request,
        service,
        identity,
        "resubmit",
        job_id,
        answer,
        {"changes": {one.option: one.value for one in wanted.changes}},
        details_of=lambda job: {"submitted": job.job_id},
    )
    service.notice(submitted.cluster, submitted.job_id)
    return json_response(_shown(submitted), 201)


def _check_changes(changes: Sequence[ChangeRequest]) -> None:
    found = [(at, wrong_option(change.option, change.value)) for at, change in enumerate(changes)]
    fields = [BadField(f"/changes/{at}/{wrong[0]}", wrong[1]) for at, wrong in found if wrong is not None]
    if fields:
        raise BadFieldsError("the request", fields)


def _shown(submitted: SubmittedJob) -> dict[str, object]:
    return {
        "cluster": submitted.cluster,
        "job_id": submitted.job_id,
        "resubmits": submitted.resubmits,
        "changes": [{"option": one.option, "value": one.after} for one in submitted.changes],
    }
