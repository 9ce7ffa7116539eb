"""What a service knows about itself, read at each scrape of its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import time

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from forewarn.assess.assessment import Verdict
from forewarn.config.notices import RULES
from forewarn.job.phase import PHASES
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.operate.events.event import EventType
from forewarn.operate.notices.notice import DIGEST
from forewarn.operate.service.service import Service

ENDED = "ended"  # the phase of a job that was assessed after its end
# The parts of an update that can fail (`operate/collector.py`, `operate/service/updates.py`).
PARTS = (
    *("live jobs", "history", "late ends", "nodes", "assessments", "review"),
    *("collector", "store", "updates"),
)
STORE_FILES = {"store": "forewarn.db", "people": "people.db"}


class ServiceFigures(Collector):
    """A collector of Prometheus' client: called at each scrape, from any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now."""
        yield _one("forewarn_info", "The version that runs.", 1, version=self._service.version)
        yield _one(
            "forewarn_start_timestamp_seconds", "When the service began.", float(self._service.started_at)
        )
        yield from self._events()
        yield from self._updates()
        yield from self._notices()
        yield from self._files()

    def _events(self) -> Iterator[Metric]:
        bus = self._service.bus
        counts = dict(bus.counts)
        published = CounterMetricFamily("forewarn_events", "Events published.", labels=["type"])
        for event_type in EventType:
            if event_type is not EventType.GAP:
                total = sum(number for (one, _, _), number in counts.items() if one is event_type)
                published.add_metric([event_type.value], total)
        yield published
        assessed = CounterMetricFamily(
            "forewarn_assessments", "Assessments of live jobs published.", labels=["phase", "verdict"]
        )
        for phase in (*PHASES, ENDED):
            for verdict in Verdict:
                assessed.add_metric(
                    [str(phase), verdict.value], counts.get((EventType.ASSESSMENT, phase, verdict.value), 0)
                )
        yield assessed
        yield CounterMetricFamily(
            "forewarn_event_replays",
            "Times that a reader of events was too far behind, and was given assessments from the store.",
            bus.replays,
        )
        yield CounterMetricFamily(
            "forewarn_events_left_out",
            "Events of jobs beyond the most of one round.",
            bus.left_out,
        )
        yield _one("forewarn_event_readers", "Open streams and other readers of events.", bus.readers)

    def _updates(self) -> Iterator[Metric]:
        status = self._service.updates.status
        yield CounterMetricFamily("forewarn_collector_rounds", "Rounds of the collector.", status.rounds)
        if status.lag is not None:
            yield _one("forewarn_collector_lag_seconds", "History of Slurm not read yet.", status.lag)
        yield _one(
            "forewarn_last_update_timestamp_seconds",
            "When the state in memory was last brought up to date; 0: never.",
            status.last_success_at or 0.0,
        )
        since = self._service.started_at if status.last_success_at is None else status.last_success_at
        yield _one(
            "forewarn_state_age_seconds",
            "Time since the state in memory was last brought up to date, or since the start.",
            max(0.0, time() - since),
        )
        trouble = GaugeMetricFamily(
            "forewarn_update_trouble", "Whether a part of the last update failed.", labels=["part"]
        )
        for part in PARTS:
            trouble.add_metric([part.replace(" ", "_")], float(part in status.troubles))
        yield trouble
        errors = CounterMetricFamily(
            "forewarn_update_errors", "Failures of a part of an update.", labels=["part"]
        )
        for part in PARTS:
            errors.add_metric([part.replace(" ", "_")], status.errors[part])
        yield errors

    def _notices(self) -> Iterator[Metric]:
        sent = CounterMetricFamily("forewarn_notices_sent", "Notices sent.", labels=["rule"])
        for rule in (*RULES, DIGEST):
            sent.add_metric([rule], self._service.notifier.sent[rule])
        yield sent

    def _files(self) -> Iterator[Metric]:
        home = self._service.config.home
        sizes = GaugeMetricFamily("forewarn_store_bytes", "Size of the store's files.", labels=["store"])
        for name, file in STORE_FILES.items():
            sizes.add_metric([name], sum(_size(home / f"{file}{suffix}") for suffix in ("", "-wal")))
        yield sizes
        models = Serving(home / "models")
        ages = [age for name in models.names() if (age := _age(models, name)) is not None]
        yield _one("forewarn_serving_models", "Models that serve.", len(ages))
        if ages:
            yield _one("forewarn_oldest_model_age_seconds", "Time since the oldest of them began.", max(ages))


def _one(name: str, documentation: str, value: float, **labels: str) -> Metric:
    """Return a gauge with one value."""
    family = GaugeMetricFamily(name, documentation, labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _age(models: Serving, name: ModelName) -> float | None:
    """Return how long a model has served; None if it was removed just now."""
    try:
        return max(0.0, time() - models.serves_since(name))
    except OSError:
        return None
