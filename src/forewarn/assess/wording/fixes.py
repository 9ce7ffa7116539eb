"""English for what to do about a finding; the values are those of the finding."""

from __future__ import annotations

import shlex

from forewarn.assess.finding_codes import FixCode
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues, Words, filled
from forewarn.formatting import byte_size
from forewarn.job.sbatch.problems import ProblemFix


def _write_hours(values: TextValues, _: Reader) -> str:
    """Advise to write a time limit with its seconds.

    >>> _write_hours({"value": "00:30"}, Reader())
    'for 0 h 30 min write 00:30:00'
    """
    first, second = values["value"].split(":")
    return f"for {int(first)} h {int(second)} min write {first}:{second}:00"


def _with_remark(words: Words) -> Words:
    def all_words(values: TextValues, reader: Reader) -> str:
        by_itself = " (`--fix` does that)" if "by_itself" in values else ""
        return filled(words, values, reader) + by_itself

    return all_words


_FIXES: Table = {
    FixCode.CONVERT_LINE_ENDS: "dos2unix {script}",
    FixCode.BEGIN_WITH_SHEBANG: "begin with #!/bin/bash",
    FixCode.MOVE_ABOVE_COMMANDS: "move it above the first command",
    FixCode.FILL_IN: "fill it in",
    FixCode.DELETE_LINE: "delete it, or submit with --ignore-pbs",
    FixCode.KEEP_ONE: "keep one of them",
    FixCode.WRITE_HOURS: _write_hours,
    FixCode.REQUEST_MORE_THAN_OWN_SIZE: lambda values, _: (
        f"request more than {byte_size(values['own_size'])}: the program needs some memory beside that"
    ),
    FixCode.NAME_BY_TASK: "use %A_%a in the name",
    FixCode.SET_TASKS: "--ntasks={product}, or leave out one of the three",
    FixCode.START_WITH_SRUN: (
        "start the program with srun; for one program with threads use --cpus-per-task"
    ),
    FixCode.ONE_TASK: "request one task with --cpus-per-task, or use an MPI program",
    FixCode.PUT_SRUN_BEFORE: "srun {program}",
    FixCode.MAKE_EXECUTABLE: "chmod +x {path}",
    FixCode.MAKE_FOLDER: lambda values, _: f"mkdir -p {shlex.quote(values['folder'])}",
    FixCode.SIMILAR_MODULE: "did you mean {near}?",
    FixCode.COMPILE_FOR_NODES: (
        "compile it for the nodes, or request nodes of its architecture with --partition or --constraint"
    ),
    FixCode.LOAD_LIBRARY: "load the module that it was built with, or set LD_LIBRARY_PATH",
    FixCode.INSTALL_PACKAGE: "{python} -m pip install {package}, or activate the environment that has it",
    ProblemFix.SIMILAR_OPTION: "did you mean --{near}?",
    ProblemFix.OPTION_BEGINS_WITH_DASH: "an option begins with - or --",
}
TABLE: Table = {code: _with_remark(words) for code, words in _FIXES.items()}
