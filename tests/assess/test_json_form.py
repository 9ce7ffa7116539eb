"""An assessment as JSON: back as it was, as its schema says, and with the words that people know."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from forewarn.assess.assessment import SCHEMA_VERSION, Assessment, SimilarJob
from forewarn.assess.codes import DifferenceCode, NoteCode
from forewarn.assess.json_form import brief_form, json_name
from forewarn.assess.json_schema import schema, written
from forewarn.assess.similar import tally
from forewarn.assess.verdict import with_verdict
from forewarn.assess.wording import Reader
from forewarn.evidence import Statement
from forewarn.job.outcomes import POLICIES
from tests.assess.examples import assessments, statement
from tests.assess.test_verdict import PLAIN

SCHEMA = Path(__file__).parents[2] / "docs/assessment.schema.json"
MANY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def as_written(assessment: Assessment) -> dict[str, Any]:
    """Through the text of a file."""
    value = json.loads(json.dumps(assessment.to_json(), allow_nan=False))
    assert isinstance(value, dict)
    return value


@pytest.mark.slow
@MANY
@given(assessments())
def test_it_comes_back_as_it_was(assessment: Assessment) -> None:
    assert Assessment.from_json(as_written(assessment)) == assessment


@pytest.mark.slow
@MANY
@given(assessments())
def test_it_is_as_the_schema_says(assessment: Assessment) -> None:
    Draft202012Validator(schema()).validate(as_written(assessment))


@pytest.mark.slow
@MANY
@given(assessments())
def test_the_short_form_is_each_field_that_is_not_empty(assessment: Assessment) -> None:
    found = json.loads(json.dumps(assessment, default=brief_form))
    expected = {"schema_version": SCHEMA_VERSION, **without_empty(assessment)}
    assert found == json.loads(json.dumps(expected))
    assert list(found) == list(expected)
    assert Assessment.from_json(found) == assessment


def without_empty(value: Any) -> Any:
    """Convert field by field, in the plainest way: compiled code must return the same."""
    if is_dataclass(value):
        read = {json_name(field): getattr(value, field.name) for field in fields(value)}
        return {name: without_empty(one) for name, one in read.items() if one is not None and one != ()}
    return [without_empty(one) for one in value] if isinstance(value, tuple) else value


def test_the_schema_in_the_docs_is_current() -> None:
    assert SCHEMA.read_text() == written(), "run tools/assessment_schema.py"
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("spoil", ["verdict", "route", "schema_version", "reasons"])
def test_the_schema_refuses_what_is_none(spoil: str) -> None:
    value = as_written(with_verdict(PLAIN))
    assert Draft202012Validator(schema()).is_valid(value)
    assert not Draft202012Validator(schema()).is_valid(value | {spoil: "likely to fail"})
    del value[spoil]
    assert not Draft202012Validator(schema()).is_valid(value)


def test_what_was_written_before_a_field_was_there_is_read() -> None:
    value = as_written(with_verdict(PLAIN))
    del value["hours_at_risk_by"]
    assert Assessment.from_json(value) == with_verdict(PLAIN)


def test_its_words_are_not_read() -> None:
    value = as_written(with_verdict(PLAIN))
    assert Assessment.from_json(value | {"summary": "anything", "notes": ["else"]}) == with_verdict(PLAIN)


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, None, "1"])
def test_another_version_is_refused(version: object) -> None:
    with pytest.raises(ValueError, match=r"schema version .* reads 1: read it with"):
        Assessment.from_json(with_verdict(PLAIN).to_json() | {"schema_version": version})


@pytest.mark.parametrize(
    "spoilt",
    [
        {"route": None},
        {"verdict": "likely to fail"},
        {"reasons": [{}]},
        {"note_codes": [{"code": "unheard_of", "values": {}}]},
        {"reasons": [{"code": "no_gpus"}]},
    ],
)
def test_what_is_no_assessment_is_refused(spoilt: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"is not a valid|not an assessment|unknown code of evidence|but this field holds"
    ):
        Assessment.from_json(with_verdict(PLAIN).to_json() | spoilt)


def test_every_name_that_was_there_has_its_words() -> None:
    """What `jq` users read stays; codes stand beside it."""
    differs = (Statement(DifferenceCode.CPUS, {"other": 1, "this": 4}),)
    job = SimilarJob(
        job_id="1",
        submit=0,
        similarity=1.0,
        outcome="failed",
        run_time=None,
        differs=differs,
        outcomes={"failed": 1},
    )
    assessment = replace(
        PLAIN,
        similar=(job,),
        similar_in_short=tally((job,), POLICIES["wasted"]),
        notes=(statement(NoteCode.EACH_TASK),),
    )
    value = assessment.to_json(Reader("ann"))
    assert value["similar"][0]["differs"] == ["1 CPU instead of 4"]
    assert value["similar"][0]["differs_codes"] == [{"code": "other_cpus", "values": {"other": 1, "this": 4}}]
    assert value["similar_in_short"] == "ann's only similar job failed"
    assert value["similar_in_short_code"]["values"]["failed"] == 1
    assert value["notes"] == ["this is an array: risk and node hours are per task"]
    assert value["note_codes"][0]["code"] == "each_task_of_array"
    assert {"verdict", "summary", "hours_at_risk"} <= value.keys()
    assert {"passed", "rule", "caveat"} <= value["route"].keys()
