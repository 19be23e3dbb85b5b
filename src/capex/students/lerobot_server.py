"""LeRobot's side of `capex evaluate lerobot:FOLDER`: a process in LeRobot's own environment that
needs numpy, torch and lerobot, and nothing of ours. It is run as a file.

Requests come on stdin, answers go to stdout: the length of a JSON head, the head, then the bytes of
the arrays that it lists. Nothing is pickled. The end of stdin ends the process.

    load   folder, device, untrained, seed          -> {}
    begin  episode, seed                            -> {}
    act    episodes, shown, tasks, forget; arrays   -> looks; array `actions`, one row per episode

Every episode has a copy of all that the policy and its processors remember, and a random generator
of its own; the weights are shared. The network sees one episode at a time, so that an episode does
not depend on those beside it.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import struct
import sys
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

IMAGES, STATE = "observation.images.", "observation.state"
LENGTH = struct.Struct(">Q")

Head = dict[str, Any]
Arrays = dict[str, Any]


def send(
    stream: IO[bytes], head: Mapping[str, Any], arrays: Mapping[str, Any] | None = None
) -> None:
    """One message."""
    whole = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    listed = [[name, array.dtype.str, array.shape] for name, array in whole.items()]
    text = json.dumps({"head": dict(head), "arrays": listed}).encode()
    stream.write(LENGTH.pack(len(text)) + text)
    for array in whole.values():
        stream.write(array.tobytes())
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Head, Arrays] | None:
    """The next message; None where the other side has gone."""
    size = stream.read(LENGTH.size)
    if len(size) < LENGTH.size:
        return None
    message = json.loads(stream.read(LENGTH.unpack(size)[0]))
    arrays = {}
    for name, kind, shape in message["arrays"]:
        dtype = np.dtype(kind)
        raw = stream.read(dtype.itemsize * int(np.prod(shape)))
        arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
    return message["head"], arrays


class PolicyRefused(Exception):
    """A sentence for whoever asked."""


class PolicyEpisode:
    """What a policy and its processors remember of one episode."""

    def __init__(self, policy: Any, before: Any, after: Any, seed: int):
        import torch

        # Modules and their tensors stand for themselves; queues and ensembles are copied.
        shared = [*list(policy.modules())[1:], *policy.parameters(), *policy.buffers()]
        whole = (policy, before, after)
        self._policy, self._before, self._after = copy.deepcopy(whole, {id(s): s for s in shared})
        self._policy.reset()
        self._device = torch.device(policy.config.device)
        torch.manual_seed(seed)
        self._random = self._generators()
        self._seen: dict[str, Any] = {}

    def act(self, observation: dict[str, Any] | None) -> Any:
        """The next action. Without an observation, one that `looks` did not ask for, the last one
        stands in its place: it has left the policy's memory before the network runs again.
        """
        import torch

        if observation is not None:
            self._seen = self._before(observation)
        self._generators(self._random)
        config = self._policy.config
        mixed = torch.autocast(self._device.type) if config.use_amp else contextlib.nullcontext()
        with torch.inference_mode(), mixed:
            action = self._after(self._policy.select_action(dict(self._seen)))
        self._random = self._generators()
        return action.squeeze(0).float().cpu().numpy()

    def looks(self) -> bool:
        """Whether the next observation matters. What is known of ACT's and Diffusion's queues
        saves most pictures; any other policy sees every step.
        """
        config, policy = self._policy.config, self._policy
        queue: Any = ()
        if config.type == "act":
            queue = getattr(policy, "_action_queue", ())  # none with temporal ensembling
        elif config.type == "diffusion":
            queue = policy._queues["action"]
        return len(queue) < int(config.n_obs_steps)

    def _generators(self, states: list[Any] | None = None) -> list[Any]:
        """The states of torch's random generators, set to the given ones first."""
        import torch

        modules = [torch, *(m for m in (torch.cuda, torch.mps) if m.__name__ == self._module)]
        for module, state in zip(modules, states or (), strict=False):
            module.set_rng_state(state)
        return [module.get_rng_state() for module in modules]

    @property
    def _module(self) -> str:
        return f"torch.{self._device.type}"


class PolicyServer:
    """Answers requests."""

    def __init__(self) -> None:
        self._parts: tuple[Any, Any, Any] | None = None
        self._episodes: dict[int, PolicyEpisode] = {}

    def answer(self, head: Head, arrays: Arrays) -> tuple[Head, Arrays]:
        """The answer to one request."""
        if head["do"] == "load":
            self._parts = load(head["folder"], head["device"], head["untrained"], head["seed"])
            return {}, {}
        if head["do"] == "begin":
            assert self._parts is not None
            self._episodes[head["episode"]] = PolicyEpisode(*self._parts, head["seed"])
            return {}, {}
        return self._act(head, arrays)

    def _act(self, head: Head, arrays: Arrays) -> tuple[Head, Arrays]:
        for gone in head["forget"]:
            self._episodes.pop(gone, None)
        actions, looks = [], []
        for episode, shown, task in zip(
            head["episodes"], head["shown"], head["tasks"], strict=True
        ):
            state = self._episodes[episode]
            actions.append(state.act(_observation(episode, task, arrays) if shown else None))
            looks.append(state.looks())
        return {"looks": looks}, {"actions": np.stack(actions).astype(np.float64)}


def _observation(episode: int, task: str, arrays: Arrays) -> dict[str, Any]:
    """What LeRobot's processors take: pictures as (1, 3, H, W) in [0, 1], numbers, words."""
    import torch

    batch: dict[str, Any] = {"task": task, "robot_type": ""}
    for name, array in arrays.items():
        number, _, key = name.partition("/")
        if int(number) != episode:
            continue
        tensor = torch.from_numpy(array.copy())
        if key.startswith(IMAGES):
            tensor = tensor.permute(2, 0, 1).contiguous().float() / 255
        batch[key] = tensor.unsqueeze(0)
    return batch


def load(folder: str, device: str, untrained: bool, seed: int) -> tuple[Any, Any, Any]:
    """The policy of a checkpoint and its two processors; weights are .safetensors."""
    import torch
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    place = _device(device)
    with open(os.path.join(folder, "config.json")) as file:
        kind = json.load(file)["type"]
    known = sorted(PreTrainedConfig.get_known_choices())
    if kind not in known:
        raise PolicyRefused(f"it is a policy '{kind}'; LeRobot knows {', '.join(known)} here")
    config = PreTrainedConfig.from_pretrained(folder, cli_overrides=[f"--device={place}"])
    if hasattr(config, "pretrained_backbone_weights"):
        config.pretrained_backbone_weights = None  # the checkpoint has its own; nothing is fetched
    torch.manual_seed(seed)
    maker = get_policy_class(kind)
    policy = (
        maker(config) if untrained else maker.from_pretrained(folder, config=config, strict=True)
    )
    policy.to(place).eval()
    change = {"device_processor": {"device": place}}
    # The second pipeline's device is the CPU, where actions are wanted.
    before, after = make_pre_post_processors(config, folder, preprocessor_overrides=change)
    return policy, before, after


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise PolicyRefused(f"--device {name}: LeRobot's torch has none ({_line(error)})") from None
    return name


def _line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


def main() -> None:
    """Answer until stdin ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # LeRobot prints
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]  # our modules are not theirs
    server = PolicyServer()
    while (request := receive(requests)) is not None:
        try:
            answer = server.answer(*request)
        except PolicyRefused as refusal:
            answer = {"error": str(refusal)}, {}
        except Exception as error:
            answer = {"error": _line(error)}, {}
        send(answers, *answer)


if __name__ == "__main__":
    main()
