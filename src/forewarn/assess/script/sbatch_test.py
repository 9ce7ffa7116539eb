"""`sbatch --test-only`: what the scheduler itself says to a script. It submits nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode
from forewarn.evidence import Values
from forewarn.local_host import sbatch

# 26.05 writes " a" behind the time; of a heterogeneous job no partition is told.
_STARTS = re.compile(
    r"Job \d+ to start at (\S+)(?: a)? using (\d+) processors on (?:nodes )?(\S+)(?: in partition (\S+))?"
)
_AWAY = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection refused|Zero Bytes|_SLURM_CONF|fetch_config"
    r"|timed out|[Mm]unge|authentication"
)
_OF_SBATCH = re.compile(r"^(sbatch:|allocation failure:)", re.MULTILINE)
# What may keep it from starting now only, and what that means. With all nodes drained, 22.05 to 26.05 say of
# any job that its node configuration is not available, and take it all the same when it is submitted.
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
    """What sbatch says: whether it would take the script (None: it may), and that as a finding.

    `beside` is what else it writes where it accepts, such as a notice of the site.
    """

    accepts: bool | None
    finding: Finding
    beside: Finding | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that it writes."""
        return (self.finding,) if self.beside is None else (self.finding, self.beside)


def ask_sbatch(
    script: bytes,
    options: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 10.0,
) -> SbatchAnswer | None:
    """Ask `sbatch --test-only` about a script; None without sbatch, an answer in time, or a reachable Slurm."""
    output = sbatch.test_only(script, options, environment=environment, folder=folder, timeout=timeout)
    return None if output is None else read_answer(*output)


def read_answer(code: int, text: str) -> SbatchAnswer | None:
    """What sbatch's exit code and its words mean.

    >>> read_answer(1, "sbatch: error: Batch script is empty!\\n").finding.values
    {'answer': 'Batch script is empty!', 'exit_code': 1}
    """
    if _AWAY.search(text):
        return None
    if (match := _STARTS.search(text)) is not None:
        starts: Values = {"start": match[1], "nodes": match[3], "partition": match[4], "cpus": int(match[2])}
        rest = _words(line for line in text.splitlines() if not _STARTS.search(line))
        beside = _finding(FindingCode.SBATCH_REMARKS, {"answer": rest}, "note") if rest else None
        return SbatchAnswer(True, _finding(FindingCode.SBATCH_ACCEPTS, starts, "note"), beside)
    if code == 0 or not _OF_SBATCH.search(text):
        return None  # no answer, or not sbatch's own: a wrapper of the site, say
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
