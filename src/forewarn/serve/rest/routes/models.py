"""`GET /v1/models`, `/v1/thresholds` (and PUT, DELETE), `/v1/trends`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.errors import ForewarnError
from forewarn.operate.access.identity import Identity
from forewarn.operate.served_models import list_served_models
from forewarn.operate.service.service import Service
from forewarn.operate.thresholds import (
    ThresholdChange,
    list_thresholds,
    preview_threshold,
    reset_threshold,
    set_threshold,
)
from forewarn.serve.rest.auth.current import origin_of
from forewarn.serve.rest.bounded_route import BoundedRoute
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency, require_operator
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.examples import THRESHOLD
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.parameters import ClusterParameter
from forewarn.serve.rest.work import in_thread

router = APIRouter(route_class=BoundedRoute, tags=["models"])
ModelParameter = Annotated[
    str, Query(description="The model's name: CLUSTER.PHASE.FEATURES.", max_length=256)
]
PartitionParameter = Annotated[
    str | None, Query(description="Only for this partition; else for all.", max_length=256)
]


class ThresholdRequest(BaseModel):
    """A threshold to set."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: Annotated[str, Field(max_length=256, description="The model's name: CLUSTER.PHASE.FEATURES.")]
    threshold: Annotated[float, Field(ge=0, le=1, description="Probability from which on to warn.")]
    partition: Annotated[str, Field(max_length=256)] | None = None
    reason: Annotated[str, Field(max_length=500)] | None = None
    preview: bool = Field(default=False, description="Only compute what it would mean for the last month.")


@router.get(
    "/models", summary="Which models serve, and how good they are", responses=answers(named("Models"))
)
async def models(
    service: ServiceDependency,
    identity: IdentityDependency,  # noqa: ARG001 - any caller, but a known one
    cluster: ClusterParameter = None,
) -> Response:
    """List the models that serve, with their figures on later jobs."""
    found = await in_thread(list_served_models, service.workspace, cluster)
    return json_response(found.to_json())


@router.get("/thresholds", summary="Thresholds in force", responses=answers(named("Thresholds")))
async def thresholds(
    service: ServiceDependency,
    identity: IdentityDependency,  # noqa: ARG001 - any caller, but a known one
    cluster: ClusterParameter = None,
) -> Response:
    """List the threshold of each model, and those that an operator set for it or for a partition."""
    found = await in_thread(list_thresholds, service.workspace, cluster)
    return json_response({"thresholds": [one.to_json() for one in found]})


@router.put(
    "/thresholds", summary="Set a threshold", responses=answers(named("ThresholdChange"), problems=(413,))
)
async def put_threshold(
    request: Request,
    wanted: Annotated[ThresholdRequest, Body(openapi_examples={"a preview": {"value": THRESHOLD}})],
    service: ServiceDependency,
    identity: IdentityDependency,
) -> Response:
    """Set the threshold of a model, for all partitions or one; needs the role operator, and is audited."""
    if wanted.preview:
        require_operator(identity)
        shown = await in_thread(
            preview_threshold, service.workspace, wanted.model, wanted.threshold, partition=wanted.partition
        )
        return json_response(shown.to_json())

    def change(address: str) -> ThresholdChange:
        return set_threshold(
            service.workspace,
            wanted.model,
            wanted.threshold,
            by=identity,
            partition=wanted.partition,
            reason=wanted.reason,
            address=address,
        )

    details = {"after": wanted.threshold, "partition": wanted.partition, "reason": wanted.reason}
    return await _change(request, service, identity, "set-threshold", wanted.model, change, details)


@router.delete("/thresholds", summary="Remove a threshold", responses=answers(named("ThresholdChange")))
async def delete_threshold(
    request: Request,
    service: ServiceDependency,
    identity: IdentityDependency,
    model: ModelParameter,
    partition: PartitionParameter = None,
) -> Response:
    """Remove a threshold that was set, so that the one before it is in force again."""

    def change(address: str) -> ThresholdChange:
        return reset_threshold(service.workspace, model, by=identity, partition=partition, address=address)

    details = {"partition": partition}
    return await _change(request, service, identity, "reset-threshold", model, change, details)


async def _change(
    request: Request,
    service: Service,
    identity: Identity,
    action: str,
    model: str,
    change: Callable[[str], ThresholdChange],
    details: Mapping[str, Any],
) -> Response:
    """Change a threshold, which writes its own audit line; write one for a refusal here."""
    address = origin_of(request)

    def answer() -> Response:
        try:
            require_operator(identity)
            return json_response(change(address).to_json())
        except ForewarnError as error:
            refused = f"refused: {error}"
            service.access.audit(identity, action, model, refused, details=details, address=address)
            raise

    return await in_thread(answer)
