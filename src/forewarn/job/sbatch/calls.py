"""Finder of the program that a command runs, after what precedes it: srun, mpirun, a container, `time` …"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import basename
from types import MappingProxyType

from forewarn.job.sbatch.option_table import OPTIONS, SHORT, Argument
from forewarn.job.sbatch.shell import Command

# Words before a program, with those of their options that take the next word as a value.
_PLAIN: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("command", "exec", "nohup", "setsid", "stdbuf", "catchsegv", "xvfb-run"), ""),
        **{"time": "-f -o", "nice": "-n", "ionice": "-c -n", "taskset": "-c", "numactl": "-C -N -m -i"},
        **{"env": "-u -C", "sudo": "-u -g", "timeout": "-k -s", "strace": "-o -e -p", "nsys": "-o"},
    }
)
_MPI = """-n -np -N -c --np --n --hostfile -hostfile --machinefile -machinefile -f -ppn -x --map-by -map-by
    --bind-to -bind-to --rank-by -rank-by -host --host -H -rr -perhost -genvlist -envlist -wdir --wdir
    -output-filename --output-filename --cpus-per-proc -pernode-n -npernode --npernode -bootstrap -launcher"""
_MPI_TWO = frozenset({"--mca", "-mca", "-genv", "-env", "--gmca", "-gmca", "--prtemca"})
_CONTAINER = """
    -B --bind -H --home -W --workdir --pwd --cwd -S --scratch --env --env-file -o --overlay --network
    --dns --hostname --security --app -v --volume -e --name -u --user -w --mount -p --publish --gpus
    --device --memory -m --cpus --entrypoint --shm-size
