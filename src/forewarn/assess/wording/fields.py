"""The English texts in JSON: for each part of an assessment, the fields that hold text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from forewarn.assess.assessment import (
    Advice,
    Assessment,
    Finding,
    Oddity,
    Oddness,
    Reason,
    Route,
    Saving,
    SimilarJob,
)
from forewarn.assess.retry.verdict import RetryVerdict
from forewarn.assess.wording import lookup as of
from forewarn.assess.wording.names import rule
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.retries import retry_summary
from forewarn.assess.wording.summaries import summary

Text = Callable[[Any, Reader], str]
OptionalText = Callable[[Any, Reader], str | None]
FieldTexts = Callable[[Any, Reader], list[str]]


def _similar_in_short(assessment: Assessment, reader: Reader) -> str | None:
    return None if assessment.similar_in_short is None else of.words(assessment.similar_in_short, reader)


def _caveat(route: Route, reader: Reader) -> str | None:
    return None if route.caveat is None else of.words(route.caveat, reader)


TEXT: Mapping[type, Mapping[str, Text]] = MappingProxyType(
    {
        Assessment: {"summary": summary},
        Reason: {"what": of.reason},
        Oddity: {"what": of.oddity},
        Finding: {"what": of.finding},
        Advice: {"what": of.what, "why": of.why},
        Saving: {"what": of.what, "why": of.why},
        RetryVerdict: {"summary": retry_summary},
    }
)
OPTIONAL_TEXT: Mapping[type, Mapping[str, OptionalText]] = MappingProxyType(
    {
        Assessment: {"similar_in_short": _similar_in_short},
        Finding: {"fix": of.fix},
        Route: {"caveat": _caveat, "rule": lambda route, _: route.rule and rule(route.rule)},
    }
)
TEXTS: Mapping[type, Mapping[str, FieldTexts]] = MappingProxyType(
    {
        Assessment: {"notes": lambda assessment, reader: of.each(assessment.notes, reader)},
        RetryVerdict: {"because": lambda verdict, reader: of.each(verdict.evidence, reader)},
        Oddness: {"because": lambda odd, reader: of.each(odd.because, reader)},
        SimilarJob: {"differs": lambda job, reader: of.each(job.differs, reader)},
        Route: {"passed": lambda route, reader: [of.passed(one, reader) for one in route.passed]},
    }
)


def english(part: Any, reader: Reader) -> dict[str, str | list[str] | None]:
    """Write the texts of one part of an assessment or retry verdict, without those of the parts inside it."""
    return {
        name: text(part, reader)
        for table in (TEXT, OPTIONAL_TEXT, TEXTS)
        for name, text in table.get(type(part), {}).items()
    }
