"""The one call: jobs in, an `Assessment` of each out.

The order is the scheduler's: run time and resources, odd configuration, failure by cause, healthy nodes; then
the explanation, the profile, and advice. Each part is a room's or a module's own; here they are only put
together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forewarn.assess.assessment import Assessment
from forewarn.assess.champions import Champions
from forewarn.assess.routing import Spoken, speak
from forewarn.assess.verdict import judged
from forewarn.features.present import Phase, Present
from forewarn.job.record import Job
from forewarn.learn.table import Table, table_of_now
from forewarn.store.base import Store


class Assessor:
    """Assesses jobs of one cluster as of one moment."""

    def __init__(self, store: Store, present: Present, champions: Champions) -> None:
        self._store, self._present, self._champions = store, present, champions
        self.cluster, self.at = present.cluster, present.at

    def assess(self, job: Job) -> Assessment:
        """What is said of one job."""
        return self.assess_all([job])[0]

    def assess_all(self, jobs: Sequence[Job]) -> list[Assessment]:
        """What is said of each of some jobs, in their order."""
        made: dict[int, Assessment] = {}
        phases = [self._phase(job) for job in jobs]
        for phase in dict.fromkeys(phases):
            places = [place for place, at in enumerate(phases) if at == phase]
            said = self._at(phase, [jobs[place] for place in places])
            made.update(zip(places, said, strict=True))
        return [made[place] for place in range(len(jobs))]

    def _phase(self, job: Job) -> Phase:
        """As at its start, where the job is in flight and a model knows starts; else as at its submit."""
        if self._champions.serve_at("start") and self._present.is_in_flight(job):
            return "start"
        return "submit"

    def table(self, phase: Phase, jobs: Sequence[Job]) -> Table:
        """What is knowable of jobs now, as a model sees it."""
        rows = np.stack([self._present.features(job, phase) for job in jobs])
        return table_of_now(self.cluster, phase, jobs, rows, self.at, self._present.facts)

    def _at(self, phase: Phase, jobs: Sequence[Job]) -> list[Assessment]:
        table = self.table(phase, jobs)
        said = speak(
            table,
            self._champions,
            ended=self._store.count(cluster=self.cluster),
            recent_rate=self._present.recent_failure_rate,
        )
        return [self._whole(table, row, job, said[row]) for row, job in enumerate(jobs)]

    def _whole(self, table: Table, row: int, job: Job, said: Spoken) -> Assessment:
        made = Assessment(
            cluster=self.cluster,
            job_id=job.job_id or None,
            submit=job.submit,
            user=job.user,
            name=job.name,
            partition=job.partition,
            made_at=self.at,
            phase=table.phase,
            state=job.state,
            route=said.route,
            failure=said.failure,
            profile=_profile(said, table, row),
            notes=_notes(said, table, job),
        )
        return judged(made)


def _profile(said: Spoken, table: Table, row: int) -> str | None:
    profiles = said.champion.bundle.profiles if said.champion else None
    if profiles is None or len(profiles.words) < 2:
        return None
    belongs = profiles.posterior(table.about[row], table.phase)[0]
    return profiles.words[int(belongs.argmax())]


def _notes(said: Spoken, table: Table, job: Job) -> tuple[str, ...]:
    if said.failure and job.start is not None and table.phase == "submit":
        return ("it runs, and there is no model for start: this is the one for submit",)
    return ()
