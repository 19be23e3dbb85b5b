"""A robot of your own: drivers of an arm without links and of a camera that sees two dots, named in
my_robot.toml. `python examples/my_robot.py` runs the contract on them."""

import tempfile
import time
from pathlib import Path

import numpy as np

from capex import Pose, worlds
from capex.pose import DOWN
from capex.rigs.drivers import ArmFacts, ArmReading, Frame

SPEED_M_S, FPS = 0.3, 30


def hand(options):  # tip and opening, which two processes share; yours has a wire instead
    path = Path(tempfile.gettempdir()) / f"my-robot-{options['address']}.npy"
    if not path.is_file():
        np.save(path, [0.45, 0.0, 0.2, 0.08])
    return np.load(path, mmap_mode="r+")


class MyArm:
    """Arms: connect, read, command, hold, grip, stop, recover, close; none of them may block."""

    def __init__(self, options, name):
        self.hand, self.R, self.read_s = hand(options), DOWN, time.monotonic()
        self.goal, self.opening_m = Pose(np.array(self.hand[:3]), DOWN), float(self.hand[3])

    def connect(self):  # its joints are the tip's coordinates, it feels no force
        return ArmFacts(("x", "y", "z"), ((-2.0, 2.0),) * 3, 0.08, False, "it stays where it is")

    def read(self):
        now_s = time.monotonic()
        left, reach = self.goal.position_m - self.hand[:3], SPEED_M_S * (now_s - self.read_s)
        self.hand[:3] += left * min(1.0, reach / max(float(np.linalg.norm(left)), 1e-9))
        self.hand[3] += np.clip(self.opening_m - self.hand[3], -reach, reach)
        self.read_s, self.R, tip = now_s, self.goal.rotation, np.array(self.hand[:3])
        return ArmReading(Pose(tip, self.R), tuple(tip.tolist()), float(self.hand[3]), now_s)

    def command(self, T_mount_tip):
        self.goal = T_mount_tip

    def grip(self, opening_m):
        self.opening_m = opening_m

    def stop(self):
        self.goal = Pose(np.array(self.hand[:3]), self.R)

    def hold(self): ...  # it keeps its goal by itself, needs no heartbeat and has no errors

    recover = close = hold


class MyCamera:
    """Cameras: size, intrinsics, start, latest, close; `latest` may repeat a picture's number."""

    def __init__(self, options, name, size):
        self.hand, self.size, (w, h) = hand(options), size, size
        self.intrinsics = np.array([[1.2 * h, 0, w / 2], [0, 1.2 * h, h / 2], [0, 0, 1.0]])

    def latest(self):
        v, u = np.mgrid[: self.size[1], : self.size[0]] + 0.5
        image = np.stack([90 + u / 4, 90 + v / 4, np.full(u.shape, 90)], axis=-1).astype(np.uint8)
        (x, y, z, opening), now_s = self.hand, time.monotonic()
        f, (cx, cy) = self.intrinsics[0, 0] / (1.2 - z), self.intrinsics[:2, 2]
        for side in (-1, 1):  # it hangs 1.2 m above (0.45, 0): +x is up, +y left in its image
            at = cx - f * (y + side * (opening / 2 + 0.01)), cy - f * (x - 0.45)
            image[np.hypot(u - at[0], v - at[1]) < 0.012 * f] = (230, 60, 50)
        return Frame(image, int(now_s * FPS), now_s, now_s)

    start = close = MyArm.hold


if __name__ == "__main__":
    env = worlds.make(f"rig:{Path(__file__).with_suffix('.toml')}:Touch")
    print(*worlds.check(env).findings, sep="\n")
    env.close()
