"""The assessment of a script alone, where there is no history to assess its job by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forewarn.assess.assessment import Advice, Assessment, Finding, Route
from forewarn.assess.codes import PassCode, StepCode
from forewarn.assess.script.repair import is_repaired
from forewarn.assess.verdict import with_verdict
from forewarn.evidence import Statement
from forewarn.job.phase import Phase
from forewarn.job.record import Job


def assess_script_alone(job: Job, script_findings: Sequence[Finding], *, at: int) -> Assessment:
    """Assess the job that a script will be by the findings in the script, without a risk."""
    passed = (Statement(PassCode.SCRIPT_ALONE),)
    return with_verdict(
        Assessment(
            cluster=job.cluster,
            job_id=None,
            submit=None,
            user=job.user,
            name=job.name,
            partition=job.partition,
            made_at=at,
            phase=Phase.SUBMIT,
            route=Route(model=None, version=None, phase=Phase.SUBMIT, feature_set=None, passed=passed),
            findings=tuple(script_findings),
            advice=tuple(fixes(script_findings)),
        )
    )


def fixes(script_findings: Sequence[Finding]) -> Iterator[Advice]:
    """Yield advice to fix errors; it has no risk afterwards, as fixing one of two errors gains nothing."""
    for finding in script_findings:
        if finding.severity == "error" and finding.fix:
            line, more = finding.line, {"by_itself": True} if is_repaired(finding) else {}
            step = Statement(StepCode.FIX_LINE, {"line": line}) if line else Statement(StepCode.FIX_SCRIPT)
            fix = Statement(finding.fix, {**finding.values, **more})
            yield Advice(
                steps=(step,),
                because=(Statement(finding.code, finding.values), fix),
                changes=(),
                risk_before=None,
                risk_after=None,
            )
