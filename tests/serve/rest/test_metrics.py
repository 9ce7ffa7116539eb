"""Metrics: their names follow Prometheus' rules, and nobody but the code adds series."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from forewarn.config import Config
from forewarn.errors import StoreBusyError
from forewarn.job.record import Job
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from forewarn.operate.collector_round import CollectorRound, JobChanges
from forewarn.operate.events.event import EventType
from forewarn.operate.events.publishing import PublishChanges
from forewarn.operate.predict import save_assessments
from forewarn.operate.service.service import Service
from forewarn.serve.rest.metrics import MOST_ROUTES, ServiceMetrics
from tests.operate.events.samples import an_assessment
from tests.serve.rest.conftest import Start

# By promtool's linter (`promtool check metrics`): base units, and `_total` for counters alone.
WRONG_UNITS = (
    r"_(milliseconds|microseconds|nanoseconds|minutes|hours|days|ms|kilobytes|kb|megabytes|mb|percent)\b"
)
KNOWN_TYPES = {"counter", "gauge", "histogram"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service that is not started: nothing changes by itself."""
    opened = Service(Config(home=tmp_path / "home"))
    yield opened
    opened.stop()


@pytest.fixture
def metrics(service: Service) -> ServiceMetrics:
    return ServiceMetrics(service)


def families(metrics: ServiceMetrics) -> list[Metric]:
    return list(text_string_to_metric_families(metrics.text().decode()))


