"""How simple rules are named for people; without imports, for those who only show a name."""

from __future__ import annotations

from collections.abc import Mapping

MAJORITY = "majority"
_LABELS: Mapping[str, str] = {
    MAJORITY: "the more frequent outcome",
    "last_user": "last outcome of this user",
    "last_user_name": "last outcome of this user with this job name",
    "last_user_request": "last outcome of this user with this request",
    "last_user_request_else_user": "last outcome of this user with this request, else with any",
    "last_user_name_else_user": "last outcome of this user with this job name, else with any",
    "last_request": "last outcome of this request by anyone",
    "last_array": "last outcome of this array",
    "last_array_else_request": "last outcome of this array, else of this request by anyone",
}


def rule_label(rule: str) -> str:
    """Return the label that is shown where a rule serves in a model's place.

    >>> rule_label("last_user_request")
    'rule: last outcome of this user with this request'
    """
    return f"rule: {_LABELS.get(rule, rule.replace('_', ' '))}"
