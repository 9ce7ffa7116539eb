"""The FastAPI application of a service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from forewarn.operate.service.service import Service
from forewarn.serve.rest.auth import router as auth_router
from forewarn.serve.rest.dependencies import only_known_parameters
from forewarn.serve.rest.gather import Gatherer
from forewarn.serve.rest.metrics import ServiceMetrics
from forewarn.serve.rest.middleware import FrameSettings, RequestFrame
from forewarn.serve.rest.openapi import document
from forewarn.serve.rest.problems import add_handlers
from forewarn.serve.rest.quick_route import QuickRoute
from forewarn.serve.rest.routes import (
    acting,
    assess,
    assessments,
    check,
    events,
    jobs,
    models,
    nodes,
    notices,
    system,
    trends,
)
from forewarn.serve.rest.routes.assess import JobGatherer

PREFIX = "/v1"
_ROUTES = (assess, assessments, check, jobs, acting, nodes, models, trends, events, notices)


class RestApplication(FastAPI):
    """FastAPI, with one route in front of it."""

    quick_route: QuickRoute
    quick_app: ASGIApp  # that route with the same frame as all others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self.quick_route.takes(scope):
            scope["app"] = self
            await self.quick_app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(service: Service) -> RestApplication:
    """Build the application; the caller starts and stops the service."""
    metrics = ServiceMetrics(service)
    gatherer: JobGatherer = Gatherer(
        service.assess, wait=service.config.serve.gather / 1000, on_batch=metrics.observe_batch
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        gatherer.close()

    app = RestApplication(
        title="Forewarn",
        version=service.version,
        lifespan=lifespan,
        dependencies=[Depends(only_known_parameters)],
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the place would be made from the caller's Host header
        openapi_url="/openapi.json",
    )
    app.state.service, app.state.gatherer, app.state.metrics = service, gatherer, metrics
    versioned = APIRouter(prefix=PREFIX)
    for module in _ROUTES:
        versioned.include_router(module.router)
    app.include_router(versioned)
    app.include_router(system.router)
    app.include_router(auth_router)
    app.include_router(metrics.router)
    add_handlers(app)
    frame = FrameSettings(
        body_limit=service.config.serve.body_limit,
        timeout=service.config.serve.request_timeout,
        on_begin=metrics.begin_request,
        on_answer=metrics.observe_request,
    )
    app.add_middleware(RequestFrame, settings=frame)
    app.quick_route = QuickRoute(f"{PREFIX}/assess", service, gatherer)
    app.quick_app = RequestFrame(app.quick_route, settings=frame)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app
