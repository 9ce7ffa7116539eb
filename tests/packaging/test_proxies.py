"""packaging/proxy by nginx's and Apache's own checks, in a Debian tree."""

from __future__ import annotations

import pytest

from tests.packaging.conftest import InTree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
CERTIFICATE = """
mkdir -p /etc/ssl/forewarn && cd /etc/ssl/forewarn
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=forewarn.example.org \
  -keyout key.pem -out fullchain.pem 2>/dev/null
"""
MODULES = ("mpm_event", "authz_core", "headers", "socache_shmcb", "ssl", "proxy", "proxy_http")


def test_nginx(in_tree: InTree) -> None:
    done = in_tree(
        f"{CERTIFICATE} cp /mnt/packaging/proxy/nginx.conf /etc/nginx/conf.d/forewarn.conf; nginx -t"
    )
    assert "test is successful" in done.stderr
    assert "warn" not in done.stderr


def test_apache(in_tree: InTree) -> None:
    modules = "\n".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES
    )
    whole = f"{modules}\nServerName localhost\nListen 443\n"
    whole += "DefaultRuntimeDir /tmp\nPidFile /tmp/pid\nErrorLog /tmp/log\n"
    whole += "Include /mnt/packaging/proxy/apache.conf\n"
    done = in_tree(f"{CERTIFICATE} printf '{whole}' > /tmp/httpd.conf; apache2 -t -f /tmp/httpd.conf")
    assert "Syntax OK" in done.stderr
    assert "AH0" not in done.stderr
