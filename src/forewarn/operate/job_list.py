"""A list of jobs, by hours at risk or another order: filtered, restricted to what the caller may see, paged.

A long-lived process keeps live and recent jobs in memory (`job_rows.py`) and follows the store, so that a
page of 100,000 jobs takes milliseconds. Jobs from before that are read from the store when they are listed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Unpack

import polars as pl

from forewarn.assess.assessment import Verdict
from forewarn.errors import ForewarnError, UsageError
from forewarn.job.outcomes import Outcome
from forewarn.job.phase import PHASES
from forewarn.operate.array_rows import HIDDEN, HOURS, STANDS_FOR
from forewarn.operate.job_filters import split
from forewarn.operate.job_list_cursor import IS_OVER, PageCursor
from forewarn.operate.job_rows import ASSESSMENT_COLUMNS, DAY, JOB_COLUMNS, KEY, JobRows, stored_model
from forewarn.operate.long_reads import reading_alone
from forewarn.operate.queries import JobFilters, Query, Texts, query_of
from forewarn.operate.visibility import EVERYTHING, Visibility
from forewarn.store.base import Store
from forewarn.store.filters import Filter, OneOf

log = logging.getLogger(__name__)
RECENT_DAYS = 30  # of jobs in memory, by submit
MOST, PAGE = 1000, 100  # rows of a page at most, and by default
FOLLOW_EVERY = 1.0  # seconds between two looks at the store
READ_AGAIN = 3600.0  # seconds after which all is read again, so that the oldest jobs leave
LONGEST_SEARCH = 200  # characters
# What a list may be sorted by; the columns have the same names.
ORDERS = (
    *("hours_at_risk", "probability", "submit", "start", "end", "made_at"),
    *("user", "account", "partition", "state", "name", "time_limit", "nodes_asked", "cpus_asked"),
)
_TEXTS = frozenset({"user", "account", "partition", "state", "name"})  # by default from a to z


class JobListFilters(JobFilters, total=False):
    """The filters of a list of jobs: those of `JobFilters`, and some on the newest assessment."""

    verdict: Texts
    cause: Texts  # the most likely cause of failure, as an outcome
    phase: Texts  # of the newest assessment
    least_probability: float  # of failure
    warns: bool
    search: str  # a part of job id or name, whatever its case


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """One row of a list: the main fields of a job, and its newest assessment in short."""

    job: Mapping[str, Any]
    assessment: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {**self.job, "assessment": None if self.assessment is None else dict(self.assessment)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListPage:
    """A page of a list of jobs."""

    jobs: tuple[ListedJob, ...]
    total: int  # of all pages
    next: str | None  # the cursor of the following page; None: this is the last
    order: str
    descending: bool

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "jobs": [job.to_json() for job in self.jobs],
            "total": self.total,
            "next": self.next,
            "order": self.order,
            "descending": self.descending,
        }


class JobList:
    """The lists of jobs of one store. Any number of threads may ask it at once."""

    def __init__(
        self, store: Store, *, clock: Callable[[], float] = time.time, days: int = RECENT_DAYS
    ) -> None:
        self._store, self._clock, self._days = store, clock, days
        self._lock, self._long_read = Lock(), Lock()
        self._rows: JobRows | None = None
        self._next_look = self._read_again = 0.0

    def page(
        self,
        *,
        visible: Visibility = EVERYTHING,
        order: str = "hours_at_risk",
        descending: bool | None = None,
        limit: int = PAGE,
        after: str | None = None,
        **which: Unpack[JobListFilters],
    ) -> JobListPage:
        """Return one page of the jobs that match and that the caller may see.

        Parameters
        ----------
        visible
            The jobs that exist for the caller: no count and no page depends on others.
        order
            One of `ORDERS`; jobs without the value come last, equal ones by submit, newest first. By hours at
            risk, ended jobs come after all others: nothing of them is at risk any more.
        descending
            None: numbers from the largest, texts from a to z.
        after
            The cursor `next` of the page before. Jobs that were added since then move no job to another page.
        """
        if order not in ORDERS:
            raise UsageError(f"order: a list is not sorted by {order!r}; choose from {', '.join(ORDERS)}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
            raise UsageError(f"limit: {limit!r} is no number of jobs from 1 to {MOST}")
        falls = order not in _TEXTS if descending is None else descending
        query, tests = _tests(self._store, which)
        cursor = PageCursor.of(order, falls, visible, which, is_text=order in _TEXTS)
        frame = self._frame(query)
        # A pending array is listed once, with the hours of all its tasks, unless jobs are asked for by id.
        if arrays_once := not which.get("job_id"):
            tests.append(~pl.col(HIDDEN))
        # Only the columns that decide are filtered and sorted; of the others the page's rows are taken.
        place = pl.int_range(pl.len()).alias("_place")
        matches = pl.all_horizontal(visible.polars(), *tests).alias("_matches")
        value = HOURS if order == "hours_at_risk" and arrays_once else pl.col(order)
        is_over = pl.col("outcome").is_not_null() if order == "hours_at_risk" else pl.lit(False)
        found = frame.select(
            place, matches, *KEY, is_over.alias(IS_OVER), *([] if order in KEY else [value])
        ).filter("_matches")
        rest = found if after is None else found.filter(cursor.at(after).follows())
        rows = frame[_first_places(rest, order, falls, limit)].with_columns(
            is_over.alias(IS_OVER), HOURS if arrays_once else pl.lit(None, pl.Int64).alias(STANDS_FOR)
        )
        last = rows.row(-1, named=True) if 0 < rows.height < rest.height else None
        return JobListPage(
            jobs=tuple(_listed(row) for row in rows.iter_rows(named=True)),
            total=found.height,
            next=None if last is None else cursor.after(last),
            order=order,
            descending=falls,
        )

    def follow(self) -> JobRows:
        """Update from the store, unless that was done within the last second; return what is in memory.

        If the store cannot be read just now, continue with what is in memory.
        """
        now, rows = self._clock(), self._rows
        if rows is not None and (now < self._next_look or not self._lock.acquire(blocking=False)):
            return rows
        if rows is None:
            self._lock.acquire()
        try:
            if self._rows is None or now >= self._read_again:
                self._rows = JobRows.read(self._store, int(now) - self._days * DAY)
                self._read_again = now + READ_AGAIN
            else:
                self._rows = self._rows.updated(self._store)
        except ForewarnError as error:
            if self._rows is None:
                raise
            log.warning("cannot read the store, lists of jobs come from memory: %s", error)
        finally:
            self._next_look = now + FOLLOW_EVERY
            self._lock.release()
        assert self._rows is not None
        return self._rows

    def _frame(self, query: Query) -> pl.DataFrame:
        """Return the jobs of these submit times: from memory, or from the store if they begin earlier."""
        rows = self.follow()
        if query.since is not None and query.since < rows.since:
            with reading_alone(self._long_read):
                return JobRows.read(self._store, query.since, query.until).listed
        return rows.listed


def _first_places(rest: pl.DataFrame, order: str, falls: bool, limit: int) -> pl.Series:
    """Return the places of the first rows: those not over, then the others. Equal ones keep their order.

    Two sorts by one column are much quicker than one by two, and the second is rarely needed.
    """
    found = pl.Series("_place", [], pl.Int64)
    for is_over in (False, True):
        if found.len() < limit:
            part = rest.select("_place", IS_OVER, order).filter(pl.col(IS_OVER) == is_over)
            part = part.sort(order, descending=falls, nulls_last=True, maintain_order=True)
            found = pl.concat([found, part["_place"].head(limit - found.len())])
    return found


def _tests(store: Store, which: JobListFilters) -> tuple[Query, list[pl.Expr]]:
    """Build the filters of a list, with the query that those on the record are."""
    if unknown := sorted(set(which).difference(JobListFilters.__annotations__)):
        names = ", ".join(JobListFilters.__annotations__)
        raise UsageError(f"no filter {unknown[0]!r}; choose from {names}")
    check_encodable(which)
    of_record: Any = {name: value for name, value in which.items() if name in JobFilters.__annotations__}
    query = query_of(store, **of_record)
    tests = [] if query.where is None else [query.where.polars()]
    if query.clusters:
        tests.append(OneOf("cluster", tuple(query.clusters)).polars())
    if query.since is not None:
        tests.append(pl.col("submit") >= query.since)
    if query.until is not None:
        tests.append(pl.col("submit") < query.until)
    tests += (test.polars() for test in _of_assessment(which))
    least, warns, search = which.get("least_probability"), which.get("warns"), which.get("search")
    if least is not None:
        if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
            raise UsageError(f"least_probability: {least!r} is no probability from 0 to 1")
        tests.append((pl.col("probability") >= least).fill_null(False))
    if warns is not None:
        tests.append(pl.col("warns").fill_null(False) == warns)
    if search:
        tests.append(_contains(search))
    return query, tests


def check_encodable(which: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a text that is no Unicode (a lone surrogate, which JSON can carry)."""
    for name, value in which.items():
        texts = (value,) if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
        if any(isinstance(text, str) and not _is_encodable(text) for text in texts):
            raise UsageError(f"{name}: the text is no valid Unicode")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_assessment(which: JobListFilters) -> list[Filter]:
    known: Mapping[str, tuple[Texts | None, tuple[str, ...]]] = {
        "verdict": (which.get("verdict"), tuple(Verdict)),
        "cause": (which.get("cause"), (*Outcome, "other")),
        "phase": (which.get("phase"), tuple(str(phase) for phase in PHASES)),
    }
    tests: list[Filter] = []
    for name, (texts, choices) in known.items():
        values = split((texts,) if isinstance(texts, str) else tuple(texts or ()))
        if wrong := [value for value in values if value not in choices]:
            raise UsageError(f"{name}: no {name} {wrong[0]!r}; choose from {', '.join(choices)}")
        if values:
            tests.append(OneOf(name, tuple(values)))
    return tests


def _contains(search: str) -> pl.Expr:
    if len(search) > LONGEST_SEARCH:
        raise UsageError(f"search: {len(search)} characters; write at most {LONGEST_SEARCH}")
    text = search.lower()
    places = (pl.col(name).str.to_lowercase().str.contains(text, literal=True) for name in ("job_id", "name"))
    return pl.any_horizontal(place.fill_null(False) for place in places)


def _listed(row: Mapping[str, Any]) -> ListedJob:
    assessment = None
    if row["made_at"] is not None:
        assessment = {name: row[name] for name in (*ASSESSMENT_COLUMNS, "warns")}
        assessment["model"] = stored_model(assessment["model"])
    return ListedJob(job={name: row[name] for name in (*JOB_COLUMNS, STANDS_FOR)}, assessment=assessment)
