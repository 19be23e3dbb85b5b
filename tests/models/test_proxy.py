"""Proxies of the environment: what goes to this machine goes through none."""

from __future__ import annotations

import pytest

from capex.loopback import is_this_machine
from capex.models import anthropic, openai_chat, openai_responses
from capex.models.retry import RetryPolicy
from model_clients import OK, REQUEST, WIRES, client
from refusals import model_fails
from wire_server import WireServer

pytestmark = pytest.mark.usefixtures("loopback_only", "canary_keys")
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


@pytest.fixture
def proxy(monkeypatch):
    """A proxy that notes what it is sent, and refuses it."""
    with WireServer([]) as server:
        for name in PROXIES:
            monkeypatch.setenv(name, server.root)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield server


@pytest.mark.parametrize("wire_name", WIRES)
def test_a_model_on_this_machine_is_reached_directly(wire_name, proxy):
    with WireServer([OK]) as server:
        client(wire_name, server).complete(REQUEST)
        assert server.requests == 1
    assert proxy.requests == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
def test_however_this_machine_is_written(host, proxy):
    with WireServer([OK]) as server:
        openai_chat.make(f"m@{server.url.replace('127.0.0.1', host)}").complete(REQUEST)
        assert server.requests == 1
    assert proxy.requests == 0


@pytest.mark.parametrize("wire_name", WIRES)
def test_a_model_elsewhere_is_reached_through_the_proxy(wire_name, proxy):
    """As the machine is set up: else a lab behind one could reach no provider."""
    root, once = "http://models.example", RetryPolicy(attempts=1)
    model = {
        "responses": lambda: openai_responses.make("m", base_url=f"{root}/v1", policy=once),
        "chat": lambda: openai_chat.make(f"m@{root}/v1", policy=once),
        "messages": lambda: anthropic.make("m", base_url=root, policy=once),
    }[wire_name]()
    with model_fails("server", "HTTP 500"):
        model.complete(REQUEST)
    assert proxy.requests == 1


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("localhost.", True),
        ("vllm.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("127.1", True),
        ("0x7f000001", True),
        ("2130706433", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::", True),
        ("0.0.0.0", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("notlocalhost", False),
        ("api.openai.com", False),
        ("xn--bcher-kva.example", False),
        ("b\u00fccher.example", False),
        ("", False),
    ],
)
def test_which_hosts_are_this_machine(host, here):
    assert is_this_machine(host) == here
