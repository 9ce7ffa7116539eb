"""Tests that any file is read: broken UTF-8, NULs, endless lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.job.sbatch.script import read_script

_WORDS = """#SBATCH --mem= -n -N1- --time= ' " \\ # $( ${ ` (( )) | && > 2>&1 ; { } srun python cd module load
    source java -Xmx if fi hetjob --array=0- --dependency=a: --gres=gpu: -G : = samtools sort -m ulimit -v"""
_ODD = (
    "#!/bin/bash\n",
    "#SBATCH ",
    "\n",
    "\r\n",
    "<<EOF\n",
    "EOF\n",
    "\0",
    "\x85",
    "9" * 30,
    "²",
    "é",
    "\udcff",
    " ",
)
PIECES = st.sampled_from([*_WORDS.split(), *_ODD])


def read_all(text: str) -> None:
    read = read_script(text, command_line=text.split()[:3], environment={"SBATCH_TIMELIMIT": text})
    job = read.job("c", "u", 0, "/w", script_name="s")
    assert job.nodes_asked is not None
    assert read.facts.language
    assert all(problem.line is None or 1 <= problem.line <= text.count("\n") + 1 for problem in read.problems)
    assert all(1 <= use.line <= text.count("\n") + 1 for use in read.body.files)


@given(st.lists(PIECES | st.text(max_size=5)).map("".join))
def test_pieces_of_scripts(text: str) -> None:
    read_all(text)


@given(st.binary(max_size=300))
def test_bytes(data: bytes) -> None:
    read_all(data.decode("utf-8", "surrogateescape"))
    read_all("#!/bin/sh\n#SBATCH " + data.decode("utf-8", "surrogateescape"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\n#SBATCH --comment=" + "x" * 1_000_000,
        "#!/bin/sh\n" + "echo " + "a " * 500_000,
        "#!/bin/sh\n" + "'" * 100_001,
        "#!/bin/sh\n" + "$(" * 50_000,
        "#!/bin/sh\n" + "<<E " * 20_000,
        "#!/bin/sh\n" + "x=$x$x\n" * 20_000,
        "#!/bin/sh\n" + "a=xxxxxxxxxx\n" + "a=$a$a\n" * 200,
        "#!/bin/sh\n" + 'echo "\n' * 20_000,
        "#!/bin/sh\n" + "echo \\\n" * 20_000,
        "#!/bin/sh\n#SBATCH --array=0-4000000:1\n",
        "#!/bin/sh\n#SBATCH -w n[0-99999999]\n",
        "#!/bin/sh\n" + "cd a\n" * 20_000,
    ],
    ids=lambda text: text[10:30].strip(),
)
def test_large_ones_are_read_in_a_moment(text: str) -> None:
    begin = time.perf_counter()
    read_all(text)
    assert time.perf_counter() - begin < 20
