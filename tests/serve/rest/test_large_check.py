"""The largest scripts that a service takes cost little: whoever sends them did not pay for its processor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from time import process_time

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.operate.check_text import MOST_LINES, MOST_OPTION_BYTES, check_text
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import open_store

pytestmark = pytest.mark.slow

BEGIN = "#!/bin/bash\n#SBATCH --mem=50M --time=1 -n 1\n"
LINES = MOST_LINES - 10
SECONDS = 4.0  # of CPU: twice the aim, as other tests may run beside; before they took 8 to 60
ORDINARY = (
    "module load gcc/12\n", "export A={}\n", "cd /data/run{}\n", "# comment\n", "\n",
    "srun python3 step.py --input in{0}.dat > out{0}.log\n", "if [ -f x{0} ]; then cp a{0} b{0}; fi\n",
    "for i in 1 2 3; do echo $i; done\n",
)  # fmt: skip


def _of(*lines: str) -> str:
    return BEGIN + "".join(line.format(n) for n, line in enumerate(islice(cycle(lines), LINES)))


def _with_options(*lines: str) -> str:
    found, size = [], len(BEGIN)
    for n, line in enumerate(cycle(lines)):
        found.append(f"#SBATCH {line.format(n)}\n")
        size += len(found[-1])
        if size > MOST_OPTION_BYTES:
            return BEGIN + "".join(found[:-1]) + "srun ./a\n"
    raise AssertionError


SCRIPTS = {
    "ordinary lines": _of(*ORDINARY),
    "one program": _of("srun ./a\n"),
    "files": _of("cat < a{0} > b{0}\n"),
    "python": _of("python3 a{}.py\n"),
    "environments": _of("conda activate e{}\n", "source v{}/bin/activate\n", "python3 x{}.py\n"),
    "lines that occur a hundred times": BEGIN + "".join(f"echo {n % 110}\n" for n in range(LINES)),
    "an array with many inputs": _of("cat a$SLURM_ARRAY_TASK_ID.{}\n").replace("-n 1", "--array=0-999"),
    "unknown options": _with_options("--tiem{}=1"),
    "unknown letters": _with_options("-" + "yzq" * 10),
    "components": _with_options("hetjob"),
    "memory in three ways": _with_options("--mem=1G", "--mem-per-cpu=1G", "--mem-per-gpu=1G"),
    "options that mean something else without the one before": _with_options(
        "--mem-per-cpu", "--comment", "x"
    ),
}


@pytest.fixture(scope="module")
def workspace(served_home: Path) -> Iterator[Workspace]:
    with Workspace(Config(home=served_home)) as opened:
        check_text(opened, "#!/bin/bash\nsrun ./a\n", user="ann")  # what is loaded once
        yield opened


@pytest.fixture(scope="module")
def user(served_home: Path) -> str:
    """The user whose jobs ran out of memory most often, and who is advised to request more."""
    with open_store(Config(home=served_home)) as store:
        jobs = pl.concat(list(store.scan("job")), how="diagonal_relaxed")
    failed = jobs.filter(pl.col("state") == "OUT_OF_MEMORY")["user"].value_counts(sort=True)
    return str(failed["user"][0])


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_largest_scripts(workspace: Workspace, user: str, name: str) -> None:
    begun = process_time()
    checked = check_text(workspace, SCRIPTS[name], user=user)
    checked.fixed()
    assert process_time() - begun < SECONDS
    if name == "ordinary lines":
        assert any(advice.diff for advice in checked.assessment.advice)  # changes were tried, and one helps
