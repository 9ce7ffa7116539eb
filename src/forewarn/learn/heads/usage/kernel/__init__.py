"""Compiled code of the usage forecasts."""
