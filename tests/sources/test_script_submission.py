"""Scripts as submissions: every option that sbatch reads is a field, or an error that names it."""

from __future__ import annotations

import pytest

from forewarn.errors import UsageError
from forewarn.job.sbatch.option_table import OPTIONS, Argument
from forewarn.job.units import UNLIMITED
from forewarn.sources.commands.changes import submit_options
from forewarn.sources.slurm.job_requests import ENVIRONMENT, LOGIN_ENVIRONMENT, JobUpdate
from forewarn.sources.slurm.script_submission import SUPPORTED, submission_from_script
from forewarn.sources.slurmrestd.submit_request import submit_request, update_request

MUCH = """#!/bin/bash
#SBATCH --job-name=much -p long,short -A sci -q high --reservation=r1 -C "a100&nvme"
#SBATCH -t 1-12:00:00 -N 2-4 --ntasks-per-node=8 -c 2 --mem-per-cpu=2G
#SBATCH --gpus=a100:2 --gpus-per-node=1 --gpus-per-task=1 --gres=gpu:1,nvme:100
#SBATCH --exclusive --array=1-9%3 -d afterok:7:8 -w n1 -x "n[2-3]" --hold --requeue --nice=50
#SBATCH --comment='a b' -L matlab:1 --wckey=k -o out.%j -e err.%j -i in.txt
#SBATCH --mail-type=end,fail --mail-user=a@example.org --export=ALL,A=1 --chdir=sub --parsable
srun ./a
"""


def test_every_field() -> None:
    job = submission_from_script(MUCH, ["-q", "low"], work_dir="/w", environment={"PATH": "/bin"})
    assert (job.name, job.partition, job.account, job.qos) == ("much", "long,short", "sci", "low")
    assert (job.reservation, job.constraint, job.time_limit) == ("r1", "a100&nvme", 36 * 3600)
    assert (job.nodes, job.max_nodes, job.tasks_per_node, job.cpus_per_task) == (2, 4, 8, 2)
    assert (job.memory_per_cpu, job.memory_per_node) == (2 << 30, None)
    assert (job.gpus, job.gpus_per_node, job.gpus_per_task, job.gres) == (
        "a100:2",
        "1",
        "1",
        "gpu:1,nvme:100",
    )
    assert (job.exclusive, job.array, job.dependency) == (True, "1-9%3", "afterok:7:8")
    assert (job.required_nodes, job.excluded_nodes, job.hold, job.requeue) == ("n1", "n[2-3]", True, True)
    assert (job.nice, job.comment, job.licenses, job.wckey) == (50, "a b", "matlab:1", "k")
    assert (job.output, job.error, job.input) == ("out.%j", "err.%j", "in.txt")
    assert (job.mail_type, job.mail_user) == ("end,fail", "a@example.org")
    assert (job.environment, job.work_dir) == ({"PATH": "/bin", "A": "1"}, "/w/sub")


def test_every_field_over_rest() -> None:
    job = submission_from_script(MUCH, work_dir="/w")
    sent = submit_request(job, "v0.0.42")["job"]
    assert sent["nodes"] == "2-4"
    assert sent["excluded_nodes"] == ["n2", "n3"]
    assert sent["tres_per_node"] == "gres/gpu:1,gres/gpu:1,gres/nvme:100"
    assert (sent["tres_per_job"], sent["shared"]) == ("gres/gpu:a100:2", ["none"])
    assert sent["mail_type"] == ["END", "FAIL"]
    with pytest.raises(UsageError, match=r"v0\.0\.38 has no field for a range of nodes"):
        submit_request(job, "v0.0.38")


def test_every_field_by_sbatch() -> None:
    options = submit_options(submission_from_script(MUCH, work_dir="/w"))
    assert {"--nodes=2-4", "--exclusive", "--hold", "--requeue", "--mem-per-cpu=2048M"} <= set(options)
    assert "--no-requeue" in submit_options(
        submission_from_script("#!/bin/sh\n", ["--no-requeue"], work_dir="/")
    )


@pytest.mark.parametrize("option", sorted(set(OPTIONS) - SUPPORTED - {"tasks-per-node"}))
def test_what_cannot_be_submitted_is_named(option: str) -> None:
    value = "=1" if OPTIONS[option].argument is not Argument.NONE else ""
    with pytest.raises(UsageError, match=rf"line 2: .*{OPTIONS[option].means}"):
        submission_from_script(f"#!/bin/sh\n#SBATCH --{option}{value}\ntrue\n", work_dir="/")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--mem=lots", "line 2: .*--mem"),
        ("--nonsense", "line 2: .*nonsense"),
        (
            "--memo=4G",
            r"^line 2: there is no option --memo \(did you mean --mem\?\); correct or remove it, or",
        ),
        ("--memo=4G --hint", "; correct or remove them, or use sbatch"),
        ("--exclusive=user", "--exclusive=user"),
        ("--nice=much", "--nice=much"),
        ("hetjob\n#SBATCH -N2", "heterogeneous"),
        ("'", "line 2"),
    ],
)
def test_wrong_options_are_named(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        submission_from_script(f"#!/bin/sh\n#SBATCH {line}\ntrue\n", work_dir="/")


def test_a_script_must_name_its_shell() -> None:
    with pytest.raises(UsageError, match="#!"):
        submission_from_script("echo\n", work_dir="/")


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("ALL", {"A": "1", "B": "2"}),
        ("A", {"A": "1", **LOGIN_ENVIRONMENT}),
        ("NONE", dict(LOGIN_ENVIRONMENT)),
        ("NIL", dict(ENVIRONMENT)),
        ("C=3", {"C": "3", **LOGIN_ENVIRONMENT}),
        ("C=3,ALL", {"A": "1", "B": "2", "C": "3"}),
    ],
)
def test_the_environment(export: str, expected: dict[str, str]) -> None:
    job = submission_from_script(
        "#!/bin/sh\n", [f"--export={export}"], work_dir="/", environment={"A": "1", "B": "2"}
    )
    assert job.environment == expected


def test_updates() -> None:
    assert update_request(JobUpdate(time_limit=UNLIMITED), "v0.0.42")["time_limit"]["infinite"]
    assert update_request(JobUpdate(excluded_nodes=""), "v0.0.42") == {"excluded_nodes": []}
    with pytest.raises(UsageError, match="nothing to change"):
        _ = JobUpdate().changes
