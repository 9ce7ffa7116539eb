"""What `sbatch --test-only` writes, and what is read from it."""

from __future__ import annotations

import pytest

from forewarn.assess.script.sbatch_agreement import reconcile_findings
from forewarn.assess.script.sbatch_test import read_answer
from forewarn.assess.wording import finding as what

# Slurm 24.11 wrote these in a lab: to a good script, one for 99 nodes (or any with all nodes drained), one
# beyond the jobs of a QOS, and one beyond the time limit of a QOS with DenyOnLimit.
STARTS = "sbatch: Job 1 to start at 2026-11-17T19:43:29 using 2 processors on nodes nb1 in partition main\n"
NODES = "allocation failure: Requested node configuration is not available\n"
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
JOBS = f"sbatch: error: QOSMaxSubmitJobPerUserLimit\nallocation failure: {POLICY}\n"
TIME = f"sbatch: error: QOSMaxWallDurationPerJobLimit\nallocation failure: {POLICY}\n"
# From its list of errors.
BUSY = "allocation failure: Requested nodes are busy\n"


def test_nodes_that_are_not_in_service() -> None:
    answer = read_answer(1, NODES)
    assert answer is not None
    assert (answer.accepts, answer.finding.severity) == (None, "warning")
    assert what(answer.finding) == (
        "sbatch --test-only: Requested node configuration is not available: "
        "no node in service can run it at present"
    )


LIMIT = "a limit of the account or QOS, which may depend on its present jobs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JOBS, f"QOSMaxSubmitJobPerUserLimit {POLICY}: {LIMIT}"),
        (TIME, f"QOSMaxWallDurationPerJobLimit {POLICY}: {LIMIT}"),
        (BUSY, "Requested nodes are busy: other jobs use these nodes at present"),
    ],
)
def test_other_reasons_of_the_moment_are_not_put_down_to_the_nodes(text: str, message: str) -> None:
    answer = read_answer(1, text)
    assert answer is not None
    assert (answer.accepts, answer.finding.severity) == (None, "warning")
    assert what(answer.finding) == f"sbatch --test-only: {message}"


def test_what_a_site_writes_beside_the_start_is_shown() -> None:
    notice = "sbatch: Please move to partition new until December\nsbatch: \nsbatch: Thank you\n"
    answer = read_answer(0, notice + STARTS)
    assert answer is not None
    assert answer.accepts is True
    start, remark = answer.findings
    assert what(start) == ("sbatch --test-only: would start 2026-11-17T19:43:29 on nb1 (main), 2 processors")
    assert what(remark) == (
        "sbatch --test-only also reports: Please move to partition new until December Thank you"
    )
    assert (remark.severity, remark.about) == ("note", "submission")
    assert reconcile_findings((), answer) == (start, remark)


def test_a_start_alone_is_one_finding() -> None:
    answer = read_answer(0, STARTS)
    assert answer is not None
    assert len(answer.findings) == 1


@pytest.mark.parametrize(
    "text",
    [
        "wrapper: the cluster is not up",
        "sbatch: error: Munge encode failed: Failed to access socket",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    ],
)
def test_who_could_not_be_asked_refuses_nothing(text: str) -> None:
    assert read_answer(1, text) is None
