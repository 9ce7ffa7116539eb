"""Jobs that wait or run, assessed as a person asks for it: by id, or all that fit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from forewarn.assess.assessment import Assessment
from forewarn.errors import LearningError, UsageError
from forewarn.learn.registry.serving import Serving
from forewarn.operate.advise import advise
from forewarn.operate.engine import Engine
from forewarn.operate.predict import LiveJobSelection, assess_live, forget_old, store_of_live, unknown_job
from forewarn.operate.workspace import Workspace
from forewarn.progress import Working
from forewarn.sources.slurm.connect import connect
from forewarn.store.opening import place_of

Order = Literal["hours", "probability", "asked"]


@dataclass(frozen=True, slots=True)
class LiveResult:
    """What is said of live jobs, and of which of those asked for nobody knows."""

    assessments: tuple[Assessment, ...]
    unknown: tuple[str, ...] = ()
    unserved: str | None = None  # a cluster of these jobs that no model serves, where no risk could be stated

    def check(self, *, needs_model: bool = False) -> None:
        """Raise what is wrong, once the rest has been shown: unknown jobs, or that no model serves."""
        if self.unknown:
            raise unknown_job(*self.unknown)
        if needs_model and self.unserved:
            raise LearningError(f"no model serves {self.unserved} yet: `forewarn train` makes one")

    def sorted(self, by: Order) -> list[Assessment]:
        """What matters most first; of what nothing is known comes last, in its order."""
        return sorted_assessments(self.assessments, by)


def sorted_assessments(assessments: Iterable[Assessment], by: Order = "hours") -> list[Assessment]:
    """Sort assessments by node hours at risk or by probability, the largest first; or leave them as asked."""
    found = list(assessments)
    if by == "probability":
        found.sort(key=lambda a: -a.failure.probability if a.failure else 1.0)
    elif by == "hours":
        found.sort(key=lambda a: 1.0 if a.hours_at_risk is None else -a.hours_at_risk)
    return found


def assess_live_jobs(
    workspace: Workspace,
    job_ids: Sequence[str] = (),
    *,
    pending: bool = False,
    running: bool = False,
    user: str | None = None,
    full: bool = False,
    working: Working = nullcontext,
) -> LiveResult:
    """Assess jobs as the scheduler has them now: in brief, or as a whole with advice that can be typed."""
    if bool(job_ids) == bool(pending or running or user):
        raise UsageError("say which jobs: ids, or --pending, --running, -u NAME")
    config, now = workspace.config, int(time.time())
    serving = Serving(config.home / "models")
    unknown: list[str] = []
    zone = config.of_cluster(config.cluster).timezone
    how: dict[str, Any] = {"at": now, "timezone": zone, "unknown": unknown, "working": working}
    if workspace.lives and config.model is None and place_of(config).may_write:
        how["asking"] = lambda cluster: _followed(workspace.engine(cluster)).asking(now)
    with (
        closing(connect(config)) as scheduler,
        store_of_live(config, scheduler.cluster, serving, at=now) as store,
    ):
        if full:
            found = advise(store, scheduler, serving, job_ids, **how)
        else:
            wanted = LiveJobSelection(job_ids=job_ids, pending=pending, running=running, user=user)
            found = assess_live(store, scheduler, serving, wanted, **how)
        if store.may_write:
            forget_old(store, scheduler.cluster, now - config.assessments_kept * 86400)
    return LiveResult(tuple(found), tuple(unknown), _unserved(found, serving))


def _followed(engine: Engine) -> Engine:
    """The engine, which knows the jobs that were kept just now."""
    engine.follow()
    return engine


def _unserved(found: Sequence[Assessment], serving: Serving) -> str | None:
    if any(one.failure or one.route.model for one in found):
        return None
    served = {name.cluster for name in serving.names()}
    return next((one.cluster for one in found if one.phase != "ended" and one.cluster not in served), None)
