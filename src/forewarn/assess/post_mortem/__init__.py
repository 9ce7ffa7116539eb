"""Explain why a job failed: by its record, its surroundings and its log, without a language model."""

from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.report import Confidence, FailureEvidence, LogFile, LogLine, PostMortem

__all__ = ["Confidence", "FailureEvidence", "LogFile", "LogLine", "PostMortem", "explain"]
