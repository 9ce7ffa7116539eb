"""An event: what became of a job, or a new assessment of it, in a CloudEvents 1.0 envelope.

This is the one place of the types' names and of their data's versions. The form is the same on the bus, in
`/v1/events` and in Kafka; `docs/events.schema.json` describes it (`json_schema.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from forewarn.assess.assessment import SCHEMA_VERSION as ASSESSMENT_VERSION
from forewarn.errors import BadField, BadFieldsError
from forewarn.job.json_form import JOB_VERSION, LATEST, job_from_json, job_to_json
from forewarn.job.record import Job

SPEC_VERSION = "1.0"  # of CloudEvents
CONTENT_TYPE = "application/json"
MEDIA_TYPE = "application/cloudevents+json"
GAP_VERSION = 1
_SOURCE = "/forewarn/"  # then the cluster


class EventType(StrEnum):
    """What an event tells."""

    JOB_PENDING = "forewarn.job.pending"
    JOB_RUNNING = "forewarn.job.running"
    JOB_ENDED = "forewarn.job.ended"
    ASSESSMENT = "forewarn.assessment"
    GAP = "forewarn.gap"  # events are missing here, for this reader


# The schema of each type's data, with its version.
DATA_SCHEMAS: Mapping[EventType, str] = MappingProxyType(
    {
        EventType.JOB_PENDING: f"urn:forewarn:schema:job:{JOB_VERSION}",
        EventType.JOB_RUNNING: f"urn:forewarn:schema:job:{JOB_VERSION}",
        EventType.JOB_ENDED: f"urn:forewarn:schema:job:{JOB_VERSION}",
        EventType.ASSESSMENT: f"urn:forewarn:schema:assessment:{ASSESSMENT_VERSION}",
        EventType.GAP: f"urn:forewarn:schema:gap:{GAP_VERSION}",
    }
)
JOB_TYPES = frozenset({EventType.JOB_PENDING, EventType.JOB_RUNNING, EventType.JOB_ENDED})


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event. `user` and `account` are those of the job: who may see it follows from them."""

    type: EventType
    cluster: str
    subject: str  # the job's id; of a gap `gap`, since CloudEvents has no empty subjects
    time: int  # Unix seconds: when the job was submitted, started or ended, or was assessed
    data: Mapping[str, Any]
    id: str = ""  # its place in the stream; a bus gives it
    user: str | None = None
    account: str | None = None

    @property
    def hours_at_risk(self) -> float | None:
        """The node hours at risk by an assessment; None where it has none, and of other events."""
        return self.data.get("hours_at_risk") if self.type is EventType.ASSESSMENT else None

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON: a CloudEvents envelope, with the extension attributes `user` and `account`."""
        form = {
            "specversion": SPEC_VERSION,
            "id": self.id,
            "source": _SOURCE + self.cluster,
            "type": self.type.value,
            "subject": self.subject,
            "time": format_time(self.time),
            "datacontenttype": CONTENT_TYPE,
            "dataschema": DATA_SCHEMAS[self.type],
            "user": self.user,
            "account": self.account,
            "data": self.data,
        }
        return {name: value for name, value in form.items() if value is not None}

    @cached_property
    def text(self) -> str:
        """The event as one line of JSON, written once however many read it."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, value: object) -> Event:
        """Read an event; `BadFieldsError` names every field of the envelope that is wrong.

        >>> job = Job(cluster="c", job_id="7", submit=5)
        >>> event = job_event(EventType.JOB_PENDING, job)
        >>> Event.from_json({**event.to_json(), "id": "1"}).time
        5
        """
        if not isinstance(value, Mapping):
            raise BadFieldsError("the event", [BadField("", "expected an object")])
        wrong = [
            BadField(f"/{name}", "this field is required" if name not in value else reason)
            for name, (is_fine, reason) in _ENVELOPE.items()
            if not is_fine(value.get(name))
        ]
        wrong += [
            BadField(f"/{name!s:.60}", "there is no such field") for name in value if name not in _NAMES
        ]
        if not wrong:
            schema = DATA_SCHEMAS[EventType(value["type"])]
            if value["dataschema"] != schema:
                wrong.append(BadField("/dataschema", f"this version of Forewarn reads {schema}"))
        if wrong:
            raise BadFieldsError("the event", wrong)
        event_type = EventType(value["type"])
        if event_type in JOB_TYPES:
            job_from_json(value["data"], at="/data")
        return cls(
            type=event_type,
            cluster=value["source"].removeprefix(_SOURCE),
            subject=value["subject"],
            time=parse_time(value["time"]),
            data=value["data"],
            id=value["id"],
            user=value.get("user"),
            account=value.get("account"),
        )


def job_event(event_type: EventType, job: Job) -> Event:
    """Return the event of a job that is pending, runs or has ended."""
    moment = {EventType.JOB_RUNNING: job.start, EventType.JOB_ENDED: job.end}.get(event_type)
    return Event(
        type=event_type,
        cluster=job.cluster,
        subject=job.job_id,
        time=job.submit if moment is None else moment,
        data=job_to_json(job),
        user=job.user,
        account=job.account,
    )


def assessment_event(body: Mapping[str, Any], account: str | None = None) -> Event:
    """Return the event of a new assessment, from its JSON; an assessment has no account of its own."""
    return Event(
        type=EventType.ASSESSMENT,
        cluster=body["cluster"],
        subject=body["job_id"],
        time=body["made_at"],
        data=body,
        user=body["user"],
        account=account,
    )


def gap_event(at: int, reason: str) -> Event:
    """Return the marker of a place where events of jobs are missing; assessments never are."""
    return Event(
        type=EventType.GAP, cluster="", subject="gap", time=at, data={"reason": reason}, id=f"gap-{at}"
    )


def format_time(moment: int) -> str:
    """Write a moment as RFC 3339.

    >>> format_time(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> int:
    """Read a moment in RFC 3339 as Unix seconds; `ValueError` for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone: {text!r}")
    return int(moment.timestamp())


# --- checks of the envelope --------------------------------------------------------------------------


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 4096


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and 0 <= parse_time(value) <= LATEST
    except (ValueError, OverflowError):
        return False


def _is_name(value: object) -> bool:
    return value is None or _is_text(value)


_TYPES: Sequence[str] = tuple(EventType)
_ENVELOPE: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "specversion": (lambda value: value == SPEC_VERSION, f'expected "{SPEC_VERSION}"'),
    "id": (_is_text, "expected a text"),
    "source": (
        lambda value: _is_text(value) and value.startswith(_SOURCE),
        f"expected {_SOURCE}CLUSTER",
    ),
    "type": (
        lambda value: isinstance(value, str) and value in _TYPES,
        f"expected one of {', '.join(_TYPES)}",
    ),
    "subject": (lambda value: isinstance(value, str) and len(value) <= 4096, "expected a text: the job's id"),
    "time": (_is_time, "expected a time like 2026-05-01T12:00:00Z"),
    "datacontenttype": (lambda value: value == CONTENT_TYPE, f"expected {CONTENT_TYPE}"),
    "dataschema": (_is_text, "expected a text"),
    "user": (_is_name, "expected a text"),
    "account": (_is_name, "expected a text"),
    "data": (lambda value: isinstance(value, Mapping), "expected an object"),
}
_NAMES = frozenset(_ENVELOPE)
