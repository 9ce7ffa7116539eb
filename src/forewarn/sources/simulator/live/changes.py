"""What users do from outside, applied to the simulated cluster: submissions, changes, cancellations."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any

from forewarn.job.sbatch.script_facts import script_facts
from forewarn.job.sbatch.values import array_tasks
from forewarn.job.units import JobId, parse_job_id
from forewarn.sources.simulator.kernel import endings, engine
from forewarn.sources.simulator.kernel.layout import BY_NODE, ENDED, PENDING, RUNNING, SINGLE, Records
from forewarn.sources.simulator.live.actions import UserAction
from forewarn.sources.simulator.live.admission import (
    DENIED,
    INVALID_ACCOUNT,
    MIB,
    UNKNOWN_JOB,
    AdmittedRequest,
    refused,
)
from forewarn.sources.simulator.live.dependencies import read_dependency
from forewarn.sources.simulator.live.programs import ProgramNeeds, case_in, needs_of
from forewarn.sources.simulator.live.world import LiveWorld, VisitorJob
from forewarn.sources.slurm.job_requests import JobSubmission, JobUpdate

OPERATOR = "root"  # may change and cancel everybody's jobs
_ALREADY_DONE = 2021
_LARGEST_ARRAY, _LARGEST_SCRIPT = 1000, 1 << 18
# Fields that make a job the same case again.
_SAME_CASE = ("workflow", "stem", "campaign", "index", "shape", "version", "mistake")


def apply_action(world: LiveWorld, action: UserAction) -> str:
    """Apply an action at the moment that the cluster has reached; return the job's id.

    Raises `RefusedError`, and then changes nothing.
    """
    if action.submission is not None:
        return _submit(world, action, action.submission)
    assert action.job_id is not None
    target = parse_job_id(action.job_id)
    seqs = _own_jobs(world, target, action)
    if action.update is not None:
        for seq in seqs:
            _check_update(world, seq, action.update, action.user)
        for seq in seqs:
            _update(world, seq, action.update, action.at)
    else:
        for seq in seqs:
            world.cancelled_by[seq] = action.user
            world.held.discard(seq)
            world.waiting.pop(seq, None)
            world.act(engine.CANCEL, seq, action.at)
    return action.job_id


def _own_jobs(world: LiveWorld, target: JobId, action: UserAction) -> list[int]:
    """Return the jobs that an id means and that have not ended; refuse others' jobs."""
    found = world.find(target)
    if not len(found):
        raise refused(f"invalid job id specified: {target.job}", UNKNOWN_JOB)
    owners = {world.owner(job, int(seq)) for job, seq in zip(found.jobs, found.seqs, strict=True)}
    if action.user != OPERATOR and owners != {action.user}:
        raise refused(f"access/permission denied: job {target.job} is another user's", DENIED)
    live = found.seqs[found.jobs["state"] != ENDED].tolist()
    if not live:
        raise refused(f"job {target.job} has ended already", _ALREADY_DONE)
    return [int(seq) for seq in live]


# --- submissions ----------------------------------------------------------------------------------


def _submit(world: LiveWorld, action: UserAction, job: JobSubmission) -> str:
    if len(job.script) > _LARGEST_SCRIPT:
        raise refused(f"the script is larger than {_LARGEST_SCRIPT:,} characters")
    request = world.admission.admit(job)
    mask = world.admission.excluded(job.excluded_nodes, job.required_nodes, request.partition, request.nodes)
    dependency = read_dependency(job.dependency) if job.dependency else None
    for condition in dependency.conditions if dependency else ():
        if condition.number is not None and not len(world.find(JobId(condition.number, task=condition.task))):
            raise refused(f"job dependency problem: no job {condition.number}")
    tasks = _tasks(job.array)
    origin = _same_case(world, job.script)
    needs = [_needs(world, action.user, job, request, task or 0, origin) for task in tasks]
    number, agent = world.place_of(action.user)
    submitted = VisitorJob(
        submission=job, user=action.user, facts=script_facts(job.script), of_cluster=origin is not None
    )
    account, row = _account(world, job.account, agent), world.exclusion_row(mask)
    first = world.next_numbers(len(tasks))
    for place, (task, need) in enumerate(zip(tasks, needs, strict=True)):
        is_array = task is not None
        # As Slurm numbers tasks: the last keeps the array's own number.
        own = first if not is_array or place == len(tasks) - 1 else first + place + 1
        fields = {
            "number": own,
            "array": first if is_array else 0,
            "task": -1 if task is None else task,
            "user": number,
            "agent": agent,
            "account": account,
            "group": account % world.scenario.users.groups,
            "shape": SINGLE,
            "excluded": row,
            **({name: int(origin[name][0]) for name in _SAME_CASE} if origin is not None else {}),
        }
        seq = world.add(request, need, action.at, submitted, fields)
        if job.comment:
            world.comments[seq] = job.comment
        if dependency is not None:
            world.await_others(seq, dependency)
        if job.hold:
            world.held.add(seq)
        if seq not in world.held and (dependency is None or world.fulfilment(seq) is True):
            world.waiting.pop(seq, None)
            world.act(engine.ENQUEUE, seq, action.at)
    return str(first)


