"""Explain why a job is pending: Slurm's reasons in English, and what to do.

The names are those of `squeue`'s man page; an unknown reason is shown as Slurm writes it.
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
    "PerUser": "user",
    "PerAccount": "account",
    "PerAcct": "account",
    "PerJob": "job",
    "PerNode": "node",
}


def in_words(reason: str | None) -> PendingReason:
    """Explain a reason.

    >>> in_words("QOSMaxCpuPerUserLimit").words
    'its QOS limits the CPUs per user, and the limit is reached'
    >>> in_words("AssocGrpCPUMinutesLimit").words
    'the CPU minutes of its account are used up'
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
    return PendingReason(f"Slurm's reason is {reason.replace('_', ' ')}", confidence=Confidence.POSSIBLE)


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
    owner = {"QOS": "its QOS", None: "the cluster"}.get(found["owner"], "its account")
    name = found["thing"].lower().removesuffix("utes")
    thing = _THINGS.get(name, _THINGS.get(name.removesuffix("s"), found["thing"]))
    per = _PER.get(found["per"] or "")
    if found["sort"] == "Min":
        less = "less" if thing in ("memory", "energy", "disk space", "time") else "fewer"
        return PendingReason(
            f"it requests {less} {thing} than {owner} requires",
            "Request more, or use another --qos.",
            never=True,
        )
    if found["per"] in ("PerJob", "PerNode") or thing == "time":
        where = f" per {per}" if per else ""
        return PendingReason(
            f"it requests more {thing}{where} than {owner} allows: it will not start like this",
            "Request less (`scontrol update job JOBID …`), or use another --qos.",
            never=True,
        )
    if "minutes" in thing and "running" not in thing:
        return PendingReason(
            f"the {thing} of {owner} are used up",
            "Ask the account's manager for more, or use another account (-A).",
        )
    if found["sort"] == "Grp":
        return PendingReason(
            f"{owner} limits the {thing} of all its jobs together, and the limit is reached", HELD_BY_LIMIT
        )
    return PendingReason(
        f"{owner} limits the {thing} per {per or 'user'}, and the limit is reached", HELD_BY_LIMIT
    )
