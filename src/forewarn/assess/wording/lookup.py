"""From evidence to words, by the one table of all codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forewarn.assess.assessment import Advice, Finding, Oddity, Reason, Saving
from forewarn.assess.finding_codes import FixCode
from forewarn.assess.wording import changes, findings, fixes, oddities, reasons, routes, similar
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
}


class HasEvidence(Protocol):
    """Whatever has a code and values."""

    @property
    def code(self) -> Code:
        """What is said."""

    @property
    def values(self) -> Values:
        """Of what."""


def words(evidence: HasEvidence, reader: Reader = YOU) -> str:
    """What a piece of evidence says to a reader."""
    return filled(TABLE[evidence.code], evidence.values, reader)


def each(some: Sequence[HasEvidence], reader: Reader = YOU) -> list[str]:
    """The words of several."""
    return [words(one, reader) for one in some]


def reason(of: Reason, reader: Reader = YOU) -> str:
    """Why the risk is higher or lower."""
    return words(of, reader)


def oddity(of: Oddity, reader: Reader = YOU) -> str:
    """What does not fit, in each partition that the job names."""
    doubted = " (by what was last seen of the cluster)" if "sbatch_accepts" in of.values else ""
    return "; ".join(each((of, *of.elsewhere), reader)) + doubted


def finding(of: Finding, reader: Reader = YOU) -> str:
    """What is wrong in the script."""
    return words(of, reader)


def fix(of: Finding, reader: Reader = YOU) -> str | None:
    """What to do about it; None where nothing is known."""
    return None if of.fix is None else words(Statement(of.fix, of.values), reader)


def what(of: Advice | Saving, reader: Reader = YOU) -> str:
    """What to change."""
    return " and ".join(each(of.steps, reader))


def why(of: Advice | Saving, reader: Reader = YOU) -> str:
    """The evidence for it; a fix follows what it puts right."""
    said = ""
    for one in of.because:
        link = ": " if isinstance(one.code, FixCode | ProblemFix) else "; "
        said += (link if said else "") + words(one, reader)
    return said


def passed(of: Statement, reader: Reader = YOU) -> str:
    """Why a model passed the job on, with which one it is."""
    model = of.values.get("model")
    return f"{model}: {words(of, reader)}" if model else words(of, reader)
