"""What people run: each scene is a script for sbatch, done right or with one of the usual mistakes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

SITE = "/home/site"
"""Where the programs are, inside the lab, readable by all."""


@dataclass(frozen=True, slots=True)
class Request:
    """One submission: options of sbatch and a script."""

    options: tuple[str, ...]
    script: str


def compiled(luck: random.Random, mistake: bool) -> Request:
    """Compile a C program and run it; wrong: a missing header, or a point outside of the plate (SIGSEGV)."""
    size, steps = luck.choice((100, 200, 300)), luck.randint(20, 200)
    fault = luck.choice(("-DWITH_FFT", "99999999999")) if mistake else ""
    flag, point = (fault, "") if fault.startswith("-D") else ("", fault)
    script = (
        f"set -e\ncc {flag} -o heat.$SLURM_JOB_ID {SITE}/heat.c\n./heat.$SLURM_JOB_ID {size} {steps} {point}"
    )
    return Request(("-J", "heat", "-t", "10", "--mem=200", "-c", str(luck.choice((1, 2, 4)))), script)


def analysed(luck: random.Random, mistake: bool) -> Request:
    """Request a Python script; wrong: without its package (exit code 1)."""
    setup = "" if mistake else f"export PYTHONPATH={SITE}/packages\n"
    script = f"{setup}seq {luck.randint(1000, 50000)} >table.$SLURM_JOB_ID\n"
    script += f"python3 {SITE}/analyse.py table.$SLURM_JOB_ID"
    return Request(("-J", "analyse", "-t", "5", "--mem=150"), script)


def assembled(luck: random.Random, mistake: bool) -> Request:
    """Request a program that grows; wrong: with less memory than it needs (OUT_OF_MEMORY)."""
    need = luck.choice((60, 100, 140))
    asked = need // 2 if mistake else need + 80
    script = f"python3 {SITE}/assemble.py {need} {luck.randint(2, 8)}"
    return Request(("-J", "assemble", "-t", "10", f"--mem={asked}"), script)


def stepped(luck: random.Random, mistake: bool) -> Request:
    """Request several steps over two nodes, as MPI programs do; wrong: one task of a step fails."""
    last = "false" if mistake else "hostname"
    script = f"set -e\nsrun -n 4 hostname\nsrun -n 2 sleep {luck.randint(1, 4)}\nsrun -n 2 {last}"
    return Request(("-J", "coupled", "-N", "2", "-n", "4", "-t", "5", "--mem=100"), script)


def written(luck: random.Random, mistake: bool) -> Request:
    """Write and read a file; wrong: more than the limit of the file system lets through (SIGXFSZ)."""
    limit = "ulimit -f 1000\n" if mistake else ""
    script = f"set -e\n{limit}dd if=/dev/zero of=out.$SLURM_JOB_ID bs=64k count={luck.randint(50, 200)}\n"
    script += "md5sum out.$SLURM_JOB_ID; rm out.$SLURM_JOB_ID"
    return Request(("-J", "write", "-t", "5", "--mem=100"), script)


def preprocessed(luck: random.Random, mistake: bool) -> Request:
    """Count the lines of an input; wrong: a file that is not there (exit code 2)."""
    name = f"missing-{luck.randint(1, 9)}.csv" if mistake else "/etc/passwd"
    script = (
        f"test -r {name} || {{ echo 'no such input: {name}' >&2; exit 2; }}\nsort {name} | uniq -c | wc -l"
    )
    return Request(("-J", "prepare", "-t", "5", "--mem=100"), script)


def simulated(luck: random.Random, mistake: bool) -> Request:
    """Request a run of known length; wrong: with a shorter limit (TIMEOUT)."""
    seconds, limit = (240, 1) if mistake else (luck.randint(3, 30), 5)
    return Request(("-J", "simulate", "-t", str(limit), "--mem=100"), f"sleep {seconds}; echo done")


def swept(luck: random.Random, mistake: bool) -> Request:
    """Request an array over parameters; wrong: some of them do not converge (exit code 4)."""
    fails = "test $((SLURM_ARRAY_TASK_ID % 3)) -ne 0 || exit 4" if mistake else "true"
    script = f"sleep {luck.randint(1, 3)}; {fails}"
    return Request(("-J", "sweep", f"--array=0-{luck.randint(3, 6)}%3", "-t", "5", "--mem=50"), script)


def idled(luck: random.Random, mistake: bool) -> Request:
    """Request a job of low priority on a whole node, until preempted (PREEMPTED) or done."""
    seconds = 120 if mistake else luck.randint(5, 15)
    return Request(("-J", "scavenge", "-p", "low", "-t", "10", "--mem=1000", "-c", "32"), f"sleep {seconds}")


Scene = Callable[[random.Random, bool], Request]

SCENES: dict[str, Scene] = {
    "heat": compiled,
    "analyse": analysed,
    "assemble": assembled,
    "coupled": stepped,
    "write": written,
    "prepare": preprocessed,
    "simulate": simulated,
    "sweep": swept,
    "scavenge": idled,
}
