"""What Slurm itself says of a script goes over what was found by reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarn.assess.assessment import Finding, Oddness
from forewarn.assess.script.sbatch_test import SbatchAnswer

# A job beyond these waits for ever at most sites, though `--test-only` gives it a start.
_WAITS_FOR_EVER = frozenset({"time-beyond-limit", "nodes-beyond-limit"})


def reconcile_findings(found: Sequence[Finding], answer: SbatchAnswer | None) -> tuple[Finding, ...]:
    """The findings beside sbatch's answer: where it takes the script, it does not refuse it."""
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
    """What no recorded node could take, where Slurm says that it would start, is odd and not impossible."""
    if oddness is None or answer is None or answer.accepts is not True:
        return oddness
    return replace(
        oddness,
        oddities=tuple(
            replace(one, impossible=False, values={**one.values, "sbatch_accepts": True})
            if one.impossible and one.rule not in _WAITS_FOR_EVER
            else one
            for one in oddness.oddities
        ),
    )
