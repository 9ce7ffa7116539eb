"""The families of causes: what each is in words, whose failure it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from forewarn.job.outcomes import FailureKind


@dataclass(frozen=True, slots=True)
class CauseFamily:
    """One family of causes."""

    cause: str  # ends a sentence that begins with the job
    to_do: tuple[str, ...]
    kind: FailureKind = FailureKind.USER


def _user(cause: str, *to_do: str) -> CauseFamily:
    return CauseFamily(cause, to_do)


def _system(cause: str, *to_do: str) -> CauseFamily:
    return CauseFamily(cause, to_do, FailureKind.SYSTEM)


def _limit(cause: str, *to_do: str) -> CauseFamily:
    return CauseFamily(cause, to_do, FailureKind.LIMIT)


_AGAIN = "Submit it again: nothing in the job itself has to change."
FAMILIES: Mapping[str, CauseFamily] = MappingProxyType(
    {
        "out_of_memory": _limit(
            "ran out of memory",
            "Ask for more memory (--mem or --mem-per-cpu), or let the program use less: fewer processes at "
            "once, "
            "smaller batches, a smaller heap.",
        ),
        "gpu_memory": _limit(
            "ran out of the GPU's memory",
            "Use a smaller batch or model, free what is kept between steps, or ask for a GPU with more "
            "memory. "
            "More --mem does not help.",
        ),
        "time_limit": _limit(
            "ran to its time limit",
            "Ask for more time (--time), or write checkpoints and go on from the last one.",
        ),
        "own_time_limit": _limit(
            "reached a time limit that its script sets itself",
            "Raise that limit in the script (`timeout`, srun --time) or leave it out: the job had time left.",
        ),
        "missing_module": _user(
            "loads an environment module that is not there",
            "`module spider NAME` shows what there is and what has to be loaded before.",
        ),
        "missing_library": _user(
            "needs a shared library that the node does not find",
            "Load the module the program was built with; `ldd PROGRAM` on a compute node shows what is "
            "missing.",
        ),
        "python_package": _user(
            "needs a Python package that its environment lacks",
            "Activate the right environment in the script itself, or install the package into it "
            "(`python -m pip install …`).",
        ),
        "conda": _user(
            "could not activate its conda environment",
            'Put `source "$(conda info --base)/etc/profile.d/conda.sh"` before `conda activate` in the '
            "script, and check the environment's name with `conda env list`.",
        ),
        "file_missing": _user(
            "needs a file or folder that is not there",
            "Check the path as seen from a compute node, and the folder from which the job was submitted.",
        ),
        "permission": _user(
            "may not read or write something",
            "Check the permissions and the owner (`ls -l`), and where it writes to.",
        ),
        "disk_full": _user(
            "had no room left on a disk or in a quota",
            "Remove what is not needed or write elsewhere; `quota -s`, `df -h` or the site's own command "
            "shows how "
            "much is left.",
        ),
        "command_missing": _user(
            "calls a command that is not there",
            "Load the module that has the command, or write its full path; a batch job does not always "
            "have the PATH "
            "of a login shell.",
        ),
        "not_executable": _user(
            "calls a file that cannot be executed",
            "`chmod +x FILE`; if it is a script, see whether its first line names an interpreter that is "
            "there.",
        ),
        "script_syntax": _user(
            "has an error in its script",
            "Correct the line that is named; `bash -n SCRIPT` finds such errors at once.",
        ),
        "line_ends": _user(
            "has a script with Windows line ends",
            "Convert the script: `dos2unix SCRIPT` or `sed -i 's/\\r$//' SCRIPT`.",
        ),
        "usage": _user(
            "was called in a way that a program does not understand",
            "Check the options and the input files of the command that is named.",
        ),
        "program_error": _user(
            "was ended by an error in its own program",
            "Look at the lines quoted from the log, the first of them first.",
        ),
        "crash": _user(
            "crashed inside a program",
            "Run it once with debug symbols or on a small case; a stack limit (`ulimit -s unlimited`), a "
            "library of "
            "another version, or too little memory can be behind it.",
        ),
        "numerical": _user(
            "broke off over numbers that are none (NaN, division by zero)",
            "Check the input and the step sizes; start from an earlier checkpoint.",
        ),
        "wrong_architecture": _user(
            "runs a program that was built for another CPU",
            "Build it for the nodes it runs on, or choose them with --constraint.",
        ),
        "mpi": _user(
            "was ended by its MPI library",
            "See which rank ended first and why; check that the MPI it was built with is the one that is "
            "loaded, and "
            "that it is started with `srun --mpi=…` as the site says.",
        ),
        "network": _system(
            "lost a connection over the network",
            "Try it again; if the same nodes are named each time, tell the site, and leave them out with "
            "--exclude.",
        ),
        "gpu": _user(
            "could not use a GPU as it wanted",
            "Check that GPUs are asked for (--gpus), and that CUDA and the driver fit each other "
            "(`nvidia-smi`).",
        ),
        "gpu_hardware": _system(
            "ran on a GPU that is broken",
            "Tell the site which node it was, and leave it out meanwhile (--exclude=NODE).",
            _AGAIN,
        ),
        "license": _user(
            "got no licence",
            "Ask for the licence with --licenses if the site counts them, or submit when fewer are in use.",
        ),
        "container": _user(
            "could not start its container",
            "Check the image's name and that the node may fetch it; pull it once beforehand, and bind the "
            "folders that "
            "it needs.",
        ),
        "file_system": _system(
            "lost a file system under it",
            "Tell the site if it comes again. " + _AGAIN,
        ),
        "node_failure": _system(
            "lost a node",
            _AGAIN,
            "Checkpoints save most of the work; --requeue lets Slurm begin it again by itself.",
        ),
        "outage": _system(
            "ended together with many other jobs: an outage of the cluster or of something all of them use",
            "Ask the site what happened at that time. " + _AGAIN,
        ),
        "launch": _system(
            "could not be started by Slurm",
            "Check that its working folder and its output file can be opened on the nodes; else tell the "
            "site.",
        ),
        "refused": _user(
            "asked for what no node of its partition can give",
            "Ask for less memory, fewer CPUs or nodes, or another --constraint, --gres or partition; "
            "`sinfo -o '%P %D %c %m %G %f'` shows what the nodes have.",
        ),
        "step_launch": _user(
            "asked with srun for more than the job has",
            "Let the options of srun fit those of sbatch; leave them out where srun shall take all.",
        ),
        "preempted": _system(
            "gave way to a job of higher priority",
            "Submit it with --requeue, or to a partition that is not preempted.",
        ),
        "deadline": _limit(
            "could not end before its deadline",
            "Set a later --deadline, or a shorter --time that leaves more room.",
        ),
        "cancelled": _user("was cancelled", "Nothing, if that was meant."),
        "dependency": _user(
            "waited for a job that ended otherwise than it asked",
            "Look at that job first (`forewarn explain`), then submit this one again.",
        ),
        "killed": _user(
            "was ended by a signal",
            "See who or what sends it: the script itself or another step of the job (`kill`, `timeout`), "
            "`scancel --signal`, somebody on the node, a limit.",
        ),
    }
)


def of_family(name: str) -> CauseFamily:
    """The family of that name.

    >>> of_family("time_limit").kind
    <FailureKind.LIMIT: 'limit'>
    """
    return FAMILIES[name]
