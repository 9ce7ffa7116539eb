"""A small application with the dependency and the routes of access, as the service has them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI

from forewarn.config import Config
from forewarn.operate.access.access import Access
from forewarn.operate.access.identity import Identity
from forewarn.serve.rest.auth import router
from forewarn.serve.rest.auth.current import current_identity
from forewarn.serve.rest.auth.peer import PeerProtocol
from forewarn.serve.rest.problems import add_handlers
from forewarn.store.people import PeopleStore


def access_app(config: Config, people: PeopleStore, **options: Any) -> tuple[FastAPI, Access]:
    """Build it; `/v1/me` and `/v1/act` answer with the caller."""
    access = Access(config, people, read_rights=options.pop("read_rights", dict), **options)
    app = FastAPI()
    app.state.service = SimpleNamespace(access=access, config=config)
    app.include_router(router)
    add_handlers(app)

    @app.get("/v1/me")
    async def me(identity: Annotated[Identity, Depends(current_identity)]) -> dict[str, Any]:
        return identity.to_json()

    @app.post("/v1/act")
    async def act(identity: Annotated[Identity, Depends(current_identity)]) -> dict[str, Any]:
        identity.require_slurm_token()
        return identity.to_json()

    return app, access


@contextmanager
def served(app: FastAPI, *, port: int = 0, socket: Path | None = None, **options: Any) -> Iterator[str]:
    """Serve an application by uvicorn, as the service does; yield its address."""
    place = {"uds": str(socket)} if socket else {"host": "127.0.0.1", "port": port}
    config = uvicorn.Config(
        app, http=PeerProtocol, log_config=None, **{"proxy_headers": False, **place, **options}
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        if socket:
            yield "http://localhost"
        else:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
