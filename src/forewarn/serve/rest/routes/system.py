"""`/healthz`, `/readyz`: whether the process lives, and whether it can answer."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from forewarn.serve.rest.auth.current import is_known
from forewarn.serve.rest.dependencies import ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.json_body import json_response

router = APIRouter(tags=["system"])


@router.head("/healthz", include_in_schema=False)  # some load balancers ask so
@router.get("/healthz", summary="Whether the process lives", responses=answers(named("Liveness")))
async def health(service: ServiceDependency) -> Response:
    """Answer as long as the process can: for the supervisor that restarts it."""
    return json_response({"status": "alive", "version": service.version, "started_at": service.started_at})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Whether requests can be answered now",
    responses=answers(named("Readiness"))
    | {503: {"description": "Not ready.", "content": {"application/json": {"schema": named("Readiness")}}}},
)
async def ready(request: Request, service: ServiceDependency) -> Response:
    """Tell whether store, models and updates work: for a load balancer, and for people.

    What is wrong is told to known callers only: it has paths, and the words of Slurm.
    """
    readiness = await run_in_threadpool(service.readiness)
    is_ready = readiness.is_ready and not service.is_stopping
    if not await is_known(request):
        readiness = readiness.without_details()
    return json_response(readiness.to_json() | {"ready": is_ready}, 200 if is_ready else 503)
