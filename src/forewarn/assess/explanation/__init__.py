"""Why the model says what it says: exact contributions, grouped into kinds of evidence."""

from forewarn.assess.explanation.limits import with_needs, with_record
from forewarn.assess.explanation.reasons import EVERYTHING_ELSE, reasons

__all__ = ["EVERYTHING_ELSE", "reasons", "with_needs", "with_record"]
