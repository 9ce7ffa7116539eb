"""English for what is wrong in a script."""

from __future__ import annotations

from forewarn.assess.finding_codes import FindingCode
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import Table, TextValues, Words, filled
from forewarn.formatting import byte_size, duration
from forewarn.job.sbatch.problems import ProblemCode


def _with_remarks(words: Words) -> Words:
    """Append what the values of any finding may add to its text."""

    def all_words(values: TextValues, reader: Reader) -> str:
        text = filled(words, values, reader)
        if "looked_for" in values:
            text += f" (looked for {values['looked_for']})"
        if "unless" in values:
            text += f", unless {_UNLESS[values['unless']].format_map(values)}"
        if "origin" in values:
            text += f" ({values['origin']})"
        if "script_goes_on" in values:
            text += "; the script continues after that, so the job may still end as COMPLETED"
        if "sbatch_accepts" in values:
            text += " (this sbatch accepts it)"
        return text

    return all_words


_UNLESS = {
    "dependency": "a job that this one depends on creates it",
    "begin": "it exists when the job begins",
    "program": "{maker} creates it",
}
_NOT_MPI = {
    "no_mpi_program": "which is not an MPI program",
    "not_linked_with_mpi": "which is not linked with MPI",
    "no_parallel_import": "which imports nothing that could share the work",
}
_FOR_NOW = {
    "no_node_in_service": "no node in service can run it at present",
    "nodes_are_busy": "other jobs use these nodes at present",
    "limit_of_account": "a limit of the account or QOS, which may depend on its present jobs",
}
_WITHOUT_FOLDER = {
    "ends": ": Slurm ends the job at its start",
    "cannot_be_made": ", and it cannot be created in {above}: Slurm ends the job at its start",
    "ends_without_output": ": Slurm ends the job at its start, without any output",
    "ends_by_version": ": Slurm 22.05 ends the job at its start, 24.11 and newer create the folder",
}


def _missing_shebang(values: TextValues, _: Reader) -> str:
    text = "the first line is not #! and an interpreter: sbatch refuses the script"
    line = values["stands_in_line"]
    return f"{text} (move that of line {line} to the beginning of the first line)" if line else text


def _minutes_and_seconds(values: TextValues, _: Reader) -> str:
    return f"{values['spelled']} {values['value']} is minutes:seconds: a limit of {duration(values['limit'])}"


def _minutes(values: TextValues, _: Reader) -> str:
    return f"{values['spelled']} {values['value']} is minutes: a limit of {duration(values['limit'])}"


def _below_own_size(values: TextValues, _: Reader) -> str:
    own, requested = byte_size(values["own_size"]), byte_size(values["asked"])
    return f"{values['option']} takes up to {own}, the job requests {requested} per node"


def _copies(values: TextValues, _: Reader) -> str:
    copies = f"{values['launcher']} starts {values['tasks']} copies of {values['program']}"
    return f"{copies}, {_NOT_MPI[values['why']]}: each does the whole work"


def _missing_argument(values: TextValues, _: Reader) -> str:
    return f"{values['program'] or 'the script'} is given {values['path']}, which does not exist"


def _missing_output_folder(values: TextValues, _: Reader) -> str:
    text = f"{values['spelled']} {values['value']}: the folder {values['folder']} does not exist"
    return text + _WITHOUT_FOLDER[values["then"]].format_map(values)


def _sbatch_accepts(values: TextValues, _: Reader) -> str:
    where = f" ({values['partition']})" if values["partition"] else ""
    starts = f"would start {values['start']} on {values['nodes']}{where}"
    return f"sbatch --test-only: {starts}, {values['cpus']} processors"


def _sbatch_refuses(values: TextValues, _: Reader) -> str:
    why = values["answer"] or f"exit code {values['exit_code']}"
    return f"sbatch --test-only refuses it: {why}"