def _tasks(array: str | None) -> list[int | None]:
    """Return the indices of an array's tasks; None for a job that is not an array."""
    if array is None:
        return [None]
    try:
        text = array_tasks(array).partition("%")[0]
    except ValueError as error:
        raise refused(f"invalid job array specification: {error}") from None
    found: list[int | None] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if int(high or low) - int(low) + len(found) >= _LARGEST_ARRAY:
            raise refused(f"invalid job array specification: more than {_LARGEST_ARRAY:,} tasks")
        found += range(int(low), int(high or low) + 1)
    return found


def _account(world: LiveWorld, name: str | None, agent: int) -> int:
    """Return the number of an account: the one named, else the user's own."""
    accounts = world.scenario.users.accounts
    if name is None:
        slot = int(world.kernel.agents[agent]["user"])
        if slot < world.scenario.users.slots:
            return int(world.kernel.people[slot]["account"])
        return slot % accounts
    number = int(name[4:]) if name.startswith("proj") and name[4:].isdecimal() else 0
    if not 1 <= number <= accounts:
        raise refused(
            f"invalid account or account/partition combination specified: {name!r}", INVALID_ACCOUNT
        )
    return number - 1


def _same_case(world: LiveWorld, script: str) -> Records | None:
    """Return the last job of this cluster whose script this is; None where it is a user's own."""
    case = case_in(script)
    found = world.matching(campaign=case[0], index=case[1], visitor=0) if case else []
    return found[-1].jobs[-1:] if found else None


def _needs(
    world: LiveWorld,
    user: str,
    job: JobSubmission,
    request: AdmittedRequest,
    task: int,
    origin: Records | None,
) -> ProgramNeeds:
    if origin is None:
        return needs_of(job.script, user, task, request, world.scenario, world.kernel)
    one = {field.name: int(origin[field.name][0]) for field in fields_of(ProgramNeeds)}
    # A run that was flaky may succeed the next time; a broken script or input fails again.
    fails_again = int(origin["mistake"][0]) > 0 or one["bug_cause"] == endings.INPUT
    return ProgramNeeds(**(one if fails_again else one | {"bug_after": endings.NEVER}))


# --- changes --------------------------------------------------------------------------------------


def _check_update(world: LiveWorld, seq: int, changes: JobUpdate, user: str) -> None:
    """Refuse what slurmctld would refuse."""
    job = world.record(seq)[0]
    partition = (
        int(job["partition"]) if changes.partition is None else world.admission.partition(changes.partition)
    )
    if changes.time_limit is not None:
        limit = _whole_minutes(changes.time_limit)
        world.admission.check_limit(partition, limit)
        if job["state"] == RUNNING and limit > job["limit"] and user != OPERATOR:
            raise refused("access/permission denied: only an operator extends a running job", DENIED)
    if job["state"] == RUNNING:
        fixed = ("memory_per_node", "partition", "excluded_nodes", "held", "qos")
        if wrong := [name for name in fixed if getattr(changes, name) is not None]:
            raise refused(f"job is no longer pending execution: {', '.join(wrong)} cannot be changed")
    if changes.partition is not None:
        group, spec = world.admission.group(partition), world.scenario.partitions[partition]
        if (
            job["nodes"] > min(spec.nodes_max, group.count)
            or job["cpus_node"] > group.cpus
            or job["gpus_node"] > group.gpus
            or (changes.time_limit is None and job["limit"] > spec.time_max)
        ):
            raise refused(f"requested node configuration is not available in {spec.name}")
    mode, asked = _memory(job, changes)
    world.admission.memory_given(partition, mode, asked, int(job["cpus_node"]))
    if changes.excluded_nodes:
        world.admission.excluded(changes.excluded_nodes, None, partition, int(job["nodes"]))


def _update(world: LiveWorld, seq: int, changes: JobUpdate, at: int) -> None:
    job = world.record(seq)
    is_pending = int(job["state"][0]) == PENDING
    was_queued = seq not in world.held and seq not in world.waiting
    job["changed_at"] = at
    if changes.comment is not None:
        world.comments[seq] = changes.comment
    if changes.time_limit is not None:
        job["limit"] = _whole_minutes(changes.time_limit)
    if not is_pending:
        world.act(engine.AIM, seq, at)
        return
    if changes.partition is not None:
        if was_queued:
            world.act(engine.WITHDRAW, seq, at)
        job["partition"] = world.admission.partition(changes.partition)
    mode, asked = _memory(job[0], changes)
    job["memory_mode"], job["memory_asked"] = mode, asked
    job["memory_given"] = world.admission.memory_given(
        int(job["partition"][0]), mode, asked, int(job["cpus_node"][0])
    )
    if changes.excluded_nodes is not None:
        mask = world.admission.excluded(
            changes.excluded_nodes or None, None, int(job["partition"][0]), int(job["nodes"][0])
        )
        job["excluded"] = world.exclusion_row(mask)
    if changes.held is not None:
        (world.held.add if changes.held else world.held.discard)(seq)
    is_queued = seq not in world.held and seq not in world.waiting
    if is_queued and (not was_queued or changes.partition is not None):
        world.act(engine.ENQUEUE, seq, at)
    elif was_queued and not is_queued:
        world.act(engine.WITHDRAW, seq, at)
    elif is_queued:
        world.act(engine.SERVE, seq, at)


def _memory(job: Any, changes: JobUpdate) -> tuple[int, int]:
    """Return how memory is requested after a change."""
    if changes.memory_per_node is None:
        return int(job["memory_mode"]), int(job["memory_asked"])
    return BY_NODE, max(1, -(-changes.memory_per_node // MIB))


def _whole_minutes(seconds: int) -> int:
    return -(-seconds // 60) * 60
