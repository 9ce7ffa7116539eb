"""A batch script as a submission: what sbatch would read from its ``#SBATCH`` lines, as fields.

sbatch reads the lines itself; slurmrestd does not, and would run such a script with the site's defaults. An
option that has no field here is an error that names it: a job must not be submitted without what its script
requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from forewarn.errors import UsageError
from forewarn.job.sbatch.options import SbatchOptions
from forewarn.job.sbatch.problems import Problem, ProblemCode
from forewarn.job.sbatch.script import Script, read_script
from forewarn.sources.slurm.job_requests import ENVIRONMENT, LOGIN_ENVIRONMENT, JobSubmission

# Options whose value is passed on as it is written.
_TEXTS = {
    "account": "account",
    "array": "array",
    "comment": "comment",
    "constraint": "constraint",
    "dependency": "dependency",
    "error": "error",
    "exclude": "excluded_nodes",
    "gpus": "gpus",
    "gpus-per-node": "gpus_per_node",
    "gpus-per-task": "gpus_per_task",
    "gres": "gres",
    "input": "input",
    "job-name": "name",
    "licenses": "licenses",
    "mail-type": "mail_type",
    "mail-user": "mail_user",
    "nodelist": "required_nodes",
    "output": "output",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "wckey": "wckey",
}
_NUMBERS = frozenset({"cpus-per-task", "mem", "mem-per-cpu", "nodes", "ntasks", "ntasks-per-node", "time"})
_FLAGS = frozenset({"exclusive", "hold", "nice", "no-requeue", "requeue", "chdir", "export"})
_CLIENT_ONLY = frozenset({"parsable", "quiet", "verbose"})  # what sbatch prints
SUPPORTED = frozenset(_TEXTS) | _NUMBERS | _FLAGS | _CLIENT_ONLY
_MOST_NICE = 2147483645  # Slurm's NICE_OFFSET less 3


def submission_from_script(
    script: str,
    options: Sequence[str] = (),
    *,
    work_dir: str,
    environment: Mapping[str, str] = ENVIRONMENT,
    name: str | None = None,
) -> JobSubmission:
    r"""Read a script, and options of a command line, which take precedence, as sbatch does.

    `environment` is what the job gets; `name` is the script's, for a job that gives itself none. Raises
    `UsageError` that names every option that sbatch would refuse or that cannot be submitted this way.

    >>> text = "#!/bin/sh\n#SBATCH -N2 --mem=4G\n#SBATCH -t 1:00:00\nsrun ./a\n"
    >>> job = submission_from_script(text, ["-p", "long"], work_dir="/w")
    >>> job.nodes, job.tasks, job.memory_per_node >> 30, job.time_limit, job.partition
    (2, 2, 4, 3600, 'long')
    """
    if not script.startswith("#!"):
        raise UsageError('the script must begin with "#!" and the path of its shell, such as #!/bin/bash')
    read = read_script(script, command_line=tuple(options))
    _check(read)
    given, request = read.options, read.request
    texts: dict[str, Any] = {
        field: value for option, field in _TEXTS.items() if (value := given.value(option)) is not None
    }
    nodes_given = "nodes" in given
    counts: dict[str, Any] = {
        "time_limit": request.time_limit,
        "nodes": request.min_nodes if nodes_given else None,
        "max_nodes": request.max_nodes if nodes_given else None,
        # Tasks that sbatch itself derives from the nodes.
        "tasks": request.tasks if "ntasks" in given or (nodes_given and request.tasks > 1) else None,
        "tasks_per_node": request.tasks_per_node,
        "cpus_per_task": request.cpus_per_task if "cpus-per-task" in given else None,
        "memory_per_node": request.memory if request.memory_per == "node" else None,
        "memory_per_cpu": request.memory if request.memory_per == "cpu" else None,
    }
    return JobSubmission(
        **{"name": name, **texts},
        **counts,
        script=script,
        work_dir=_folder(given, work_dir),
        exclusive=True if "exclusive" in given else None,
        hold=True if "hold" in given else None,
        requeue=_requeue(given),
        nice=_nice(given),
        environment=_environment(given, environment),
    )


def wrong_option(option: str, value: str) -> tuple[Literal["option", "value"], str] | None:
    """Return what is wrong with an option by itself, its name or its value, and why; None if nothing is.

    >>> wrong_option("tiem", "60"), wrong_option("hold", "yes"), wrong_option("mem", "4G")
    (('option', 'there is no option --tiem (did you mean --time?)'), ('value', '--hold takes no value'), None)
    """
    words, empty = (f"--{option}={value}",), "#!/bin/sh\n"
    read = read_script(empty, command_line=words)
    for problem in read.problems:
        if problem.refused:
            is_value = problem.code in (ProblemCode.BAD_VALUE, ProblemCode.UNEXPECTED_VALUE)
            return "value" if is_value else "option", _words(problem)
    if any(entry.option not in SUPPORTED for entry in read.options.entries):
        return "option", f"--{option} cannot be submitted this way"
    try:
        submission_from_script(empty, words, work_dir="/")
    except UsageError as error:
        return "value", str(error)
    return None


def _check(script: Script) -> None:
    """Raise an error that names all options that are wrong or not supported."""
    if len(script.components) > 1:
        raise UsageError("a heterogeneous job (#SBATCH hetjob) cannot be submitted this way; use sbatch")
    wrong = [f"{_place(problem.line)}{_words(problem)}" for problem in script.problems if problem.refused]
    for entry in script.options.entries:
        if entry.option not in SUPPORTED:
            wrong.append(f"{_place(entry.line)}option --{entry.option} cannot be submitted this way")
        elif entry.option == "exclusive" and entry.value:
            wrong.append(f"{_place(entry.line)}option --exclusive={entry.value} cannot be submitted this way")
    if wrong:
        named = list(dict.fromkeys(wrong))
        what = "it" if len(named) == 1 else "them"
        raise UsageError(f"{'; '.join(named)}; correct or remove {what}, or use sbatch")


# The English of findings is made where scripts are assessed, above this room.
_PROBLEMS = {
    ProblemCode.UNEXPECTED_VALUE: "--{option} takes no value",
    ProblemCode.AMBIGUOUS_OPTION: "--{option} is ambiguous",
    ProblemCode.NEWER_OPTION: "--{option} needs Slurm {since} or newer",
    ProblemCode.FORMER_OPTION: "--{option} was removed from this version of Slurm",
    ProblemCode.UNKNOWN_OPTION: "there is no option --{option}",
    ProblemCode.UNKNOWN_LETTER: "there is no option -{letter}",
    ProblemCode.MISSING_VALUE: "{spelled} needs a value",
    ProblemCode.BAD_VALUE: "{spelled}: {error}",
    ProblemCode.NOT_AN_OPTION: "{word!r} is not an option",
    ProblemCode.UNREADABLE_LINE: "sbatch refuses this line: {error}",
}


def _words(problem: Problem) -> str:
    near = problem.values.get("near")
    text = _PROBLEMS[problem.code].format_map(problem.values)
    return f"{text} (did you mean --{near}?)" if near else text


def _place(line: int | None) -> str:
    return f"line {line}: " if line is not None else ""


def _folder(given: SbatchOptions, work_dir: str) -> str:
    folder = given.value("chdir")
    if folder is None or folder.startswith("/"):
        return folder or work_dir
    return f"{work_dir.rstrip('/')}/{folder}"


def _requeue(given: SbatchOptions) -> bool | None:
    """Return whether it may be requeued: the option that was given last counts."""
    last = [entry.option for entry in given.entries if entry.option in ("requeue", "no-requeue")]
    return last[-1] == "requeue" if last else None


def _nice(given: SbatchOptions) -> int | None:
    if "nice" not in given:
        return None
    text = given.value("nice") or "100"  # what sbatch takes without a value
    try:
        nice = int(text)
    except ValueError:
        nice = _MOST_NICE + 1
    if abs(nice) > _MOST_NICE:
        raise UsageError(f"{_place(given.line('nice'))}--nice={text}: not a number that Slurm accepts")
    return nice


def _environment(given: SbatchOptions, environment: Mapping[str, str]) -> dict[str, str]:
    """Apply --export: ALL, NIL, NONE, names of variables, NAME=VALUE; the last three add those of a login."""
    text = given.value("export")
    if text is None:
        return dict(environment)
    found = dict[str, str]()
    adds_login = True
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if equals:
            found[name] = value
        elif name.upper() in ("ALL", "NIL"):
            found = {**environment, **found} if name.upper() == "ALL" else found
            adds_login = False
        elif name.upper() != "NONE" and name in environment:
            found[name] = environment[name]
    return {**found, **LOGIN_ENVIRONMENT} if adds_login else found or dict(ENVIRONMENT)
