"""Tokens that slurmctld would not make: already expired, or of a clock that is wrong."""

from __future__ import annotations

import jwt


def sign_token(key: bytes, user: str, *, issued: int, expires: int) -> str:
    """Sign a JWT as Slurm does, with any times (seconds since 1970)."""
    return jwt.encode({"exp": expires, "iat": issued, "sun": user}, key)
