"""Schemas of models, thresholds and trends."""

from __future__ import annotations

from forewarn.serve.rest.schemas.building import (
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

_INTERVAL: JsonSchema = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}
_PERIODS: JsonSchema = {"enum": ["day", "week", "month"]}


def model_schemas() -> dict[str, JsonSchema]:
    """Build the schemas."""
    return {
        "Models": answer({"models": array(named("ModelFigures")), "damaged": by_name(TEXT)}),
        "ModelFigures": _model(),
        "Thresholds": answer({"thresholds": array(named("ThresholdSetting"))}),
        "ThresholdSetting": answer(
            {
                "model": TEXT,
                "partition": nullable(TEXT),
                "threshold": SHARE,
                "own_threshold": SHARE,
                "rule": TEXT,
                "version": WHOLE,
                "is_set": FLAG,
                "set_by": nullable(TEXT),
                "set_at": nullable(WHOLE),
                "reason": nullable(TEXT),
                "set_for_version": nullable(WHOLE),
                "is_of_another_version": FLAG,
            }
        ),
        "ThresholdChange": answer(
            {
                "model": TEXT,
                "partition": nullable(TEXT),
                "before": SHARE,
                "after": SHARE,
                "effect": answer(
                    {
                        "since": WHOLE,
                        "days": NUMBER,
                        "jobs": WHOLE,
                        "ended": WHOLE,
                        "failed": WHOLE,
                        "before": named("AlertFigures"),
                        "after": named("AlertFigures"),
                    }
                ),
            }
        ),
        "AlertFigures": answer(
            {
                "threshold": SHARE,
                "alerts": WHOLE,
                "alerts_a_day": nullable(NUMBER),
                "judged_alerts": WHOLE,
                "right_alerts": WHOLE,
                "precision": nullable(SHARE),
                "precision_interval": nullable(_INTERVAL),
                "recall": nullable(SHARE),
                "recall_interval": nullable(_INTERVAL),
            }
        ),
        "Trend": answer(
            {
                "by": nullable(TEXT),
                "every": _PERIODS,
                "policy": TEXT,
                "first": TEXT,
                "last": TEXT,
                "rows": array(named("TrendRow")),
            }
        ),
        "TrendRow": _trend_row(),
    }


def _model() -> JsonSchema:
    return answer(
        {
            "model": TEXT,
            "cluster": TEXT,
            "phase": TEXT,
            "features": TEXT,
            "version": WHOLE,
            "id": TEXT,
            "serves_since": WHOLE,
            "created": WHOLE,
            "learnt_until": nullable(WHOLE),
            "population": TEXT,
            "trained_on": answer({"jobs": WHOLE, "base_rate": SHARE}),
            "tested_on": answer({"jobs": nullable(NUMBER), "from": nullable(WHOLE), "to": nullable(WHOLE)}),
            "metrics": by_name(nullable(NUMBER)),
            "intervals": by_name(_INTERVAL),
            "threshold": answer({"value": SHARE, "rule": TEXT}),
            "simple_rule": nullable(TEXT),
            "compared_with": nullable(
                answer(
                    {
                        "rule": TEXT,
                        "label": TEXT,
                        "f1": SHARE,
                        "gain": NUMBER,
                        "interval": nullable(_INTERVAL),
                    }
                )
            ),
            "may_serve": FLAG,
            "verdict": nullable(TEXT),
            "warnings": array(TEXT),
        }
    )


def _trend_row() -> JsonSchema:
    shares: dict[str, JsonSchema] = {}
    for name in ("failure_rate", "precision", "recall"):
        shares |= {name: nullable(SHARE), f"{name}_interval": nullable(_INTERVAL)}
    return answer(
        {
            "period": TEXT,
            "group": nullable(TEXT),
            "whose": {"enum": ["all", "own", "others"]},
            **dict.fromkeys(("jobs", "judged", "failed", "users"), WHOLE),
            **dict.fromkeys(("node_hours", "wasted_node_hours", "core_hours", "wasted_core_hours"), NUMBER),
            **dict.fromkeys(("assessed", "assessed_failed", "alerts", "right_alerts"), WHOLE),
            **shares,
        }
    )
