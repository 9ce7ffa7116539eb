"""English for all that is said of a job: the one place where evidence becomes words.

Logic states codes and values (`forewarn.evidence`); a table here has the words for each code. A translation
is another such package. Names that training reports use too are theirs: of features and of simple rules
(`names.py`), of the rungs of evidence and of how fields were read (`routes.py`).
"""

from __future__ import annotations

from forewarn.assess.wording.amounts import capital
from forewarn.assess.wording.facts import advice, facts, risk_change, saving, similar_job
from forewarn.assess.wording.lookup import each, finding, fix, oddity, passed, reason, what, why, words
from forewarn.assess.wording.names import VERDICTS
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.assess.wording.summaries import summary
from forewarn.assess.wording.waterfall import waterfall_svg

__all__ = [
    "VERDICTS",
    "YOU",
    "Reader",
    "advice",
    "capital",
    "each",
    "facts",
    "finding",
    "fix",
    "oddity",
    "passed",
    "reason",
    "risk_change",
    "saving",
    "similar_job",
    "summary",
    "waterfall_svg",
    "what",
    "why",
    "words",
]
