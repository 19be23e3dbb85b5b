"""Servers of this machine answer its programs, and no web page."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

from capex.pilot.serve import server

GET, POST = ("GET", "/v1/models"), ("POST", "/v1/responses")


@pytest.fixture(scope="module")
def port():
    pilot = server(0)
    threading.Thread(target=pilot.serve_forever, daemon=True).start()
    yield pilot.server_address[1]
    pilot.shutdown()
    pilot.server_close()


def ask(port, method, path, headers) -> tuple[int, str]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request(method, path, None if method == "GET" else "{}", headers)
    reply = link.getresponse()
    return reply.status, json.loads(reply.read())["error"]["message"] if reply.status != 200 else ""


@pytest.mark.parametrize(
    ("headers", "status", "sentence"),
    [
        ({"Host": "evil.example:{port}"}, 421, "not at 'evil.example"),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421, "not at"),
        ({"Host": "127.0.0.1:1"}, 421, "not at"),
        ({"Host": ""}, 421, "not at"),
        ({"Origin": "http://evil.example"}, 403, "a page of 'http://evil.example' may not"),
        ({"Origin": "null"}, 403, "a page of 'null'"),
        ({"Origin": "https://127.0.0.1:{port}"}, 403, "a page of"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "another page"),
        ({"Sec-Fetch-Site": "same-site"}, 403, "another page"),
    ],
)
def test_a_web_page_is_refused(port, headers, status, sentence):
    given = {name: value.format(port=port) for name, value in headers.items()}
    for method, path in (GET, POST):
        answered, said = ask(port, method, path, given)
        assert (answered, sentence in said) == (status, True), (method, said)


def test_a_program_is_answered_by_each_of_its_names(port):
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert ask(port, *GET, {"Host": f"{host}:{port}"})[0] == 200
        assert ask(port, *POST, {"Host": f"{host}:{port}"})[0] == 404  # no model was named
