"""Events in their CloudEvents envelope: written, read again, described by a schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from forewarn.assess.assessment import Assessment
from forewarn.errors import BadFieldsError, UsageError
from forewarn.operate.events.event import Event, EventType, assessment_event, gap_event
from forewarn.operate.events.event_id import EventId
from forewarn.operate.events.filters import EventFilter
from forewarn.operate.events.json_schema import schema, written
from tests.assess.examples import assessments
from tests.operate.events.samples import a_job_event, an_assessment_event

VALIDATOR = jsonschema.Draft202012Validator(schema())
GAP = gap_event(5, "a reason")
EVENTS = [*(a_job_event(kind=kind) for kind in EventType if ".job." in kind), an_assessment_event(9), GAP]


def form(event: Event) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(event.text)
    return {"id": "1", **read} | ({} if event.id else {"id": "1"})


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_is_read_as_it_was_written_and_fits_the_schema(event: Event) -> None:
    whole = form(event)
    VALIDATOR.validate(whole)
    read = Event.from_json(whole)
    assert (read.type, read.subject, read.user, dict(read.data)) == (
        *(event.type, event.subject, event.user),
        json.loads(json.dumps(event.data)),
    )
    assert form(read) == whole
    assert "\n" not in event.text


def test_the_time_is_that_of_the_change() -> None:
    kinds = (EventType.JOB_PENDING, EventType.JOB_RUNNING, EventType.JOB_ENDED)
    assert [a_job_event(kind=kind).time for kind in kinds] == [100, 150, 180]
    assert an_assessment_event(1, made_at=300).to_json()["time"] == "1970-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"specversion": "0.3"}, "/specversion"),
        ({"id": ""}, "/id"),
        ({"id": 7}, "/id"),
        ({"source": "elsewhere"}, "/source"),
        ({"type": "forewarn.job.lost"}, "/type"),
        ({"type": ["forewarn.gap"]}, "/type"),
        ({"time": "yesterday"}, "/time"),
        ({"time": "2026-05-01T12:00:00"}, "/time"),
        ({"time": "9999-12-31T23:59:59-23:59"}, "/time"),
        ({"dataschema": "urn:forewarn:schema:job:99"}, "/dataschema"),
        ({"data": "text"}, "/data"),
        ({"data": {"cluster": "c"}}, "/data/job_id"),
        ({"user": 3}, "/user"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_a_wrong_event_is_refused_with_the_place(change: dict[str, Any], path: str) -> None:
    with pytest.raises(BadFieldsError) as caught:
        Event.from_json(form(a_job_event()) | change)
    assert path in [field.path for field in caught.value.fields]


@pytest.mark.parametrize("value", [None, [], "event", 3])
def test_what_is_no_object_is_no_event(value: object) -> None:
    with pytest.raises(BadFieldsError):
        Event.from_json(value)


def test_every_missing_field_is_named() -> None:
    with pytest.raises(BadFieldsError) as caught:
        Event.from_json({})
    assert {field.path for field in caught.value.fields} >= {"/id", "/type", "/data", "/time"}


def test_the_schema_ties_data_to_the_type() -> None:
    whole = form(a_job_event())
    assert not VALIDATOR.is_valid(whole | {"type": "forewarn.assessment"})
    assert not VALIDATOR.is_valid(whole | {"data": {"cluster": "c"}})


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(assessments())
def test_events_of_any_assessment_are_as_the_schema_says(assessment: Assessment) -> None:
    known = replace(assessment, cluster="c", job_id="7", submit=100, made_at=200, user="ann")  # of a live job
    event = replace(assessment_event(known.to_json(), "physics"), id="7")
    whole = json.loads(event.text)
    VALIDATOR.validate(whole)
    assert Event.from_json(whole).data == whole["data"]


def test_the_schema_file_is_current() -> None:
    file = Path(__file__).parents[3] / "docs/events.schema.json"
    assert file.read_text() == written(), "run: python tools/events_schema.py"


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.2.3.4", "-1", "1\n", "9" * 30, "١"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not the id of an event"):
        EventId.parse(text)


def test_filters() -> None:
    mine, other = a_job_event(), a_job_event(user="bob")
    risky, safe = an_assessment_event(1, hours_at_risk=9.0), an_assessment_event(2, hours_at_risk=0.5)

    def passed(events: list[Event], **wanted: Any) -> list[Event]:
        chosen = EventFilter(**{"sees": lambda _user, _account: True} | wanted)
        return [event for event in events if chosen.matches(event)]

    everything = [mine, other, risky, safe, GAP]
    assert passed(everything) == everything
    assert passed(everything, user="bob") == [other, GAP]
    assert passed(everything, cluster="d") == [GAP]
    assert passed(everything, types=frozenset({EventType.ASSESSMENT})) == [risky, safe]
    assert passed(everything, types=frozenset({EventType.JOB_ENDED})) == [GAP]
    assert passed(everything, least_hours=1.0) == [risky]
    assert passed([an_assessment_event(3)], least_hours=0.0) == []
    assert passed(everything, sees=lambda user, _: user == "bob") == [other, GAP]
    assert passed(everything, sees=lambda _, account: account == "chemistry") == [GAP]
