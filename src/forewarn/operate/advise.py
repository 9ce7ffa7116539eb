"""All that is said of some live jobs, with advice that can be typed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from forewarn.assess.advice.script_changes import for_job
from forewarn.assess.assessment import Assessment
from forewarn.learn.registry.serving import Serving
from forewarn.operate.predict import WAITING, Asking, LiveJobSelection, assess_live
from forewarn.progress import Working
from forewarn.sources.slurm.scheduler import Scheduler
from forewarn.store.base import Store


def advise(
    store: Store,
    scheduler: Scheduler,
    serving: Serving,
    job_ids: Sequence[str],
    *,
    at: int,
    timezone: str | None = None,
    unknown: list[str] | None = None,
    working: Working = nullcontext,
    asking: Asking | None = None,
) -> list[Assessment]:
    """The whole assessment of each job. What runs can no longer be changed: only its risk is told."""
    wanted = LiveJobSelection(job_ids=job_ids)
    said = assess_live(
        store,
        scheduler,
        serving,
        wanted,
        at=at,
        timezone=timezone,
        whole=True,
        unknown=unknown,
        working=working,
        asking=asking,
    )
    return [_typed(made) for made in said]


def _typed(made: Assessment) -> Assessment:
    if made.state not in WAITING or made.job_id is None:
        return replace(made, advice=(), savings=())
    job_id = made.job_id
    return replace(
        made,
        advice=tuple(for_job(advice, job_id) for advice in made.advice),
        savings=tuple(for_job(saving, job_id) for saving in made.savings),
    )
