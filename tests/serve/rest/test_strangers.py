"""What a service tells those it does not know, and what it writes down of those it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from forewarn.config import Config
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from forewarn.store.opening import open_people_store, open_store
from tests.serve.rest.running import start_service
from tests.serve.rest.test_routes import examples_of

pytestmark = pytest.mark.slow
MODEL = "small.submit.generic"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = Config(home=tmp_path_factory.mktemp("strangers") / "home")
    open_store(config).close()
    return config


@pytest.fixture(scope="module")
def clients(config: Config) -> Iterator[dict[str, httpx.Client]]:
    """Clients of an empty home with service tokens: a helper, an operator, and nobody."""
    tokens = {role.value: create_token(config, role.value, role)[0] for role in (Role.HELPER, Role.OPERATOR)}
    log = config.home.parent / "service.log"
    service = start_service(config.home, log, access__service_tokens=True, collect="never")
    by_name = {
        name: httpx.Client(base_url=service.url, timeout=30, headers={"Authorization": f"Bearer {token}"})
        for name, token in tokens.items()
    } | {"nobody": httpx.Client(base_url=service.url, timeout=30)}
    yield by_name
    for client in by_name.values():
        client.close()
    assert service.stop() == 0
    assert "Traceback" not in service.text


def test_strangers_learn_only_whether_parts_work(clients: dict[str, httpx.Client]) -> None:
    shown = {name: client.get("/readyz").json()["parts"] for name, client in clients.items()}
    wrong = {"Authorization": "Bearer fwt_wrong"}
    assert all(part["detail"] is None for part in shown["nobody"].values())
    assert clients["nobody"].get("/readyz", headers=wrong).json()["parts"] == shown["nobody"]
    assert any(part["detail"] for part in shown["helper"].values())
    assert {name: part["works"] for name, part in shown["helper"].items()} == {
        name: part["works"] for name, part in shown["nobody"].items()
    }


def test_the_example_of_a_login_runs_with_a_token_of_the_site(
    config: Config, clients: dict[str, httpx.Client]
) -> None:
    """No token in a public document can be valid: it is replaced by one of the same form."""
    ((example,),) = ([one for _, path, one in examples_of(clients["nobody"]) if path == "/auth/session"],)
    refused = clients["nobody"].post("/auth/session", json=example)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    token, _ = create_token(config, "pasted", Role.HELPER)
    assert token[:4] == example["token"][:4] == "fwt_"
    with httpx.Client(base_url=clients["nobody"].base_url, timeout=30) as browser:
        begun = browser.post("/auth/session", json={**example, "token": token})
        assert (begun.status_code, begun.json()["role"]) == (200, "helper")
        assert browser.get("/v1/jobs").status_code == 200


def test_refused_thresholds_are_written_down(config: Config, clients: dict[str, httpx.Client]) -> None:
    wanted = {"model": MODEL, "threshold": 0.4}
    assert clients["helper"].put("/v1/thresholds", json=wanted).status_code == 403
    assert clients["helper"].delete("/v1/thresholds", params={"model": MODEL}).status_code == 403
    assert clients["helper"].put("/v1/thresholds", json=wanted | {"preview": True}).status_code == 403
    assert clients["operator"].put("/v1/thresholds", json=wanted).status_code >= 400, "there is no model"
    with open_people_store(config) as people:
        lines = audit_lines(people, actions=("set-threshold", "reset-threshold"))
    assert [(line.user, line.action, line.subject) for line in lines] == [
        ("token:helper", "set-threshold", MODEL),
        ("token:helper", "reset-threshold", MODEL),
        ("token:operator", "set-threshold", MODEL),
    ]
    assert all(line.result.startswith("refused: ") and line.address == "127.0.0.1" for line in lines)
