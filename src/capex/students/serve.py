"""`capex policy serve`: a policy behind HTTP on loopback, for any client.

    POST /reset   {"seed": 0} -> {"ok": true}
    POST /act     {"images": {"left": BASE64 of raw RGB rows, ..}, "state": {name: number, ..},
                  "instruction": ".."}, or an .npz body (Content-Type application/x-npz) with
                  image_left .., state, instruction
                  -> {"action": [12 numbers], "wants_images": true}
    GET  /spec    what it takes and gives: cameras, image size, names, rate

One episode at a time: the policy remembers between /act calls until the next /reset. `wants_images`
says whether the next observation needs pictures; a policy with actions still planned does not look
at them.
"""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from capex.errors import CapexError, ErrorCode
from capex.loopback import BODY_MAX, JsonHandler, Refused, listen, read_object
from capex.npz import read_npz
from capex.students.policy import Policy
from capex.students.settings import SEED_MAX

HINT = ", for /act with images, state and instruction"


class Server:
    """A running server; `port` is where it listens."""

    def __init__(self, policy: Policy, port: int):
        self._policy, self._lock = policy, threading.Lock()
        self._http = listen(port, _handler(self))
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the server is closed or the user interrupts."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, kind: str, body: bytes) -> dict[str, Any]:
        """The reply to a POST."""
        with self._lock:
            if path == "/reset":
                seed = read_object(body or b"{}", HINT).get("seed", 0)
                if type(seed) is not int or not 0 <= seed <= SEED_MAX:
                    raise CapexError(
                        f"seed must be a whole number from 0 to {SEED_MAX}",
                        code=ErrorCode.BAD_REQUEST,
                    )
                self._policy.reset(seed)
                return {"ok": True}
            if path == "/act":
                is_npz = kind == "application/x-npz"
                observation = _from_npz(body) if is_npz else self._from_json(body)
                action = [float(v) for v in self._policy.act(observation)]
                return {"action": action, "wants_images": self._policy.wants_images()}
        raise CapexError(
            f"there is no {path}; valid: POST /reset, POST /act, GET /spec",
            code=ErrorCode.BAD_REQUEST,
        )

    def spec(self) -> dict[str, Any]:
        """The reply to GET /spec."""
        spec = self._policy.spec
        return {
            "policy": spec.policy,
            "cameras": list(spec.cameras),
            "image_size": spec.size_json,
            "state_names": list(spec.state_names),
            "action_names": list(spec.action_names),
            "hz": spec.fps,
            "instructions": list(spec.instructions),
        }

    def _from_json(self, body: bytes) -> dict[str, Any]:
        given = read_object(body, HINT)
        width, height = self._policy.spec.image_size
        images, shown = {}, given.get("images") or {}
        if not isinstance(shown, dict):
            raise CapexError(
                "images must be an object: camera -> base64 of raw RGB rows",
                code=ErrorCode.BAD_REQUEST,
            )
        for camera, text in shown.items():
            try:
                raw = base64.b64decode(text, validate=True)
            except (TypeError, ValueError):
                raise CapexError(
                    f"image '{camera}' is no base64 of raw RGB rows", code=ErrorCode.BAD_REQUEST
                ) from None
            if len(raw) != width * height * 3:
                raise CapexError(
                    f"image '{camera}' has {len(raw)} bytes; raw RGB of {width}x{height} has"
                    f" {width * height * 3}",
                    code=ErrorCode.BAD_REQUEST,
                )
            images[str(camera)] = np.frombuffer(raw, dtype=np.uint8).reshape(height, width, 3)
        return {
            "images": images,
            "state": given.get("state"),
            "instruction": _text(given.get("instruction", "")),
        }


def _from_npz(body: bytes) -> dict[str, Any]:
    try:
        arrays = read_npz(io.BytesIO(body), BODY_MAX)
    except CapexError as error:
        raise CapexError(
            f"the body is no .npz with image_CAMERA, state and instruction: {error}",
            code=ErrorCode.BAD_REQUEST,
        ) from None
    images = {
        name.removeprefix("image_"): array
        for name, array in arrays.items()
        if name.startswith("image_")
    }
    words = arrays.get("instruction", np.array(""))
    return {
        "images": images,
        "state": arrays.get("state"),
        "instruction": _text(words.item() if words.ndim == 0 else None),
    }


def _text(instruction: object) -> str:
    if not isinstance(instruction, str):
        raise CapexError("the instruction must be text", code=ErrorCode.BAD_REQUEST)
    return instruction


def _handler(server: Server) -> type[JsonHandler]:
    class Handler(JsonHandler):
        def get(self) -> dict[str, Any]:
            if self.path != "/spec":
                raise Refused(404, f"there is no {self.path}; valid: GET /spec")
            return server.spec()

        def post(self, body: bytes) -> dict[str, Any]:
            return server.answer(self.path, self.headers.get("Content-Type", ""), body)

    return Handler


@contextmanager
def serve(policy: Policy, port: int = 0) -> Iterator[Server]:
    """A server that is closed when the block ends."""
    server = Server(policy, port)
    try:
        yield server
    finally:
        server.close()
