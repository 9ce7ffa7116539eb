"""The JSON Schema of an event, derived from the code; `tools/events_schema.py` writes it."""

from __future__ import annotations

import json
from typing import Any

from forewarn.assess import json_schema as assessments
from forewarn.job.json_form import job_schema
from forewarn.operate.events.event import CONTENT_TYPE, DATA_SCHEMAS, JOB_TYPES, SPEC_VERSION, EventType

Schema = dict[str, Any]
EVENTS_VERSION = 1  # of the envelope; a field that changes its meaning or goes away is a new version
_TEXT: Schema = {"type": "string", "minLength": 1}


def schema() -> Schema:
    """Build the schema of what `Event.to_json` returns."""
    assessment = assessments.schema()
    parts = assessment.pop("$defs")
    gap: Schema = {"type": "object", "properties": {"reason": _TEXT}, "required": ["reason"]}
    job = {"title": "Forewarn job", **job_schema()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:forewarn:schema:events:{EVENTS_VERSION}",
        "title": "Forewarn event",
        "description": (
            "An event of a job, or a new assessment of it, in a CloudEvents 1.0 envelope; the same on "
            "/v1/events and in Kafka. Times in data are Unix seconds, durations seconds, memory bytes."
        ),
        "type": "object",
        "properties": {
            "specversion": {"const": SPEC_VERSION},
            "id": _TEXT,
            "source": {"type": "string", "pattern": "^/forewarn/"},
            "type": {"enum": [one.value for one in EventType]},
            "subject": {**_TEXT, "description": "the job's id; `gap` in a gap"},
            "time": {"type": "string", "format": "date-time"},
            "datacontenttype": {"const": CONTENT_TYPE},
            "dataschema": {"enum": sorted(set(DATA_SCHEMAS.values()))},
            "user": _TEXT,
            "account": _TEXT,
            "data": {"type": "object"},
        },
        "required": [
            *("specversion", "id", "source", "type", "subject", "time"),
            *("datacontenttype", "dataschema", "data"),
        ],
        "additionalProperties": False,
        "allOf": [_data_of(event_type) for event_type in EventType],
        "$defs": {"assessment": assessment, "gap": gap, "job": job, **parts},
    }


def _data_of(event_type: EventType) -> Schema:
    """Tie a type to its version and its data."""
    names = {EventType.ASSESSMENT: "assessment", EventType.GAP: "gap", **dict.fromkeys(JOB_TYPES, "job")}
    return {
        "if": {"properties": {"type": {"const": event_type.value}}, "required": ["type"]},
        "then": {
            "properties": {
                "dataschema": {"const": DATA_SCHEMAS[event_type]},
                "data": {"$ref": f"#/$defs/{names[event_type]}"},
            }
        },
    }


def written() -> str:
    """Return the text of the schema file."""
    return json.dumps(schema(), indent=2) + "\n"
