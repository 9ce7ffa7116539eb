"""Slurm's commands as a scheduler: small scripts on PATH that print what the real ones printed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.errors import (
    CommandError,
    ControllerDownError,
    DatabaseDownError,
    NoAccountingError,
    NoRoomError,
    RefusedError,
    SlowAnswerError,
    UsageError,
)
from forewarn.sources.commands import CommandScheduler
from forewarn.sources.commands.runner import Runner
from forewarn.sources.commands.scheduler import FIELDS
from forewarn.sources.commands.sdiag import read_sdiag
from forewarn.sources.sacct.fields import FIELDS as KNOWN
from forewarn.sources.slurm.connect import choose_scheduler, connect
from forewarn.sources.slurm.job_requests import JobSubmission
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.windows import WindowLength
from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
from tests.sources.fake_slurmrestd import NOW, FakeTime
from tests.sources.test_slurmrestd import RECORDED

SACCT = "JobID|Cluster|Submit|Eligible|Start|End|State|NodeList\n"


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str, str], Path]:
    """Create commands that record their arguments in a file beside them."""

    def make(name: str, body: str) -> Path:
        file = tmp_path / name
        file.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/{name}.asked\n{body}\n')
        file.chmod(0o755)
        return file

    return make


def calls_of(folder: Path, name: str) -> list[str]:
    return (folder / f"{name}.asked").read_text().splitlines()


def scheduler(
    folder: Path, *, tries: int = 1, timeout: float = 20, cluster: str | None = "lab"
) -> CommandScheduler:
    clock = FakeTime().clock
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "SACCT_FORMAT": "JobID"}
    runner = Runner(timeout=timeout, environ=environ, retry=RetryPolicy(tries=tries, clock=clock))
    return CommandScheduler(runner, cluster=cluster, clock=clock, span=WindowLength(seconds=500, longest=500))


HELP = f'test "$1" = --helpformat && {{ echo {" ".join(FIELDS)}; exit; }}\n'


def test_history_by_sacct(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    early = f"1|lab|{NOW - 990}|{NOW - 990}|{NOW - 900}|{NOW - 800}|COMPLETED|n1\n"
    late = f"2|lab|{NOW - 990}|{NOW - 990}|{NOW - 900}|{NOW - 100}|FAILED|n1\n"
    held = f"4|lab|{NOW - 990}|Unknown|None|{NOW - 50}|CANCELLED by 7|None assigned\n"
    body = HELP + f'printf "{SACCT}{early}{late}{held}"'
    command("sacct", body.replace("\n1|", "\\n1|"))
    pieces = list(scheduler(tmp_path).history(NOW - 1000))
    found = {name: piece.reached for piece in pieces for name in piece.batch.frame["job_id"]}
    assert found.keys() == {"1", "2", "4"}
    assert sum(piece.batch.frame.height for piece in pieces) == 3
    assert (pieces[-1].reached, pieces[0].batch.frame["source"][0]) == (NOW, "sacct")
    calls = calls_of(tmp_path, "sacct")[1:]
    assert len(calls) == 2
    assert calls[0].startswith(
        f"-a -P -D -S uts{NOW - 1000} -E uts{NOW - 500} -s COMPLETED,FAILED,CANCELLED,"
    )


def test_jobs_that_accounting_is_asked_about(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    early = f"1|lab|{NOW - 990}|{NOW - 990}|{NOW - 900}|{NOW - 800}|COMPLETED|n1\n"
    command("sacct", HELP + f'printf "{SACCT}{early}"')
    (batch,) = scheduler(tmp_path).accounting_records(["1", "7_3"])
    assert batch.frame["job_id"].to_list() == ["1"]
    assert calls_of(tmp_path, "sacct")[-1].startswith("-a -P -D -j 1,7_3 -o ")


def test_what_has_no_room_is_not_taken_for_whole(
    command: Callable[[str, str], Path], tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacct itself would end with exit code 0."""
    row = f"1|lab|{NOW - 990}|{NOW - 990}|{NOW - 900}|{NOW - 800}|COMPLETED|n1\n"
    command("sacct", HELP + f'printf "{SACCT}"; yes "{row.strip()}" | head -n 100000')
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(NoRoomError, match=f"{small_disk}: .*TMPDIR"):
        list(scheduler(tmp_path).history(NOW - 1000))