def _sbatch_refuses_now(values: TextValues, _: Reader) -> str:
    return f"sbatch --test-only: {values['answer']}: {_FOR_NOW[values['why']]}"


_FINDINGS: Table = {
    FindingCode.WINDOWS_LINE_ENDS: "Windows line endings: sbatch refuses the script",
    FindingCode.NUL_BYTE: "a NUL byte: sbatch refuses the script",
    FindingCode.EMPTY_SCRIPT: "the script is empty: sbatch refuses it",
    FindingCode.MISSING_SHEBANG: _missing_shebang,
    FindingCode.IGNORED_OPTION: (
        "{text!r} comes after the first command (line {first_command}): sbatch ignores it"
    ),
    FindingCode.COMMENTED_OPTION: (
        "sbatch takes {text!r} for a comment: only #SBATCH at the beginning of a line counts"
    ),
    FindingCode.PLACEHOLDER_IN_OPTION: "{spelled} is still the placeholder {value!r}",
    FindingCode.PLACEHOLDER: "{text!r} looks like a placeholder",
    FindingCode.OTHER_SCHEDULER: (
        "a line for another scheduler (#{scheduler}): sbatch reads it too, and may take options from it"
    ),
    FindingCode.MEMORY_TWICE: "{one} and {other} exclude each other: sbatch refuses both together",
    FindingCode.OPPOSITES: "--{one} and --{other} contradict each other",
    FindingCode.GIVEN_TWICE: "{spelled} {value} overrides {former} of line {former_line}",
    FindingCode.MINUTES_AND_SECONDS: _minutes_and_seconds,
    FindingCode.MINUTES: _minutes,
    FindingCode.MEMORY_BELOW_OWN_SIZE: _below_own_size,
    FindingCode.SHARED_OUTPUT: "every task of the array writes to {value}",
    FindingCode.FEWER_TASKS_THAN_NODES: (
        "{tasks} tasks cannot fill {nodes} nodes: sbatch uses {nodes_taken}"
    ),
    FindingCode.TASKS_DO_NOT_ADD_UP: (
        "{nodes} nodes x {tasks_per_node} tasks per node is {product}, but --ntasks is {tasks}: sbatch "
        "starts {tasks}, at most {tasks_per_node} per node"
    ),
    FindingCode.IDLE_TASKS: (
        "{tasks} tasks are requested, but no srun or mpirun starts them: one runs, the others are idle"
    ),
    FindingCode.COPIES_WITHOUT_MPI: _copies,
    FindingCode.MPI_WITHOUT_LAUNCHER: (
        "{program} is an MPI program started without srun: only one process will run"
    ),
    FindingCode.MISSING_PROGRAM_FILE: "{path} does not exist",
    FindingCode.MISSING_FOLDER: "the folder {path} does not exist",
    FindingCode.MISSING_ARGUMENT: _missing_argument,
    FindingCode.MISSING_INPUT: "{path} does not exist",
    FindingCode.MISSING_INPUT_OF_TASKS: (
        "{path} does not exist: {lacking} of {tasks} array tasks lack their file"
    ),
    FindingCode.NOT_EXECUTABLE: "{path} is not executable",
    FindingCode.NOT_READABLE: "{path} is not readable",
    FindingCode.FOLDER_NOT_ENTERABLE: "no permission to enter the folder {path}",
    FindingCode.FOLDER_AS_PROGRAM: "{path} is a folder, not a program",
    FindingCode.NO_FOLDER_TO_WRITE_TO: "{path}: the folder {folder} does not exist",
    FindingCode.FILE_NOT_WRITABLE: "{path} is not writable",
    FindingCode.FOLDER_NOT_WRITABLE: "{path}: the folder {folder} is not writable",
    FindingCode.VARIABLE_IN_OPTION: (
        "{spelled} {value}: sbatch does not expand variables, only patterns such as %j"
    ),
    FindingCode.OUTPUT_FOLDER_NOT_WRITABLE: "{spelled} {value}: the folder {folder} is not writable",
    FindingCode.MISSING_OUTPUT_FOLDER: _missing_output_folder,
    FindingCode.MISSING_WORK_FOLDER: (
        "{spelled} {value}: the folder does not exist; the job begins in /tmp instead"
    ),
    FindingCode.MISSING_INTERPRETER: "the interpreter {interpreter} does not exist here",
    FindingCode.INTERPRETER_NOT_ON_PATH: "env does not find {interpreter} here",
    FindingCode.NOT_ON_PATH: (
        "the program {program} is not on PATH here, and the script loads no module or environment that could "
        "provide it"
    ),
    FindingCode.NO_MODULE_SYSTEM: (
        "the script loads modules, but there is no module system here (MODULEPATH is not set)"
    ),
    FindingCode.MISSING_MODULE: "there is no module {module} on MODULEPATH here",
    FindingCode.PROGRAM_WITH_WINDOWS_LINE_ENDS: (
        "{path} has Windows line endings: its interpreter will not be found"
    ),
    FindingCode.PROGRAM_WITHOUT_INTERPRETER: ("the interpreter {interpreter} of {path} does not exist here"),
    FindingCode.WRONG_ARCHITECTURE: "{path} is built for {architecture}; this machine is {here}",
    FindingCode.MISSING_LIBRARY: lambda values, _: (
        f"{values['path']} needs {', '.join(values['libraries'])}, which the loader does not find here"
    ),
    FindingCode.NO_CONDA: "the script activates {environment}, but there is no conda here",
    FindingCode.MISSING_ENVIRONMENT: "there is no environment in {folder}",
    FindingCode.PYTHON_SYNTAX: "{path} is not valid Python for this version of Python",
    FindingCode.SCRIPT_IS_NOT_PYTHON: "the script is not valid Python for this version of Python",
    FindingCode.MISSING_IMPORT: ("{path} imports {package} (line {its_line}), which {python} does not find"),
    FindingCode.MISSING_OWN_IMPORT: "the script imports {package}, which {python} does not find",
    FindingCode.MISSING_PACKAGE: "{program} -m {package}: {python} finds no {package}",
    FindingCode.SBATCH_ACCEPTS: _sbatch_accepts,
    FindingCode.SBATCH_REMARKS: "sbatch --test-only also reports: {answer}",
    FindingCode.SBATCH_REFUSES: _sbatch_refuses,
    FindingCode.SBATCH_REFUSES_NOW: _sbatch_refuses_now,
}
_PROBLEMS: Table = {
    ProblemCode.UNEXPECTED_VALUE: "--{option} takes no value",
    ProblemCode.PLUGIN_OPTION: (
        "--{option} is an option of the plugin {plugin}: sbatch accepts it only where that is installed"
    ),
    ProblemCode.AMBIGUOUS_OPTION: lambda values, _: (
        f"--{values['option']} is ambiguous: {', '.join(f'--{name}' for name in values['could_be'])}"
    ),
    ProblemCode.NEWER_OPTION: "--{option} needs Slurm {since} or newer",
    ProblemCode.FORMER_OPTION: "--{option} was removed from this version of Slurm",
    ProblemCode.UNKNOWN_OPTION: "sbatch has no option --{option}, unless a plugin adds it",
    ProblemCode.UNKNOWN_LETTER: "sbatch has no option -{letter}",
    ProblemCode.MISSING_VALUE: "{spelled} needs a value",
    ProblemCode.BAD_VALUE: "{spelled}: {error}",
    ProblemCode.NOT_AN_OPTION: "{word!r} is not an option: sbatch refuses the script",
    ProblemCode.UNREADABLE_LINE: "sbatch refuses this line: {error}",
}
TABLE: Table = {code: _with_remarks(words) for code, words in {**_FINDINGS, **_PROBLEMS}.items()}
