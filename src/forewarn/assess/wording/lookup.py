"""Turn evidence into English, by one table of all codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forewarn.assess.assessment import Advice, Finding, Oddity, Reason, Saving
from forewarn.assess.finding_codes import FixCode
from forewarn.assess.wording import changes, findings, fixes, oddities, reasons, retries, routes, similar
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.assess.wording.templates import Table, filled
from forewarn.evidence import Code, Statement, Values
from forewarn.job.sbatch.problems import ProblemFix

TABLE: Table = {
    **reasons.TABLE,
    **oddities.TABLE,
    **changes.TABLE,
    **findings.TABLE,
    **fixes.TABLE,
    **routes.TABLE,
    **similar.TABLE,
    **retries.TABLE,
}


class HasEvidence(Protocol):
    """A part of an assessment that has a code and values."""

    @property
    def code(self) -> Code:
        """The code of the statement."""

    @property
    def values(self) -> Values:
        """The values that belong to the code."""


def words(evidence: HasEvidence, reader: Reader = YOU) -> str:
    """Write a piece of evidence in English."""
    return filled(TABLE[evidence.code], evidence.values, reader)


def each(evidence: Sequence[HasEvidence], reader: Reader = YOU) -> list[str]:
    """Write several pieces of evidence, one text for each."""
    return [words(one, reader) for one in evidence]


def reason(of: Reason, reader: Reader = YOU) -> str:
    """Write why the risk is higher or lower."""
    return words(of, reader)


def oddity(of: Oddity, reader: Reader = YOU) -> str:
    """Write what does not fit, in each partition that the job names."""
    doubt = " (by the last known state of the cluster)" if "sbatch_accepts" in of.values else ""
    return "; ".join(each((of, *of.elsewhere), reader)) + doubt


def finding(of: Finding, reader: Reader = YOU) -> str:
    """Write what is wrong in the script."""
    return words(of, reader)


def fix(of: Finding, reader: Reader = YOU) -> str | None:
    """Write what to do about a finding; None where no fix is known."""
    return None if of.fix is None else words(Statement(of.fix, of.values), reader)


def what(of: Advice | Saving, reader: Reader = YOU) -> str:
    """Write what to change."""
    return " and ".join(each(of.steps, reader))


def why(of: Advice | Saving, reader: Reader = YOU) -> str:
    """Write the evidence for a change; a fix follows the problem that it solves."""
    text = ""
    for one in of.because:
        link = ": " if isinstance(one.code, FixCode | ProblemFix) else "; "
        text += (link if text else "") + words(one, reader)
    return text


def passed(of: Statement, reader: Reader = YOU) -> str:
    """Write why a model passed the job on, with the model's name."""
    model = of.values.get("model")
    return f"{model}: {words(of, reader)}" if model else words(of, reader)
