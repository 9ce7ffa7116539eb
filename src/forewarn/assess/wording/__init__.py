"""English for assessments: the one place where evidence becomes text.

The logic states codes and values (`forewarn.evidence`); a table here has the English for each code, so that
a translation is another such package. Numbers are formatted by `forewarn.formatting`. Names that training
reports use too are defined there: of features and simple rules (`names.py`), of evidence levels and of
differences in Slurm's fields (`routes.py`).
"""

from __future__ import annotations

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
