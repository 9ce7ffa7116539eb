"""What people may ask of notices: their own, or all by their role."""

from __future__ import annotations

import pytest

from forewarn.errors import ForbiddenError, UnknownNoticeError, UsageError
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.notices.requests import LONGEST_SILENCE, NoticeRequests
from tests.operate.notices.conftest import Desk
from tests.operate.notices.samples import NOON, ended, warning

pytestmark = pytest.mark.slow
ANN, BOB = Identity(user="ann"), Identity(user="bob", role=Role.COORDINATOR, accounts=frozenset({"physics"}))
HELPER, OPERATOR = Identity(user="hal", role=Role.HELPER), Identity(user="olga", role=Role.OPERATOR)


@pytest.fixture
def requests(desk: Desk) -> NoticeRequests:
    desk.round(NOON, assessments=[warning("1"), warning("2", user="bob")])
    desk.round(NOON + 1, ended=[ended("3")])
    return NoticeRequests(desk.config.notices, desk.people)


def test_everyone_sees_their_own(requests: NoticeRequests) -> None:
    def listed(identity: Identity) -> list[str | None]:
        return [one.notice.job_id for one in requests.notices(identity)]

    assert listed(ANN) == ["3", "1"], "newest first"
    assert listed(BOB) == ["2"]
    assert sorted(str(one) for one in listed(HELPER)) == ["1", "2", "3"]
    assert [one.notice.job_id for one in requests.notices(ANN, rule="risk")] == ["1"]
    assert len(requests.notices(ANN, limit=1)) == 1
    with pytest.raises(UsageError, match="no such rule 'x'; choose from risk, failure, node"):
        requests.notices(ANN, rule="x")


def test_who_may_acknowledge(requests: NoticeRequests) -> None:
    own, other = requests.notices(ANN)[0].notice, requests.notices(BOB)[0].notice
    assert requests.acknowledge(ANN, own.id, at=NOON + 5).acknowledged_at == NOON + 5
    assert requests.acknowledge(OPERATOR, own.id, at=NOON + 9).acknowledged_at == NOON + 5, "the first counts"
    for identity, notice in ((ANN, other.id), (ANN, "0" * 24), (OPERATOR, "0" * 24)):
        with pytest.raises(UnknownNoticeError, match="no notice"):
            requests.acknowledge(identity, notice, at=NOON)
    with pytest.raises(ForbiddenError, match="recipient or an operator"):
        requests.acknowledge(HELPER, other.id, at=NOON)


def test_a_wrong_token_does_nothing(requests: NoticeRequests) -> None:
    notice = requests.notices(ANN)[0].notice
    assert notice.token_hash
    for token in ("", "x" * 32, notice.token_hash, "ünïcode", "\udcff"):
        with pytest.raises(UnknownNoticeError):
            requests.acknowledge_by_token(notice.id, token, at=NOON)
    with pytest.raises(UnknownNoticeError):
        requests.by_token("0" * 24, "x" * 32)
    assert requests.notices(ANN)[0].acknowledged_at is None
    shown = requests.notices(ANN)[0].to_json()
    assert notice.token_hash not in str(shown)


def test_a_notice_that_was_not_sent_has_no_token(desk: Desk, requests: NoticeRequests) -> None:
    from forewarn.operate.notices.rules import SiteChanges

    desk.planner.take(SiteChanges(assessments=[warning("9", user="cleo")]), NOON)
    (unsent,) = [one for one in desk.planner.notices if one.user == "cleo"]
    with pytest.raises(UnknownNoticeError):
        requests.by_token(unsent.id, "")


@pytest.mark.parametrize(
    "wanted", [{"user": "bob"}, {"node": "n1"}, {"recipient": "webhook:ops"}, {"recipient": "user:bob"}]
)
def test_only_operators_silence_others(requests: NoticeRequests, wanted: dict[str, str]) -> None:
    for identity in (ANN, HELPER):
        with pytest.raises(ForbiddenError, match="only operators"):
            requests.silence(identity, at=NOON, **wanted)  # type: ignore[arg-type]
    silence = requests.silence(OPERATOR, at=NOON, **wanted)  # type: ignore[arg-type]
    with pytest.raises((ForbiddenError, UnknownNoticeError)):
        requests.lift(ANN, silence.id, at=NOON)
    assert requests.lift(OPERATOR, silence.id, at=NOON + 1).lifted_by == "olga"


def test_silences_about_others_are_not_shown(requests: NoticeRequests) -> None:
    about_bob = requests.silence(OPERATOR, at=NOON, user="bob", reason="bob is ill")
    of_all = requests.silence(OPERATOR, at=NOON, rule="node", reason="ask olga")
    own = requests.silence(ANN, at=NOON, reason="mine")
    shown = requests.silences(ANN, at=NOON)
    assert {(one.id, one.by, one.reason) for one in shown} == {(of_all.id, "", ""), (own.id, "ann", "mine")}
    assert {one.id for one in requests.silences(BOB, at=NOON)} == {about_bob.id, of_all.id}
    assert {one.reason for one in requests.silences(HELPER, at=NOON)} == {"bob is ill", "ask olga", "mine"}
    with pytest.raises(UnknownNoticeError, match="no silence"):
        requests.lift(ANN, about_bob.id, at=NOON)
    requests.lift(OPERATOR, of_all.id, at=NOON + 1)
    (lifted,) = [one for one in requests.silences(ANN, at=NOON, past=True) if one.id == of_all.id]
    assert (lifted.lifted_at, lifted.lifted_by) == (NOON + 1, "")


def test_silences_are_checked(requests: NoticeRequests) -> None:
    assert requests.silence(ANN, at=NOON).recipient == "user:ann", "all of one's own"
    assert requests.silence(ANN, at=NOON, user="ann").user is None
    with pytest.raises(UsageError, match="say what to silence"):
        requests.silence(OPERATOR, at=NOON)
    for until in (NOON, NOON - 1, -1, NOON + LONGEST_SILENCE + 1):
        with pytest.raises(UsageError, match="until"):
            requests.silence(ANN, at=NOON, until=until)
    with pytest.raises(UsageError, match="no such rule"):
        requests.silence(ANN, at=NOON, rule="'; DROP TABLE entry; --")
    with pytest.raises(UnknownNoticeError, match="no silence"):
        requests.lift(OPERATOR, "nothing", at=NOON)


def test_subscriptions_are_checked(requests: NoticeRequests) -> None:
    with pytest.raises(UsageError, match="no such rule 'node'; choose from risk, failure"):
        requests.subscribe(ANN, ["risk", "node"], at=NOON)
    assert requests.subscribe(ANN, ["risk", "risk"], at=NOON).to_json() == {
        "user": "ann",
        "rules": ["risk"],
        "chosen": True,
    }
