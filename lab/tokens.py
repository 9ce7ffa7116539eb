"""Tokens that slurmctld would not make: already expired, or of a clock that is wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json


def sign_token(key: bytes, user: str, *, issued: int, expires: int) -> str:
    """A JWT as Slurm makes them, with times of one's own choice (seconds since 1970)."""
    header = {"alg": "HS256", "typ": "JWT"}
    claims = {"exp": expires, "iat": issued, "sun": user}
    signed = ".".join(_encoded(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    return f"{signed}.{_encoded(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
