"""Instruction embeddings for Diffusion Policy: given ones from a file, or learned ones. Nothing is downloaded.

A file of embeddings is a .safetensors file with one vector per instruction, named by the instruction itself, or a .npz with the arrays
`instructions` (text) and `embeddings` (n, size). `capex.students.language.write` makes one; CLIP ViT-L/14's text projection is what
the paper uses (768 numbers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError

Vectors = npt.NDArray[np.float32]


def read(path: Path, instructions: Sequence[str], size: int) -> Vectors:
    """Embeddings (n, size) of the instructions from a file, or computed with CLIP weights from a local folder."""
    if path.is_dir():
        from capex.students.clip import embed

        table: Mapping[str, Vectors] = embed(path, instructions)
    else:
        table = _read_file(path)
    missing = [i for i in instructions if i not in table]
    if missing:
        raise CapexError(
            f"{path} has no embedding of '{missing[0]}' ({len(missing)} of {len(instructions)} are missing); add them to the file"
        )
    vectors = np.stack([np.asarray(table[i], dtype=np.float32).reshape(-1) for i in instructions])
    if vectors.shape[1] != size:
        raise CapexError(f"{path} holds embeddings of {vectors.shape[1]} numbers; the policy takes {size} (setting language)")
    if not np.all(np.isfinite(vectors)):
        raise CapexError(f"{path} holds numbers that are not finite")
    return vectors


def write(path: Path, table: Mapping[str, Vectors]) -> None:
    """Write embeddings by instruction, as .safetensors or .npz by the file's ending."""
    if path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({k: np.ascontiguousarray(v, dtype=np.float32) for k, v in table.items()}, path)
    else:
        np.savez(path, instructions=np.array(list(table)), embeddings=np.stack(list(table.values())))


def _read_file(path: Path) -> Mapping[str, Vectors]:
    if not path.is_file():
        raise CapexError(f"there is no file of instruction embeddings {path}")
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(zip((str(i) for i in archive["instructions"]), archive["embeddings"], strict=True))
    except (KeyError, ValueError, OSError) as error:
        raise CapexError(f"{path} holds no embeddings ({error}); it needs the arrays 'instructions' and 'embeddings'") from None
