"""Evaluation: how good a model is on later jobs, compared with simple rules."""
