"""Who gets which notices: rank, budget, digest, arrays and bulks once, silences, subscriptions, restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forewarn.assess.node_health.records import Health
from forewarn.config.notices import Webhook
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.notices.notice import NoticeState
from forewarn.operate.notices.planning import MOST_HELD
from forewarn.operate.notices.requests import NoticeRequests
from forewarn.operate.notices.rules import SiteChanges
from tests.operate.notices.conftest import Desk
from tests.operate.notices.samples import DAY, NOON, advice, ended, node, warning
from tests.operate.notices.servers import Hook, Mailbox, http_server

pytestmark = pytest.mark.slow
NewDesk = Callable[..., Desk]
ANN = Identity(user="ann")
OPERATOR = Identity(user="olga", role=Role.OPERATOR)


def subjects(mailbox: Mailbox) -> list[str]:
    return [str(mail["Subject"]) for mail in mailbox.mails]


def test_a_warning_is_sent_once(desk: Desk, mailbox: Mailbox) -> None:
    desk.round(NOON, assessments=[warning(advice=(advice(),))])
    desk.round(NOON + 60, assessments=[warning(made_at=NOON + 60, phase="start")])
    (mail,) = mailbox.mails
    assert mail["To"] == "ann@example.org"
    assert mail["Subject"] == "Job 100 (solve100x) on alps: 70% risk of failure, 10.0 node hours at risk"
    body = mail.get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert "scontrol update JobId=100 TimeLimit=04:00:00" in text
    assert "No such warning has been judged yet." in text
    assert "https://f.example.org/v1/notices/" in text


def test_another_model_sends_only_what_is_new_and_within_the_budget(desk: Desk, mailbox: Mailbox) -> None:
    """A promotion lets all live jobs be assessed again, over several rounds."""
    before = [warning(str(n), partition=f"p{n}") for n in range(3)]
    desk.round(NOON, assessments=before)
    other: dict[str, Any] = {"made_at": NOON + 60, "route": replace(before[0].route, version=2)}
    desk.round(NOON + 60, assessments=[replace(one, **other, hours_at_risk=99.0) for one in before])
    assert len(mailbox.mails) == 3, "they are known"
    new = [warning(str(n), partition=f"p{n}", hours=float(n), **other) for n in range(10, 50)]
    desk.round(NOON + 60, assessments=new[20:])
    desk.round(NOON + 120, assessments=new[:20])
    assert [one.split(" ")[1] for one in subjects(mailbox)[3:]] == ["49", "48"], "the rest is in a digest"


def test_what_is_small_or_no_warning_is_not_sent(desk: Desk, mailbox: Mailbox) -> None:
    calm = warning("1")
    assert calm.failure is not None
    calm = replace(calm, failure=replace(calm.failure, warns=False))
    desk.round(
        NOON,
        assessments=[calm, warning("2", hours=0.5), warning("3", user="a b"), warning("4", failure=None)],
    )
    desk.round(NOON, ended=[ended("5", "completed"), ended("6", "cancelled"), ended("7", hours=0.2)])
    assert mailbox.mails == []


def test_hours_of_an_array_add_up(desk: Desk, mailbox: Mailbox) -> None:
    """Each task loses little; the array loses enough for a notice."""
    for task in range(10):
        desk.round(NOON + task, ended=[ended(f"7_{task}", hours=0.15)])
    (mail,) = mailbox.mails
    assert "7 jobs like 7_0" in mail["Subject"]


def test_ten_thousand_failed_tasks_are_one_notice(desk: Desk, mailbox: Mailbox) -> None:
    tasks = [ended(f"7_{task}", hours=0.1 + (task == 77)) for task in range(10_000)]
    desk.round(NOON, ended=tasks[:6000])
    desk.round(NOON + 60, ended=tasks[6000:])
    desk = desk.restarted()
    desk.round(NOON + 120, ended=tasks)
    (mail,) = mailbox.mails
    assert mail["Subject"].startswith("6,000 jobs like 7_77 (solve7_77x) on alps failed: out of memory")


def test_a_bulk_is_one_notice(desk: Desk, mailbox: Mailbox) -> None:
    """A loop of sbatch: the same request again and again, with a number in the name."""
    bulk = [ended(str(1000 + n), name=f"run_{n}", submit=NOON - 9000 + 60 * n) for n in range(50)]
    desk.round(NOON, ended=bulk[:30])
    desk.round(NOON, ended=bulk[30:])
    later = ended("2000", name="run_51", submit=NOON + 7200)
    other = ended("2001", name="run_52", submit=NOON, memory_asked=8 << 30)
    desk.round(NOON + 9000, ended=[later, other])
    assert len(mailbox.mails) == 3


def test_the_most_hours_first_and_the_rest_in_one_digest(desk: Desk, mailbox: Mailbox) -> None:
    jobs = [warning(str(n), hours=float(n), partition=f"p{n}") for n in range(1, 31)]
    desk.round(NOON, assessments=jobs)
    assert [one.split(" ")[1] for one in subjects(mailbox)] == ["30", "29", "28", "27", "26"]
    desk.round(NOON + 3600, assessments=[warning("99", hours=99.0)])
    assert len(mailbox.mails) == 5, "the budget of the day is used"
    desk.round(NOON + DAY // 2, ended=[])
    assert len(mailbox.mails) == 5, "midnight, but not yet the hour of digests"
    desk = desk.restarted()
    desk.round(NOON + DAY)
    desk.round(NOON + DAY + 60)
    assert len(mailbox.mails) == 6
    assert subjects(mailbox)[5].startswith("26 more notices beyond your daily number")
    body = mailbox.mails[5].get_body(("plain",))
    assert body is not None
    text = body.get_content()
    assert text.index("Job 99") < text.index("Job 25") < text.index("Job 7 ")
    assert "Job 6 " not in text
    assert "6 notices with fewer hours, not listed" in text
    desk.round(NOON + DAY + 120, assessments=[warning("200", partition="new")])
    assert len(mailbox.mails) == 7, "a new day, a new budget"


def test_budgets_are_each_persons_own(desk: Desk, mailbox: Mailbox) -> None:
    jobs = [warning(f"{n}", user=user, partition=f"p{n}") for n in range(8) for user in ("ann", "bob")]
    desk.round(NOON, assessments=[replace(one, job_id=f"{i}") for i, one in enumerate(jobs)])
    to = [mail["To"] for mail in mailbox.mails]
    assert (to.count("ann@example.org"), to.count("bob@example.org")) == (5, 5)


def test_what_is_held_is_bounded(desk: Desk, mailbox: Mailbox) -> None:
    jobs = [warning(str(n), partition=f"p{n}") for n in range(MOST_HELD + 50)]
    desk.round(NOON, assessments=jobs)
    held = [one for one in desk.planner.notices if one.state is NoticeState.HELD]
    assert len(held) == MOST_HELD
    desk.round(NOON + DAY)
    assert subjects(mailbox)[-1].startswith("145 more notices")


def test_a_held_warning_of_an_ended_job_is_dropped(new_desk: NewDesk, mailbox: Mailbox) -> None:
    desk = new_desk(budget=1)
    desk.round(NOON, assessments=[warning("1", hours=20), warning("2", hours=10, partition="b")])
    desk.round(NOON + 60, ended=[ended("2", "completed")])
    desk.round(NOON + DAY)
    assert len(mailbox.mails) == 1


def test_operators_get_what_is_large(new_desk: NewDesk, mailbox: Mailbox) -> None:
    with http_server(Hook()) as hook:
        desk = new_desk(
            operators=("ops@example.org",),
            webhooks=(
                Webhook(name="chat", shape="slack", url=hook.url),
                Webhook(name="nodes", shape="teams", url=hook.url, rules=("node",)),
            ),
        )
        desk.round(NOON, assessments=[warning("1", hours=50), warning("2", hours=500, partition="b")])
        assert sorted(mail["To"] for mail in mailbox.mails) == ["ann@example.org"] * 2 + ["ops@example.org"]
        assert len(hook.posts) == 1
        assert "ann" in str(hook.posts[0]), "operators see whose job it is"


def test_nodes_that_became_sick_are_one_notice(new_desk: NewDesk, mailbox: Mailbox) -> None:
    desk = new_desk(operators=("ops@example.org",))
    healthy = [node(f"n{n}", Health.HEALTHY) for n in range(4, 100)]
    sick = [node(f"n{n}") for n in (1, 2, 3)]
    desk.round(NOON, health=[*sick, *healthy])
    desk.round(NOON + 600, health=[*sick, *healthy])
    desk = desk.restarted()
    desk.round(NOON + 1200, health=[*sick, *healthy])
    assert subjects(mailbox) == ["3 nodes of alps became sick: n[1-3]"]
    body = mailbox.mails[0].get_body(("plain",))
    assert body is not None
    assert "NodeName='n[1-3]' State=DRAIN" in body.get_content()
    desk.round(NOON + 1800, health=[*sick, node("n4"), *healthy[1:]])
    assert subjects(mailbox)[1:] == ["1 node of alps became sick: n4"]
    desk.round(NOON + 2400, health=[node(f"n{n}", Health.HEALTHY) for n in range(1, 100)])
    desk.round(NOON + DAY + 2400, health=[node("n4")])
    assert len(mailbox.mails) == 3, "sick again on another day"


def test_a_user_opts_out_and_in(new_desk: NewDesk, mailbox: Mailbox) -> None:
    desk = new_desk()
    requests = NoticeRequests(desk.config.notices, desk.people)
    assert requests.subscription(ANN).rules == ("risk", "failure")
    requests.subscribe(ANN, ["failure"], at=NOON)
    desk.round(NOON, assessments=[warning("1")], ended=[ended("2")])
    assert [one.split(":")[0] for one in subjects(mailbox)] == ["Job 2 (solve2x) on alps failed"]
    requests.subscribe(ANN, [], at=NOON)
    desk.round(NOON, ended=[ended("3", partition="b")])
    assert len(mailbox.mails) == 1
    quiet = new_desk(to_users="subscribers")
    quiet.round(NOON, assessments=[warning("4", user="bob")])
    assert len(mailbox.mails) == 1
    NoticeRequests(quiet.config.notices, quiet.people).subscribe(Identity(user="bob"), ["risk"], at=NOON)
    quiet.round(NOON, assessments=[warning("5", user="bob")])
    assert mailbox.mails[1]["To"] == "bob@example.org"
    new_desk(to_users="none").round(NOON, assessments=[warning("6", user="bob", partition="c")])
    assert len(mailbox.mails) == 2


def test_silences(desk: Desk, mailbox: Mailbox) -> None:
    requests = NoticeRequests(desk.config.notices, desk.people)
    own = requests.silence(ANN, at=NOON, rule="risk", until=NOON + 3600)
    desk.round(NOON, assessments=[warning("1"), warning("2", user="bob")], ended=[ended("3")])
    assert sorted(mail["To"] for mail in mailbox.mails) == ["ann@example.org", "bob@example.org"]
    desk.round(NOON + 3600, assessments=[warning("4", partition="b")])
    assert len(mailbox.mails) == 3, "it has ended"
    silence = requests.silence(OPERATOR, at=NOON + 3600, user="bob", reason="teaching\r\n his course")
    assert silence.reason == "teaching his course"
    desk.round(NOON + 3601, assessments=[warning("5", user="bob", partition="c")])
    assert len(mailbox.mails) == 3
    requests.lift(OPERATOR, silence.id, at=NOON + 3602)
    desk.round(NOON + 3603, assessments=[warning("6", user="bob", partition="d")])
    assert len(mailbox.mails) == 4
    assert requests.silences(OPERATOR, at=NOON + 3603) == []
    assert [one.id for one in requests.silences(OPERATOR, at=NOON + 3603, past=True)] == [silence.id, own.id]


def test_a_silenced_node(new_desk: NewDesk, mailbox: Mailbox) -> None:
    desk = new_desk(operators=("ops@example.org",))
    NoticeRequests(desk.config.notices, desk.people).silence(OPERATOR, at=NOON, node="n1")
    desk.round(NOON, health=[node("n1")])
    assert mailbox.mails == []
    desk.round(NOON + 60, health=[node("n1"), node("n2")])
    assert subjects(mailbox) == ["1 node of alps became sick: n2"]


def test_an_erased_user_stays_erased(desk: Desk, mailbox: Mailbox) -> None:
    """The notices in memory bring nothing back, and what was waiting is not sent."""
    requests = NoticeRequests(desk.config.notices, desk.people)
    requests.subscribe(ANN, ["risk"], at=NOON)
    desk.round(NOON, assessments=[warning("1"), warning("2", user="bob")])
    desk.planner.take(SiteChanges(assessments=[warning("3", partition="b")]), NOON)
    desk.people.erase("ann", "user-0001")
    desk.round(NOON + 60, ended=[ended("1", "completed"), ended("2", "completed", user="bob")])
    desk.round(NOON + 120)
    assert len(mailbox.mails) == 2
    stored = [entry for name in ("notice", "subscription") for entry in desk.people.entries(name)]
    assert stored
    assert "ann" not in str(stored)
    assert {one.user for one in desk.planner.notices} == {"bob"}
