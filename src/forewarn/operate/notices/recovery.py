"""What a process that was killed may not have written to its outbox: the last minutes of the store.

Notices have fixed ids, so that taking a change a second time sends nothing twice.
"""

from __future__ import annotations

from forewarn.job.columns import JOB_SCHEMA, to_records
from forewarn.job.record import Job
from forewarn.operate.notices.rules import SiteChanges
from forewarn.operate.stored_assessments import read_assessments
from forewarn.store.base import KNOWN_AT, Store
from forewarn.store.filters import Between
from forewarn.store.people import PeopleStore

PERIOD = 1800  # seconds: more than a window and a collector's round
_FIRST_ON = "notices"
LONGEST = 60 * 86400  # seconds since its submit after which a job's end is not looked for


def first_on(people: PeopleStore, at: int) -> int:
    """Return when notices were first on in this home; where they never were, write that it is now."""
    found = people.get("milestone", _FIRST_ON)
    if found is not None:
        return found.at
    people.put("milestone", _FIRST_ON, {}, at=at)
    return at


def recent_changes(store: Store, at: int, since: int) -> SiteChanges:
    """Read the assessments of the last minutes, without those of jobs that ended since, and recent ends.

    Nothing from before `since`: what came before the site configured notices is nobody's news.
    """
    since = max(since, at - PERIOD)
    ended = [
        job
        for frame in store.scan(since=at - LONGEST, where=Between(KNOWN_AT, least=since))
        for job in to_records(frame.select(*JOB_SCHEMA), Job)
    ]
    gone = {job.key for job in ended}
    assessments = [
        one
        for one in read_assessments(store, since=since)
        if (one.cluster, one.job_id, one.submit) not in gone
    ]
    return SiteChanges(assessments=assessments, ended=ended)
