"""The collector: nothing missing, nothing twice, whatever goes away and whenever it is killed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from threading import Event, Thread

import pytest

from forewarn.config import Config
from forewarn.errors import ControllerDownError, DatabaseDownError, StoreBusyError, TokenError
from forewarn.operate.accounting_position import LATE
from forewarn.operate.collect import collecting
from forewarn.operate.collector import LONGEST_WAIT, MOST_JOBS, Collector
from forewarn.operate.collector_round import CollectorRound
from forewarn.operate.ingest_file import review_missing_fields
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.operate.fake_scheduler import FakeScheduler, KilledError, job
from tests.sources.fake_slurmrestd import NOW, FakeTime

HOUR = 3600
SINCE = NOW - 10 * HOUR
ENDED = [job(n, SINCE + 900 * n - 600, end=SINCE + 900 * n) for n in range(1, 40)]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def slurm(time: FakeTime) -> FakeScheduler:
    return FakeScheduler(time, ended=list(ENDED), piece=100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "home")) as opened:
        yield opened


def collector(store: Store, slurm: FakeScheduler, most_jobs: int = MOST_JOBS) -> Collector:
    return Collector(store, slurm, since=SINCE, clock=slurm.time.clock, most_jobs=most_jobs)


def collect(store: Store, slurm: FakeScheduler) -> list[CollectorRound]:
    return list(collector(store, slurm).once())


def observed(store: Store) -> list[tuple[str, str]]:
    """Every observation of every job: id and state."""
    found = store.observations("job", {"cluster": "c"})
    return sorted(found.select("job_id", "state").iter_rows())


ALL = sorted((row["job_id"], "COMPLETED") for row in ENDED)


@pytest.mark.slow
def test_history_once_and_then_what_is_new(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    (first,) = collect(store, slurm)
    assert (first.new_jobs, first.changed_jobs, first.lag, first.behind) == (39, 0, 0, False)
    assert observed(store) == ALL
    time.now += 120
    slurm.ended.append(job(99, NOW, end=NOW + 60))
    (second,) = collect(store, slurm)
    assert (second.new_jobs, second.changed_jobs) == (1, 0)
    assert slurm.begins == [SINCE, NOW - LATE]


def test_fields_that_accounting_does_not_tell_are_hidden(store: Store, slurm: FakeScheduler) -> None:
    collect(store, slurm)
    fields = store.clusters()["c"].fields
    assert fields["tasks_asked"] == {"hide": True}
    assert fields["memory_asked"] == {"per": "node"}
    review_missing_fields(store, ["c"])
    assert store.clusters()["c"].fields == fields, "a review finds its own anew and keeps the others"


def test_a_job_that_has_not_ended_comes_from_the_controller(store: Store, slurm: FakeScheduler) -> None:
    final = {"seen_at": NOW - 50, "source": "slurmrestd", "reconstructed": True}
    slurm.ended.append(job(50, NOW - 60, state="RUNNING", start=NOW - 50, time_limit=999) | final)
    slurm.live = [job(50, NOW - 60, state="RUNNING", start=NOW - 50, time_limit=60)]
    collect(store, slurm)
    seen = store.observations("job", {"job_id": "50"})
    assert seen["time_limit"].to_list() == [60], "accounting's was changed since, nobody knows when"


def test_the_cost_of_a_round(store: Store, slurm: FakeScheduler) -> None:
    rounds = collector(store, slurm).forever(60)
    list(islice(rounds, 3))
    slurm.calls.clear()
    done = next(rounds)
    assert slurm.calls == ["jobs", "diag", "history"]
    assert (done.requests, done.received) == (3, 300)


@pytest.mark.slow
def test_what_ends_is_read_once(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    """The controller tells of the end at once; accounting, when it has heard of the last step too."""
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    for n in range(20):  # one a round
        begun = int(time.now) + 10
        seen = job(100 + n, begun, state="FAILED", outcome="failed", start=begun) | {"end": begun + 40}
        slurm.live = [seen, *slurm.live][:5]
        slurm.ended.append(job(100 + n, begun, start=begun, end=begun + 40, max_memory=77))
        next(rounds)
        assert (str(100 + n), "FAILED") in observed(store)
    list(islice(rounds, 4))
    (jobs,) = store.scan(job_ids=[str(100 + n) for n in range(20)], columns=["job_id", "max_memory"])
    assert jobs["max_memory"].to_list() == [77] * 20
    assert {slurm.given[str(100 + n)] for n in range(20)} == {1}
    assert slurm.asked_about == []


def test_a_step_that_is_recorded_after_its_job(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.ended.append(job(99, NOW - 100, start=NOW - 90, end=NOW + 20))
    slurm.live = [job(99, NOW - 100, state="FAILED", outcome="failed", start=NOW - 90) | {"end": NOW + 20}]
    next(rounds)
    time.now += LATE - 60  # it was killed, and took its time
    slurm.ended[-1] |= {"max_memory": 77}
    list(islice(rounds, 4))
    (jobs,) = store.scan(job_ids=["99"], columns=["max_memory"])
    assert jobs["max_memory"].to_list() == [77]


def test_who_looks_once_gets_all(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    next(collector(store, slurm).forever(60))
    time.now += 60
    slurm.ended.append(job(99, NOW, end=NOW + 59, max_memory=77))
    collect(store, slurm)
    assert ("99", "COMPLETED") in observed(store)


def test_late_ends_are_heard(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    collect(store, slurm)
    slurm.ended.append(job(99, NOW - 100, end=NOW - 60))
    time.now += 60
    collect(store, slurm)
    assert ("99", "COMPLETED") in observed(store)


@pytest.mark.slow
def test_ends_that_slurmdbd_gets_late_while_it_answers(
    store: Store, slurm: FakeScheduler, time: FakeTime
) -> None:
    """Its queue lags by half an hour: nobody was away, and nobody saw this job live."""
    slurm.queue = 3000
    collect(store, slurm)
    for _ in range(30):
        time.now += 60
        collect(store, slurm)
    slurm.ended.append(job(99, NOW - 500, end=NOW - 30))
    slurm.queue = 0
    time.now += 60
    collect(store, slurm)
    assert ("99", "COMPLETED") in observed(store)
    time.now += 60
    collect(store, slurm)
    assert slurm.begins[-1] == time.now - 60 - LATE, "once is enough"


def test_a_job_that_the_controller_has_no_longer_is_asked_about(
    store: Store, slurm: FakeScheduler, time: FakeTime
) -> None:
    """Its end lies far behind what was read, and the queue's length tells nothing."""
    slurm.live = [job(50, NOW - 60, state="RUNNING", start=NOW - 50)]
    collect(store, slurm)
    slurm.live = []
    time.now += HOUR
    collect(store, slurm)
    time.now += HOUR
    slurm.ended.append(job(50, NOW - 60, start=NOW - 50, end=NOW + 10, max_memory=77))
    collect(store, slurm)
    assert slurm.asked_about == [["50"]]
    (seen,) = store.scan(job_ids=["50"])
    assert (seen["outcome"].item(), seen["max_memory"].item()) == ("completed", 77)
    time.now += HOUR
    collect(store, slurm)
    assert len(slurm.asked_about) == 1, "once is enough"


