"""Why the model says what it says: exact contributions, grouped into kinds of evidence, in words."""

from forewarn.assess.explanation.limits import with_needs, with_record
from forewarn.assess.explanation.reasons import EVERYTHING_ELSE, reasons
from forewarn.assess.explanation.waterfall import waterfall_svg

__all__ = ["EVERYTHING_ELSE", "reasons", "waterfall_svg", "with_needs", "with_record"]
