"""Rules are judged: precision, and silence for a rule that nobody heeds or that is often wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forewarn.assess.node_health.records import Health
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.notices.requests import NoticeRequests
from forewarn.operate.notices.scoring import SILENT_FOR
from forewarn.operate.notices.silences import AUTOMATIC
from tests.operate.notices.conftest import Desk
from tests.operate.notices.samples import DAY, NOON, ended, node, warning
from tests.operate.notices.servers import Mailbox

pytestmark = pytest.mark.slow
NewDesk = Callable[..., Desk]
ANN = Identity(user="ann")
OPERATOR = Identity(user="olga", role=Role.OPERATOR)


@pytest.fixture
def requests(desk: Desk) -> NoticeRequests:
    return NoticeRequests(desk.config.notices, desk.people)


def warn_and_end(desk: Desk, outcomes: list[str], *, first: int = 0, at: int = NOON, **more: object) -> None:
    """Warn about jobs of as many users, which then end so."""
    for n, outcome in enumerate(outcomes, first):
        user = f"user{n}"
        desk.round(at, assessments=[warning(str(n), user=user)])
        desk.round(at + 60, ended=[ended(str(n), outcome, user=user, hours=0.5, **more)])


def test_precision_counts_what_came_true(desk: Desk, requests: NoticeRequests, mailbox: Mailbox) -> None:
    warn_and_end(desk, ["timeout"] * 6 + ["completed"] * 2 + ["cancelled", "preempted"])
    (risk, _) = requests.precision()
    assert (risk.rule, risk.came_true, risk.judged) == ("risk", 6, 8)
    assert risk.low is not None
    assert risk.low < 0.75 < (risk.high or 0)
    desk.round(NOON + 120, assessments=[warning("99")])
    body = mailbox.mails[-1].get_body(("plain",))
    assert body is not None
    assert "Of the last 8 such warnings 6 came true." in body.get_content()


def test_a_changed_job_says_nothing_about_the_warning(desk: Desk, requests: NoticeRequests) -> None:
    """The user raised the time limit, and the job completed: no false alarm."""
    desk.planner._find_job = lambda _cluster, job_id: ended(job_id, time_limit=3600)
    warn_and_end(desk, ["completed"], time_limit=7200)
    assert requests.precision()[0].judged == 0
    (notice,) = desk.planner.notices
    assert notice.changed


def test_nodes_are_judged_by_what_becomes_of_them(new_desk: NewDesk) -> None:
    desk = new_desk(operators=("ops@example.org",))
    desk.round(NOON, health=[node("n1"), node("n2", Health.HEALTHY)])
    desk.round(NOON + 60, health=[node("n1", in_service=False), node("n2")])
    desk.round(NOON + 120, health=[node("n1", in_service=False), node("n2", Health.HEALTHY)])
    judged = {one.request["nodes"][0]: (one.came_true, one.changed) for one in desk.planner.notices}
    assert judged == {"n1": (True, True), "n2": (False, False)}


def test_a_rule_that_nobody_heeds_is_silent_for_that_person(
    desk: Desk, requests: NoticeRequests, mailbox: Mailbox
) -> None:
    for n in range(5):
        desk.round(NOON + n, assessments=[warning(str(n), partition=f"p{n}")])
    desk.round(NOON, assessments=[warning("50", user="bob")])
    desk.planner.review(NOON + DAY - 60)
    assert requests.silences(ANN, at=NOON + DAY) == [], "a day to react"
    desk.planner.review(NOON + DAY + 60)
    desk.planner.review(NOON + DAY + 120)
    (silence,) = requests.silences(ANN, at=NOON + DAY + 120)
    assert (silence.by, silence.rule, silence.recipient) == (AUTOMATIC, "risk", "user:ann")
    assert "neither an acknowledgement nor a change" in silence.reason
    sent = len(mailbox.mails)
    desk.round(
        NOON + DAY + 180, assessments=[warning("60", partition="x"), warning("61", user="bob", partition="y")]
    )
    assert [mail["To"] for mail in mailbox.mails[sent:]] == ["bob@example.org"]
    desk.round(NOON + DAY + 200, ended=[ended("62")])
    assert mailbox.mails[-1]["To"] == "ann@example.org", "other rules go on"
    requests.lift(ANN, silence.id, at=NOON + DAY + 240)
    desk.planner.review(NOON + DAY + 300)
    assert requests.silences(ANN, at=NOON + DAY + 300) == [], "counted from the lift on"


@pytest.mark.parametrize("by_link", [True, False])
def test_one_acknowledgement_keeps_a_rule_alive(
    desk: Desk, requests: NoticeRequests, mailbox: Mailbox, by_link: bool
) -> None:
    for n in range(5):
        desk.round(NOON + n, assessments=[warning(str(n), partition=f"p{n}")])
    notice = requests.notices(ANN)[2].notice
    if by_link:
        mail = next(one for one in mailbox.mails if notice.id in one["Message-ID"])
        body = mail.get_body(("plain",))
        assert body is not None
        token = body.get_content().split("acknowledge?token=")[1].split()[0]
        assert requests.by_token(notice.id, token).acknowledged_at is None, "reading acknowledges nothing"
        requests.acknowledge_by_token(notice.id, token, at=NOON + 60)
    else:
        requests.acknowledge(ANN, notice.id, at=NOON + 60)
    assert requests.notices(ANN)[2].acknowledged_at == NOON + 60
    assert len(requests.notices(ANN, open_only=True)) == 4
    desk.planner.review(NOON + 2 * DAY)
    assert requests.silences(ANN, at=NOON + 2 * DAY) == []


def test_a_change_keeps_a_rule_alive(desk: Desk, requests: NoticeRequests) -> None:
    for n in range(5):
        desk.round(NOON + n, ended=[ended(str(n), name=f"solver-{'abcde'[n]}")])
    again = ended("90", "completed", name="solver-c", submit=NOON + 900, memory_asked=16 << 30)
    desk.round(NOON + 9000, ended=[again])
    desk.planner.review(NOON + 2 * DAY)
    assert requests.silences(ANN, at=NOON + 2 * DAY) == []


def test_a_rule_that_breaks_its_promise_is_silent_for_all(
    desk: Desk, requests: NoticeRequests, mailbox: Mailbox
) -> None:
    warn_and_end(desk, ["completed"] * 19)
    desk.planner.review(NOON + 120)
    assert requests.silences(OPERATOR, at=NOON + 120) == [], "too few to tell"
    warn_and_end(desk, ["completed", "timeout"] * 3, first=19)
    desk.planner.review(NOON + 120)
    (silence,) = requests.silences(OPERATOR, at=NOON + 120)
    assert (silence.rule, silence.recipient, silence.until) == ("risk", None, NOON + 120 + SILENT_FOR)
    assert silence.reason == (
        "of the last 25 notices of the rule risk 3 came true (12%), and at least 50% are promised"
    )
    assert requests.silences(ANN, at=NOON + 120) == [silence], "everyone sees why it is silent"
    sent = len(mailbox.mails)
    desk.round(NOON + 180, assessments=[warning("77")])
    assert len(mailbox.mails) == sent
    later = NOON + 120 + SILENT_FOR
    desk.planner.review(later)
    desk.round(later, assessments=[warning("78")])
    assert len(mailbox.mails) == sent + 1, "another chance, counted from there"


def test_chance_does_not_silence(desk: Desk, requests: NoticeRequests) -> None:
    warn_and_end(desk, ["completed"] * 12 + ["timeout"] * 9)
    desk.planner.review(NOON + 120)
    assert requests.silences(OPERATOR, at=NOON + 120) == []


def test_old_notices_are_forgotten(desk: Desk, requests: NoticeRequests) -> None:
    desk.round(NOON, assessments=[warning("1")])
    requests.silence(ANN, at=NOON, rule="risk", until=NOON + 60)
    desk.planner.forget(NOON + 91 * DAY)
    assert requests.notices(ANN) == []
    assert requests.silences(ANN, at=NOON, past=True) == []
