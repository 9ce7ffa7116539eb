"""`POST /v1/check`: check a script before it is submitted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.assess.script.inspection_json import inspection_from_json
from forewarn.assess.wording.reader import Reader
from forewarn.errors import BadField, BadFieldsError, ForbiddenError
from forewarn.operate.check_text import check_text
from forewarn.serve.rest.bounded_route import BoundedRoute
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.examples import CHECK
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.work import in_thread

router = APIRouter(route_class=BoundedRoute, tags=["check"])
Name = Annotated[str, Field(min_length=1, max_length=256)]


class CheckRequest(BaseModel):
    """A script as text, and how it will be submitted."""

    model_config = ConfigDict(extra="forbid", strict=True)

    script: str = Field(description="The script, as sbatch reads it.", max_length=4 << 20)
    options: list[Annotated[str, Field(max_length=4096)]] = Field(
        default=[], description="Arguments of sbatch.", max_length=500
    )
    environment: dict[Name, Annotated[str, Field(max_length=65536)]] = Field(
        default={},
        description="Variables that set options of sbatch, such as SBATCH_PARTITION.",
        max_length=200,
    )
    cluster: Name | None = Field(default=None, description="Not needed where there is one.")
    user: Name | None = Field(default=None, description="Who will submit it; by default the caller.")
    file_name: Annotated[str, Field(pattern=r"^[^/\x00-\x1f]{1,255}$")] | None = Field(
        default=None, description="The file's name: the job's name if the script sets none."
    )
    work_dir: Annotated[str, Field(pattern=r"^/[^\x00]{0,4095}$")] = Field(
        default="/", description="The folder that it is submitted from."
    )
    inspection: dict[str, Any] | None = Field(
        default=None,
        description="What the caller's machine tells about the script (`forewarn check` sends it).",
    )


@router.post(
    "/check",
    summary="Check a script before submission",
    responses=answers(
        named("CheckedScript"), "The assessment of the job that the script will be.", problems=(413,)
    ),
)
async def check(
    wanted: Annotated[CheckRequest, Body(openapi_examples={"a script": {"value": CHECK}})],
    service: ServiceDependency,
    identity: IdentityDependency,
) -> Response:
    """Check a script: will it fail, why, and what to change. Nothing in it is run.

    Files, programs and modules that it names are on the caller's machine, so they are judged only where the
    caller's `inspection` tells about them.
    """
    user = wanted.user or identity.user
    if user != identity.user and not identity.sees_all:
        raise ForbiddenError(f"{identity.user} has the role {identity.role} and may check only own scripts")
    if wanted.cluster is not None and wanted.cluster not in service.clusters:
        raise BadFieldsError("the request", [BadField("/cluster", "unknown cluster")])

    def answer() -> Response:
        inspection = None if wanted.inspection is None else inspection_from_json(wanted.inspection)
        checked = check_text(
            service.workspace,
            wanted.script,
            user=user,
            cluster=wanted.cluster,
            options=wanted.options,
            environment=wanted.environment,
            file_name=wanted.file_name,
            work_dir=wanted.work_dir,
            inspection=inspection,
        )
        fixed = checked.fixed()
        return json_response(
            {
                **checked.assessment.to_json(Reader.of(user, identity.user)),
                "fixed_script": None if fixed is None else fixed.decode("utf-8", "replace"),
            }
        )

    return await in_thread(answer)
