"""Where the service may listen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forewarn.config import AccessConfig, Config, ServeConfig
from forewarn.errors import UsageError
from forewarn.operate.access.binding import check_bind


def config(serve: dict[str, Any] | None = None, **access: Any) -> Config:
    return Config(
        serve=ServeConfig(**serve or {}), access=AccessConfig(**access), slurmrestd="http://slurm:6820"
    )


@pytest.mark.parametrize(
    "serve",
    [
        {"listen": "0.0.0.0:8765"},
        {"listen": "[::]:8765"},
        {"listen": "10.1.2.3:8765"},
        {"listen": "login.example.org:8765"},
        {"behind_proxy": True},
        {"url": "https://forewarn.example.org"},
    ],
)
def test_nobody_comes_in_from_elsewhere_without_proof(serve: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"access\.slurm_tokens"):
        check_bind(config(serve))
    with pytest.raises(UsageError, match="unix_peers"):
        check_bind(config(serve, unix_peers=True))
    check_bind(config(serve, service_tokens=True))


@pytest.mark.parametrize("listen", ["127.0.0.1:8765", "[::1]:1", "localhost:80", "127.9.9.9:1"])
def test_trying_it_out_warns(listen: str) -> None:
    (warning,) = check_bind(config({"listen": listen}))
    assert "every user of this machine" in warning


def test_warnings() -> None:
    assert check_bind(config(service_tokens=True)) == ()
    assert "HS256" in check_bind(config(slurm_tokens="key"))[0]
    assert "unencrypted" in check_bind(config({"listen": "0.0.0.0:1"}, service_tokens=True))[0]
    assert "slurmrestd unencrypted" in check_bind(config(slurm_tokens="slurmrestd"))[0]


def test_half_a_method_is_refused() -> None:
    for access, message in (
        ({"oidc_issuer": "https://x"}, "oidc_client_id"),
        ({"proxy_header": "X-User"}, "proxy_secret_file"),
        ({"unix_peers": True}, r"serve\.socket"),
    ):
        with pytest.raises(UsageError, match=message):
            check_bind(config(**access))
    check_bind(config({"socket": Path("/run/x")}, unix_peers=True))
