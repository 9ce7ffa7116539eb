"""Problems with options, found while they are read; reported as findings later."""

from __future__ import annotations

from dataclasses import dataclass, field

from forewarn.evidence import Code, Values


class ProblemCode(Code):
    """The ways in which an option, or its line, can be wrong."""

    UNEXPECTED_VALUE = "unexpected_value"
    PLUGIN_OPTION = "plugin_option"
    AMBIGUOUS_OPTION = "ambiguous_option"
    NEWER_OPTION = "newer_option"
    FORMER_OPTION = "former_option"
    UNKNOWN_OPTION = "unknown_option"
    UNKNOWN_LETTER = "unknown_letter"
    MISSING_VALUE = "missing_value"
    BAD_VALUE = "bad_value"
    NOT_AN_OPTION = "not_an_option"
    UNREADABLE_LINE = "unreadable_line"


class ProblemFix(Code):
    """Suggested fixes."""

    SIMILAR_OPTION = "similar_option"
    OPTION_BEGINS_WITH_DASH = "option_begins_with_dash"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem for which sbatch refuses the script, unless `refused` is false."""

    rule: str  # short name: unknown-option
    code: ProblemCode
    values: Values = field(default_factory=dict, hash=False)
    line: int | None = None  # of the script; None: environment or command line
    fix: ProblemFix | None = None
    refused: bool = True
