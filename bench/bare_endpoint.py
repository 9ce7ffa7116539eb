"""The endpoint that `service.py` compares with: a constant, by FastAPI, on the same loop and parser."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.post("/constant")
async def constant() -> dict[str, object]:
    """Return a constant."""
    return {"probability": 0.5, "verdict": "fine"}


if __name__ == "__main__":
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app, log_config=None, access_log=False, http="httptools", loop="uvloop")
        uvicorn.Server(config).run(sockets=[listening])
