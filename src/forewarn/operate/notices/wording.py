"""English for notices: titles, facts and advice from assessments, post-mortems and node health.

Every text that comes from a user or a node passes `plain` here: channels get single lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from forewarn.assess import wording as assessing
from forewarn.assess.assessment import Assessment
from forewarn.assess.node_health.records import NodeHealth
from forewarn.assess.post_mortem.report import PostMortem
from forewarn.assess.wording import Reader
from forewarn.formatting import count, full_sentence, node_hours, percent, sentence
from forewarn.job.outcomes import cause_name, outcome_name
from forewarn.job.record import Job
from forewarn.job.units import compress_nodes
from forewarn.operate.notices.notice import Message, Notice
from forewarn.operate.notices.plain_text import plain

MOST_NODES = 10  # whose evidence is written
MOST_ADVICE = 3
NO_LINK = (
    "serve.url is not set, so messages have no link to acknowledge them; set it to the service's address"
)

# --- jobs at risk ------------------------------------------------------------------------------------------


def risk_title(assessment: Assessment, *, jobs: int, hours: float) -> str:
    """Write a job at risk in one line."""
    assert assessment.failure is not None
    what = _jobs(assessment.job_id, assessment.name, assessment.cluster, jobs)
    return f"{what}: {percent(assessment.failure.probability)} risk of failure, {_at_risk(hours)}"


def risk_message(assessment: Assessment, *, jobs: int, hours: float, for_owner: bool) -> Message:
    """Write a warning: the risk, the first reason, the first advice with its command."""
    reader = Reader(None) if for_owner else Reader(assessment.user)
    assert assessment.failure is not None
    facts = [("Risk", sentence(assessing.summary(assessment, reader)))]
    if not for_owner:
        facts.append(("User", assessment.user or "unknown"))
    raising = [one for one in assessment.reasons if one.weight > 0]
    if raising:
        facts.append(("Reason", sentence(assessing.reason(raising[0], reader))))
    elif assessment.failure.causes:
        facts.append(("Cause", sentence(cause_name(assessment.failure.causes[0].outcome))))
    if jobs > 1:
        facts.append(("Jobs", f"{count(jobs, 'job')} of the same request, {_at_risk(hours)} in all"))
    facts.append(("Job", _state(assessment)))
    advice: tuple[str, ...] = ()
    command = None
    if assessment.advice:
        first = assessment.advice[0]
        change = assessing.risk_change(first.risk_before, first.risk_after)
        effect = f" ({change})" if change else ""
        advice = (f"{sentence(assessing.what(first, reader))}{effect}.", *assessing.advice(first, reader))
        command = first.command
    return _message(risk_title(assessment, jobs=jobs, hours=hours), facts, advice, command)


def _state(assessment: Assessment) -> str:
    state = f"{(assessment.state or assessment.phase).lower()}"
    return f"{assessment.job_id} is {state}" + (
        f" in partition {assessment.partition}" if assessment.partition else ""
    )


# --- failed jobs -------------------------------------------------------------------------------------------


def failure_title(job: Job, *, jobs: int, hours: float) -> str:
    """Write a failed job in one line."""
    what = _jobs(job.job_id, job.name, job.cluster, jobs)
    lost = f", {node_hours(hours)} node hours used" if hours >= 0.05 else ""
    return f"{what} failed: {cause_name(job.outcome or 'failed')}{lost}"


def failure_message(
    job: Job, report: PostMortem | None, *, jobs: int, hours: float, for_owner: bool
) -> Message:
    """Write what happened and what to change; the report is of one job that represents the others."""
    facts = []
    if report is not None:
        facts.append(("What happened", f"{report.cause} (cause {report.confidence.value})"))
        evidence = [one.what for one in sorted(report.evidence, key=lambda one: -one.worth)]
        facts += [("Evidence", sentence(text)) for text in evidence[:2]]
    else:
        facts.append(("What happened", f"The job ended as {outcome_name(job.outcome or 'failed')}"))
    if not for_owner:
        facts.append(("User", job.user or "unknown"))
    if jobs > 1:
        facts.append(("Jobs", f"{count(jobs, 'job')} of this array or bulk failed; this is {job.job_id}"))
    job_id = shlex.quote(plain(job.job_id))
    again = f"`forewarn retry {job_id}` says whether and how to submit it again"
    advice = (*(report.what_to_do[:MOST_ADVICE] if report is not None else ()), again)
    command = f"forewarn explain {job_id}"
    return _message(failure_title(job, jobs=jobs, hours=hours), facts, advice, command)


# --- nodes -------------------------------------------------------------------------------------------------


def node_title(nodes: Sequence[NodeHealth]) -> str:
    """Write sick nodes in one line."""
    names = plain(compress_nodes(node.node for node in nodes))
    return f"{count(len(nodes), 'node')} of {plain(nodes[0].cluster, 60)} became sick: {names}"


def node_message(nodes: Sequence[NodeHealth]) -> Message:
    """Write the evidence against each node, and the command that drains those in service."""
    facts = []
    for node in nodes[:MOST_NODES]:
        evidence = "; ".join(one.what for one in node.evidence) or "no evidence recorded"
        facts.append((plain(node.node, 60), f"{evidence} (state {(node.state or 'unknown').lower()})"))
    if len(nodes) > MOST_NODES:
        facts.append(("Others", count(len(nodes) - MOST_NODES, "more node")))
    serving = [node.node for node in nodes if node.in_service]
    advice: tuple[str, ...] = ()
    command = None
    if serving:
        advice = ("Slurm still starts jobs there: drain them until the cause is known.",)
        names = shlex.quote(plain(compress_nodes(serving), 2000))
        command = f"scontrol update NodeName={names} State=DRAIN Reason='sick, by Forewarn'"
    return _message(node_title(nodes), facts, advice, command)


# --- digests, tests and footers ----------------------------------------------------------------------------


def digest_message(notices: Sequence[Notice], others: int, hours: float) -> Message:
    """Write the notices beyond a day's budget, those with the most hours first, and how many are left out."""
    total = len(notices) + others
    title = f"{count(total, 'more notice')} beyond your daily number, {_at_risk(hours)} or lost"
    facts = [(one.rule, one.message.title) for one in notices]
    if others:
        facts.append(("Others", f"{count(others, 'notice')} with fewer hours, not listed"))
    return _message(title, facts, (), None)


