"""Sending at most once: servers that fail, are slow or die; restarts in between; back-off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from forewarn.config.notices import Webhook
from forewarn.operate.notices.notice import Notice, NoticeState
from forewarn.operate.notices.rules import SiteChanges
from tests.operate.notices.conftest import Desk
from tests.operate.notices.samples import DAY, NOON, ended, warning
from tests.operate.notices.servers import Hook, Mailbox, free_port, http_server, smtp_server

pytestmark = pytest.mark.slow
NewDesk = Callable[..., Desk]


def only(desk: Desk) -> Notice:
    (notice,) = desk.planner.notices
    return notice


def test_a_server_that_is_away_is_tried_again_after_a_while(new_desk: NewDesk, mailbox: Mailbox) -> None:
    port = free_port()
    desk = new_desk(smtp=f"127.0.0.1:{port}")
    desk.round(NOON, assessments=[warning()])
    assert only(desk).state is NoticeState.WAITING
    assert "refused" in (desk.sender.channels["mail"].problem or "")
    tried = []
    for minute in range(1, 200):
        before = desk.sender.channels["mail"].failures
        desk.round(NOON + 60 * minute)
        if desk.sender.channels["mail"].failures > before:
            tried.append(minute)
    assert tried == [1, 3, 7, 15, 31, 63, 123, 183], "minutes, up to an hour apart"
    desk = desk.restarted()
    with smtp_server(mailbox, port=port):
        desk.round(NOON + 60 * 240)
        desk.round(NOON + 60 * 300)
    assert len(mailbox.mails) == 1
    assert only(desk).state is NoticeState.SENT


def test_what_cannot_be_sent_within_a_day_is_given_up(new_desk: NewDesk) -> None:
    desk = new_desk(smtp=f"127.0.0.1:{free_port()}")
    desk.round(NOON, ended=[ended()])
    desk.round(NOON + DAY + 1)
    assert only(desk).state is NoticeState.FAILED
    assert desk.sender.next_due() is None


def test_a_warning_that_waits_is_dropped_when_its_job_ends(new_desk: NewDesk, mailbox: Mailbox) -> None:
    port = free_port()
    desk = new_desk(smtp=f"127.0.0.1:{port}")
    desk.round(NOON, assessments=[warning()])
    with smtp_server(mailbox, port=port):
        desk.round(NOON + 3600, ended=[ended(outcome="completed")])
    assert mailbox.mails == []
    assert only(desk).state is NoticeState.DROPPED


@pytest.mark.parametrize(("answer", "arrives"), [("take and hang up", 1), ("hang up", 0)])
def test_a_server_that_dies_in_between_gets_nothing_twice(
    desk: Desk, mailbox: Mailbox, answer: str, arrives: int
) -> None:
    mailbox.data_answers = [answer]
    desk.round(NOON, assessments=[warning("1", hours=20), warning("2", hours=10, partition="b")])
    states = {one.job_id: one.state for one in desk.planner.notices}
    assert states == {"1": NoticeState.UNCERTAIN, "2": NoticeState.WAITING}
    desk = desk.restarted()
    desk.round(NOON + 3600)
    assert len(mailbox.mails) == arrives + 1, "the other one arrives, the uncertain one is not repeated"
    assert mailbox.data_seen == 2


def test_a_crash_while_a_notice_is_handed_over_doubles_nothing(desk: Desk, mailbox: Mailbox) -> None:
    desk.planner.take(_changes(), NOON)
    notice = only(desk)
    desk.planner.update(notice, state=NoticeState.SENDING, tries=1)
    again = desk.restarted()
    assert only(again).state is NoticeState.UNCERTAIN
    again.round(NOON + 60, assessments=[warning()])
    assert mailbox.mails == []


def test_a_crash_before_that_loses_nothing(desk: Desk, mailbox: Mailbox) -> None:
    desk.planner.take(_changes(), NOON)
    again = desk.restarted()
    again.round(NOON + 60)
    again.restarted().round(NOON + 120)
    assert len(mailbox.mails) == 1


def test_one_refused_recipient_does_not_stop_the_others(desk: Desk, mailbox: Mailbox) -> None:
    mailbox.answers = ["550 no such user", "451 later", "250 OK"]
    users = [warning(str(n), user=user, hours=9.0 - n) for n, user in enumerate(("eve", "bob", "ann"))]
    desk.round(NOON, assessments=users)
    states = {one.user: one.state for one in desk.planner.notices}
    assert states == {
        "eve": NoticeState.FAILED,
        "bob": NoticeState.WAITING,
        "ann": NoticeState.SENT,
    }
    desk.round(NOON + 59)
    assert len(mailbox.mails) == 1
    desk.round(NOON + 60)
    assert [mail["To"] for mail in mailbox.mails] == ["ann@example.org", "bob@example.org"]


def test_a_webhook_says_when_to_come_back(new_desk: NewDesk) -> None:
    with http_server(Hook()) as hook:
        desk = new_desk(webhooks=(Webhook(name="ops", url=hook.url),), operator_hours=1.0, to_users="none")
        hook.answers, hook.headers = [429], {"Retry-After": "900"}
        desk.round(NOON, assessments=[warning()])
        desk.round(NOON + 899)
        assert len(hook.posts) == 1
        desk.round(NOON + 900)
        assert len(hook.posts) == 2
        assert only(desk).state is NoticeState.SENT
        assert "SECRET" not in str(only(desk).to_json())


def test_no_password_file_is_a_problem_that_waits(
    new_desk: NewDesk, mailbox: Mailbox, tmp_path: object
) -> None:
    desk = new_desk(smtp_user="x", smtp_password_file=f"{tmp_path}/absent")
    desk.sender._config = replace(  # as the configuration reads it
        desk.config,
        notices=replace(desk.config.notices, smtp_password_file=desk.config.home / "absent"),
    )
    desk.round(NOON, assessments=[warning()])
    assert only(desk).state is NoticeState.WAITING
    assert "smtp_password_file" in (desk.sender.channels["mail"].problem or "")
    assert mailbox.mails == []


def _changes() -> SiteChanges:
    return SiteChanges(assessments=[warning()])
