"""No test of a model leaves this machine, and every key is a canary."""

from __future__ import annotations

import socket

import pytest

from model_clients import CANARY


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch):
    """Any connection or look-up beyond this machine fails the test."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert address[0] in ("127.0.0.1", "::1", "localhost"), f"a test connected to {address}"
        return connect(self, address)

    def guarded_look_up(host, *args, **settings):
        assert host in ("127.0.0.1", "::1", "localhost", None), f"a test looked up {host}"
        return look_up(host, *args, **settings)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CAPEX_CHAT_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    for name in (
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "OPENAI_CUSTOM_HEADERS",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
