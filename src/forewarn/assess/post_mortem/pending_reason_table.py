"""The reasons of pending jobs, as Slurm names them: in English, with what to do."""

from __future__ import annotations

from dataclasses import dataclass

from forewarn.assess.post_mortem.report import Confidence


@dataclass(frozen=True, slots=True)
class PendingReason:
    """A reason why a job is pending."""

    words: str
    to_do: str | None = None
    never: bool = False  # it will not start by itself
    confidence: Confidence = Confidence.CERTAIN


_WAIT = None  # nothing to do but wait
_SMALLER = "A shorter time limit, less memory or fewer nodes let backfill start it earlier."
HELD_BY_LIMIT = "It starts when enough of the jobs that count against this limit have ended."
REASONS: dict[str, PendingReason] = {
    "None": PendingReason("Slurm has not considered it yet", _WAIT),
    "Priority": PendingReason("jobs of higher priority are ahead of it", _SMALLER),
    "Resources": PendingReason("it is next, and starts when enough nodes are free", _SMALLER),
    "Dependency": PendingReason("the jobs that it depends on have not ended (--dependency)", _WAIT),
    "DependencyNeverSatisfied": PendingReason(
        "a job that it depends on did not end as required: it will never start",
        "Cancel it, explain the job that it depends on (`forewarn explain`), and submit both again.",
        never=True,
    ),
    "BeginTime": PendingReason(
        "its own begin time (--begin, or a delay after a requeue) has not been reached", _WAIT
    ),
    "JobHeldUser": PendingReason(
        "it is held by its user", "`scontrol release JOBID` releases it.", never=True
    ),
    "JobHeldAdmin": PendingReason("it is held by the site", "Ask the site why.", never=True),
    "JobHoldMaxRequeue": PendingReason(
        "it was requeued too often, and is held now",
        "Find out why it does not start, then `scontrol release JOBID`.",
        never=True,
    ),
    "JobLaunchFailure": PendingReason(
        "its last launch failed", "Ask the site to check the node that it was to run on."
    ),
    "Licenses": PendingReason("no licence is free", "It starts when one is free."),
    "Reservation": PendingReason("its reservation has not begun", _WAIT),
    "ReservationDeleted": PendingReason(
        "its reservation was deleted",
        "`scontrol update job JOBID reservation=` removes the request for it.",
        never=True,
    ),
    "ReqNodeNotAvail": PendingReason(
        "a node that it requests by name or feature is down, drained or reserved, often for maintenance",
        "A shorter --time can end before the maintenance; otherwise leave out --nodelist or --constraint.",
    ),
    "NodeDown": PendingReason("a node that it needs is down", "Leave out --nodelist, or wait for the site."),
    "PartitionDown": PendingReason(
        "its partition is down", "Wait for the site, or choose another partition (`scontrol update`)."
    ),
    "PartitionInactive": PendingReason(
        "its partition is inactive", "Wait for the site, or choose another partition."
    ),
    "PartitionTimeLimit": PendingReason(
        "it requests more time than its partition allows: it will not start like this",
        "`scontrol update job JOBID TimeLimit=…` with less, or another partition.",
        never=True,
    ),
    "PartitionNodeLimit": PendingReason(
        "it requests more (or fewer) nodes than its partition allows or has: it will not start like this",
        "`scontrol update job JOBID NumNodes=…`, or another partition.",
        never=True,
    ),
    "BadConstraints": PendingReason(
        "no node can ever satisfy the request",
        "Fix --constraint, --mem, --gres or the number of CPUs per node, and submit it again.",
        never=True,
    ),
    "AccountNotAllowed": PendingReason(
        "its account may not use this partition", "Use another account (-A) or partition (-p).", never=True
    ),
    "QOSNotAllowed": PendingReason(
        "its QOS may not be used here", "Use another --qos, account or partition.", never=True
    ),
    "AssociationJobLimit": PendingReason("the job limit of its account is reached", HELD_BY_LIMIT),
    "AssociationResourceLimit": PendingReason("the resource limit of its account is reached", HELD_BY_LIMIT),
    "AssociationTimeLimit": PendingReason(
        "the time of its account is used up",
        "Ask the account's manager for more, or use another account (-A).",
        never=True,
    ),
    "QOSJobLimit": PendingReason("the job limit of its QOS is reached", HELD_BY_LIMIT),
    "QOSResourceLimit": PendingReason("the resource limit of its QOS is reached", HELD_BY_LIMIT),
    "QOSTimeLimit": PendingReason(
        "the time of its QOS is used up", "Use another --qos, or ask the site.", never=True
    ),
    "QOSUsageThreshold": PendingReason(
        "the recent usage of its QOS is above the threshold", "Wait until it decays, or use another --qos."
    ),
    "InvalidAccount": PendingReason(
        "its account is not valid", "`scontrol update job JOBID Account=…`.", never=True
    ),
    "InvalidQOS": PendingReason("its QOS is not valid", "`scontrol update job JOBID QOS=…`.", never=True),
    "JobArrayTaskLimit": PendingReason(
        "its array already runs as many tasks as its own limit allows (%N)",
        "`scontrol update job JOBID ArrayTaskThrottle=…`.",
    ),
    "Cleaning": PendingReason("its earlier run is still being cleaned up", _WAIT),
    "Prolog": PendingReason("the prolog of its node is still running", _WAIT),
    "Constraints": PendingReason(
        "the nodes with the requested features are in use",
        "Fewer features in --constraint allow more nodes.",
    ),
    "FedJobLock": PendingReason("it is being synchronized with other clusters of the federation", _WAIT),
    "FrontEndDown": PendingReason("no front end node is up to start it", "Wait for the site."),
    "BurstBufferOperation": PendingReason("its burst buffer is busy", _WAIT),
    "BurstBufferResources": PendingReason("the burst buffer is full", _WAIT),
    "BurstBufferStageIn": PendingReason("its data are being staged in", _WAIT),
    "DeadLine": PendingReason(
        "it can no longer end before its deadline", "Set a later --deadline or a shorter --time.", never=True
    ),
    "InactiveLimit": PendingReason("it reached the system's limit for inactivity", None),
    "NonZeroExitCode": PendingReason(
        "its earlier run ended with an error, and it was requeued", "See the log of that run."
    ),
    "OutOfMemory": PendingReason(
        "its earlier run was out of memory, and it was requeued", "Request more memory."
    ),
    "SystemFailure": PendingReason("its earlier run ended with a system failure", _WAIT),
    "TimeLimit": PendingReason("its earlier run reached its time limit", None),
    "AccountingPolicy": PendingReason("a limit of its account or QOS is reached", HELD_BY_LIMIT),
    "MaxMemPerLimit": PendingReason(
        "it requests more memory than its partition allows",
        "Request less memory or another partition.",
        never=True,
    ),
    "RequeueHold": PendingReason(
        "it was requeued and is held", "`scontrol release JOBID` releases it.", never=True
    ),
    "SpecialExit": PendingReason(
        "its script ended with the site's special exit code, and it is held",
        "`scontrol release JOBID` lets it run again.",
        never=True,
    ),
    "launch_failed_requeued_held": PendingReason(
        "it could not be started, was requeued and is held",
        "Find out why (the folder or the output file may be missing), then `scontrol release JOBID`.",
        never=True,
    ),
    "Nodes_required": PendingReason(
        "the nodes that fit it are down, drained, or reserved for partitions of higher priority",
        _SMALLER,
    ),
}