def test_a_slurm_without_accounting(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("sacct", HELP + 'echo "Slurm accounting storage is disabled" >&2; exit 1')
    command("scontrol", 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')
    with pytest.raises(NoAccountingError):
        list(scheduler(tmp_path).history(NOW - 1000))
    assert list(scheduler(tmp_path).job("7")) == []


def test_only_fields_that_this_sacct_has(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("sacct", f'test "$1" = --helpformat && echo "JobID Submit State End" || printf "{SACCT}"')
    assert all(piece.batch.frame.is_empty() for piece in scheduler(tmp_path).history(NOW - 10, steps=False))
    assert calls_of(tmp_path, "sacct")[1].endswith("-o JobID,Submit,End,State")
    assert set(FIELDS) <= set(KNOWN)


@pytest.mark.shared_data
@pytest.mark.parametrize("release", ["22.05.8", "24.11.5", "26.05.5"])
def test_what_the_real_commands_printed(
    shared_data: Path, command: Callable[[str, str], Path], tmp_path: Path, release: str
) -> None:
    printed = RECORDED / release / "cli"
    command(
        "sacct",
        f'case "$*" in --helpformat) cat {printed}/sacct_helpformat.txt;; *"-s CA"*) head -1 '
        f"{printed}/sacct_steps_ALL.psv;; *) cat {printed}/sacct_steps_ALL.psv;; esac",
    )
    command(
        "scontrol",
        f'case "$*" in *"show job"*) cat {printed}/scontrol_show_job_detail_oneline.txt;; *"show node"*) cat '
        f"{printed}/scontrol_show_node.txt;; *config*) cat {printed}/scontrol_show_config.txt;; "
        f"*ping*) echo Slurmctld is UP;; *) cat {printed}/scontrol_show_partition.txt;; esac",
    )
    command("sdiag", f"cat {printed}/sdiag.txt")
    slurm = scheduler(tmp_path, cluster=None)
    assert slurm.cluster == "lab"
    assert slurm.ping()
    found = slurm.diag()
    assert found.at > 1.7e9
    assert found.calls["REQUEST_JOB_INFO"][0] > 0
    (jobs,) = slurm.live_jobs()
    assert jobs.frame.height > 15
    assert set(jobs.frame["seen_at"]) == {NOW}
    assert not jobs.frame["reconstructed"].any()
    assert sum(batch.frame.height for batch in slurm.nodes()) in (2, 4)
    assert [batch.frame["name"].to_list() for batch in slurm.partitions()] == [["main", "short"]]
    slurm._span.seconds = slurm._span.longest = 10**9
    assert sum(piece.batch.frame.height for piece in slurm.history(NOW - 10**8)) >= 18
    fields = calls_of(tmp_path, "sacct")[1].rpartition("-o ")[2].split(",")
    assert ("Restarts" in fields) == (release != "22.05.8")


def test_nothing_there(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("scontrol", "echo No jobs in the system")
    assert list(scheduler(tmp_path).live_jobs()) == []


def test_one_job_and_where_it_is_looked_for(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    command("sacct", HELP + f'printf "{SACCT}7_1|lab|5|5|6|7|FAILED|n1\\n7_2|lab|5|5|6|7|FAILED|n1\\n"')
    found = [name for batch in scheduler(tmp_path).job("7_2") for name in batch.frame["job_id"]]
    assert found == ["7_2"]
    assert "-j 7 " in calls_of(tmp_path, "sacct")[1]


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        ("sacct: error: Problem talking to the database: Connection refused", DatabaseDownError, "slurmdbd"),
        (
            "slurm_load: Unable to contact slurm controller (connect failure)",
            ControllerDownError,
            "slurmctld",
        ),
        ("scontrol: Access/permission denied", RefusedError, "denied"),
        ("something new", CommandError, "something new"),
        ("", CommandError, "exit code 3"),
    ],
)
def test_what_a_failure_means(
    command: Callable[[str, str], Path], tmp_path: Path, message: str, error: type[Exception], words: str
) -> None:
    command("scontrol", f"echo '{message}' >&2; exit 3")
    with pytest.raises(error, match=words):
        list(scheduler(tmp_path).nodes())


def test_passing_trouble_is_tried_again(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    flag = tmp_path / "second"
    command(
        "sdiag",
        f"test -e {flag} && echo 'sdiag output at x (5)' && exit; touch {flag}; echo slurmdbd >&2; exit 1",
    )
    assert scheduler(tmp_path, tries=2).diag().at == 5


def test_a_command_that_hangs_or_is_not_there(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("sdiag", "exec sleep 20")
    with pytest.raises(SlowAnswerError, match="sdiag: no answer within"):
        scheduler(tmp_path, timeout=0.3).diag()
    with pytest.raises(CommandError, match="scontrol: no such command on PATH"):
        scheduler(tmp_path).ping()
    command("scontrol", "echo Slurmctld is DOWN; exit 1")
    assert not scheduler(tmp_path).ping()
    with pytest.raises(CommandError, match="no time"):
        read_sdiag("nonsense")


def test_a_persons_defaults_do_not_change_what_is_printed(
    command: Callable[[str, str], Path], tmp_path: Path
) -> None:
    command("scontrol", 'echo "ClusterName = $SACCT_FORMAT$SLURM_TIME_FORMAT"')
    assert scheduler(tmp_path, cluster=None).cluster == "%s"


def test_submit_and_cancel(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("sbatch", f"cat > {tmp_path}/script; echo '12;lab'")
    command(
        "scontrol",
        "case \"$*\" in *99*) echo 'Invalid job id specified' >&2; exit 1;; *) echo JobId=12;; esac",
    )
    command("scancel", "true")
    job = JobSubmission(script="#!/bin/sh\n", work_dir="/w", time_limit=61, memory_per_node=5 << 20, tasks=2)
    slurm = scheduler(tmp_path)
    assert slurm.submit(job) == "12"
    (options,) = calls_of(tmp_path, "sbatch")
    assert (
        options
        == "--parsable --chdir=/w --time=2 --ntasks=2 --mem=5M --export=PATH=/usr/local/bin:/usr/bin:/bin"
    )
    assert (tmp_path / "script").read_text() == job.script
    slurm.cancel("12_3")
    assert calls_of(tmp_path, "scancel") == ["12_3"]
    with pytest.raises(RefusedError) as error:
        slurm.cancel("99")
    assert error.value.code == 2017
    with pytest.raises(UsageError, match="cannot contain a comma"):
        slurm.submit(JobSubmission(script="", work_dir="/", environment={"A": "b,c"}))


def test_which_way_is_taken(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    command("sacct", "true")
    there, nowhere = {"PATH": str(tmp_path)}, {"PATH": "/nowhere"}
    rest = Config(slurmrestd="http://h:1")
    assert choose_scheduler(rest, nowhere) == "slurmrestd"
    assert choose_scheduler(Config(), there) == "commands"
    assert choose_scheduler(Config(scheduler="commands", slurmrestd="http://h:1"), there) == "commands"
    with pytest.raises(UsageError, match="no scheduler: set slurmrestd"):
        choose_scheduler(Config(), nowhere)
    with pytest.raises(UsageError, match="its address is not set"):
        choose_scheduler(Config(scheduler="slurmrestd"), there)
    assert isinstance(connect(Config(), environ=there), CommandScheduler)
    client = connect(rest, environ=nowhere)
    assert isinstance(client, SlurmrestdScheduler)
    client.close()


def test_history_holds_the_scripts(command: Callable[[str, str], Path], tmp_path: Path) -> None:
    head = "JobID|Cluster|Submit|Eligible|Start|End|State|NodeList|SubmitLine\\n"
    times = f"lab|{NOW - 990}|{NOW - 990}|{NOW - 900}|{NOW - 800}|COMPLETED|n1"
    rows = f"1|{times}|sbatch a.sh\\n2|{times}|srun python x.py\\n"
    rows += f"3_1|{times}|/usr/bin/sbatch b.sh\\n3_2|{times}|/usr/bin/sbatch b.sh\\n"
    script = "Batch Script for 1\\n" + "-" * 80 + "\\n#!/bin/sh\\nmodule load gcc\\nsrun julia a.jl\\n"
    for task in ("3_1", "3_2"):
        script += f"Batch Script for {task}\\n" + "-" * 80 + "\\n#!/bin/sh\\ntrue\\n"
    help_ = f'test "$1" = --helpformat && {{ echo {" ".join(FIELDS)}; exit; }}\n'
    kinds = f'-B*) printf -- "{script}";; *"-s CA"*) printf "{head}";; *) printf "{head}{rows}";;'
    command("sacct", f'{help_}case "$*" in {kinds} esac')
    command("scontrol", 'echo "AccountingStoreFlags    = job_comment,job_env,job_script"')
    frames = [piece.batch.frame for piece in scheduler(tmp_path).history(NOW - 1000)]
    jobs = {row["job_id"]: row for frame in frames for row in frame.iter_rows(named=True)}
    first = jobs["1"]
    assert (first["script_language"], first["script_launcher"]) == ("julia", "srun")
    assert first["script_modules"] == "gcc"
    assert len(first["script_hash"]) == 16
    assert (jobs["2"]["script_language"], jobs["2"]["script_launcher"]) == ("python", "srun")
    assert jobs["3_1"]["script_hash"] == jobs["3_2"]["script_hash"] != first["script_hash"]
    assert jobs["3_1"]["script_hash"] is not None
    assert [call for call in calls_of(tmp_path, "sacct") if "-B" in call]


def test_no_script_is_asked_for_where_none_is_kept(
    command: Callable[[str, str], Path], tmp_path: Path
) -> None:
    head = "JobID|Cluster|Submit|Eligible|Start|End|State|NodeList|SubmitLine\\n"
    row = f"1|lab|{NOW - 990}|{NOW - 990}|{NOW - 900}|{NOW - 800}|COMPLETED|n1|sbatch a.sh\\n"
    command("sacct", HELP + f'printf "{head}{row}"')
    command("scontrol", 'echo "AccountingStoreFlags    = (null)"')
    assert list(scheduler(tmp_path).history(NOW - 1000))
    assert not [call for call in calls_of(tmp_path, "sacct") if "-B" in call]
