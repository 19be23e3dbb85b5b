"""Where students compute, and in which precision. Everything that takes a device has it from here.

A chosen CUDA device always carries its index: `torch.cuda.set_device` refuses one without. A CPU
multiplies in float32 only. Some list instructions for bfloat16 (amx_*) that the hypervisor above
them does not grant, and torch, which does not ask, dies there with SIGILL.
"""

from __future__ import annotations

import torch

from capex.errors import CapexError, ErrorCode
from capex.students.settings import Precision


def choose_device(name: str) -> torch.device:
    """`auto`: the first CUDA device, else the CPU. A wrong or missing device is refused."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        valid = "auto, cpu, cuda, cuda:1, mps"
        raise CapexError(
            f"--device: there is no device '{name}'; valid: {valid}", code=ErrorCode.UNKNOWN_NAME
        ) from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise CapexError(
            f"--device {name}: students run on cpu, cuda and mps", code=ErrorCode.UNKNOWN_NAME
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise CapexError(
            "--device mps: torch sees no Apple GPU here; use --device cpu",
            code=ErrorCode.NOT_AVAILABLE,
        )
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise CapexError(
            f"--device {name}: torch sees no CUDA device here; use --device cpu, or install a CUDA"
            " build of torch",
            code=ErrorCode.NOT_AVAILABLE,
        )
    index, count = device.index or 0, torch.cuda.device_count()
    if index >= count:
        raise CapexError(
            f"--device {name}: there are {count} CUDA devices here, counted from 0",
            code=ErrorCode.NOT_AVAILABLE,
        )
    return torch.device("cuda", index)


def prepare(device: torch.device) -> None:
    """Before the first computation on a device that `choose_device` gave."""
    if device.type == "cuda":
        torch.cuda.set_device(device)  # kernels and graphs go to the current one
        # cuDNN's attention comes with four copies of random seeds, each a kernel of its own.
        torch.backends.cuda.enable_cudnn_sdp(False)
    # Less than "highest" lets a GPU multiply with ten bits of mantissa; a CPU would take it as a
    # permission to leave float32.
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else "highest")


def working_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """What a training computes in; `auto`: bfloat16 on a CUDA device, float32 elsewhere."""
    if precision == "bf16" and device.type == "cpu":
        raise CapexError(
            "setting precision is bf16 and the device is a CPU, where bf16 may not work (some CPUs"
            " list instructions that they are not granted); leave it out or use --set"
            " precision=fp32",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    rounded = precision == "bf16" or (precision == "auto" and device.type == "cuda")
    return torch.bfloat16 if rounded else torch.float32
