"""Words for what is wrong in a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.assess.finding_codes import FindingCode
from forewarn.assess.wording.amounts import clock, listed
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, Words, filled
from forewarn.job.sbatch.problems import ProblemCode
from forewarn.job.units import format_memory

Values = Mapping[str, Any]


def _with_remarks(words: Words) -> Words:
    """The words, and behind them what else the values say of any finding."""

    def all_words(values: Values, reader: Reader) -> str:
        said = filled(words, values, reader)
        if "looked_for" in values:
            said += f" (looked for {values['looked_for']})"
        if "unless" in values:
            said += f", unless {_UNLESS[values['unless']].format_map(values)}"
        if "origin" in values:
            said += f" ({values['origin']})"
        if "script_goes_on" in values:
            said += "; the script goes on after that, so that the job may end as completed"
        if "sbatch_accepts" in values:
            said += " (this sbatch takes it)"
        return said

    return all_words


_UNLESS = {
    "dependency": "a job that this one waits for makes it",
    "begin": "it is there when the job begins",
    "program": "{maker} makes it",
}
_NOT_MPI = {
    "no_mpi_program": "which is no MPI program",
    "not_linked_with_mpi": "which is not linked with MPI",
    "no_parallel_import": "which imports nothing that could share the work",
}
_FOR_NOW = {
    "no_node_in_service": "no node that is in service now can take it",
    "nodes_are_busy": "other jobs use these nodes now",
    "limit_of_account": "a limit of the account or QOS, which may depend on the jobs that are there now",
}
_WITHOUT_FOLDER = {
    "ends": ": Slurm ends the job at its start",
    "cannot_be_made": ", and none may be made in {above}: Slurm ends the job at its start",
    "ends_without_output": ": Slurm ends the job at its start, without any output",
    "ends_by_version": ": Slurm 22.05 ends the job at its start, 24.11 and newer make the folder",
}


def _missing_shebang(values: Values, _: Reader) -> str:
    said = "the first line is not #! and an interpreter: sbatch refuses the script"
    at = values["stands_in_line"]
    return f"{said} (line {at} has one: it must be the first, from its first column on)" if at else said


def _minutes_and_seconds(values: Values, _: Reader) -> str:
    return f"{values['spelled']} {values['value']} is minutes:seconds: a limit of {clock(values['limit'])}"


def _minutes(values: Values, _: Reader) -> str:
    return f"{values['spelled']} {values['value']} is minutes: a limit of {clock(values['limit'])}"


def _below_own_size(values: Values, _: Reader) -> str:
    own, asked = format_memory(values["own_size"]), format_memory(values["asked"])
    return f"{values['option']} takes up to {own}, the job asks for {asked} on a node"


def _copies(values: Values, _: Reader) -> str:
    copies = f"{values['launcher']} starts {values['tasks']} copies of {values['program']}"
    return f"{copies}, {_NOT_MPI[values['why']]}: each does the whole work"


def _missing_argument(values: Values, _: Reader) -> str:
    return f"{values['program'] or 'the script'} is given {values['path']}, which does not exist"


def _missing_output_folder(values: Values, _: Reader) -> str:
    said = f"{values['spelled']} {values['value']}: there is no folder {values['folder']}"
    return said + _WITHOUT_FOLDER[values["then"]].format_map(values)


def _sbatch_accepts(values: Values, _: Reader) -> str:
    where = f" ({values['partition']})" if values["partition"] else ""
    starts = f"would start {values['start']} on {values['nodes']}{where}"
    return f"sbatch --test-only: {starts}, {values['cpus']} processors"


def _sbatch_refuses(values: Values, _: Reader) -> str:
    why = values["answer"] or f"exit code {values['exit_code']}"
    return f"sbatch --test-only refuses it: {why}"


def _sbatch_refuses_now(values: Values, _: Reader) -> str:
    return f"sbatch --test-only: {values['answer']}: {_FOR_NOW[values['why']]}"


_FINDINGS: Table = {
    FindingCode.WINDOWS_LINE_ENDS: "Windows line ends: sbatch refuses the script",
    FindingCode.NUL_BYTE: "a NUL byte: sbatch refuses it",
    FindingCode.EMPTY_SCRIPT: "the script is empty: sbatch refuses it",
    FindingCode.MISSING_SHEBANG: _missing_shebang,
    FindingCode.IGNORED_OPTION: (
        "{text!r} stands behind the first command (line {first_command}): sbatch ignores it"
    ),
    FindingCode.COMMENTED_OPTION: (
        "{text!r} is a comment to sbatch: only #SBATCH at the line's begin counts"
    ),
    FindingCode.PLACEHOLDER_IN_OPTION: "{spelled} is still {value!r}: a placeholder",
    FindingCode.PLACEHOLDER: "{text!r} looks like a placeholder",
    FindingCode.OTHER_SCHEDULER: (
        "a line for another scheduler (#{scheduler}): sbatch reads it, too, and may take options from it"
    ),
    FindingCode.MEMORY_TWICE: "{one} and {other} exclude each other: sbatch refuses both together",
    FindingCode.OPPOSITES: "--{one} and --{other} contradict each other",
    FindingCode.GIVEN_TWICE: "{spelled} {value} overrides {former} of line {former_line}",
    FindingCode.MINUTES_AND_SECONDS: _minutes_and_seconds,
    FindingCode.MINUTES: _minutes,
    FindingCode.MEMORY_BELOW_OWN_SIZE: _below_own_size,
    FindingCode.SHARED_OUTPUT: "every task of the array writes to {value}",
    FindingCode.FEWER_TASKS_THAN_NODES: (
        "{tasks} tasks cannot fill {nodes} nodes: sbatch takes {nodes_taken}"
    ),
    FindingCode.TASKS_DO_NOT_ADD_UP: (
        "{nodes} nodes x {tasks_per_node} tasks a node is {product}, --ntasks says {tasks}: sbatch takes "
        "{tasks}, and {tasks_per_node} as the most a node gets"
    ),
    FindingCode.IDLE_TASKS: (
        "{tasks} tasks are asked for, but no srun or mpirun starts them: one runs, the rest idle"
    ),
    FindingCode.COPIES_WITHOUT_MPI: _copies,
    FindingCode.MPI_WITHOUT_LAUNCHER: (
        "{program} is an MPI program and is started without srun: one process will run"
    ),
    FindingCode.MISSING_PROGRAM_FILE: "{path} does not exist",
    FindingCode.MISSING_FOLDER: "the folder {path} does not exist",
    FindingCode.MISSING_ARGUMENT: _missing_argument,
    FindingCode.MISSING_INPUT: "{path} does not exist",
    FindingCode.MISSING_INPUT_OF_TASKS: (
        "{path} does not exist: {lacking} of {tasks} tasks of the array lack their file"
    ),
    FindingCode.NOT_EXECUTABLE: "{path} may not be executed",
    FindingCode.NOT_READABLE: "{path} may not be read",
    FindingCode.FOLDER_NOT_ENTERABLE: "the folder {path} may not be entered",
    FindingCode.FOLDER_AS_PROGRAM: "{path} is a folder, not a program",
    FindingCode.NO_FOLDER_TO_WRITE_TO: "{path}: there is no folder {folder}",
    FindingCode.FILE_NOT_WRITABLE: "{path} may not be written to",
    FindingCode.FOLDER_NOT_WRITABLE: "{path}: the folder {folder} may not be written to",
    FindingCode.VARIABLE_IN_OPTION: "{spelled} {value}: sbatch fills in no variables, only %j and its like",
    FindingCode.OUTPUT_FOLDER_NOT_WRITABLE: "{spelled} {value}: the folder {folder} may not be written to",
    FindingCode.MISSING_OUTPUT_FOLDER: _missing_output_folder,
    FindingCode.MISSING_WORK_FOLDER: (
        "{spelled} {value}: there is no such folder; the job begins in /tmp instead"
    ),
    FindingCode.MISSING_INTERPRETER: "the interpreter {interpreter} does not exist here",
    FindingCode.INTERPRETER_NOT_ON_PATH: "env does not find {interpreter} here",
    FindingCode.NOT_ON_PATH: (
        "the program {program} is not on PATH here, and the script loads no module or environment that could "
        "bring it"
    ),
    FindingCode.NO_MODULE_SYSTEM: (
        "it loads modules, and there is no module system here (MODULEPATH is not set)"
    ),
    FindingCode.MISSING_MODULE: "there is no module {module} on MODULEPATH here",
    FindingCode.PROGRAM_WITH_WINDOWS_LINE_ENDS: (
        "{path} has Windows line ends: its interpreter will not be found"
    ),
    FindingCode.PROGRAM_WITHOUT_INTERPRETER: (
        "{path} asks for the interpreter {interpreter}, which does not exist here"
    ),
    FindingCode.WRONG_ARCHITECTURE: "{path} is a program for {architecture}; this machine is {here}",
    FindingCode.MISSING_LIBRARY: lambda values, _: (
        f"{values['path']} needs {listed(values['libraries'])}, which the loader does not find here"
    ),
    FindingCode.NO_CONDA: "it activates {environment}, and there is no conda here",
    FindingCode.MISSING_ENVIRONMENT: "there is no environment in {folder}",
    FindingCode.PYTHON_SYNTAX: "{path} is not Python as this Python reads it",
    FindingCode.SCRIPT_IS_NOT_PYTHON: "this is not Python as this Python reads it",
    FindingCode.MISSING_IMPORT: (
        "{path} imports {package} (its line {its_line}), which {python} does not find"
    ),
    FindingCode.MISSING_OWN_IMPORT: "{package} is imported, which {python} does not find",
    FindingCode.MISSING_PACKAGE: "{program} -m {package}: {python} finds no {package}",
    FindingCode.SBATCH_ACCEPTS: _sbatch_accepts,
    FindingCode.SBATCH_REMARKS: "sbatch --test-only also writes: {answer}",
    FindingCode.SBATCH_REFUSES: _sbatch_refuses,
    FindingCode.SBATCH_REFUSES_NOW: _sbatch_refuses_now,
}
_PROBLEMS: Table = {
    ProblemCode.UNEXPECTED_VALUE: "--{option} takes no value",
    ProblemCode.PLUGIN_OPTION: (
        "--{option} is an option of the plugin {plugin}: sbatch knows it only where that is installed"
    ),
    ProblemCode.AMBIGUOUS_OPTION: lambda values, _: (
        f"--{values['option']} could mean {listed([f'--{name}' for name in values['could_be']])}"
    ),
    ProblemCode.NEWER_OPTION: "--{option} is only known to Slurm {since} and newer",
    ProblemCode.FORMER_OPTION: "--{option} is no longer known to this Slurm",
    ProblemCode.UNKNOWN_OPTION: "sbatch knows no option --{option}, unless a plugin has it",
    ProblemCode.UNKNOWN_LETTER: "sbatch knows no option -{letter}",
    ProblemCode.MISSING_VALUE: "{spelled} needs a value",
    ProblemCode.BAD_VALUE: "{spelled}: {error}",
    ProblemCode.NOT_AN_OPTION: "{word!r} is no option: sbatch refuses the script",
    ProblemCode.UNREADABLE_LINE: "sbatch refuses this line: {error}",
}
TABLE: Table = {code: _with_remarks(words) for code, words in {**_FINDINGS, **_PROBLEMS}.items()}
