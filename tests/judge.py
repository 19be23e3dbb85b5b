"""LeRobot and robomimic as judges of our datasets, in a process of their own. `python judge.py TASK ...` prints one JSON line.

LeRobot 0.4.4 asks for torch below 2.11 and the torchvision that belongs to it. Of torchvision it uses the Python part alone (networks, transforms, the PyAV
reader), which runs on any torch once the names of two operators exist; its compiled part stays unloaded then.
"""

from __future__ import annotations

import warnings
from importlib import metadata

import torch


def light_torchvision() -> None:
    """Make `import torchvision` work on a torch that it was not built for. Call before anything imports it."""
    warnings.filterwarnings("ignore", message="Failed to load image Python extension")
    needs = " ".join(metadata.requires("torchvision") or ())
    if torch.__version__.partition("+")[0] in needs:
        return
    global _library
    _library = torch.library.Library("torchvision", "FRAGMENT")  # the names live as long as this object
    for name in ("nms", "qnms"):
        _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
