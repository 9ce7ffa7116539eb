"""Whether the caller of an answer that takes long is still served, and may see what it could see."""

from __future__ import annotations

import asyncio
from time import monotonic

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from forewarn.errors import AccessError, ForewarnError
from forewarn.operate.access.identity import Identity
from forewarn.operate.access.refreshed import KeySourceError
from forewarn.serve.rest.auth.carried import credentials_of
from forewarn.serve.rest.auth.current import access_of, config_of

ASK_AGAIN = 2.0  # seconds, where it cannot be found out now
GIVE_UP_AFTER = 30.0


class CallerWatch:
    """A caller as it was when its request began; asking about it is mostly a look into memory."""

    def __init__(self, request: Request, identity: Identity) -> None:
        self._access = access_of(request)
        self._credentials = credentials_of(request, config_of(request))
        self._rights = _rights(identity)

    async def is_unchanged(self) -> bool:
        """Check that the proof still counts and gives the same rights.

        Where that cannot be found out, as the store or Slurm does not answer, wait and ask again for a while.
        """
        begun = monotonic()
        while monotonic() - begun < GIVE_UP_AFTER:
            try:
                identity = self._access.cached_again(self._credentials)
                if identity is None:
                    identity = await run_in_threadpool(self._access.authenticate_again, self._credentials)
                return _rights(identity) == self._rights
            except KeySourceError:
                pass
            except AccessError:
                return False
            except ForewarnError:
                pass
            await asyncio.sleep(ASK_AGAIN)
        return False


def _rights(identity: Identity) -> object:
    return identity.user, identity.role, identity.accounts
