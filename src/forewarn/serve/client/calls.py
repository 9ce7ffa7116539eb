"""Every call of the service, once for both clients: its arguments, its request, the type of its answer.

The arguments of a function are those of the clients' method with the same name. `docs/service.md` describes
the routes; times are Unix seconds or texts as sacct has them, durations seconds, memory bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, cast
from urllib.parse import quote

from forewarn.assess.assessment import Assessment
from forewarn.serve.client.answers import (
    CancelAnswer,
    ExcludeAnswer,
    JobAnswer,
    JobsAnswer,
    JsonObject,
    LivenessAnswer,
    NoticesAnswer,
    ReadinessAnswer,
    SubmitAnswer,
)
from forewarn.serve.client.call import ServiceCall as Call

if TYPE_CHECKING:
    from forewarn.assess.retry.verdict import RetryVerdict
    from forewarn.operate.explanation import Explanation
    from forewarn.operate.health_result import HealthResult

OneOrMore = str | Sequence[str]
ChangeList = Sequence[Mapping[str, str]]  # [{"option": "mem", "value": "24G"}]
Detail = Literal["brief", "full"]
Shape = TypeVar("Shape")


@dataclass(frozen=True, slots=True)
class AssessmentPage:
    """A page of assessments; `next` is the cursor of the following one."""

    assessments: list[Assessment]
    next: str | None


class JobQuery(TypedDict, total=False):
    """The filters of a list of jobs, as the route has them."""

    user: OneOrMore
    account: OneOrMore
    partition: OneOrMore
    state: OneOrMore
    job_id: OneOrMore
    cluster: OneOrMore
    since: int | str
    until: int | str
    verdict: OneOrMore
    cause: OneOrMore
    phase: OneOrMore
    warns: bool
    least_probability: float
    search: str
    order: str
    descending: bool


def _plain(shape: type[Shape]) -> Any:  # noqa: ARG001 - it only names the type of the answer
    """Return a reader of answers that stay plain JSON."""

    def read(value: Any) -> Shape:
        if not isinstance(value, dict):
            raise TypeError("not a JSON object")
        return cast("Shape", value)

    return read


def _listed(name: str) -> Any:
    def read(value: Any) -> list[JsonObject]:
        return [dict(one) for one in value[name]]

    return read


def _assessments(value: Any) -> list[Assessment]:
    return [Assessment.from_json(one) for one in value["assessments"]]


def _assessment_page(value: Any) -> AssessmentPage:
    return AssessmentPage(_assessments(value), value["next"])


# What only some calls need is imported by those: a check should start quickly.


def _retry(value: Any) -> RetryVerdict:
    from forewarn.assess.json_form import part_from_json
    from forewarn.assess.retry.verdict import RetryVerdict

    return part_from_json(RetryVerdict, value)


def _explanation(value: Any) -> Explanation:
    from forewarn.operate.explanation import Explanation

    return Explanation.from_json(value)


def _health(value: Any) -> HealthResult:
    from forewarn.operate.health_result import HealthResult

    return HealthResult.from_json(value)


def _given(**fields: Any) -> JsonObject:
    """Return the fields that were given: the service refuses a null where it expects a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _job(job_id: str, part: str = "") -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}{part}"


# --- assess ------------------------------------------------------------------------------------------


def assess(job: Mapping[str, Any], *, detail: Detail = "full") -> Call[Assessment]:
    """Assess a job given by its fields, as if it were submitted now."""
    return Call(
        method="POST", path="/v1/assess", read=Assessment.from_json, query={"detail": detail}, body=dict(job)
    )


def assess_batch(jobs: Iterable[Mapping[str, Any]], *, detail: Detail = "brief") -> Call[list[Assessment]]:
    """Assess up to 10,000 jobs in brief, or 200 in full; the answers are in the order of the jobs."""
    return Call(
        method="POST",
        path="/v1/assess/batch",
        read=_assessments,
        query={"detail": detail},
        body={"jobs": [dict(job) for job in jobs]},
    )


def check(
    script: str,
    *,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    cluster: str | None = None,
    user: str | None = None,
    file_name: str | None = None,
    work_dir: str | None = None,
    inspection: Mapping[str, Any] | None = None,
) -> Call[Assessment]:
    """Check a script, given as text, before it is submitted; `options` are arguments of sbatch.

    Files that the script names are judged only by `inspection`: what this machine tells about it
    (`inspection_to_json`), as `forewarn check` sends it.
    """
    body = _given(
        script=script,
        options=list(options),
        environment=dict(environment) if environment else None,
        cluster=cluster,
        user=user,
        file_name=file_name,
        work_dir=work_dir,
        inspection=inspection,
    )
    return Call(method="POST", path="/v1/check", read=Assessment.from_json, body=body)


