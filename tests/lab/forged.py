"""Tokens that Slurm did not issue, or no longer accepts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time

import jwt

from lab.cluster import Lab
from lab.tokens import sign_token


def forged_tokens(lab: Lab) -> dict[str, str]:
    """Return tokens of alice that nobody may believe, by what is wrong with each."""
    now, key = int(time.time()), lab.jwt_key.read_bytes()
    good = lab.token("alice", 600)
    head, body, signature = good.split(".")
    changed = base64.urlsafe_b64encode(
        base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).replace(b'"alice"', b'"root"')
    )
    return {
        "expired": sign_token(key, "alice", issued=now - 700, expires=now - 100),
        "wrong key": sign_token(secrets.token_bytes(32), "alice", issued=now, expires=now + 600),
        "empty key": _signed_with_nothing("alice", "HS256"),
        "alg none": jwt.encode({"sun": "alice", "exp": now + 600}, "", "none"),
        "alg None": _signed_with_nothing("alice", "None"),
        "another user inside": f"{head}.{changed.rstrip(b'=').decode()}.{signature}",
        "cut": good[:-4],
        "without an end": jwt.encode({"sun": "alice", "iat": now}, key),
        "garbage": "not a token",
    }


def _signed_with_nothing(user: str, algorithm: str) -> str:
    """Sign with an empty key."""
    parts: tuple[dict[str, object], ...] = (
        {"alg": algorithm, "typ": "JWT"},
        {"sun": user, "exp": int(time.time()) + 600},
    )
    text = ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts)
    signature = hmac.new(b"", text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
