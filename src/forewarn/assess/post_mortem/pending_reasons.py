"""Why a job waits: Slurm's reasons in words, and what can be done.

The names are those of `squeue`'s man page; a reason that is not here is told as Slurm writes it.
"""

from __future__ import annotations

import re

from forewarn.assess.post_mortem.pending_reason_table import HELD_BY_LIMIT, REASONS, PendingReason
from forewarn.assess.post_mortem.report import Confidence

# Limits by name: QOSMaxCpuPerUserLimit, AssocGrpCPUMinutesLimit, QOSGrpNodeLimit, MaxJobsPerAccount …
_LIMIT = re.compile(
    r"(?P<owner>QOS|Assoc|Association)?(?P<sort>Grp|Max|Min)(?P<thing>[A-Za-z]+?)(?P<per>Per(?:User|Account|Job|Node|Acct))?"
    r"(?:Limit)?(?:NotSatisfied)?(?:PerUser|PerAccount)?"
)
_THINGS = {
    "cpumin": "CPU minutes",
    "cpurunmin": "CPU minutes of running jobs",
    "cpu": "CPUs",
    "node": "nodes",
    "nodes": "nodes",
    "mem": "memory",
    "memory": "memory",
    "memmin": "memory minutes",
    "memrunmin": "memory minutes of running jobs",
    "gres": "GPUs or other devices",
    "gresmin": "minutes of GPUs or other devices",
    "gresrunmin": "minutes of GPUs or other devices of running jobs",
    "job": "jobs",
    "jobs": "jobs",
    "submitjob": "submitted jobs",
    "submitjobs": "submitted jobs",
    "wall": "time",
    "walldurationper": "time",
    "walldur": "time",
    "cpuminutes": "CPU minutes",
    "cpurunminutes": "CPU minutes of running jobs",
    "license": "licences",
    "bb": "burst buffers",
    "energy": "energy",
    "billing": "billed resources",
    "billingmin": "billed minutes",
    "billingrunmin": "billed minutes of running jobs",
    "wallduration": "time",
    "nodemin": "node minutes",
    "noderunmin": "node minutes of running jobs",
    "disk": "disk space",
    "unknown": "resources",
}
_PER = {
    "PerUser": "a user",
    "PerAccount": "an account",
    "PerAcct": "an account",
    "PerJob": "a job",
    "PerNode": "a node",
}


def in_words(reason: str | None) -> PendingReason:
    """What a reason says.

    >>> in_words("QOSMaxCpuPerUserLimit").words
    'its QOS lets a user have only so many CPUs at once'
    >>> in_words("AssocGrpCPUMinutesLimit").words
    'its account together may have only so many CPU minutes, and they are used up'
    >>> in_words("ReqNodeNotAvail, UnavailableNodes:n[1-3]").words.endswith("(n[1-3])")
    True
    """
    if not reason:
        return PendingReason("Slurm gives no reason", confidence=Confidence.UNKNOWN)
    plain, _, more = reason.replace("_,", ",").partition(",")
    name = plain.strip().strip("()")
    found = REASONS.get(reason) or REASONS.get(name) or _by_begin(reason)
    if found is not None:
        nodes = re.search(r"UnavailableNodes:(\S+)", more or reason)
        words = f"{found.words} ({nodes[1]})" if nodes and nodes[1] else found.words
        return PendingReason(words, found.to_do, found.never)
    limit = _LIMIT.fullmatch(name)
    if limit is not None:
        return _limit(limit)
    return PendingReason(f"Slurm says: {reason.replace('_', ' ')}", confidence=Confidence.POSSIBLE)


def _by_begin(reason: str) -> PendingReason | None:
    begins = (
        ("Nodes_required", REASONS["Nodes_required"]),
        ("Nodes required", REASONS["Nodes_required"]),
        ("ReqNodeNotAvail", REASONS["ReqNodeNotAvail"]),
        ("launch", REASONS["launch_failed_requeued_held"]),
        ("BurstBuffer", REASONS["BurstBufferOperation"]),
    )
    return next((found for begin, found in begins if reason.startswith(begin)), None)


def _limit(found: re.Match[str]) -> PendingReason:
    owner = {"QOS": "its QOS", None: "a limit"}.get(found["owner"], "its account")
    name = found["thing"].lower().removesuffix("utes")
    thing = _THINGS.get(name, _THINGS.get(name.removesuffix("s"), found["thing"]))
    per = _PER.get(found["per"] or "")
    spent = "minutes" in thing and "running" not in thing
    if found["sort"] == "Min":
        return PendingReason(
            f"{owner} wants more {thing} than it asks for", "Ask for more, or use another --qos.", never=True
        )
    if found["per"] in ("PerJob", "PerNode") or thing == "time":
        where = f" for {per}" if per else ""
        return PendingReason(
            f"{owner} allows only so much {thing}{where}, and it asks for more: it will not start like this",
            "Ask for less (`scontrol update job JOBID …`), or use another --qos.",
            never=True,
        )
    if spent:
        return PendingReason(
            f"{owner} together may have only so many {thing}, and they are used up",
            "Ask who manages the account for more, or use another (-A).",
        )
    many = "much" if thing in ("memory", "energy", "disk space") else "many"
    if found["sort"] == "Grp":
        return PendingReason(f"{owner} together may have only so {many} {thing} at once", HELD_BY_LIMIT)
    return PendingReason(f"{owner} lets {per or 'a user'} have only so {many} {thing} at once", HELD_BY_LIMIT)
