"""Drive a world with a served policy at 20 Hz: nothing here needs torch.

capex policy serve runs/act --port 8900
python examples/run_policy.py kitchen:CloseFridge --start 1000 --port 8900
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import time

import numpy as np

from capex import worlds
from capex.worlds import Start


def ask(link: http.client.HTTPConnection, path: str, body: dict[str, object]) -> dict[str, object]:
    """One request on the open connection."""
    link.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = link.getresponse()
    answer = json.loads(reply.read())
    if reply.status != 200:
        raise SystemExit(f"the server says: {answer['error']}")
    return answer


def main() -> None:
    """One episode; prints whether it succeeded and how fast it went."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("name", help="WORLD:TASK")
    options.add_argument("--start", type=int, default=1000)
    options.add_argument("--port", type=int, default=8900)
    options.add_argument("--steps", type=int, default=0, help="0: the task's horizon")
    given = options.parse_args()
    link = http.client.HTTPConnection("127.0.0.1", given.port, timeout=60)
    try:
        link.request("GET", "/spec")
    except OSError:
        raise SystemExit(
            f"no policy is served on port {given.port}; start one with: capex policy serve CKPT"
            f" --port {given.port}"
        ) from None
    spec = json.loads(link.getresponse().read())
    env = worlds.make(given.name)
    env.reset(Start(env.spec.task, given.start))
    ask(link, "/reset", {"seed": given.start})
    wants, began, steps = True, time.perf_counter(), given.steps or env.spec.horizon
    done = 0
    while done < steps and not env.success():
        side = spec["image_size"]  # [width, height] where images are not square
        size = tuple(side) if isinstance(side, list) else (side, side)
        views = env.observe(spec["cameras"], size) if wants else {}
        images = {
            camera: base64.b64encode(np.ascontiguousarray(image).tobytes()).decode()
            for camera, image in views.items()
        }
        state = dict(zip(env.spec.state_names, env.robot_state().proprio.tolist(), strict=True))
        answer = ask(
            link, "/act", {"images": images, "state": state, "instruction": env.instruction}
        )
        wants = bool(answer["wants_images"])
        env.apply(np.array(answer["action"]))
        done += 1
    rate = done / (time.perf_counter() - began)
    print(
        f"{given.name} start {given.start}: {'success' if env.success() else 'no success'} after"
        f" {done} steps, {rate:.1f} steps/s"
    )
    env.close()


if __name__ == "__main__":
    main()
