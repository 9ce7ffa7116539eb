"""Schemas of notices, silences and subscriptions."""

from __future__ import annotations

from forewarn.operate.notices.notice import NoticeState
from forewarn.operate.notices.scoring import MeasuredPrecision
from forewarn.operate.notices.silences import Silence
from forewarn.operate.notices.subscriptions import Subscription
from forewarn.serve.rest.schemas.building import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    JsonSchema,
    answer,
    array,
    named,
    nullable,
    of_dataclass,
)


def notice_schemas() -> dict[str, JsonSchema]:
    """Build the schemas."""
    return {
        **of_dataclass("Silence", Silence),
        **of_dataclass("Subscription", Subscription),
        **of_dataclass("MeasuredPrecision", MeasuredPrecision),
        "Silences": answer({"silences": array(named("Silence"))}),
        "Notices": answer(
            {"notices": array(named("Notice")), "precision": array(named("MeasuredPrecision"))}
        ),
        "Notice": answer(
            {
                "id": TEXT,
                "rule": TEXT,
                "recipient": TEXT,
                "cluster": TEXT,
                "subject": TEXT,
                "at": WHOLE,
                "message": answer(
                    {
                        "title": TEXT,
                        "facts": array(array(TEXT)),
                        "advice": array(TEXT),
                        "command": nullable(TEXT),
                    }
                ),
                "hours": nullable(NUMBER),
                "user": nullable(TEXT),
                "job_id": nullable(TEXT),
                "jobs": WHOLE,
                "digest": nullable(TEXT),
                "state": {"enum": [one.value for one in NoticeState]},
                "problem": nullable(TEXT),
                "sent_at": nullable(WHOLE),
                "came_true": nullable(FLAG),
                "changed": FLAG,
                "judged_at": nullable(WHOLE),
                "acknowledged_at": nullable(WHOLE),
            }
        ),
    }
