"""Metrics for Prometheus: base units, and a number of series that no user, job or node adds to.

Labels come from fixed sets: the routes of the application, methods, classes of status, phases, verdicts,
types of events. Requests and datagrams are counted here; what the service knows is read at each scrape
(`service_figures.py`).
"""

from __future__ import annotations

from typing import get_args

from fastapi import APIRouter
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from forewarn.errors import ForbiddenError
from forewarn.operate.service.service import Service
from forewarn.serve.rest.datagram import DatagramResult
from forewarn.serve.rest.dependencies import IdentityDependency
from forewarn.serve.rest.documented import answers
from forewarn.serve.rest.service_figures import ServiceFigures

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
MOST_ROUTES = 100  # an application has fewer; no path that a caller invents may become a label
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
REFUSALS = {401: "unauthenticated", 403: "forbidden", 429: "rate_limited"}
STREAMS = frozenset({"/v1/events"})  # how long they last is no latency


class ServiceMetrics:
    """The metrics of one application; any thread may count."""

    def __init__(self, service: Service) -> None:
        # They are a second series for each, of which the text format has no use.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._routes: set[str] = set()
        self._requests = Counter(
            "forewarn_http_requests",
            "Requests answered, by route, method and class of status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "forewarn_http_request_duration_seconds",
            "Time to answer a request, without streams.",
            ("route",),
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        in_flight = Gauge(
            "forewarn_http_requests_in_flight", "Requests being answered now.", registry=self.registry
        )
        in_flight.set_function(lambda: self._begun - self._answered)
        self._begun = self._answered = 0  # only the loop's thread counts them
        # Kept by route, method and class of status: prometheus_client's own search takes longer.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram | None]] = {}
        self._refusals = Counter(
            "forewarn_access_refusals",
            "Requests refused: nobody proven, not allowed, or too many.",
            ("reason",),
            registry=self.registry,
        )
        self._batches = Histogram(
            "forewarn_gathered_requests",
            "Single requests that shared one model call.",
            buckets=BATCH_BUCKETS,
            registry=self.registry,
        )
        self._datagrams = Counter(
            "forewarn_datagrams",
            "Notices of hooks received on the datagram socket, by what became of them.",
            ("result",),
            registry=self.registry,
        )
        for reason in REFUSALS.values():
            self._refusals.labels(reason)
        for result in get_args(DatagramResult):
            self._datagrams.labels(result)
        self.registry.register(ServiceFigures(service))
        ProcessCollector(registry=self.registry)
        self.router = self._router()

    def begin_request(self) -> None:
        """Count a request that begins."""
        self._begun += 1

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered; `route` is its template, such as ``/v1/jobs/{id}``."""
        self._answered += 1
        route = self._bounded(route)
        key = route, method if method in METHODS else "other", status // 100 if 100 <= status < 600 else 0
        if (series := self._series.get(key)) is None:
            answered = f"{key[2]}xx" if key[2] else "none"
            latency = None if route in STREAMS else self._latency.labels(route)
            series = self._series[key] = self._requests.labels(route, key[1], answered), latency
        requests, latency = series
        requests.inc()
        if latency is not None:
            latency.observe(seconds)
        if status in REFUSALS:
            self._refusals.labels(REFUSALS[status]).inc()

    def observe_batch(self, requests: int) -> None:
        """Count a model call by how many requests shared it."""
        self._batches.observe(requests)

    def count_datagram(self, result: DatagramResult) -> None:
        """Count a datagram by what became of it."""
        self._datagrams.labels(result).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _bounded(self, route: str) -> str:
        if route not in self._routes:
            if len(self._routes) >= MOST_ROUTES:
                return "other"
            self._routes.add(route)
        return route

    def _router(self) -> APIRouter:
        router = APIRouter(tags=["system"])

        @router.get(
            "/metrics",
            summary="Metrics for Prometheus",
            response_class=PlainTextResponse,
            responses=answers({})
            | {
                200: {
                    "description": "Prometheus' text format.",
                    "content": {"text/plain": {"schema": {"type": "string"}}},
                }
            },
        )
        async def metrics(identity: IdentityDependency) -> Response:
            """Return the metrics, to who may see all jobs: counts of few users' jobs tell about them."""
            if not identity.sees_all:
                raise ForbiddenError("metrics need the role helper: give Prometheus a service token with it")
            return Response(await run_in_threadpool(self.text), media_type=CONTENT_TYPE_PLAIN_0_0_4)

        return router
