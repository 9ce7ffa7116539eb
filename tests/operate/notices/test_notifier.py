"""The notifier's thread: it never disturbs the collector, gathers, sends, stops, and catches up."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

import pytest

from forewarn.config import Config, NoticesConfig
from forewarn.operate.notices import notifier as notifier_module
from forewarn.operate.notices.notice import Notice, NoticeState
from forewarn.operate.notices.notifier import Notifier
from forewarn.operate.notices.recovery import first_on, recent_changes
from forewarn.operate.observe import write_batches
from forewarn.operate.predict import save_assessments
from forewarn.operate.workspace import Workspace
from forewarn.sources.base import Batch
from forewarn.store.claims import held_claims
from forewarn.store.people import PeopleStore
from tests.operate.notices.samples import ended, warning
from tests.operate.notices.servers import Mailbox
from tests.store.samples import frame, row

pytestmark = pytest.mark.slow


@pytest.fixture
def workspace(config: Config) -> Iterator[Workspace]:
    with Workspace(config) as opened:
        opened.writing()
        yield opened


def wait_until(done: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def test_notices_of_a_round(
    config: Config, people: PeopleStore, workspace: Workspace, mailbox: Mailbox
) -> None:
    notifier = Notifier(config, people, workspace)
    notifier.start()
    notifier.on_assessments([warning("1")])
    notifier.on_ended([ended("2")])
    notifier.on_health([])
    wait_until(lambda: len(mailbox.mails) == 2)
    notifier.stop()
    assert notifier.status()["sent"] == 2
    body = next(mail for mail in mailbox.mails if "failed" in mail["Subject"]).get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert "What happened: The job ran out of memory" in text
    assert "#SBATCH --mem=" in text, "what to change"
    assert "forewarn explain 2" in text


def test_a_pending_array_has_the_hours_of_all_its_tasks(
    config: Config, people: PeopleStore, workspace: Workspace, mailbox: Mailbox
) -> None:
    """One task of an array is assessed for all: half an hour each is too little, ten hours are not."""
    one = warning("7_1", hours=0.5)
    first = replace(
        ended("7_1"), outcome=None, state="PENDING", start=None, end=None, array_job_id=7, array_task_id=1
    )
    tasks = [replace(first, job_id=f"7_{n}", array_task_id=n) for n in range(1, 21)]
    running = replace(first, job_id="7_21", array_task_id=21, state="RUNNING", start=one.made_at)
    other = replace(first, job_id="8_1", array_job_id=8)
    rows = [row(**asdict(job) | {"seen_at": one.made_at}) for job in (*tasks, running, other)]
    write_batches(workspace.writing(), [Batch("job", frame(*rows))])
    notifier = Notifier(config, people, workspace)
    notifier.start()
    notifier.on_assessments([one, warning("8_1", hours=0.5, name="b"), warning("9", hours=0.5, name="c")])
    wait_until(lambda: len(mailbox.mails) == 1)
    notifier.on_assessments([warning("7_2", hours=0.5)])
    wait_until(lambda: notifier._queue.empty())
    notifier.stop()
    (mail,) = mailbox.mails
    assert mail["Subject"].startswith("20 jobs like 7_1 ")
    assert mail["Subject"].endswith("10.0 node hours at risk")


def test_what_is_gathered_at_a_stop_is_sent_after_the_next_start(
    config: Config, people: PeopleStore, workspace: Workspace, mailbox: Mailbox
) -> None:
    slow = replace(config, notices=replace(config.notices, window=3600))
    notifier = Notifier(slow, people, workspace)
    notifier.start()
    wait_until(lambda: notifier.planner is not None)
    notifier.on_assessments([warning("1")])
    notifier.stop()
    assert len(mailbox.mails) <= 1
    again = Notifier(config, people, workspace)
    again.start()
    wait_until(lambda: len(mailbox.mails) == 1)
    again.stop()
    third = Notifier(config, people, workspace)
    third.start()
    third.on_assessments([warning("1")])
    wait_until(lambda: third._queue.empty())
    third.stop()
    assert len(mailbox.mails) == 1


def test_a_killed_process_is_caught_up(
    config: Config, people: PeopleStore, workspace: Workspace, mailbox: Mailbox
) -> None:
    """What it had not written to the outbox is in the store: assessments and ends of the last minutes."""
    at = int(time.time())
    first_on(people, at - 86400)
    store = workspace.writing()
    save_assessments(store, [warning("1", submit=at - 300, made_at=at - 60)])
    job = ended("2", submit=at - 9000, start=at - 8000, end=at - 60, name="other")
    write_batches(store, [Batch("job", frame(row(**asdict(job) | {"seen_at": at - 50})))])
    for _ in range(2):
        notifier = Notifier(config, people, workspace)
        notifier.start()
        wait_until(lambda: len(mailbox.mails) == 2)
        wait_until(lambda: held_claims(config.home) == ["notices"])
        notifier.stop()
    assert len(mailbox.mails) == 2


def test_the_first_start_says_nothing_of_the_time_before(
    config: Config, people: PeopleStore, workspace: Workspace
) -> None:
    at = int(time.time())
    store = workspace.writing()
    save_assessments(store, [warning("1", submit=at - 300, made_at=at - 60)])
    job = ended("2", submit=at - 9000, start=at - 8000, end=at - 60, name="other")
    write_batches(store, [Batch("job", frame(row(**asdict(job) | {"seen_at": at - 50})))])
    assert recent_changes(store, at, at - 86400)
    Notifier(config, people, workspace, now=lambda: at).begin()
    assert people.entries("notice") == []
    assert first_on(people, at + 5) == at, "the first time stays"


def test_without_an_address_of_the_service_the_start_warns(
    config: Config, people: PeopleStore, workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(replace(config, serve=replace(config.serve, url=None)), people, workspace)
    notifier.start()
    notifier.stop()
    assert "serve.url is not set" in caplog.text


def test_one_process_sends_at_a_time(
    config: Config, people: PeopleStore, workspace: Workspace, mailbox: Mailbox
) -> None:
    first, second = (Notifier(config, people, workspace) for _ in range(2))
    first.start()
    wait_until(lambda: first.planner is not None)
    second.start()
    for one in (first, second):
        one.on_assessments([warning("1")])
    wait_until(lambda: len(mailbox.mails) == 1)
    time.sleep(0.3)
    assert second.planner is None
    first.stop()
    second.stop()
    assert len(mailbox.mails) == 1


def test_without_a_way_of_sending_nothing_is_done(
    config: Config, people: PeopleStore, workspace: Workspace
) -> None:
    notifier = Notifier(replace(config, notices=NoticesConfig()), people, workspace)
    notifier.start()
    notifier.on_assessments([warning("1")])
    notifier.stop()
    assert notifier.status() == {"on": False, "sent": 0, "queued": 0, "dropped": 0, "problems": {}}


def test_the_collector_is_never_held_up(
    config: Config, people: PeopleStore, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail server that never answers, a full queue, a broken record: a call takes microseconds."""
    monkeypatch.setattr(notifier_module, "MOST_WAITING", 50)
    monkeypatch.setattr(notifier_module, "STOP_WITHIN", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        notifier = Notifier(replace(config, notices=replace(config.notices, smtp=address)), people, workspace)
        notifier.start()
        notifier.on_assessments([warning("0")])
        wait_until(lambda: bool(people.entries("notice")))
        begin = time.monotonic()
        for n in range(200):
            notifier.on_assessments([warning(str(n))])

        def broken() -> Iterator[object]:
            yield 1 / 0

        notifier.on_ended(broken())  # type: ignore[arg-type]
        assert time.monotonic() - begin < 1
        assert notifier.dropped >= 100
        notifier.stop()
        assert notifier._thread is not None
        silent.close()
        notifier._thread.join(25)
        assert not notifier._thread.is_alive()


def test_a_store_that_fails_stops_neither_the_thread_nor_the_next_round(
    config: Config, people: PeopleStore, workspace: Workspace, mailbox: Mailbox
) -> None:
    notifier = Notifier(config, people, workspace)
    notifier.begin()
    assert notifier.planner is not None
    save = notifier.planner.outbox.save
    notifier.planner.outbox.save = _fails  # type: ignore[method-assign]
    from forewarn.operate.notices.rules import SiteChanges

    at = int(time.time())
    notifier.process(SiteChanges(assessments=[warning("1")]), at)
    assert mailbox.mails == []
    notifier.planner.outbox.save = save  # type: ignore[method-assign]
    notifier.process(SiteChanges(assessments=[warning("1")]), at + 60)
    assert len(mailbox.mails) == 1
    assert [one.state for one in notifier.planner.notices] == [NoticeState.SENT]


def _fails(notice: Notice) -> None:
    from forewarn.errors import StoreError

    raise StoreError("disk full")
