"""Schemas of jobs: what a caller describes, what is known of one, and lists of them."""

from __future__ import annotations

from forewarn.job.json_form import JOB_VERSION, REQUIRED, RULES, VERSION_FIELD, job_schema
from forewarn.operate.array_rows import STANDS_FOR
from forewarn.operate.job_list import ORDERS
from forewarn.operate.job_rows import JOB_COLUMNS
from forewarn.serve.rest.schemas.building import (
    ANYTHING,
    FLAG,
    NUMBER,
    SHARE,
    TEXT,
    WHOLE,
    JsonSchema,
    answer,
    array,
    by_name,
    named,
    nullable,
)

_SUMMARY: dict[str, JsonSchema] = {
    "made_at": WHOLE,
    "phase": TEXT,
    "model": nullable(TEXT),
    "probability": nullable(SHARE),
    "threshold": nullable(SHARE),
    "verdict": nullable(TEXT),
    "hours_at_risk": nullable(NUMBER),
    "cause": nullable(TEXT),
    "warns": nullable(FLAG),
}


def job_schemas() -> dict[str, JsonSchema]:
    """Build the schemas of jobs."""
    request = job_schema()
    request |= {"required": [], "properties": {**request["properties"], **_left_out(request["properties"])}}
    # A job as Slurm wrote it may hold what no caller may send: its fields have types only.
    types: dict[str, JsonSchema] = {name: {"type": rule.json_type} for name, rule in RULES.items()}
    listed = {name: nullable(types.get(name, WHOLE)) for name in JOB_COLUMNS}
    listed[STANDS_FOR] = nullable(WHOLE)
    listed["assessment"] = nullable(named("AssessmentSummary"))
    record = answer(
        {VERSION_FIELD: {"const": JOB_VERSION}, **types}, "A job; fields without a value are left out."
    )
    record["required"] = [VERSION_FIELD, *REQUIRED]
    return {
        "JobRequest": request,
        "JobBatch": {
            "type": "object",
            "properties": {
                "jobs": {
                    "type": "array",
                    "items": named("JobRequest"),
                    "minItems": 1,
                    "maxItems": 10_000,
                }
            },
            "required": ["jobs"],
            "additionalProperties": False,
        },
        "Job": record,
        "AssessmentSummary": answer(_SUMMARY),
        "ListedJob": answer(listed),
        "JobListPage": answer(
            {
                "jobs": array(named("ListedJob")),
                "total": WHOLE,
                "next": nullable(TEXT),
                "order": {"enum": list(ORDERS)},
                "descending": FLAG,
            }
        ),
        "JobObservation": answer(
            {"seen_at": WHOLE, "source": TEXT, "reconstructed": FLAG, "changed": by_name(ANYTHING)}
        ),
        "JobPage": answer(
            {
                "job": named("Job"),
                "known_at": nullable(WHOLE),
                "observations": array(named("JobObservation")),
                "assessments": array(named("AssessmentSummary")),
                "newest_assessment": nullable(named("Assessment")),
                "outcome": nullable(TEXT),
                "prediction": nullable(answer({"failed": FLAG, "right": nullable(FLAG), "made_at": WHOLE})),
                "other_submits": array(WHOLE),
            }
        ),
        "SubmittedJob": answer(
            {
                "cluster": TEXT,
                "job_id": TEXT,
                "resubmits": nullable(TEXT),
                "changes": array(answer({"option": TEXT, "value": nullable(TEXT)})),
            }
        ),
        "CancelledJob": answer({"cluster": TEXT, "job_id": TEXT, "cancelled": {"const": True}}),
    }


def _left_out(properties: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
    """Let a request leave out what a record must have: null is the same."""
    return {name: nullable(properties[name]) for name in REQUIRED}
