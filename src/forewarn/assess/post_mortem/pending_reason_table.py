"""The reasons for which a job waits, as Slurm names them: in words, with what can be done."""

from __future__ import annotations

from dataclasses import dataclass

from forewarn.assess.post_mortem.report import Confidence


@dataclass(frozen=True, slots=True)
class PendingReason:
    """A reason to wait."""

    words: str
    to_do: str | None = None
    never: bool = False  # it will not start by itself
    confidence: Confidence = Confidence.CERTAIN


_WAIT = None  # there is nothing to do
_SMALLER = "Less time, memory or fewer nodes let it slip into gaps earlier."
HELD_BY_LIMIT = "It starts when enough of the jobs that count against this limit have ended."
REASONS: dict[str, PendingReason] = {
    "None": PendingReason("Slurm has not looked at it yet", _WAIT),
    "Priority": PendingReason("jobs of higher priority are before it", _SMALLER),
    "Resources": PendingReason("it is next in line, and waits until enough nodes are free", _SMALLER),
    "Dependency": PendingReason("it waits for other jobs to end as it asked (--dependency)", _WAIT),
    "DependencyNeverSatisfied": PendingReason(
        "it waits for a job that has ended otherwise than it asked: it will never start",
        "Cancel it, look at the job it depends on (`forewarn explain`), and submit both again.",
        never=True,
    ),
    "BeginTime": PendingReason(
        "its own begin time (--begin, or a delay after a requeue) has not come", _WAIT
    ),
    "JobHeldUser": PendingReason(
        "it is held by its user", "`scontrol release JOBID` lets it go.", never=True
    ),
    "JobHeldAdmin": PendingReason("it is held by the site", "Ask the site why.", never=True),
    "JobHoldMaxRequeue": PendingReason(
        "it was begun again too often, and is held now",
        "Find out why it does not start, then `scontrol release JOBID`.",
        never=True,
    ),
    "JobLaunchFailure": PendingReason(
        "it could not be started the last time", "Ask the site to look at the node it was to run on."
    ),
    "Licenses": PendingReason("it waits for a licence", "It starts when one is free."),
    "Reservation": PendingReason("it waits for its reservation to begin", _WAIT),
    "ReservationDeleted": PendingReason(
        "its reservation is gone", "`scontrol update job JOBID reservation=` takes it out.", never=True
    ),
    "ReqNodeNotAvail": PendingReason(
        "a node that it asks for by name or feature is down, drained or reserved, often for a maintenance",
        "A shorter --time can end before a maintenance; else leave out --nodelist or --constraint.",
    ),
    "NodeDown": PendingReason("a node that it needs is down", "Leave out --nodelist, or wait for the site."),
    "PartitionDown": PendingReason(
        "its partition is down", "Wait for the site, or choose another partition (`scontrol update`)."
    ),
    "PartitionInactive": PendingReason(
        "its partition takes no jobs now", "Wait for the site, or choose another partition."
    ),
    "PartitionTimeLimit": PendingReason(
        "it asks for more time than its partition allows: it will not start like this",
        "`scontrol update job JOBID TimeLimit=…` with less, or another partition.",
        never=True,
    ),
    "PartitionNodeLimit": PendingReason(
        "it asks for more (or fewer) nodes than its partition allows or has: it will not start like this",
        "`scontrol update job JOBID NumNodes=…`, or another partition.",
        never=True,
    ),
    "BadConstraints": PendingReason(
        "no node can ever fit what it asks for",
        "Correct --constraint, --mem, --gres or the number of CPUs a node, and submit it again.",
        never=True,
    ),
    "AccountNotAllowed": PendingReason(
        "its account may not use this partition", "Use another account (-A) or partition (-p).", never=True
    ),
    "QOSNotAllowed": PendingReason(
        "its QOS may not be used here", "Use another --qos, account or partition.", never=True
    ),
    "AssociationJobLimit": PendingReason("its account has as many jobs as it may", HELD_BY_LIMIT),
    "AssociationResourceLimit": PendingReason("its account uses as much as it may", HELD_BY_LIMIT),
    "AssociationTimeLimit": PendingReason(
        "its account has used up its time",
        "Ask who manages the account, or use another (-A).",
        never=True,
    ),
    "QOSJobLimit": PendingReason("its QOS has as many jobs as it may", HELD_BY_LIMIT),
    "QOSResourceLimit": PendingReason("its QOS uses as much as it may", HELD_BY_LIMIT),
    "QOSTimeLimit": PendingReason(
        "its QOS has used up its time", "Use another --qos, or ask the site.", never=True
    ),
    "QOSUsageThreshold": PendingReason(
        "too much was used of its QOS lately", "It waits until that has faded, or use another --qos."
    ),
    "InvalidAccount": PendingReason(
        "its account is not valid", "`scontrol update job JOBID Account=…`.", never=True
    ),
    "InvalidQOS": PendingReason("its QOS is not valid", "`scontrol update job JOBID QOS=…`.", never=True),
    "JobArrayTaskLimit": PendingReason(
        "as many tasks of its array run as it allows itself (%N)",
        "`scontrol update job JOBID ArrayTaskThrottle=…`.",
    ),
    "Cleaning": PendingReason("its earlier run is still being cleaned up", _WAIT),
    "Prolog": PendingReason("the site's preparation of its node is still running", _WAIT),
    "Constraints": PendingReason(
        "the nodes with the features that it asks for are in use",
        "Fewer features in --constraint leave more nodes.",
    ),
    "FedJobLock": PendingReason("it is being settled with other clusters of the federation", _WAIT),
    "FrontEndDown": PendingReason("no front end node is up to start it", "Wait for the site."),
    "BurstBufferOperation": PendingReason("its burst buffer is at work", _WAIT),
    "BurstBufferResources": PendingReason("there is no room in the burst buffer", _WAIT),
    "BurstBufferStageIn": PendingReason("its data are being brought in", _WAIT),
    "DeadLine": PendingReason(
        "it can no longer end before its deadline", "Set a later --deadline or a shorter --time.", never=True
    ),
    "InactiveLimit": PendingReason("it reached the system's limit for inactivity", None),
    "NonZeroExitCode": PendingReason(
        "its earlier run ended with an error, and it was requeued", "See the log of that run."
    ),
    "OutOfMemory": PendingReason(
        "its earlier run was out of memory, and it was requeued", "Ask for more memory."
    ),
    "SystemFailure": PendingReason("its earlier run ended by a failure of the system", _WAIT),
    "TimeLimit": PendingReason("its earlier run reached its time limit", None),
    "AccountingPolicy": PendingReason("a limit of its account or QOS is reached", HELD_BY_LIMIT),
    "MaxMemPerLimit": PendingReason(
        "it asks for more memory than its partition allows",
        "Ask for less memory or another partition.",
        never=True,
    ),
    "RequeueHold": PendingReason(
        "it was requeued and is held", "`scontrol release JOBID` lets it go.", never=True
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
        "the nodes that fit it are down, drained, or kept for partitions of higher priority",
        _SMALLER,
    ),
}
