"""The answer of sbatch takes precedence over what was found by reading a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarn.assess.assessment import Finding, Oddness
from forewarn.assess.script.sbatch_test import SbatchAnswer

# At most sites such a job stays pending for ever, though `--test-only` gives it a start time.
_PENDING_FOR_EVER = frozenset({"time-beyond-limit", "nodes-beyond-limit"})


def reconcile_findings(found: Sequence[Finding], answer: SbatchAnswer | None) -> tuple[Finding, ...]:
    """Add the answer of sbatch to findings; where it accepts, errors of submission become warnings."""
    if answer is None:
        return tuple(found)
    if answer.accepts:
        found = [
            replace(one, severity="warning", values={**one.values, "sbatch_accepts": True})
            if one.severity == "error" and one.about == "submission"
            else one
            for one in found
        ]
    return (*found, *answer.findings)


def reconcile_oddness(oddness: Oddness | None, answer: SbatchAnswer | None) -> Oddness | None:
    """Mark oddities as possible where Slurm answers that the job would start."""
    if oddness is None or answer is None or answer.accepts is not True:
        return oddness
    return replace(
        oddness,
        oddities=tuple(
            replace(one, impossible=False, values={**one.values, "sbatch_accepts": True})
            if one.impossible and one.rule not in _PENDING_FOR_EVER
            else one
            for one in oddness.oddities
        ),
    )
