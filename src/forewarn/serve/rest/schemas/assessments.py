"""Schemas of assessments, brief and full, of checked scripts, explanations and retry verdicts."""

from __future__ import annotations

from typing import Any

from forewarn.assess.json_schema import retry_schema, schema
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.serve.rest.schemas.building import (
    TEXT,
    JsonSchema,
    answer,
    array,
    moved,
    named,
    nullable,
    of_dataclass,
)

_BRIEF_ALWAYS = ["schema_version", "cluster", "phase", "verdict", "route"]


def assessment_schemas() -> dict[str, JsonSchema]:
    """Build the schemas that the assessment's dataclasses define."""
    whole, retry = schema(), retry_schema()
    parts = whole.pop("$defs") | retry.pop("$defs")
    for one in (whole, retry):
        one.pop("$schema")
    full = moved(whole)
    checked = full | {
        "properties": full["properties"] | {"fixed_script": nullable(TEXT)},
        "required": [*full["required"], "fixed_script"],
    }
    brief = _brief_names(_without_required({"BriefAssessment": full, **moved(parts)}))
    brief["BriefAssessment"]["required"] = _BRIEF_ALWAYS
    either = {"anyOf": [named("Assessment"), named("BriefAssessment")]}
    return {
        **moved(parts),
        **brief,
        "Assessment": full,
        "AssessmentInEitherForm": either,
        "AssessmentBatch": answer({"assessments": array(named("AssessmentInEitherForm"))}),
        "AssessmentPage": answer({"assessments": array(named("BriefAssessment")), "next": nullable(TEXT)}),
        "CheckedScript": checked,
        "JobAdvice": full,
        "RetryVerdict": moved(retry),
        **_explanation(),
    }


def _explanation() -> dict[str, JsonSchema]:
    """Describe a post mortem, in which similar jobs and their tally have English beside the codes."""
    parts = of_dataclass("Explanation", PostMortem)
    statement = parts.pop("Statement")
    parts.pop("SimilarJob")  # that of an assessment
    properties = parts["Explanation"]["properties"]
    properties |= {"tally": nullable(TEXT), "tally_code": nullable(statement)}
    properties |= {"timezone": TEXT, "job": named("Job")}
    parts["Explanation"]["required"] = list(properties)
    return parts


def _without_required(parts: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
    """Describe the brief form: what is null or empty is left out, and so is the English."""
    return {
        name: {key: one for key, one in part.items() if key != "required"} for name, part in parts.items()
    }


def _brief_names(parts: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
    """Give parts of the brief form names of their own."""

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: one.replace("schemas/", "schemas/Brief") if name == "$ref" else renamed(one)
                for name, one in value.items()
            }
        return [renamed(one) for one in value] if isinstance(value, list) else value

    return {
        name if name.startswith("Brief") else f"Brief{name}": renamed(part) for name, part in parts.items()
    }
