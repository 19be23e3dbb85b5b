"""Given instruction embeddings for Diffusion Policy. Nothing is downloaded.

A file of embeddings is a .safetensors file with one vector per instruction, named by the
instruction itself, or a .npz with the arrays `instructions` (text) and `embeddings` (n, size).
`capex.students.language.write` makes one; CLIP ViT-L/14's text projection is what the paper uses
(768 numbers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode
from capex.npz import read_npz

Vectors = npt.NDArray[np.float32]
FILE_MAX = 2**30  # bytes, unpacked: 300 thousand instructions
SAME = 0.02  # of an embedding's length, between encoders that are the same but for rounding
COMPARED = 4  # embeddings, of those that a policy was trained with
CACHED_MAX = 4096  # instructions of a file that travel with a checkpoint: 12 MB


def read(path: Path, instructions: Sequence[str], size: int) -> Vectors:
    """Embeddings (n, size) of the instructions, from a file or with CLIP from a local folder."""
    if path.is_dir():
        from capex.students.clip import embed

        table: Mapping[str, npt.NDArray[Any]] = embed(path, instructions)
    else:
        table = _read_file(path)
    missing = [i for i in instructions if i not in table]
    if missing:
        raise CapexError(
            f"{path} has no embedding of '{missing[0]}' ({len(missing)} of {len(instructions)} are"
            " missing); add them to the file",
            code=ErrorCode.MISMATCH,
        )
    try:
        rows = [np.asarray(table[i], dtype=np.float32).reshape(-1) for i in instructions]
        vectors = np.stack(rows)
    except (TypeError, ValueError) as error:
        why = f"{path} holds embeddings that are no rows of {size} numbers ({error})"
        raise CapexError(why, code=ErrorCode.MISMATCH) from None
    if vectors.shape[1] != size:
        raise CapexError(
            f"{path} holds embeddings of {vectors.shape[1]} numbers; the policy takes {size}"
            " (setting language)",
            code=ErrorCode.MISMATCH,
        )
    if not np.all(np.isfinite(vectors)):
        raise CapexError(f"{path} holds numbers that are not finite", code=ErrorCode.DAMAGED_FILE)
    return vectors


def require_same(path: Path, texts: Sequence[str], ours: Vectors) -> None:
    """Refuse an encoder, or a file, that gives other embeddings of these texts than ours (n, size),
    which a policy was trained with.
    """
    theirs = read(path, texts, ours.shape[1])
    apart = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(ours, axis=1).clip(min=1e-9)
    if (apart > SAME).any():
        raise CapexError(
            f"{path} gives other embeddings than the policy was trained with (of"
            f" '{texts[int(apart.argmax())]}'); name the encoder of its training",
            code=ErrorCode.MISMATCH,
        )


def cached(path: Path) -> tuple[str, ...]:
    """The instructions that a file has embeddings of, as far as they may travel with a checkpoint;
    of an encoder none.
    """
    return () if path.is_dir() else tuple(_read_file(path))[:CACHED_MAX]


def write(path: Path, table: Mapping[str, Vectors]) -> None:
    """Write embeddings by instruction, as .safetensors or .npz by the file's ending."""
    if path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({k: np.ascontiguousarray(v, dtype=np.float32) for k, v in table.items()}, path)
    else:
        texts, rows = np.array(list(table)), np.stack(list(table.values()))
        np.savez(path, instructions=texts, embeddings=rows)


def _read_file(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise CapexError(
            f"there is no file of instruction embeddings {path}", code=ErrorCode.NOT_FOUND
        )
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return load_file(path)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CapexError(
                f"{path} cannot be read as .safetensors ({error}); write it in float32 with"
                " capex.students.language.write",
                code=ErrorCode.UNREADABLE_FILE,
            ) from None
    try:
        arrays = read_npz(path, FILE_MAX)
    except CapexError as error:
        raise CapexError(
            f"{path} holds no embeddings: {error}; give an .npz or a .safetensors file",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
    texts, rows = (arrays.get(k, np.empty(0)) for k in ("instructions", "embeddings"))
    if (texts.ndim, texts.dtype.kind, rows.shape[:-1]) != (1, "U", texts.shape):
        raise CapexError(
            f"{path} holds no embeddings: it needs the arrays 'instructions' (n texts) and"
            " 'embeddings' (n, size)",
            code=ErrorCode.WRONG_CONTENT,
        )
    return dict(zip((str(t) for t in texts), rows, strict=True))
