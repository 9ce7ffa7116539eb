"""Reasons for a risk: the model's exact contributions, summed by group of evidence."""

from forewarn.assess.explanation.reasons import EVERYTHING_ELSE, reasons
from forewarn.assess.explanation.stated_risk_steps import with_needs, with_record

__all__ = ["EVERYTHING_ELSE", "reasons", "with_needs", "with_record"]
