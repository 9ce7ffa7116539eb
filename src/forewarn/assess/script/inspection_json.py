"""The JSON form of a script's inspection, which a client sends to a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.assess.assessment import Finding
from forewarn.assess.json_form import part_from_json, part_to_json
from forewarn.assess.script.inspection import ScriptInspection
from forewarn.assess.script.sbatch_test import SbatchAnswer
from forewarn.errors import BadField, BadFieldsError

MOST_FINDINGS = 1000
_SEVERITIES = frozenset({"error", "warning", "note"})


def inspection_to_json(inspection: ScriptInspection) -> dict[str, Any]:
    """Convert an inspection to JSON."""
    answer = inspection.answer
    return {
        "findings": [part_to_json(one) for one in inspection.findings],
        "sbatch": None
        if answer is None
        else {"accepts": answer.accepts, "findings": [part_to_json(one) for one in answer.findings]},
    }


def inspection_from_json(value: Mapping[str, Any]) -> ScriptInspection:
    """Read an inspection that a client sent; its codes and values are checked, its English is not read."""
    found = tuple(_findings(value.get("findings", []), "/inspection/findings"))
    sbatch = value.get("sbatch")
    if sbatch is None:
        return ScriptInspection(found)
    if not isinstance(sbatch, Mapping) or sbatch.get("accepts") not in (True, False, None):
        raise _bad("/inspection/sbatch", "expected accepts (true, false or null) and findings")
    first, *rest = tuple(_findings(sbatch.get("findings", []), "/inspection/sbatch/findings")) or (None,)
    if first is None:
        raise _bad("/inspection/sbatch/findings", "expected at least one finding")
    return ScriptInspection(found, SbatchAnswer(sbatch["accepts"], first, rest[0] if rest else None))


def _findings(value: Any, at: str) -> list[Finding]:
    if not isinstance(value, list) or len(value) > MOST_FINDINGS:
        raise _bad(at, f"expected a list of at most {MOST_FINDINGS} findings")
    return [_finding(one, f"{at}/{index}") for index, one in enumerate(value)]


def _finding(value: Any, at: str) -> Finding:
    try:
        finding = part_from_json(Finding, value)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _bad(at, f"not a finding: {error}") from None
    is_fine = (
        isinstance(finding.rule, str)
        and finding.severity in _SEVERITIES
        and (finding.line is None or type(finding.line) is int)
        and all(_is_plain(one) for one in finding.values.values())
    )
    if not is_fine:
        raise _bad(at, "not a finding: rule, severity, line or a value has the wrong type")
    return finding


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, str | int | float | bool)


def _bad(at: str, reason: str) -> BadFieldsError:
    return BadFieldsError("the request", [BadField(at, reason)])