@pytest.mark.slow
def test_what_an_ended_job_used_is_asked_for(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    """The controller showed its end; accounting hears of it an hour later."""
    ended = job(50, NOW - 60, state="FAILED", outcome="failed", start=NOW - 50) | {"end": NOW - 5}
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.live = [ended]
    next(rounds)
    slurm.live = []
    list(islice(rounds, 59))
    slurm.ended.append(job(50, NOW - 60, start=NOW - 50, end=NOW - 5, max_memory=77))
    list(islice(rounds, 60))
    assert store.observations("job", {"job_id": "50"})["max_memory"].to_list() == [77, None]
    assert len(slurm.asked_about) < 12, "less and less often"


def test_an_end_that_accounting_has_is_not_queried(store: Store, slurm: FakeScheduler) -> None:
    """The controller shows it for minutes more, and says of it what accounting does not."""
    slurm.ended.append(job(50, NOW - 60, start=NOW - 50, end=NOW - 5))
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.live = [slurm.ended[-1] | {"seen_at": None, "reason": "None", "tasks_asked": 4}]
    assert sum(done.changed_jobs for done in islice(rounds, 5)) == 1
    assert slurm.asked_about == []


def test_who_is_waited_for_survives_a_kill(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    ended = job(50, NOW - 60, state="FAILED", outcome="failed", start=NOW - 50) | {"end": NOW - 5}
    collect(store, slurm)
    slurm.live = [ended]
    slurm.ended.append(job(51, NOW, end=NOW))
    slurm.dies_after = 0
    with pytest.raises(KilledError):
        collect(store, slurm)
    slurm.live, slurm.dies_after = [], None
    time.now += HOUR
    collect(store, slurm)
    assert slurm.asked_about == [["50"]]


@pytest.mark.slow
def test_what_nobody_can_tell_is_unknown_after_a_day(
    store: Store, slurm: FakeScheduler, time: FakeTime
) -> None:
    slurm.live = [job("7_[0-2]", NOW - 60, array_job_id=7, array_tasks="0-2", raw_id=7)]
    collect(store, slurm)
    slurm.live = [job("7_[0,2]", NOW - 60, array_job_id=7, array_tasks="0,2", raw_id=7)]
    for _ in range(30):  # Slurm keeps no record of a task that was cancelled while it waited
        time.now += HOUR
        done = collect(store, slurm)[0]
        if done.unknown_ends:
            break
    assert done.unknown_ends == 1
    assert 24 * HOUR < time.now - NOW < 27 * HOUR
    states = [state for job_id, state in observed(store) if job_id == "7_1"]
    assert states == ["PENDING", "UNKNOWN"]
    assert slurm.asked_about[:2] == [["7_1"], ["7"]], "then by its array"


def test_an_array_whose_tasks_slurm_cuts_short(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    slurm.live = [job("7_[0-2]", NOW - 60, array_job_id=7, array_tasks="0-2", raw_id=7)]
    collect(store, slurm)
    slurm.live = [job("7_[0,...]", NOW - 60, array_job_id=7, array_tasks="0,...", raw_id=7)]
    time.now += HOUR
    collect(store, slurm)
    time.now += HOUR
    collect(store, slurm)
    assert not slurm.asked_about


def test_without_accounting_the_controller_is_all(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    slurm.keeps_accounting, slurm.ended = False, []
    slurm.live = [job(n, NOW - 60, state="RUNNING", start=NOW - 50) for n in (50, 51)]
    rounds = collector(store, slurm).forever(60)
    first = next(rounds)
    assert not first.troubles
    assert first.lag == 0
    assert "MinJobAge" in first.notes[0]
    slurm.live[0] |= {"state": "FAILED", "outcome": "failed", "end": NOW + 30}
    del slurm.live[1]
    done = list(islice(rounds, 3))
    assert not any(one.notes for one in done), "once is enough"
    assert sum(one.unknown_ends for one in done) == 1
    outcomes = {row[0]: row[1] for frame in store.scan() for row in frame[["job_id", "outcome"]].iter_rows()}
    assert outcomes == {"50": "failed", "51": "unknown"}
    assert int(store.cursor("collect c") or 0) == done[-1].at


@pytest.mark.slow
def test_what_ended_before_the_first_round_was_known_then(
    store: Store, slurm: FakeScheduler, time: FakeTime
) -> None:
    """The controller shows them as ended: known only now, a young history would have none to learn from."""
    slurm.ended = [job(n, NOW - 300 + n, end=NOW - 290 + n) for n in range(1, 250)]
    slurm.live = [row | {"seen_at": None, "reconstructed": None, "tasks_asked": 4} for row in slurm.ended]
    collect(store, slurm)
    time.now += 60
    collect(store, slurm)
    (jobs,) = store.scan()
    assert (jobs["known_at"] == jobs["end"]).all()
    assert (jobs["tasks_asked"] == 4).all(), "what only the controller says is kept"


def test_accounting_that_comes_later_is_read(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    slurm.keeps_accounting, slurm.ended = False, []
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.keeps_accounting = True
    slurm.ended.append(job(50, NOW + 100, end=NOW + 500))
    list(islice(rounds, 12))
    assert observed(store) == [("50", "COMPLETED")]


def test_a_full_disk_is_waited_out(small_disk: Path, slurm: FakeScheduler) -> None:
    with open_store(Config(home=small_disk / "home")) as store:
        rounds = collector(store, slurm).forever(60)
        assert not next(rounds).troubles
        slurm.ended += [
            job(1000 + n, NOW - HOUR, end=NOW - LATE + n % 50, name="x" * 999) for n in range(500)
        ]
        slurm.piece = 1000
        ballast = small_disk / "ballast"
        with ballast.open("wb") as file:
            free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
            file.write(bytes(free - (16 << 10)))
        full = next(rounds)
        assert "disk is full" in full.troubles["history"]
        ballast.unlink()
        healed = next(rounds)
        assert (healed.new_jobs, healed.troubles) == (500, {})


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("no such thing")])
def test_whatever_goes_wrong_in_a_round_is_waited_out(
    error: Exception, store: Store, slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    rounds = collector(store, slurm).forever(60)
    monkeypatch.setattr(slurm, "history", broken)
    assert str(error) in next(rounds).troubles["history"]
    monkeypatch.undo()
    assert not next(rounds).troubles
    assert observed(store) == ALL


def test_live_jobs_are_seen_when_they_change(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    slurm.live = [job(50, NOW - 60, priority=10, partition="a")]
    rounds = collector(store, slurm).forever(60)
    assert next(rounds).new_jobs == 40
    slurm.live[0]["priority"] = 11
    assert next(rounds).changed_jobs == 0, "priority alone is no news"
    slurm.live[0] |= {"state": "RUNNING", "start": NOW + 100}
    assert next(rounds).changed_jobs == 1
    assert next(rounds).changed_jobs == 0
    assert isinstance(rounds, Generator)
    rounds.close()
    assert collect(store, slurm)[0].changed_jobs == 0, "nor after a restart"
    slurm.live = []
    slurm.ended.append(job(50, NOW - 60, start=NOW + 100, end=int(time.now) - 5))
    assert collect(store, slurm)[0].changed_jobs == 1
    states = [state for job_id, state in observed(store) if job_id == "50"]
    assert sorted(states) == ["COMPLETED", "PENDING", "RUNNING"]


def test_an_array_that_waits_is_its_tasks(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    waiting = job("7_[0-2%1]", NOW - 60, array_job_id=7, array_tasks="0-2%1", raw_id=7)
    slurm.live = [waiting]
    collect(store, slurm)
    time.now += 60
    slurm.live = [
        waiting | {"job_id": "7_[1-2%1]", "array_tasks": "1-2%1"},
        job("7_0", NOW - 60, array_job_id=7, array_task_id=0, state="RUNNING", start=NOW, raw_id=8),
    ]
    collect(store, slurm)
    assert store.count(cluster="c") == 39 + 3
    tasks = {job_id: state for job_id, state in observed(store) if job_id.startswith("7_")}
    assert tasks == {"7_0": "RUNNING", "7_1": "PENDING", "7_2": "PENDING"}


@pytest.mark.parametrize("pieces", range(14))
def test_killed_at_any_piece(pieces: int, store: Store, slurm: FakeScheduler) -> None:
    slurm.dies_after, slurm.piece = pieces, 3
    with pytest.raises(KilledError):
        collect(store, slurm)
    slurm.dies_after = None
    collect(store, slurm)
    if pieces:
        assert slurm.begins[1] > SINCE - LATE, "it goes on from where it was"
    assert observed(store) == ALL


def test_catching_up_has_a_cap_and_rests(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    slurm.piece = 3
    rounds = list(collector(store, slurm, most_jobs=10).once())
    assert [done.behind for done in rounds] == [True, True, True, False]
    assert all(done.new_jobs <= 13 for done in rounds)
    assert observed(store) == ALL
    assert len(time.waits) == 3


@pytest.mark.parametrize("daemon", ["slurmdbd", "slurmctld", "slurmrestd"])
def test_what_goes_away_comes_back(daemon: str, store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.goes(daemon)
    slurm.live = [job(98, NOW, state="RUNNING", start=NOW)]
    slurm.ended.append(job(97, NOW, end=NOW + 30))
    lost = next(rounds)
    parts = {
        "slurmdbd": {"history"},
        "slurmctld": {"live jobs"},
        "slurmrestd": {"history", "live jobs", "late ends", "nodes"},
    }
    assert set(lost.troubles) == parts[daemon]
    assert daemon in next(iter(lost.troubles.values()))
    slurm.away.clear()
    healed = next(rounds)
    assert not healed.troubles
    assert {"97", "98"} <= {job_id for job_id, _ in observed(store)}


def test_nobody_there_is_asked_less_and_less(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.goes("slurmrestd")
    list(islice(rounds, 6))
    assert time.waits == [60, 120, 240, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]


def test_a_long_gap_is_read_again_when_the_controller_is_done(
    store: Store, slurm: FakeScheduler, time: FakeTime
) -> None:
    """slurmdbd was away for two hours: ends of that time come in after it is back, and after we were."""
    collect(store, slurm)
    slurm.goes("slurmdbd")
    slurm.queue = 4
    time.now += 2 * HOUR
    with pytest.raises(DatabaseDownError):
        collect(store, slurm)
    slurm.away.clear()
    collect(store, slurm)  # its agent has not handed anything over yet
    slurm.ended.append(job(99, NOW, end=NOW + HOUR))
    slurm.queue = 0
    time.now += 60
    collect(store, slurm)
    assert ("99", "COMPLETED") in observed(store)
    time.now += 60
    collect(store, slurm)
    assert slurm.begins[-1] == NOW + 2 * HOUR + 60 - LATE, "once is enough"


@pytest.mark.slow
def test_a_controller_that_is_never_done(store: Store, slurm: FakeScheduler, time: FakeTime) -> None:
    slurm.queue = 5
    collect(store, slurm)
    for _ in range(70):
        time.now += 60
        collect(store, slurm)
    assert slurm.begins.count(SINCE) == 2, "the gap is read again after an hour, once"


def test_an_earlier_beginning_is_read_later(store: Store, slurm: FakeScheduler) -> None:
    list(Collector(store, slurm, since=NOW - HOUR, clock=slurm.time.clock).once())
    few = store.count(cluster="c")
    assert 0 < few < 39
    list(Collector(store, slurm, since=NOW - 1800, clock=slurm.time.clock).once())
    assert store.count(cluster="c") == few
    collect(store, slurm)
    assert observed(store) == ALL


def test_trouble_ends_what_runs_once(store: Store, slurm: FakeScheduler) -> None:
    slurm.goes("slurmctld")
    with pytest.raises(ControllerDownError):
        collect(store, slurm)
    assert observed(store) == ALL, "what could be read is there"


def test_lasting_trouble_ends_it_at_the_start_only(store: Store, slurm: FakeScheduler) -> None:
    slurm.away = {"slurmrestd": TokenError("no token")}
    with pytest.raises(TokenError):
        next(collector(store, slurm).forever(60))
    slurm.away.clear()
    rounds = collector(store, slurm).forever(60)
    next(rounds)
    slurm.away = {"slurmrestd": TokenError("its time is over")}
    assert "its time is over" in next(rounds).troubles["history"]


@pytest.mark.slow
def test_absences_are_reviewed(store: Store, slurm: FakeScheduler) -> None:
    # Who failed has no memory written down: its absence tells the outcome.
    slurm.ended = [
        job(n, SINCE + 30 * n, end=SINCE + 30 * n + 20)
        | (
            {"outcome": "failed", "state": "FAILED"}
            if n % 2
            else {"memory_asked": 1 << 30, "memory_per": "node"}
        )
        for n in range(1, 1000)
    ]
    collect(store, slurm)
    assert store.clusters()["c"].fields


@pytest.mark.slow
def test_what_steps_tell_stands_and_the_controllers_word_is_no_news(
    store: Store, slurm: FakeScheduler, time: FakeTime
) -> None:
    """The controller sees a job fail first; accounting tells by its steps that it was killed for memory."""
    failed = {"state": "FAILED", "outcome": "failed"}
    collect(store, slurm)
    live = job(50, NOW - 60, end=NOW - 10, **failed)
    slurm.live = [live | {"seen_at": NOW}]
    collect(store, slurm)
    slurm.ended.append(job(50, NOW - 60, end=NOW - 10, **failed) | {"outcome": "out_of_memory"})
    time.now += 60
    collect(store, slurm)
    before = len(observed(store))
    slurm.live = [live | {"seen_at": NOW + 120}]
    time.now += 60
    collect(store, slurm)
    assert len(observed(store)) == before
    (found,) = store.scan(columns=["state", "outcome", "known_at"], job_ids=["50"])
    assert found.rows() == [("FAILED", "out_of_memory", NOW)]


def test_another_thread_stops_it(store: Store) -> None:
    """It rests a minute between two rounds: whoever stops it does not wait for that."""
    collector = Collector(store, FakeScheduler(FakeTime()), since=NOW - 86400)
    rounds, begun = [], Event()

    def run() -> None:
        for done in collector.forever(60):
            rounds.append(done)
            begun.set()

    thread = Thread(target=run)
    thread.start()
    assert begun.wait(30)
    collector.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert len(rounds) == 1


def test_one_process_collects_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeScheduler(FakeTime())
    monkeypatch.setattr("forewarn.operate.collect.connect", lambda _, retry: slurm)
    config = Config(home=tmp_path / "home")
    second = collecting(config)
    with collecting(config), pytest.raises(StoreBusyError, match="another process already collects c"):
        second.__enter__()
    with collecting(config) as again:
        assert next(iter(again.once())).at
