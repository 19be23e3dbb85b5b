"""CLIP's text embeddings, by the transformers package from weights in a local folder."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capex.errors import CapexError, ErrorCode


def embed(folder: Path, instructions: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
    """The projected text embedding of each instruction (768 numbers for ViT-L/14)."""
    tokenizer, model = _load(folder)
    tokens = tokenizer(list(instructions), padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        vectors = model(**tokens).text_embeds.numpy()
    return dict(zip(instructions, vectors, strict=True))


@functools.lru_cache(1)  # rollouts ask for one instruction after the other
def _load(folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model, in float32 whatever the file has: they compute on the CPU."""
    try:
        from transformers import CLIPTextModelWithProjection, CLIPTokenizer
    except ImportError:
        raise CapexError(
            f"{folder} is a folder of weights, which needs the package transformers; or give a file"
            " of embeddings",
            code=ErrorCode.MISSING_PACKAGE,
        ) from None
    try:
        tokenizer = CLIPTokenizer.from_pretrained(folder, local_files_only=True)
        model = CLIPTextModelWithProjection.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    except Exception as error:
        # A foreign folder may fail in many ways; all of them mean the same to the user.
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise CapexError(
            f"{folder} holds no CLIP text model with its tokenizer ({why})",
            code=ErrorCode.WRONG_CONTENT,
        ) from None
    return tokenizer, model.float().eval()
