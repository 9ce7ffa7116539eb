"""A job as JSON: what is written is read again, and every wrong field is named."""

from __future__ import annotations

import dataclasses
import json
import timeit
from typing import Any

import jsonschema
import pytest

from forewarn.errors import BadFieldsError
from forewarn.job.json_form import RULES, job_from_json, job_schema, job_to_json
from forewarn.job.record import Job, job_of

KEY: dict[str, Any] = {"cluster": "alpha", "job_id": "7_1", "submit": 1_700_000_000}
TEXTS = {"nodes": "n[01-03]", "tres_asked": "cpu=2,mem=200M", "state": "RUNNING", "memory_per": "node"}


def whole_job() -> Job:
    """Return a job with a value in every field."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Job):
        text = {"outcome": "failed", "tres_given": "cpu=2", "job_id": "7_1", **TEXTS}.get(field.name, "text")
        values[field.name] = text if RULES[field.name].json_type == "string" else 3
    return Job(**values)


def reasons(value: object, **options: Any) -> dict[str, str]:
    with pytest.raises(BadFieldsError) as caught:
        job_from_json(value, **options)
    return {field.path: field.reason for field in caught.value.fields}


@pytest.mark.parametrize("job", [whole_job(), Job(**KEY)], ids=["whole", "key"])
def test_what_is_written_is_read_again_and_fits_the_schema(job: Job) -> None:
    form = json.loads(json.dumps(job_to_json(job)))
    assert job_from_json(form) == job
    jsonschema.validate(form, job_schema())


@pytest.mark.parametrize("job", [whole_job(), Job(**KEY)], ids=["whole", "key"])
def test_a_job_of_its_fields_is_the_job(job: Job) -> None:
    values = {name: value for name, value in dataclasses.asdict(job).items() if value is not None}
    assert job_of(values) == job
    assert job_of(dict(reversed(values.items()))) == job
    with pytest.raises(ValueError, match="argument"):
        job_of({**values, "unknown": 1})


def test_null_is_missing() -> None:
    assert job_from_json({**KEY, "user": None}) == Job(**KEY)


def test_defaults_stand_in_for_fields_that_are_left_out() -> None:
    job = job_from_json(
        {"job_id": "9", "user": "ann"}, defaults={"cluster": "beta", "submit": 5, "user": "bob"}
    )
    assert (job.cluster, job.submit, job.user) == ("beta", 5, "ann")


def test_every_wrong_field_is_named_with_its_place() -> None:
    value = {"cluster": "alpha", "job_id": 7, "cpus_asked": "2", "a/b~": 1, "user": ["ann"], "start": 1.5}
    assert reasons(value, at="/jobs/3") == {
        "/jobs/3/job_id": "expected a text, got the number 7",
        "/jobs/3/cpus_asked": 'expected a whole number, got the text "2"',
        "/jobs/3/a~1b~0": "there is no such field",
        "/jobs/3/user": "expected a text, got a list",
        "/jobs/3/start": "expected a whole number, got the number 1.5",
        "/jobs/3/submit": "this field is required",
    }


@pytest.mark.parametrize("value", [None, 7, "job", [KEY], True])
def test_what_is_not_an_object_is_refused(value: object) -> None:
    assert list(reasons(value)) == [""]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("submit", -1),
        ("submit", 10**12),  # milliseconds
        ("submit", True),
        ("submit", 10**4000),
        ("time_limit", float("nan")),
        ("cpu_time", float("nan")),
        ("cpu_time", float("inf")),
        ("cpu_time", False),
        ("memory_asked", 1 << 61),
        ("memory_per", "core"),
        ("outcome", "FAILED"),
        ("state", "RUNNING\n"),
        ("cluster", ""),
        ("cluster", "../../etc"),
        ("cluster", "a\nb"),
        ("job_id", "7; drop table job"),
        ("name", "a\0b"),
        ("name", "\ud800"),
        ("name", "x" * 1025),
        ("nodes", "n[1-"),
        ("nodes", "n[0-99999999999]"),
        ("tres_asked", "gres/gpu=many=1"),
        ("schema_version", 2),
        ("schema_version", "1"),
        ("schema_version", True),
    ],
)
def test_values_outside_of_their_form_are_refused(name: str, value: Any) -> None:
    assert list(reasons({**KEY, name: value})) == [f"/{name}"]


def test_a_message_stays_short_and_printable() -> None:
    with pytest.raises(BadFieldsError) as caught:
        job_from_json({f"\x1b[31m{number}" + "x" * 5000: 1 for number in range(5000)})
    text = str(caught.value)
    assert len(text) < 4000
    assert "\x1b" not in text
    assert "more" in text
    assert len(caught.value.fields) == 5003


def test_the_schema_refuses_what_reading_refuses() -> None:
    validator = jsonschema.Draft202012Validator(job_schema())
    for change in ({"submit": -1}, {"cluster": "a b"}, {"outcome": "x"}, {"unknown": 1}, {"user": 7}):
        assert not validator.is_valid({**KEY, **change})
        assert reasons({**KEY, **change})
    assert not validator.is_valid({"cluster": "alpha"})


def test_reading_a_job_is_quick() -> None:
    """The service reads 10,000 of them in one request; the aim is 30 µs, the bound is for a busy machine."""
    form = job_to_json(whole_job())
    seconds = min(timeit.repeat(lambda: job_from_json(form), number=200, repeat=5)) / 200
    assert seconds < 300e-6
