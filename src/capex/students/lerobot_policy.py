"""A policy of LeRobot's that acts for us: a process in LeRobot's environment, asked over a pipe."""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode
from capex.processes import SAFE_PATH
from capex.students import lerobot_server as wire
from capex.students.lerobot_checkpoint import LeRobotSpec

VARIABLE = "CAPEX_LEROBOT_PYTHON"
ASK_VERSION = "import importlib.metadata as m; print(m.version('lerobot'))"
HOW = (
    f"name the Python of an environment that has LeRobot with --python or {VARIABLE};"
    " docs/dataset.md says how to make one"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python that has LeRobot."""

    path: str
    version: str  # LeRobot's


def find_interpreter(given: str = "") -> Interpreter:
    """The given one, that of the environment variable, or this one."""
    path = os.path.expanduser(given or os.environ.get(VARIABLE, ""))
    if not path:
        if importlib.util.find_spec("lerobot") is None:
            raise CapexError(
                f"LeRobot is not installed beside capex; {HOW}", code=ErrorCode.MISSING_PACKAGE
            )
        path = sys.executable
    try:
        asked = subprocess.run(
            [path, "-c", ASK_VERSION],
            capture_output=True,
            text=True,
            env={**os.environ, **SAFE_PATH},
        )
    except OSError as error:
        raise CapexError(
            f"{path} cannot be run ({error.strerror}); {HOW}", code=ErrorCode.NOT_AVAILABLE
        ) from None
    if asked.returncode:
        raise CapexError(f"{path} has no LeRobot; {HOW}", code=ErrorCode.MISSING_PACKAGE)
    return Interpreter(path, asked.stdout.strip())


class LeRobotProcess:
    """LeRobot's side: it ends when our end of the pipe is closed, by us or by our death."""

    def __init__(self, interpreter: Interpreter):
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [interpreter.path, wire.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C is for us; nothing is fetched from the Hub unless the user says so.
            start_new_session=True,
            env={"HF_HUB_OFFLINE": "1", **os.environ, **SAFE_PATH},
        )
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        self._requests, self._answers = requests, answers
        self.pid = self._process.pid

    def load(
        self, folder: Path, device: str = "auto", *, untrained: bool = False, seed: int = 0
    ) -> None:
        """Take the policy of a checkpoint; `untrained` gives it fresh weights."""
        at = {"folder": str(folder.resolve()), "device": device}
        self.ask({"do": "load", **at, "untrained": untrained, "seed": seed})

    def ask(
        self, head: wire.Head, arrays: wire.Arrays | None = None
    ) -> tuple[wire.Head, wire.Arrays]:
        """One request and its answer; a refusal, or the process' death, is a CapexError."""
        try:
            wire.send(self._requests, head, arrays)
            answer = wire.receive(self._answers)
        except OSError:
            answer = None
        if answer is None:
            raise CapexError(
                f"LeRobot's process died: {self._last_words()}", code=ErrorCode.WORKER_DIED
            )
        if "error" in answer[0]:
            raise CapexError(
                f"LeRobot cannot use this policy: {answer[0]['error']}", code=ErrorCode.JOB_FAILED
            )
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {code}"

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._answers.close()
        self._process.terminate()
        self._process.wait()
        self._log.close()


@dataclass
class LeRobotEpisode:
    """One episode; what is remembered of it lies in LeRobot's process."""

    number: int
    looks: bool = True

    def wants_images(self) -> bool:
        """Whether the next observation needs images."""
        return self.looks

    def ahead(self) -> list[npt.NDArray[np.float64]]:
        """Nothing: LeRobot's process is asked for every action."""
        return []


@dataclass(frozen=True)
class Acted:
    """Actions that are there already."""

    actions: list[npt.NDArray[np.float64]]

    def ready(self) -> bool:
        """They are."""
        return True

    def take(self) -> list[npt.NDArray[np.float64]]:
        """One action for each episode."""
        return self.actions


class LeRobotPolicy:
    """A policy ready to act, loaded in LeRobot's process."""

    def __init__(self, spec: LeRobotSpec, process: LeRobotProcess):
        self.spec, self._process = spec, process
        self._numbers = itertools.count()
        self._over: list[int] = []  # episodes that nobody holds any longer

    def begin(self, seed: int = 0) -> LeRobotEpisode:
        """A new episode, for `act_many`. A seed fixes what is random in it."""
        episode = LeRobotEpisode(next(self._numbers))
        self._process.ask({"do": "begin", "episode": episode.number, "seed": seed})
        weakref.finalize(episode, self._over.append, episode.number)
        return episode

    def act_many(
        self, episodes: Sequence[LeRobotEpisode], observations: Sequence[Mapping[str, Any]]
    ) -> list[npt.NDArray[np.float64]]:
        """One action for each of several episodes, in native numbers and order."""
        arrays: dict[str, Any] = {}
        for episode, observation in zip(episodes, observations, strict=True):
            if episode.looks:
                seen = self._seen(observation)
                arrays |= {f"{episode.number}/{name}": array for name, array in seen.items()}
        forget, self._over[:] = list(self._over), []
        request = {
            "do": "act",
            "episodes": [e.number for e in episodes],
            "shown": [e.looks for e in episodes],
            "tasks": [str(o.get("instruction", "")) for o in observations],
            "forget": forget,
        }
        head, answer = self._process.ask(request, arrays)
        actions: npt.NDArray[np.float64] = answer["actions"]
        size = len(self.spec.action_names)
        if actions.shape != (len(episodes), size) or not np.isfinite(actions).all():
            raise CapexError(
                f"the policy gave something else than {size} finite numbers",
                code=ErrorCode.CONTRACT_BROKEN,
            )
        for episode, looks in zip(episodes, head["looks"], strict=True):
            episode.looks = looks
        return list(np.clip(actions, -1.0, 1.0))

    def ask_many(
        self, episodes: Sequence[LeRobotEpisode], observations: Sequence[Mapping[str, Any]]
    ) -> Acted:
        """The same; it is answered before this returns."""
        return Acted(self.act_many(episodes, observations))

    def _seen(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        images, state = observation["images"], observation["state"]
        seen = {wire.IMAGES + c: np.asarray(images[c], np.uint8) for c in self.spec.cameras}
        if self.spec.state_names:
            seen[wire.STATE] = np.array([state[n] for n in self.spec.state_names], np.float32)
        return seen


def load(
    folder: Path,
    spec: LeRobotSpec,
    interpreter: Interpreter,
    device: str = "auto",
    *,
    untrained: bool = False,
    seed: int = 0,
) -> LeRobotPolicy:
    """The policy of a checkpoint in a process of its own, which ends with the policy."""
    policy = LeRobotPolicy(spec, process := LeRobotProcess(interpreter))
    weakref.finalize(policy, process.close)
    process.load(folder, device, untrained=untrained, seed=seed)
    return policy
