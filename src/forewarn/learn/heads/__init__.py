"""Heads: predictions beside failure itself: its cause, run time and resource use, profiles, odd requests."""
