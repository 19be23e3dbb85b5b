"""Who may ask the studio, and what for: a hundred requests that must be refused, and what a page never gets to run."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from urllib.parse import quote

import pytest

import runs
from capex.errors import ErrorCode
from capex.studio.guard import BODY_MAX, POLICY
from capex.studio.library import Library
from capex.studio.rooms.drive import Seat
from capex.studio.rooms.room import Studio
from capex.studio.serve import studio_server
from refusals import refuses

TOKEN = "a-token-for-these-tests"
CHAIN = "kitchen--CloseFridge--capex"
UPWARDS = [
    *(
        "../secret.txt",
        "..%2fsecret.txt",
        "..%252fsecret.txt",
        "....//secret.txt",
        "%2e%2e/secret.txt",
    ),
    *(
        "/etc/passwd",
        "//etc/passwd",
        "..\\secret.txt",
        "run/../../secret.txt",
        "\x00",
        "%00",
        "~root",
    ),
]
MARKUP = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    root = tmp_path_factory.mktemp("studio")
    (root / "secret.txt").write_text("a secret beside the runs")
    runs.campaign(root / "runs" / "first", runs.TASKS[:1], ["capex"], 2, plans=1)
    (root / "runs" / "out").symlink_to(root)
    server = studio_server((root / "runs",), token=TOKEN)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server.address
    server.stop()
    thread.join(10)


def asked(address, path, method="GET", body=None, headers=None, token=TOKEN):
    """Status, headers and body of the answer to a request, sent as it stands."""
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=20)
    try:
        connection.putrequest(method, f"/{token}/{path}" if token else f"/{path}", skip_host=True)
        given = {"Host": f"127.0.0.1:{address.port}", **(headers or {})}
        if body is not None and "Content-Length" not in given:
            given["Content-Length"] = str(len(body))
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def hostile(port):
    """Name, path and options of every request that must be refused."""
    own = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
    for k, path in enumerate(UPWARDS):
        safe = quote(path, safe="/%\\~.")
        yield f"file {k}", safe, {}
        yield f"room file {k}", f"rooms/{safe}", {}
        yield f"run {k}", f"api/campaigns/run?run={quote(path)}", {}
        yield f"chain {k}", f"api/calibration?run=first&chain={quote(path)}", {}
        yield f"episode {k}", f"api/episode?run=first&chain={CHAIN}&episode={quote(path)}", {}
        yield (
            f"picture {k}",
            f"api/live/picture?run=first&chain={CHAIN}&start=0&sha={quote(path)}",
            {},
        )
        yield (
            f"camera {k}",
            f"api/live/frame?run=first&chain={CHAIN}&start=0&camera={quote(path)}",
            {},
        )
        yield (
            f"other episode {k}",
            f"api/episode/apart?run=first&chain={CHAIN}&episode=0&run2={quote(path)}&episode2=0",
            {},
        )
    for host in (
        "evil.example",
        "evil.example:80",
        f"evil.example:{port}",
        f"127.0.0.1.evil:{port}",
        "127.0.0.1",
        "",
        f"0.0.0.0:{port}",
        "127.0.0.1:1",
    ):
        yield f"host {host}", "api/studio", {"headers": {"Host": host}}
    for origin in (
        "http://evil.example",
        "null",
        f"https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        f"http://localhost:{port}",
        "file://",
    ):
        yield f"origin {origin}", "api/studio", {"headers": {"Origin": origin}}
        yield (
            f"post from {origin}",
            "api/live/ask",
            {"method": "POST", "body": b"{}", "headers": {**own, "Origin": origin}},
        )
    yield (
        "another page's fetch",
        "api/studio",
        {"headers": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}},
    )
    yield (
        "another page's picture",
        "api/studio",
        {"headers": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}},
    )
    for token in ("", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), quote("../" + TOKEN)):
        yield f"token {token!r}", "api/studio", {"token": token or "api"}
    yield (
        "no origin",
        "api/live/ask",
        {"method": "POST", "body": b"{}", "headers": {"Content-Type": "application/json"}},
    )
    yield (
        "a form",
        "api/live/ask",
        {
            "method": "POST",
            "body": b"a=1",
            "headers": {**own, "Content-Type": "application/x-www-form-urlencoded"},
        },
    )
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"[" * 20000,
        b'{"run": 1}',
        b'{"run": "first"}',
        json.dumps({"run": "first", "what": "pause", "by": "x" * 500}).encode(),
        json.dumps({"run": "first", "what": "erase", "by": "x"}).encode(),
        json.dumps({"run": "../first", "what": "pause", "by": "x"}).encode(),
        json.dumps({"run": "first", "what": "pause", "by": MARKUP}).encode(),
    ]
    for k, body in enumerate(bodies):
        yield f"body {k}", "api/live/ask", {"method": "POST", "body": body, "headers": own}
    yield (
        "a huge body",
        "api/live/ask",
        {"method": "POST", "body": b"x" * (BODY_MAX + 1), "headers": own},
    )
    yield (
        "a huge length",
        "api/live/ask",
        {"method": "POST", "headers": {**own, "Content-Length": "99999999999"}},
    )
    yield (
        "a strange length",
        "api/live/ask",
        {"method": "POST", "body": b"{}", "headers": {**own, "Content-Length": "-2"}},
    )
    yield "a long address", "api/studio?" + "x" * 5000, {}
    for method in ("PUT", "DELETE", "PATCH", "POST", "TRACE"):
        yield f"method {method}", "api/studio", {"method": method, "body": b"{}", "headers": own}
    for number in ("-1", "1.5", "1e9", "9" * 40, "NaN", "٣", "0x1", ""):
        yield (
            f"episode {number}",
            f"api/episode?run=first&chain={CHAIN}&episode={quote(number)}",
            {},
        )
        yield (
            f"frame {number}",
            f"api/episode/frame?run=first&chain={CHAIN}&episode=0&camera=left&tick={quote(number)}",
            {},
        )
    yield (
        "frame width",
        f"api/episode/frame?run=first&chain={CHAIN}&episode=0&camera=left&tick=0&width=100000",
        {},
    )


def test_a_hundred_hostile_requests_are_refused(studio):
    requests = list(hostile(studio.port))
    assert len(requests) >= 100
    for name, path, options in requests:
        status, headers, body = asked(studio, path, **options)
        assert 400 <= status < 500, (name, status, body[:200])
        assert b"a secret beside" not in body, name
        assert b"root:" not in body, name
        assert b"Traceback" not in body, name
        if (
            status not in (400, 405) or b"error" in body
        ):  # the server's own refusals have no headers of ours
            assert headers.get("content-security-policy", POLICY) == POLICY, name
    assert asked(studio, "api/studio")[0] == 200  # and it goes on


def test_a_body_in_endless_pieces_is_refused(studio):
    with socket.create_connection(("127.0.0.1", studio.port), 20) as line:
        line.sendall(
            f"POST /{TOKEN}/api/live/ask HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\nOrigin: http://127.0.0.1:{studio.port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        piece = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
        for _ in range(6):
            line.sendall(piece)
        assert b" 413 " in line.recv(4096).split(b"\r\n")[0]


def test_what_is_allowed_comes_with_the_policy(studio):
    for path in (
        "",
        "studio.js",
        "shared.css",
        "uplot/uPlot.iife.min.js",
        "api/campaigns",
        "api/live",
        f"api/episode?run=first&chain={CHAIN}&episode=0",
    ):
        status, headers, _ = asked(studio, path)
        assert status == 200, path
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    # A link from elsewhere is a visit, not a request of that page.
    assert (
        asked(studio, "", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0]
        == 200
    )
    links = json.loads(asked(studio, "api/campaigns")[2])
    assert [run["name"] for run in links["runs"]] == ["first"]  # a symbolic link leads nowhere


def test_what_judges_and_arrangers_may_not_ask(studio):
    own = {"Origin": f"http://127.0.0.1:{studio.port}", "Content-Type": "application/json"}
    verdict = {"run": "first", "key": "0" * 16, "verdict": "success", "by": "Ada"}
    bodies = [
        ("judge/verdict", verdict),  # the world judged every attempt of this run
        ("judge/verdict", verdict | {"verdict": "splendid"}),
        ("judge/verdict", verdict | {"verdict": "undo"}),
        ("judge/verdict", verdict | {"by": ""}),
        ("judge/verdict", verdict | {"words": "x" * 2000}),
        ("arrange/ready", {"run": "first", "scene": "../..", "by": "Ada"}),
        ("arrange/ready", {"run": "../first", "scene": "x", "by": "Ada"}),
    ]
    for path, body in bodies:
        given = json.dumps(body).encode()
        status, _, said = asked(studio, f"api/{path}", "POST", given, own)
        assert 400 <= status < 500, (path, body, said)
    for k, path in enumerate(UPWARDS):
        for place in ("about?name=", "episode?episode=0&name=", "frame?tick=0&episode=0&name="):
            assert asked(studio, f"api/dataset/{place}{quote(path)}")[0] == 404, k
        status, _, _ = asked(studio, f"api/judge/frame?run=first&tick=0&key={quote(path)}")
        assert status == 404
        assert asked(studio, f"api/arrange/picture?run={quote(path)}")[0] == 404


def greeted(studio, path="api/drive/wheel", origin=None):
    """The first line of the answer to a WebSocket's greeting."""
    origin = f"http://127.0.0.1:{studio.port}" if origin is None else origin
    with socket.create_connection(("127.0.0.1", studio.port), 20) as line:
        line.sendall(
            f"GET /{TOKEN}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\n{origin and f'Origin: {origin}'}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        return line.recv(4096).split(b"\r\n")[0]


def test_only_the_studios_own_page_may_take_the_wheel(studio):
    assert b" 403 " in greeted(studio, origin="http://evil.example")
    assert b" 403 " in greeted(studio, path="../api/drive/wheel")
    assert b" 101 " in greeted(studio)
    assert b" 403 " in greeted(studio, path="api/drive/takeover", origin="http://evil.example")


def test_an_attempt_that_is_not_under_way_is_not_taken_over(tmp_path):
    runs.campaign(tmp_path / "first", runs.TASKS[:1], ["capex"], 1, plans=1)
    seat = Seat(Studio(Library((tmp_path,))))
    wanted = {"run": "first", "chain": CHAIN, "start": 0, "by": "Ada"}
    for changed in ({}, {"run": "../first"}, {"chain": ".."}, {"start": -1}, {"by": ""}):
        with refuses(ErrorCode.BAD_REQUEST):
            seat._place(wanted | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"run": "../out"},
        {"run": "a/b"},
        {"run": ""},
        {"task": "rig:/etc/passwd:x"},
        {"task": "os.path:join"},
        {"start": -1},
        {"start": "x"},
        {"by": ""},
        {"device": "telepathy"},
    ],
)
def test_a_trip_that_is_none_is_refused_before_anything_is_opened(tmp_path, changed):
    trip = {"task": "kitchen:TurnOnMicrowave", "start": 0, "run": "human", "by": "Ada"}
    seat = Seat(Studio(Library((tmp_path,))))
    assert seat._trip(trip).out == tmp_path.resolve() / "human"
    with refuses(ErrorCode.BAD_REQUEST):
        seat._trip(trip | changed)
    with refuses(ErrorCode.UNKNOWN_NAME, "there is no task 'Nothing' in world 'kitchen'; valid: "):
        seat._trip(trip | {"task": "kitchen:Nothing"})
    assert not list(tmp_path.iterdir())
