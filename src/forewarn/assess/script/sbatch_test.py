"""The scheduler's own answer to a script, by `sbatch --test-only`, which submits nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode
from forewarn.evidence import Values
from forewarn.local_host import sbatch

# 26.05 writes " a" after the time; for a heterogeneous job there is no partition.
_STARTS = re.compile(
    r"Job \d+ to start at (\S+)(?: a)? using (\d+) processors on (?:nodes )?(\S+)(?: in partition (\S+))?"
)
_UNREACHABLE = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection refused|Zero Bytes|_SLURM_CONF|fetch_config"
    r"|timed out|[Mm]unge|authentication"
)
_OF_SBATCH = re.compile(r"^(sbatch:|allocation failure:)", re.MULTILINE)
# Answers that may hold only for now, and their meaning. With all nodes drained, 22.05 to 26.05 answer for any
# job that its node configuration is not available, and still accept it when it is submitted.
_FOR_NOW = (
    (
        re.compile(r"node configuration is not available|down, drained or reserved"),
        "no_node_in_service",
    ),
    (re.compile(r"nodes are busy"), "nodes_are_busy"),
    (
        re.compile(r"accounting/QOS|QOS policy"),
        "limit_of_account",
    ),
)


@dataclass(frozen=True, slots=True)
class SbatchAnswer:
    """The answer of sbatch: whether it accepts the script (None: it may later), and that as a finding.

    `remark` is what else it writes when it accepts, such as a notice of the site.
    """

    accepts: bool | None
    finding: Finding
    remark: Finding | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The answer and the remark as findings."""
        return (self.finding,) if self.remark is None else (self.finding, self.remark)


def ask_sbatch(
    script: bytes,
    options: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 10.0,
) -> SbatchAnswer | None:
    """Ask `sbatch --test-only` about a script; None without sbatch, a reachable Slurm or a timely answer."""
    output = sbatch.run_test_only(script, options, environment=environment, folder=folder, timeout=timeout)
    return None if output is None else read_answer(*output)


def read_answer(code: int, text: str) -> SbatchAnswer | None:
    """Interpret the exit code and the output of sbatch.

    >>> read_answer(1, "sbatch: error: Batch script is empty!\\n").finding.values
    {'answer': 'Batch script is empty!', 'exit_code': 1}
    """
    if _UNREACHABLE.search(text):
        return None
    if (match := _STARTS.search(text)) is not None:
        starts: Values = {"start": match[1], "nodes": match[3], "partition": match[4], "cpus": int(match[2])}
        rest = _words(line for line in text.splitlines() if not _STARTS.search(line))
        remark = _finding(FindingCode.SBATCH_REMARKS, {"answer": rest}, "note") if rest else None
        return SbatchAnswer(True, _finding(FindingCode.SBATCH_ACCEPTS, starts, "note"), remark)
    if code == 0 or not _OF_SBATCH.search(text):
        return None  # no answer, or not from sbatch: for example from a wrapper of the site
    words = _words(line for line in text.splitlines() if not line.startswith('Try "sbatch'))
    for pattern, reason in _FOR_NOW:
        if pattern.search(words):
            values = {"answer": words, "why": reason}
            return SbatchAnswer(None, _finding(FindingCode.SBATCH_REFUSES_NOW, values, "warning"))
    refused: Values = {"answer": words, "exit_code": code}
    return SbatchAnswer(False, _finding(FindingCode.SBATCH_REFUSES, refused, "error"))


def _finding(code: FindingCode, values: Values, severity: str) -> Finding:
    return Finding(rule="test-only", code=code, values=values, severity=severity, about="submission")


def _words(lines: Iterable[str]) -> str:
    return " ".join(plain for line in lines if (plain := _plain(line)))


def _plain(line: str) -> str:
    for prefix in ("sbatch:", "error:", "fatal:", "allocation failure:"):
        line = line.strip().removeprefix(prefix)
    return line.strip()
