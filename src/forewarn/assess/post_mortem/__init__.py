"""Explain why a job failed: by its record, its surroundings and its log, without a language model."""