# --- jobs --------------------------------------------------------------------------------------------


def jobs_page(*, limit: int = 100, after: str | None = None, **which: Unpack[JobQuery]) -> Call[JobsAnswer]:
    """Return one page of jobs, by default those with most node hours at risk first."""
    query = {**which, "limit": limit, "after": after}
    return Call(method="GET", path="/v1/jobs", read=_plain(JobsAnswer), query=query)


def assessments_page(
    *,
    state: OneOrMore | None = None,
    user: OneOrMore | None = None,
    cluster: OneOrMore | None = None,
    partition: OneOrMore | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Call[AssessmentPage]:
    """Return one page of the newest assessments of jobs, by default of pending and running ones."""
    which = {"state": state, "user": user, "cluster": cluster, "partition": partition}
    query = {**which, "limit": limit, "after": after}
    return Call(method="GET", path="/v1/assessments", read=_assessment_page, query=query)


def job(job_id: str, *, cluster: str | None = None) -> Call[JobAnswer]:
    """Return all that is stored about a job: record, changes, assessments, outcome."""
    return Call(method="GET", path=_job(job_id), read=_plain(JobAnswer), query={"cluster": cluster})


def explain(
    job_id: str,
    *,
    cluster: str | None = None,
    log: str | None = None,
    log_tail: str | None = None,
    log_size: int | None = None,
    log_path: str | None = None,
) -> Call[Explanation]:
    """Explain why a job failed or is pending.

    The service reads no logs: `log` is the text of the job's output, of a large one its beginning, with its
    end in `log_tail`.
    """
    path, query = _job(job_id, "/explanation"), {"cluster": cluster}
    if log is None:
        return Call(method="GET", path=path, read=_explanation, query=query)
    body = _given(log=log, tail=log_tail, size=log_size, path=log_path)
    return Call(method="POST", path=path, read=_explanation, query=query, body=body)


def advise(job_id: str, *, cluster: str | None = None) -> Call[Assessment]:
    """Assess a job in full, with what to change; one that ended, as if it were submitted again."""
    return Call(
        method="GET", path=_job(job_id, "/advice"), read=Assessment.from_json, query={"cluster": cluster}
    )


def retry(job_id: str, *, cluster: str | None = None) -> Call[RetryVerdict]:
    """Judge whether and how to submit an ended job again."""
    return Call(method="GET", path=_job(job_id, "/retry"), read=_retry, query={"cluster": cluster})


# --- act, with the caller's Slurm token ---------------------------------------------------------------


def submit(
    script: str,
    *,
    work_dir: str,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Call[SubmitAnswer]:
    """Submit a script to Slurm as the caller."""
    body = _given(
        script=script,
        work_dir=work_dir,
        options=list(options),
        environment=None if environment is None else dict(environment),
        name=name,
    )
    return Call(method="POST", path="/v1/jobs", read=_plain(SubmitAnswer), body=body, changes=True)


def cancel(job_id: str) -> Call[CancelAnswer]:
    """Cancel a job as the caller."""
    return Call(method="POST", path=_job(job_id, "/cancel"), read=_plain(CancelAnswer), changes=True)


def resubmit(
    job_id: str, *, changes: Mapping[str, str] | ChangeList = (), script: str | None = None
) -> Call[SubmitAnswer]:
    """Submit a job again as a new one, with changed options such as ``{"mem": "24G"}``, or as REST has them.

    Where Slurm no longer has its script, this raises `ScriptUnknownError`: send it as `script`.
    """
    if isinstance(changes, Mapping):
        changes = [{"option": option, "value": value} for option, value in changes.items()]
    body = _given(changes=list(changes), script=script)
    return Call(
        method="POST", path=_job(job_id, "/resubmit"), read=_plain(SubmitAnswer), body=body, changes=True
    )


# --- nodes, models, thresholds, trends ----------------------------------------------------------------


def health(*nodes: str, cluster: str | None = None, partition: str | None = None) -> Call[HealthResult]:
    """Judge the nodes of a cluster; `nodes` may be lists as Slurm writes them, n[01-04]."""
    query = {"node": nodes, "cluster": cluster, "partition": partition}
    return Call(method="GET", path="/v1/nodes/health", read=_health, query=query)


def exclude(*, cluster: str | None = None, partition: str | None = None) -> Call[ExcludeAnswer]:
    """Return the option of sbatch that avoids the sick nodes."""
    query = {"cluster": cluster, "partition": partition}
    return Call(method="GET", path="/v1/nodes/exclude", read=_plain(ExcludeAnswer), query=query)


def models(*, cluster: str | None = None) -> Call[list[JsonObject]]:
    """List the models that serve, with their figures on later jobs."""
    return Call(method="GET", path="/v1/models", read=_listed("models"), query={"cluster": cluster})


def thresholds(*, cluster: str | None = None) -> Call[list[JsonObject]]:
    """List the thresholds in force."""
    return Call(method="GET", path="/v1/thresholds", read=_listed("thresholds"), query={"cluster": cluster})


def set_threshold(
    model: str,
    threshold: float,
    *,
    partition: str | None = None,
    reason: str | None = None,
    preview: bool = False,
) -> Call[JsonObject]:
    """Set the threshold of a model; needs the role operator. `preview` only computes what it would mean."""
    body = _given(model=model, threshold=threshold, partition=partition, reason=reason, preview=preview)
    return Call(method="PUT", path="/v1/thresholds", read=_plain(JsonObject), body=body)


def reset_threshold(model: str, *, partition: str | None = None) -> Call[JsonObject]:
    """Remove a threshold that was set; needs the role operator."""
    query = {"model": model, "partition": partition}
    return Call(method="DELETE", path="/v1/thresholds", read=_plain(JsonObject), query=query)


def trends(
    by: str | None = None,
    *,
    every: Literal["day", "week", "month"] = "week",
    since: int | str | None = None,
    until: int | str | None = None,
    cluster: OneOrMore | None = None,
    partition: OneOrMore | None = None,
    account: OneOrMore | None = None,
    user: OneOrMore | None = None,
) -> Call[JsonObject]:
    """Count jobs, failures and wasted hours over time, by user, account, partition or profile."""
    which = {"cluster": cluster, "partition": partition, "account": account, "user": user}
    query = {"by": by, "every": every, "since": since, "until": until, **which}
    return Call(method="GET", path="/v1/trends", read=_plain(JsonObject), query=query)


# --- notices -----------------------------------------------------------------------------------------


def notices(
    *, limit: int = 100, rule: str | None = None, unacknowledged: bool = False
) -> Call[NoticesAnswer]:
    """List the caller's notices, newest first."""
    query = {"limit": limit, "rule": rule, "unacknowledged": unacknowledged}
    return Call(method="GET", path="/v1/notices", read=_plain(NoticesAnswer), query=query)


def acknowledge(notice_id: str) -> Call[JsonObject]:
    """Acknowledge a notice."""
    path = f"/v1/notices/{quote(notice_id, safe='')}/acknowledge"
    return Call(method="POST", path=path, read=_plain(JsonObject), changes=True)


def silences(*, past: bool = False) -> Call[list[JsonObject]]:
    """List the silences that concern the caller."""
    return Call(method="GET", path="/v1/notices/silences", read=_listed("silences"), query={"past": past})


def silence(
    *,
    rule: str | None = None,
    user: str | None = None,
    node: str | None = None,
    recipient: str | None = None,
    until: int | None = None,
    reason: str = "",
) -> Call[JsonObject]:
    """Silence notices: one's own, by rule; an operator also those of a user, node or recipient."""
    body = _given(rule=rule, user=user, node=node, recipient=recipient, until=until, reason=reason)
    return Call(method="POST", path="/v1/notices/silences", read=_plain(JsonObject), body=body, changes=True)


def lift_silence(silence_id: str) -> Call[JsonObject]:
    """End a silence."""
    path = f"/v1/notices/silences/{quote(silence_id, safe='')}"
    return Call(method="DELETE", path=path, read=_plain(JsonObject), changes=True)


def subscription() -> Call[JsonObject]:
    """Return the rules that the caller gets mail of."""
    return Call(method="GET", path="/v1/notices/subscription", read=_plain(JsonObject))


def subscribe(rules: Sequence[str]) -> Call[JsonObject]:
    """Choose the rules to get mail of; none opts out."""
    body = {"rules": list(rules)}
    return Call(method="PUT", path="/v1/notices/subscription", read=_plain(JsonObject), body=body)


# --- the service itself --------------------------------------------------------------------------------


def alive() -> Call[LivenessAnswer]:
    """Ask whether the process lives, and its version."""
    return Call(method="GET", path="/healthz", read=_plain(LivenessAnswer))


def ready() -> Call[ReadinessAnswer]:
    """Ask whether requests can be answered now, and if not, which part is missing."""
    return Call(method="GET", path="/readyz", read=_plain(ReadinessAnswer), accepts=frozenset({503}))
