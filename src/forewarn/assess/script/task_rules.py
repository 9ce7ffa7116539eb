"""Rules on tasks: how many are requested, and what starts them."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.assessment import Finding
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.script.python_code import imported_by
from forewarn.assess.script.script_context import LARGEST_PYTHON, ScriptContext
from forewarn.job.sbatch.body import language_of
from forewarn.job.sbatch.calls import CONTAINERS, MPI_LAUNCHERS, Call
from forewarn.job.sbatch.files import script_of

# Python packages that let several processes of one program work together.
_PARALLEL_WORDS = """
    mpi4py horovod torch lightning pytorch_lightning deepspeed accelerate tensorflow jax petsc4py h5py
    dolfinx dolfin fenics firedrake dask_mpi lammps yt netCDF4 ray submitit idr_torch openmm gpaw
"""
_PARALLEL = frozenset(_PARALLEL_WORDS.split())
_SERIAL = frozenset({"Rscript", "R", "matlab", "octave", "perl", "ruby", "node", "java", "stata", "sas"})
# Usually started once per task on purpose.
_PER_TASK = frozenset(
    {"hostname", "echo", "true", "date", "sleep", "nvidia-smi", "env", "printenv", "uname", "ls"}
)


def tasks_and_nodes(context: ScriptContext) -> Iterator[Finding]:
    """Find numbers of tasks and nodes that contradict each other."""
    options, request = context.script.options, context.script.request
    if "ntasks" not in options or "nodes" not in options:
        return
    line = options.line("nodes") or options.line("ntasks")
    nodes = options.value("nodes") or ""
    if nodes.isdecimal() and int(nodes) > request.tasks:
        yield Finding(
            rule="tasks-and-nodes",
            code=FindingCode.FEWER_TASKS_THAN_NODES,
            values={"tasks": request.tasks, "nodes": int(nodes), "nodes_taken": request.min_nodes},
            line=line,
        )
    each = request.tasks_per_node
    if each and nodes.isdecimal() and each * int(nodes) != request.tasks:
        line = options.line("ntasks-per-node") or line
        product = each * int(nodes)
        yield Finding(
            rule="tasks-and-nodes",
            code=FindingCode.TASKS_DO_NOT_ADD_UP,
            values={
                "nodes": int(nodes),
                "tasks_per_node": each,
                "product": product,
                "tasks": request.tasks,
            },
            line=line,
            severity="warning" if product > request.tasks else "error",
            fix=FixCode.SET_TASKS,
        )


def idle_tasks(context: ScriptContext) -> Iterator[Finding]:
    """Find several requested tasks where nothing starts more than one."""
    request, body = context.script.request, context.script.body
    if request.tasks < 2 or not body.is_shell or not body.calls:
        return
    if set(body.launchers) - CONTAINERS or body.submits or _starts_itself(context):
        return
    option = "ntasks" if "ntasks" in context.script.options else "ntasks-per-node"
    if option not in context.script.options:
        option = "nodes"
    yield Finding(
        rule="idle-tasks",
        code=FindingCode.IDLE_TASKS,
        values={"tasks": request.tasks},
        line=context.script.options.line(option),
        fix=FixCode.START_WITH_SRUN,
    )


def _starts_itself(context: ScriptContext) -> bool:
    """Check for programs that start their own tasks, or scripts that are not read."""
    calls = context.script.body.calls
    opaque = {
        "make",
        "abaqus",
        "ansys",
        "fluent",
        "starccm+",
        "charmrun",
        "g16",
        "orca",
        "namd2",
        "vmd",
        "wait",
    }
    return any(call.name in opaque or call.name.endswith((".sh", ".csh")) for call in calls) or any(
        "$" in call.program for call in calls
    )


def copies(context: ScriptContext) -> Iterator[Finding]:
    """Find serial programs started by `srun` with several tasks: each task runs the same work."""
    for call in context.script.body.calls:
        launcher = next((name for name in call.launchers if name in MPI_LAUNCHERS), None)
        tasks = call.tasks or context.script.request.tasks
        if launcher is None or tasks < 2 or call.image is not None or call.name in _PER_TASK:
            continue
        if (why := _is_serial(context, call)) is not None and "SLURM_PROCID" not in context.script.text:
            yield Finding(
                rule="srun-without-mpi",
                code=FindingCode.COPIES_WITHOUT_MPI,
                values={"launcher": launcher, "tasks": tasks, "program": call.name, "why": why},
                line=call.line,
                fix=FixCode.ONE_TASK,
            )


def _is_serial(context: ScriptContext, call: Call) -> str | None:
    """Return why a program cannot cooperate with its copies; None where it may."""
    if call.name in _SERIAL:
        script = script_of(call)
        full_path = context.resolve(script) if script else None
        text = context.host.head(full_path, LARGEST_PYTHON) if full_path else None
        return "no_mpi_program" if text is not None and b"mpi" not in text.lower() else None
    if language_of(call.program) == "python":
        return _python_is_serial(context, call)
    full_path = context.resolve(call.program) if "/" in call.program else context.host.which(call.program)
    program = context.program_at(full_path) if full_path else None
    if program is None or not program.needed:
        return None
    linked = any("mpi" in name.lower() or "pmi" in name for name in program.needed)
    return None if linked else "not_linked_with_mpi"


def _python_is_serial(context: ScriptContext, call: Call) -> str | None:
    script = script_of(call)
    full_path = context.resolve(script) if script else None
    tree = context.python_at(full_path) if full_path else None
    if tree is None or _PARALLEL & imported_by(tree):
        return None
    others = imported_by(tree) - _STANDARD
    return "no_parallel_import" if not others - _KNOWN_SERIAL else None


_STANDARD_WORDS = """
    __future__ abc argparse array ast base64 collections concurrent configparser contextlib copy csv
    dataclasses datetime decimal enum functools glob gzip hashlib io itertools json logging math
    multiprocessing os pathlib pickle platform random re shutil socket statistics string struct subprocess
    sys tempfile threading time traceback typing uuid warnings zipfile
"""
_STANDARD = frozenset(_STANDARD_WORDS.split())
_KNOWN_SERIAL = frozenset(
    {"numpy", "scipy", "pandas", "matplotlib", "sklearn", "polars", "numba", "tqdm", "yaml"}
)


def missing_launcher(context: ScriptContext) -> Iterator[Finding]:
    """Find MPI programs started without srun or mpirun, though several tasks are requested."""
    if context.script.request.tasks < 2:
        return
    for call in context.script.body.calls:
        if call.launchers or "/" not in call.program or (full_path := context.resolve(call.program)) is None:
            continue
        program = context.program_at(full_path)
        if program and any(name.startswith(("libmpi", "libpmix")) for name in program.needed):
            yield Finding(
                rule="mpi-without-launcher",
                code=FindingCode.MPI_WITHOUT_LAUNCHER,
                values={"program": call.program},
                line=call.line,
                fix=FixCode.PUT_SRUN_BEFORE,
            )


RULES = (tasks_and_nodes, idle_tasks, copies, missing_launcher)
