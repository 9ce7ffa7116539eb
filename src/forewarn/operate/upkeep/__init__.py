"""Upkeep of a home: deletion by age, erasure of a user, backup and restore, upgrade."""
