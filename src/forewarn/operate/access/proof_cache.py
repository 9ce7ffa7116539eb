"""Proofs that were verified before, by the hash of what proved them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from forewarn.operate.access.credentials import Proof
from forewarn.sources.slurm.clock import Clock

_MOST = 10_000


class ProofCache:
    """The proofs used last, each until a time, by the SHA-256 of what proved them."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._kept: OrderedDict[bytes, tuple[Proof | None, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, way: str, secret: str) -> Proof | None:
        """Return the proof of a secret, if it still counts."""
        found = self._find(way, secret)
        return found[0] if found else None

    def is_refused(self, way: str, secret: str) -> bool:
        """Check whether the secret was refused a moment ago."""
        found = self._find(way, secret)
        return found is not None and found[0] is None

    def put(self, way: str, secret: str, proof: Proof | None, until: float) -> None:
        """Keep a proof, or by None a refusal, until a time in Unix seconds."""
        key = _key(way, secret)
        with self._lock:
            self._kept[key] = (proof, until)
            self._kept.move_to_end(key)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)

    def drop(self, way: str, secret: str) -> None:
        """Forget what is known of a secret."""
        with self._lock:
            self._kept.pop(_key(way, secret), None)

    def clear(self) -> None:
        """Forget all: each is proven again when it comes next."""
        with self._lock:
            self._kept.clear()

    def _find(self, way: str, secret: str) -> tuple[Proof | None, float] | None:
        key = _key(way, secret)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if found[1] <= self._clock.now():
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return found


def _key(way: str, secret: str) -> bytes:
    return hashlib.sha256(f"{way}\0{secret}".encode("utf-8", "surrogatepass")).digest()