def trial_message(host: str) -> Message:
    """Write a message that shows that notices arrive."""
    return _message(
        "Forewarn: notices arrive here", [("Test", f"Sent by `forewarn notices test` on {host}")], (), None
    )


def precision_text(came_true: int, judged: int) -> str:
    """State how often such notices were right.

    >>> precision_text(31, 40), precision_text(0, 0)
    ('Of the last 40 such warnings 31 came true.', 'No such warning has been judged yet.')
    """
    if not judged:
        return "No such warning has been judged yet."
    return f"Of the last {count(judged, 'such warning')} {came_true} came true."


def silence_text(rule: str, user: str | None) -> str:
    """Say how to get no more of them: to a user, who has no access to the home, or to operators.

    >>> silence_text("risk", "ann")
    'No more of the rule risk: ask the operators to run `forewarn notices silence --rule risk --user ann`.'
    """
    command = f"forewarn notices silence --rule {rule}"
    if user is None:
        return f"No more of the rule {rule}: `{command}`."
    return f"No more of the rule {rule}: ask the operators to run `{command} --user {shlex.quote(user)}`."


def why_text(rule: str, budget: int) -> str:
    """Say why the recipient gets this."""
    return f"Sent by Forewarn, rule {rule}; at most {count(budget, 'notice')} a day, then one digest."


def ignored_reason(rule: str, number: int) -> str:
    """State why a rule was silenced for a recipient."""
    return f"the last {number} notices of the rule {rule} had neither an acknowledgement nor a change"


def wrong_reason(rule: str, came_true: int, judged: int, promise: float) -> str:
    """State why a rule was silenced for all."""
    share = percent(came_true / judged)
    return (
        f"of the last {judged} notices of the rule {rule} {came_true} came true ({share}), and at least "
        f"{percent(promise)} are promised"
    )


# --- parts -------------------------------------------------------------------------------------------------


def _jobs(job_id: str | None, name: str | None, cluster: str, jobs: int) -> str:
    """Name a job, or several by one of them.

    >>> _jobs("7_1", "run", "alps", 1), _jobs("7_1", None, "alps", 12)
    ('Job 7_1 (run) on alps', '12 jobs like 7_1 on alps')
    """
    which = f"Job {plain(job_id, 60)}" if jobs == 1 else f"{count(jobs, 'job')} like {plain(job_id, 60)}"
    named = f" ({plain(name, 60)})" if name else ""
    return f"{which}{named} on {plain(cluster, 60)}"


def _at_risk(hours: float) -> str:
    return f"{node_hours(hours)} node hours at risk"


def _message(
    title: str, facts: Sequence[tuple[str, str]], advice: Sequence[str], command: str | None
) -> Message:
    return Message(
        title=plain(title),
        facts=tuple((plain(name, 60), plain(text, 1000)) for name, text in facts),
        advice=tuple(plain(full_sentence(text), 1000) for text in advice),
        command=None if command is None else plain(command, 2000),
    )
