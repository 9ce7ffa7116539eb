"""The label of a request in the metrics is the template of its route, as callers know it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from forewarn.config import Config
from forewarn.operate.service.service import Service
from forewarn.serve.rest.app import create_app


@pytest.mark.parametrize(
    ("method", "path", "label"),
    [
        ("GET", "/v1/jobs/7", "/v1/jobs/{job_id}"),
        ("POST", "/v1/assess?detail=brief", "/v1/assess"),
        ("POST", "/v1/assess?detail=brief&", "/v1/assess"),
        ("GET", "/healthz", "/healthz"),
        ("GET", "/v1/invented", "none"),
    ],
)
def test_the_label_is_the_template_with_its_prefix(
    tmp_path: Path, method: str, path: str, label: str
) -> None:
    service = Service(Config(home=tmp_path / "home"))
    try:
        app = create_app(service)

        async def ask() -> None:
            transport = httpx.ASGITransport(app, client=("127.0.0.1", 5))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                await client.request(method, path)

        asyncio.run(ask())
        assert f'forewarn_http_requests_total{{method="{method}",route="{label}"' in (
            app.state.metrics.text().decode()
        )
    finally:
        service.stop()
