"""The schemas of what routes take and return, by their names in the OpenAPI document."""

from __future__ import annotations

from functools import cache

from forewarn.serve.rest.schemas.assessments import assessment_schemas
from forewarn.serve.rest.schemas.building import JsonSchema
from forewarn.serve.rest.schemas.jobs import job_schemas
from forewarn.serve.rest.schemas.models import model_schemas
from forewarn.serve.rest.schemas.notices import notice_schemas
from forewarn.serve.rest.schemas.system import system_schemas


@cache
def all_schemas() -> dict[str, JsonSchema]:
    """Build every schema."""
    return {
        **assessment_schemas(),
        **job_schemas(),
        **model_schemas(),
        **notice_schemas(),
        **system_schemas(),
    }
