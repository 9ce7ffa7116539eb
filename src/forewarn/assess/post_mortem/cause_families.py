"""Families of causes: the text of each, whose failure it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from forewarn.job.outcomes import FailureKind


@dataclass(frozen=True, slots=True)
class CauseFamily:
    """A family of causes."""

    cause: str  # completes a sentence that begins with "The job"
    to_do: tuple[str, ...]
    kind: FailureKind = FailureKind.USER


def _user(cause: str, *to_do: str) -> CauseFamily:
    return CauseFamily(cause, to_do)


def _system(cause: str, *to_do: str) -> CauseFamily:
    return CauseFamily(cause, to_do, FailureKind.SYSTEM)


def _limit(cause: str, *to_do: str) -> CauseFamily:
    return CauseFamily(cause, to_do, FailureKind.LIMIT)


_AGAIN = "Submit it again: the job itself needs no change."
FAMILIES: Mapping[str, CauseFamily] = MappingProxyType(
    {
        "out_of_memory": _limit(
            "ran out of memory",
            "Request more memory (--mem or --mem-per-cpu), or make the program use less: fewer "
            "processes at once, "
            "smaller batches, a smaller heap.",
        ),
        "gpu_memory": _limit(
            "ran out of GPU memory",
            "Use a smaller batch or model, free memory between steps, or request a GPU with more "
            "memory. More "
            "--mem does not help.",
        ),
        "time_limit": _limit(
            "reached its time limit",
            "Request more time (--time), or write checkpoints and continue from the last one.",
        ),
        "own_time_limit": _limit(
            "reached a time limit that its own script sets",
            "Raise that limit in the script (`timeout`, srun --time) or remove it: the job had time left.",
        ),
        "missing_module": _user(
            "loads an environment module that does not exist",
            "`module spider NAME` shows the versions available and the modules to load before.",
        ),
        "missing_library": _user(
            "needs a shared library that the node does not find",
            "Load the module that the program was built with; `ldd PROGRAM` on a compute node shows "
            "what is missing.",
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
            "needs a file or folder that does not exist",
            "Check the path as seen from a compute node, and the folder from which the job was submitted.",
        ),
        "permission": _user(
            "has no permission to read or write a file",
            "Check the permissions and the owner (`ls -l`) of what it reads and writes.",
        ),
        "disk_full": _user(
            "exceeded a disk or a quota",
            "Remove files or write elsewhere; `quota -s`, `df -h` or the site's own command shows "
            "how much is left.",
        ),
        "command_missing": _user(
            "calls a command that does not exist",
            "Load the module that has the command, or use its full path; a batch job may lack the "
            "PATH of a login "
            "shell.",
        ),
        "not_executable": _user(
            "calls a file that cannot be executed",
            "`chmod +x FILE`; if it is a script, check that the interpreter in its first line exists.",
        ),
        "script_syntax": _user(
            "has an error in its script",
            "Fix the line that the message names; `bash -n SCRIPT` finds such errors at once.",
        ),
        "line_ends": _user(
            "has a script with Windows line endings",
            "Convert the script: `dos2unix SCRIPT` or `sed -i 's/\\r$//' SCRIPT`.",
        ),
        "usage": _user(
            "calls a program with wrong arguments",
            "Check the options and the input files of the command that the message names.",
        ),
        "program_error": _user(
            "was ended by an error in its program",
            "Read the quoted lines of the log, beginning with the first.",
        ),
        "crash": _user(
            "crashed inside a program",
            "Run it with debug symbols or on a small case; typical causes are a stack limit (`ulimit -s "
            "unlimited`), a library of another version, or too little memory.",
        ),
        "numerical": _user(
            "stopped at an invalid number (NaN, division by zero)",
            "Check the input and the step sizes; start from an earlier checkpoint.",
        ),
        "wrong_architecture": _user(
            "runs a program that was built for another CPU",
            "Build it for the nodes it runs on, or choose them with --constraint.",
        ),
        "mpi": _user(
            "was ended by its MPI library",
            "Find out which rank ended first and why; check that the MPI that it was built with is "
            "loaded, and that "
            "it is started with `srun --mpi=…` as the site says.",
        ),
        "network": _system(
            "lost a network connection",
            "Submit it again; if the same nodes are named each time, tell the site, and exclude them "
            "(--exclude).",
        ),
        "gpu": _user(
            "could not use a GPU",
            "Check that GPUs are requested (--gpus), and that the CUDA version fits the driver "
            "(`nvidia-smi`).",
        ),
        "gpu_hardware": _system(
            "ran on a broken GPU",
            "Tell the site which node it was, and exclude it meanwhile (--exclude=NODE).",
            _AGAIN,
        ),
        "license": _user(
            "got no licence",
            "Request the licence with --licenses if the site counts them, or submit when fewer are in use.",
        ),
        "container": _user(
            "could not start its container",
            "Check the image's name and that the node may fetch it; pull it beforehand, and bind the "
            "folders that it "
            "needs.",
        ),
        "file_system": _system(
            "lost a file system",
            "Tell the site if it happens again. " + _AGAIN,
        ),
        "node_failure": _system(
            "lost a node",
            _AGAIN,
            "Checkpoints save most of the work; with --requeue Slurm restarts it by itself.",
        ),
        "outage": _system(
            "ended together with many other jobs: an outage of the cluster or of a service that all "
            "of them use",
            "Ask the site what happened at that time. " + _AGAIN,
        ),
        "launch": _system(
            "could not be started by Slurm",
            "Check that its work folder and its output file can be opened on the nodes; otherwise "
            "tell the site.",
        ),
        "refused": _user(
            "requested what no node of its partition has",
            "Request less memory, fewer CPUs or nodes, or another --constraint, --gres or partition; "
            "`sinfo -o '%P %D %c %m %G %f'` shows what the nodes have.",
        ),
        "step_launch": _user(
            "requested more for srun than the job has",
            "Make the options of srun fit those of sbatch; without options srun uses the whole allocation.",
        ),
        "preempted": _system(
            "was preempted by a job of higher priority",
            "Submit it with --requeue, or to a partition that is not preempted.",
        ),
        "deadline": _limit(
            "could not end before its deadline",
            "Set a later --deadline, or a shorter --time that leaves more room.",
        ),
        "cancelled": _user("was cancelled", "Nothing, if that was intended."),
        "dependency": _user(
            "depended on a job that did not end as required",
            "Explain that job first (`forewarn explain`), then submit this one again.",
        ),
        "killed": _user(
            "was ended by a signal",
            "Find out what sends it: the script itself or another step of the job (`kill`, `timeout`), "
            "`scancel --signal`, somebody on the node, a limit.",
        ),
    }
)
