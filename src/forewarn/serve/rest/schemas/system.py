"""Schemas of problems, of the service's own state, of nodes and of sessions."""

from __future__ import annotations

from forewarn.assess.node_health.records import NodeHealth
from forewarn.operate.access.identity import Role
from forewarn.serve.rest.schemas.building import (
    FLAG,
    TEXT,
    WHOLE,
    JsonSchema,
    answer,
    array,
    by_name,
    named,
    nullable,
    of_dataclass,
)


def system_schemas() -> dict[str, JsonSchema]:
    """Build the schemas."""
    return {
        "Problem": _problem(),
        "Liveness": answer({"status": {"const": "alive"}, "version": TEXT, "started_at": WHOLE}),
        "Readiness": answer(
            {
                "ready": FLAG,
                "parts": by_name(answer({"works": FLAG, "needed": FLAG, "detail": nullable(TEXT)})),
            }
        ),
        **of_dataclass("NodeHealth", NodeHealth),
        "NodesHealth": answer(
            {
                "cluster": TEXT,
                "timezone": TEXT,
                "at": WHOLE,
                "exclude": nullable(TEXT),
                "nodes": array(named("NodeHealth")),
            }
        ),
        "NodesToExclude": answer(
            {"cluster": TEXT, "at": WHOLE, "nodes": array(TEXT), "option": nullable(TEXT)}
        ),
        "Session": answer(
            {
                "user": TEXT,
                "role": {"enum": [role.value for role in Role]},
                "accounts": array(TEXT),
                "method": TEXT | {"description": "How it was proven who is calling."},
                "has_slurm_token": FLAG | {"description": "Whether the caller can act on Slurm."},
                "csrf_token": nullable(TEXT) | {"description": "For the header X-CSRF-Token."},
                "methods": array(TEXT) | {"description": "Those configured."},
            }
        ),
    }


def _problem() -> JsonSchema:
    """Describe problem+json (RFC 9457), with the code and the wrong fields for programs."""
    properties: dict[str, JsonSchema] = {
        "type": TEXT,
        "title": TEXT,
        "status": WHOLE,
        "code": TEXT,
        "detail": TEXT,
    }
    return answer(properties) | {
        "properties": properties
        | {"errors": array(answer({"path": TEXT, "reason": TEXT})), "request_id": TEXT}
    }
