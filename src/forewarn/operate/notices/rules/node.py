"""The rule `node`: a node has become sick."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.node_health.records import Health, NodeHealth
from forewarn.operate.notices import wording
from forewarn.operate.notices.notice import Message, Notice
from forewarn.operate.notices.recipients import Recipient, operator_recipients
from forewarn.operate.notices.rules.base import Case, Judgement, NoticeRule, SiteChanges, SiteChangesIndex


class NodeRule(NoticeRule):
    """A notice to operators about nodes that became sick; those of one moment are one notice."""

    name = "node"
    predicts = True
    lapses = False

    def cases(self, changes: SiteChanges) -> Iterator[Case]:
        """Yield the sick nodes; the notifier passes only those that were not sick before."""
        for node in changes.health:
            if node.health is Health.SICK:
                yield Case(
                    rule=self.name,
                    cluster=node.cluster,
                    subject=node.node,
                    bulk=node.cluster,
                    hours={node.node: 0.0},
                    about=(node,),
                )

    def merge(self, case: Case, other: Case) -> None:
        """Add nodes."""
        case.hours |= other.hours
        case.about = (*case.about, *other.about)

    def recipients(self, case: Case) -> Iterator[Recipient]:  # noqa: ARG002 - whatever the nodes
        """Yield the operators."""
        yield from operator_recipients(self.setting.config, self.name)

    def message(self, case: Case, recipient: Recipient) -> Message:  # noqa: ARG002 - operators only
        """Write the evidence of each node, and how to drain them."""
        return wording.node_message(case.about)

    def headline(self, case: Case) -> str:
        """Write the nodes in one line."""
        return wording.node_title(case.about)

    def described_job(self, case: Case) -> str | None:  # noqa: ARG002
        """Return None: it is about nodes."""
        return None

    def judge(self, notice: Notice, changes: SiteChangesIndex) -> Judgement | None:
        """Judge it right when a node is taken out of service, wrong when all are healthy again in service."""
        names: list[str] = notice.request.get("nodes", [])
        now = [changes.health.get((notice.cluster, name)) for name in names]
        known: list[NodeHealth] = [node for node in now if node is not None]
        was_out = set(notice.request.get("out_of_service", []))
        if any(not node.in_service and node.node not in was_out for node in known):
            return Judgement(True, changed=True)
        if len(known) == len(names) and all(node.health is Health.HEALTHY for node in known):
            return Judgement(bool(was_out), changed=False)
        return None
