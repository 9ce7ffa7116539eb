"""Parameters that several routes have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator


def _names_something(text: str) -> str:
    """Refuse a filter without a value, as of an unset variable: it must not return everything."""
    if not text.replace(",", "").strip():
        raise ValueError("has no value: leave it out to see everything")
    return text


SeveralTexts = list[Annotated[str, Query(max_length=1024), AfterValidator(_names_something)]] | None
Several = Annotated[SeveralTexts, Query(max_length=200)]
ClusterParameter = Annotated[
    str | None, Query(description="The cluster; not needed where there is one.", max_length=256)
]
Since = Annotated[
    str | None,
    Query(description="From this time on: now-7days, 2024-05-01, Unix seconds.", max_length=64),
]
Until = Annotated[str | None, Query(description="Before this time.", max_length=64)]
JobIdParameter = Annotated[
    str,
    Path(
        description="As people write it: 123, 123_4 for a task of an array, 123+1 for a component.",
        pattern=r"^[0-9]{1,10}(_[0-9]{1,10}|\+[0-9]{1,6})?$",
        openapi_examples={"a job": {"value": "1"}},
    ),
]