"""
_PARALLEL = (
    "-j --jobs -P --joblog --delay --timeout --retries -a --arg-file --colsep -N --results --tmpdir -S"
)
_SRUN_MORE = frozenset({"-T", "-K", "-P", "-r", "-E", "-Z", "--mpi", "--cpu-bind", "--multi-prog"})
LAUNCHERS: Mapping[str, str] = MappingProxyType(
    {
        **{"srun": "srun", "mpirun": "mpirun", "mpiexec": "mpiexec", "mpiexec.hydra": "mpiexec"},
        **{"orterun": "mpirun", "prterun": "mpirun", "aprun": "aprun", "ibrun": "ibrun", "jsrun": "jsrun"},
        **{"prun": "prun", "mpiexec_mpt": "mpiexec", "mpirun_rsh": "mpirun", "parallel": "parallel"},
        **{"apptainer": "apptainer", "singularity": "singularity", "podman": "podman", "docker": "docker"},
        **{"charliecloud": "ch-run", "ch-run": "ch-run", "shifter": "shifter", "enroot": "enroot"},
        **{"sarus": "sarus", "nextflow": "nextflow", "snakemake": "snakemake", "torchrun": "torchrun"},
        **{"accelerate": "accelerate", "deepspeed": "deepspeed", "xargs": "xargs", "dask": "dask"},
        **{"ray": "ray", "spark-submit": "spark", "cwltool": "cwltool", "cromwell": "cromwell"},
    }
)
MPI_LAUNCHERS = frozenset({"srun", "mpirun", "mpiexec", "aprun", "ibrun", "jsrun", "prun"})
CONTAINERS = frozenset(
    {"apptainer", "singularity", "podman", "docker", "ch-run", "shifter", "enroot", "sarus"}
)
# Their own arguments are what they run, so nothing is searched after them.
_WHOLE = frozenset(
    {"nextflow", "snakemake", "torchrun", "accelerate", "deepspeed", "dask", "ray", "spark-submit", "cwltool"}
)


@dataclass(frozen=True, slots=True)
class Call:
    """A program that the script calls."""

    command: Command
    program: str  # as written: python3, ./solver, /opt/x/bin/y
    arguments: tuple[str, ...]
    launchers: tuple[str, ...] = ()  # that start it: srun, apptainer
    image: str | None = None  # of the container it runs in, whose files cannot be checked
    tasks: int | None = None  # as the launcher's options give it

    @property
    def line(self) -> int:
        """The line of the script."""
        return self.command.line

    @property
    def name(self) -> str:
        """The program without its folder."""
        return basename(self.program)


def call_of(command: Command) -> Call | None:
    """Find the call in a command; None where it only sets variables.

    >>> call = call_of(Command(3, ("srun", "-n", "4", "time", "./solver", "-i", "x")))
    >>> call.program, call.arguments, call.launchers, call.tasks
    ('./solver', ('-i', 'x'), ('srun',), 4)
    """
    words, launchers, image, tasks = list(command.words), list[str](), None, None
    while words:
        name = basename(words[0])
        if name in _PLAIN:
            words = _after_options(words, _PLAIN[name].split(), env=name == "env")
            if name == "timeout" and words:
                words = words[1:]
            if name == "taskset" and words and words[0].startswith("0x"):
                words = words[1:]
        elif name in ("conda", "mamba", "micromamba", "uv", "poetry", "pixi", "hatch") and words[1:2] == [
            "run"
        ]:
            words = _after_options(
                words[1:], ["-n", "--name", "-p", "--prefix", "--python", "--with", "-e", "--cwd"]
            )
        elif name in LAUNCHERS and name not in _WHOLE:
            before = words
            launchers.append(LAUNCHERS[name])
            words = _after_launcher(name, words)
            count = before[1 : len(before) - len(words)]
            tasks = _tasks(count) or tasks
            if LAUNCHERS[name] in CONTAINERS and words:
                image, words = words[0], words[1:]
        else:
            if name in LAUNCHERS:
                launchers.append(LAUNCHERS[name])
            return Call(command, words[0], tuple(words[1:]), tuple(launchers), image, tasks)
    if launchers:  # a container's own entry point, an xargs without a program
        return Call(command, command.words[0], tuple(command.words[1:]), tuple(launchers), image, tasks)
    return None


def _after_launcher(name: str, words: list[str]) -> list[str]:
    launcher = LAUNCHERS[name]
    if launcher == "srun":
        return _after_srun(words)
    if launcher in CONTAINERS:
        if words[1:2] and words[1] in ("exec", "run", "shell", "start", "instance"):
            return _after_options(words[1:], _CONTAINER.split())
        return [] if launcher not in ("ch-run", "shifter") else _after_options(words, _CONTAINER.split())
    if launcher == "parallel":
        return [word for word in _after_options(words, _PARALLEL.split()) if word not in (":::", "::::")]
    if launcher == "xargs":
        return _after_options(words, ["-n", "-P", "-I", "-L", "-d", "-a", "-s", "-E"])
    return _after_options(words, _MPI.split())


def _after_options(words: list[str], valued: list[str], *, env: bool = False) -> list[str]:
    """Return the words after the options of the first word."""
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[at + 1 :]
        if word in _MPI_TWO:
            at += 3
        elif word.startswith("-") and len(word) > 1:
            at += 2 if word in valued else 1
        elif env and "=" in word:
            at += 1
        else:
            break
    return words[at:]


def _after_srun(words: list[str]) -> list[str]:
    at = 1
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        word = words[at]
        if word == "--":
            return words[at + 1 :]
        at += 1
        if word.startswith("--"):
            name = word[2:]
            found = [o for n, o in OPTIONS.items() if n == name] or [
                o for n, o in OPTIONS.items() if n.startswith(name)
            ]
            valued = "=" not in word and bool(found) and found[0].argument is Argument.REQUIRED
        else:
            option = OPTIONS.get(SHORT.get(word[1], ""))
            valued = len(word) == 2 and option is not None and option.argument is Argument.REQUIRED
        if valued or word in _SRUN_MORE:
            at += 1
    return words[at:]


def _tasks(options: list[str]) -> int | None:
    """Read the number of tasks from a launcher's options."""
    for at, word in enumerate(options):
        name, equals, value = word.partition("=")
        if word.startswith("-n") and word[2:].isdecimal():
            name, equals, value = "-n", "=", word[2:]
        if name in ("-n", "-np", "--ntasks", "--np", "--n"):
            number = value if equals else "".join(options[at + 1 : at + 2])
            if number.isascii() and number.isdecimal() and len(number) < 9:
                return int(number)
    return None
