"""`GET /v1/nodes/health` and `/v1/nodes/exclude`: which nodes are sick, and the option that avoids them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from forewarn.operate.health_result import HealthResult
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.parameters import ClusterParameter
from forewarn.serve.rest.work import in_thread

router = APIRouter(prefix="/nodes", tags=["nodes"])
NodesParameter = Annotated[
    list[str] | None, Query(description="Only these, as Slurm writes them: n[01-04].", max_length=100)
]
NodePartitionParameter = Annotated[
    str | None, Query(description="Only nodes of this partition.", max_length=256)
]


@router.get("/health", summary="Health of the nodes", responses=answers(named("NodesHealth")))
async def health(
    service: ServiceDependency,
    identity: IdentityDependency,
    cluster: ClusterParameter = None,
    node: NodesParameter = None,
    partition: NodePartitionParameter = None,
) -> Response:
    """Judge which nodes are sick or suspect, with the evidence.

    The numbers of jobs and failures are for those who may see all jobs.
    """

    def answer() -> HealthResult:
        return service.site.health(*(node or ()), cluster=cluster, partition=partition)

    result = await in_thread(answer)
    return json_response((result if identity.sees_all else result.without_counts()).to_json())


@router.get("/exclude", summary="Option to avoid sick nodes", responses=answers(named("NodesToExclude")))
async def exclude(
    service: ServiceDependency,
    identity: IdentityDependency,  # noqa: ARG001 - any caller, but a known one
    cluster: ClusterParameter = None,
    partition: NodePartitionParameter = None,
) -> Response:
    """Return the option of sbatch that excludes the sick nodes; null where none is sick."""

    def answer() -> HealthResult:
        return service.site.health(cluster=cluster, partition=partition)

    result = await in_thread(answer)
    return json_response(
        {"cluster": result.cluster, "at": result.at, "nodes": list(result.sick), "option": result.exclude}
    )
