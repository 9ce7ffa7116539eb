"""The rules of notices: which changes of a site deserve one. A new rule is one more line here."""

from forewarn.operate.notices.rules.base import Case, NoticeRule, RuleSetting, SiteChanges, SiteChangesIndex
from forewarn.operate.notices.rules.failure import FailureRule
from forewarn.operate.notices.rules.node import NodeRule
from forewarn.operate.notices.rules.risk import RiskRule

RULES: tuple[type[NoticeRule], ...] = (RiskRule, FailureRule, NodeRule)

__all__ = ["RULES", "Case", "NoticeRule", "RuleSetting", "SiteChanges", "SiteChangesIndex"]
