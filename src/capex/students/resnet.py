"""ResNet-18 without its classifier, with torchvision's names: its ImageNet weights load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capex.errors import CapexError, ErrorCode
from capex.students.kernels import WIDTH, ScaleShift, act, norm_act


class FrozenBatchNorm(nn.Module):
    """Batch norm that never changes: y = (x - mean) / sqrt(var + eps) * weight + bias."""

    def __init__(self, channels: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def affine(self) -> tuple[Tensor, Tensor]:
        """Scale and shift per channel, for folding into the convolution before it."""
        scale = self.get_buffer("weight") * (self.get_buffer("running_var") + self.eps).rsqrt()
        return scale, self.get_buffer("bias") - self.get_buffer("running_mean") * scale


def convolve(
    conv: nn.Conv2d,
    norm: nn.Module,
    x: Tensor,
    shortcut: Tensor | None = None,
    relu: bool = True,
    film: ScaleShift | None = None,
) -> Tensor:
    """relu(norm(conv(x)) + shortcut), modulated. A frozen norm is folded into the weights."""
    if isinstance(norm, nn.GroupNorm):
        return norm_act(norm, conv(x), shortcut, relu, film)
    assert isinstance(norm, FrozenBatchNorm)
    scale, shift = norm.affine()
    weight = (conv.weight * scale[:, None, None, None]).to(x.dtype)
    return act(
        F.conv2d(x, weight, shift.to(x.dtype), conv.stride, conv.padding), shortcut, relu, film
    )


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, channels: int, stride: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = norm(channels)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, channels, 1, stride, bias=False), norm(channels)
            )

    def forward(self, x: Tensor, film: ScaleShift | None = None) -> Tensor:
        """(B, inputs, H, W) -> (B, channels, H/stride, W/stride)."""
        out = convolve(self.conv1, self.bn1, x)
        if self.downsample is not None:
            conv, norm = self.downsample
            assert isinstance(conv, nn.Conv2d)
            x = convolve(conv, norm, x, relu=False)
        return convolve(self.conv2, self.bn2, out, shortcut=x, film=film)


class FilmLayer(nn.Module):
    """The parameters, under the released checkpoint's names, of a block's scale and shift by an
    instruction's embedding: relu((1 + gamma) x + beta), at first the identity.
    """

    def __init__(self, language: int, channels: int):
        super().__init__()
        self.lang_proj = nn.Linear(language, 2 * channels)
        nn.init.zeros_(self.lang_proj.weight)
        nn.init.zeros_(self.lang_proj.bias)


class ResNet18(nn.Module):
    """Feature map (B, 8 width, H/32, W/32) of an image; `language`: modulated by an instruction."""

    def __init__(self, norm: Literal["frozen", "group"], width: int = 64, language: int = 0):
        super().__init__()

        def make_norm(channels: int) -> nn.Module:
            return (
                FrozenBatchNorm(channels)
                if norm == "frozen"
                else nn.GroupNorm(channels // WIDTH, channels)
            )

        self.channels = 8 * width
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = make_norm(width)
        inputs = width
        for stage in range(4):
            channels = width << stage
            blocks = [
                BasicBlock(inputs, channels, 1 if stage == 0 else 2, make_norm),
                BasicBlock(channels, channels, 1, make_norm),
            ]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inputs = channels
        widths = [width << (k // 2) for k in range(8)]
        films = [FilmLayer(language, n) for n in widths] if language else []
        self.films = nn.ModuleList(films) if language else None
        self._sizes = [n for n in widths for _ in ("beta", "gamma")]
        one = torch.cat([torch.full((n,), float(k % 2)) for k, n in enumerate(self._sizes)])
        self.register_buffer("one", one, persistent=False)  # what is added to each gamma
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def blocks(self) -> list[nn.Module]:
        """The eight blocks in order."""
        return [block for stage in range(4) for block in getattr(self, f"layer{stage + 1}")]

    def modulations(self, instruction: Tensor) -> list[ScaleShift]:
        """Of every block 1 + gamma and beta, both (B, C), for an instruction (B, language): one
        product for all.
        """
        layers = [film.get_submodule("lang_proj") for film in self.films or ()]
        weight, bias = (
            torch.cat([layer.get_parameter(name) for layer in layers])
            for name in ("weight", "bias")
        )
        out = F.linear(instruction, weight, bias)
        parts = torch.split(out + self.get_buffer("one").to(out.dtype), self._sizes, dim=1)
        return list(zip(parts[1::2], parts[::2], strict=True))

    def forward(self, x: Tensor, instruction: Tensor | None = None) -> Tensor:
        """Images (B, 3, H, W) already normalised."""
        if (instruction is None) != (self.films is None):
            raise ValueError("an instruction belongs to a modulated network, and to no other")
        films = [None] * 8 if instruction is None else self.modulations(instruction)
        x = F.max_pool2d(convolve(self.conv1, self.bn1, x), 3, 2, 1)
        for block, film in zip(self.blocks(), films, strict=True):
            x = block(x, film)
        return x


def load_backbone(net: ResNet18, path: Path) -> None:
    """Load torchvision-style ResNet-18 weights from a .safetensors or .pth file."""
    weights = read_weights(path)  # of which the classifier and batch counters are left out
    shapes = {k: v.shape for k, v in net.state_dict().items() if not k.startswith("films.")}
    wrong = [k for k, shape in shapes.items() if k not in weights or weights[k].shape != shape]
    if wrong:
        raise CapexError(
            f"{path} does not fit a ResNet-18 of width {net.conv1.out_channels}: {len(wrong)}"
            f" entries differ, first {wrong[0]}; give torchvision's resnet18 state dict",
            code=ErrorCode.UNREADABLE_FILE,
        )
    broken = [k for k in shapes if not bool(weights[k].float().isfinite().all())]
    if broken:
        raise CapexError(
            f"{path} holds weights that are not finite ('{broken[0]}')",
            code=ErrorCode.UNREADABLE_FILE,
        )
    net.load_state_dict({k: weights[k] for k in shapes}, strict=net.films is None)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Named tensors from .safetensors or a plain torch state dict; no code in it is executed."""
    if not path.is_file():
        raise CapexError(f"there is no weights file {path}", code=ErrorCode.NOT_FOUND)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            loaded = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # A foreign file may fail in many ways; all of them mean the same to the user.
        raise CapexError(
            f"{path} is no plain state dict ({type(error).__name__}); save tensors only, or use"
            " .safetensors",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
    if not is_state_dict(loaded):
        raise CapexError(
            f"{path} holds no state dict: names with tensors are expected",
            code=ErrorCode.UNREADABLE_FILE,
        )
    return loaded


def is_state_dict(value: object) -> TypeGuard[dict[str, Tensor]]:
    """Whether a value of unknown origin is a mapping of names to tensors."""
    return isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in value.items()
    )
