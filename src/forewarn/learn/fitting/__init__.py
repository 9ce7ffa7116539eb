"""Fitting: from a table of jobs to a calibrated model with a threshold."""