def series(metrics: ServiceMetrics) -> set[tuple[str, ...]]:
    return {
        (sample.name, *map(str, sorted(sample.labels.items())))
        for family in families(metrics)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def value(metrics: ServiceMetrics, name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in families(metrics)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return found


def use(metrics: ServiceMetrics, service: Service, first: int, number: int) -> None:
    """Serve so many users, each with a job of its own."""
    for n in range(first, first + number):
        metrics.begin_request()
        metrics.observe_request("/v1/jobs/{job_id}", "GET", 200, 0.01)
        metrics.observe_batch(1 + n % 300)
        metrics.count_datagram("accepted")
    assessments = [an_assessment(str(n), f"user{n}") for n in range(first, first + number)]
    with_nodes = [
        Job(cluster="c", job_id=str(n), submit=n, user=f"user{n}", nodes=f"n{n}")
        for n in range(first, first + number)
    ]
    store = service.workspace.writing()
    save_assessments(store, assessments)
    PublishChanges(service.bus)(store, JobChanges(ended=with_nodes))


@pytest.mark.slow
def test_users_jobs_and_nodes_add_no_series(metrics: ServiceMetrics, service: Service) -> None:
    service.bus.subscribe()
    use(metrics, service, 0, 10)
    before = series(metrics)
    use(metrics, service, 10, 10_000)
    assert series(metrics) == before
    assert value(metrics, "forewarn_events_total", type=EventType.ASSESSMENT.value) == 10_010
    verdict = {"phase": "submit", "verdict": "cannot_say"}
    assert value(metrics, "forewarn_assessments_total", **verdict) == 10_010
    assert value(metrics, "forewarn_events_left_out_total") == 8_000


def test_what_a_caller_invents_is_no_label(metrics: ServiceMetrics) -> None:
    for n in range(5_000):
        metrics.observe_request(f"/invented/{n}", f"VERB{n}", 100 + n, 0.01)
    routes = {name for name in series(metrics) if name[0] == "forewarn_http_requests_total"}
    assert len({one[2] for one in routes}) <= MOST_ROUTES + 1
    assert {one[1] for one in routes} == {"('method', 'other')"}
    assert len({one[3] for one in routes}) <= 6


def test_names_follow_the_rules(metrics: ServiceMetrics, service: Service) -> None:
    use(metrics, service, 0, 3)
    found = families(metrics)
    assert len(found) > 15
    for family in found:
        assert family.documentation.strip().endswith("."), family.name
        assert family.type in KNOWN_TYPES, family.name
        assert re.fullmatch(r"(forewarn|process)_[a-z0-9_]+", family.name)
        assert not re.search(WRONG_UNITS, family.name), family.name
        assert not re.search(r"_(count|sum|bucket|total)$", family.name), family.name
        names = {sample.name for sample in family.samples}
        if family.type == "counter":
            assert all(name.endswith(("_total", "_created")) for name in names), names
        else:
            assert not any(name.endswith("_total") for name in names), names
        for sample in family.samples:
            assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in sample.labels)
            assert not {"user", "job", "node", "job_id"} & sample.labels.keys()
    units = [family.name for family in found if re.search("_(duration|lag|timestamp|age)_", family.name)]
    assert units
    assert all(name.endswith("_seconds") for name in units)


def test_requests_and_refusals_are_counted(metrics: ServiceMetrics) -> None:
    for status in (200, 401, 403, 429, 503):
        metrics.begin_request()
        metrics.observe_request("/v1/jobs", "GET", status, 0.02)
    metrics.begin_request()
    assert value(metrics, "forewarn_http_requests_in_flight") == 1
    refused = {"route": "/v1/jobs", "method": "GET", "status": "4xx"}
    assert value(metrics, "forewarn_http_requests_total", **refused) == 3
    assert value(metrics, "forewarn_http_request_duration_seconds_count", route="/v1/jobs") == 5
    for reason in ("unauthenticated", "forbidden", "rate_limited"):
        assert value(metrics, "forewarn_access_refusals_total", reason=reason) == 1


def test_a_stream_has_no_latency(metrics: ServiceMetrics) -> None:
    metrics.observe_request("/v1/events", "GET", 200, 3600.0)
    assert "forewarn_http_request_duration_seconds_count" not in {one[0] for one in series(metrics)}


def test_figures_of_the_service(metrics: ServiceMetrics, service: Service) -> None:
    service.updates.status.troubles["live jobs"] = "Slurm is away"
    service.updates.status.lag = 90
    with service.bus.subscribe():
        assert value(metrics, "forewarn_event_readers") == 1
    assert value(metrics, "forewarn_event_readers") == 0
    assert value(metrics, "forewarn_update_trouble", part="live_jobs") == 1
    assert value(metrics, "forewarn_update_trouble", part="history") == 0
    assert value(metrics, "forewarn_collector_lag_seconds") == 90
    assert value(metrics, "forewarn_store_bytes", store="store") > 4096
    assert value(metrics, "forewarn_serving_models") == 0
    assert value(metrics, "process_resident_memory_bytes") > 1e6


def test_errors_notices_and_the_age_of_the_state(metrics: ServiceMetrics, service: Service) -> None:
    assert value(metrics, "forewarn_update_errors_total", part="live_jobs") == 0
    for _ in range(3):
        service.updates._note_round(CollectorRound(at=1, troubles={"live jobs": "Slurm is away"}))
    service.updates._note_trouble("store", StoreBusyError("busy"))
    assert value(metrics, "forewarn_update_errors_total", part="live_jobs") == 3
    assert value(metrics, "forewarn_update_errors_total", part="store") == 1
    assert value(metrics, "forewarn_notices_sent_total", rule="risk") == 0
    service.notifier.sent["risk"] += 2
    assert value(metrics, "forewarn_notices_sent_total", rule="risk") == 2
    assert value(metrics, "forewarn_notices_sent_total", rule="digest") == 0
    service.updates.status.last_success_at = time.time() - 40
    assert 40 <= value(metrics, "forewarn_state_age_seconds") < 50


@pytest.mark.slow
def test_metrics_are_for_those_who_see_all_jobs(home: Path, start: Start) -> None:
    tokens = {
        role: create_token(Config(home=home), role.value, role, user="ann")[0]
        for role in (Role.USER, Role.HELPER)
    }
    url = f"{start(home, collect='never', access__service_tokens='true').url}/metrics"

    def status(role: Role | None) -> int:
        headers = {} if role is None else {"Authorization": f"Bearer {tokens[role]}"}
        return httpx.get(url, headers=headers, timeout=30).status_code

    assert [status(role) for role in (None, Role.USER, Role.HELPER)] == [401, 403, 200]
