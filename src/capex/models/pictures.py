"""Pictures as they are kept: named after the sha256 of the PNG that the model was sent, as that PNG
or, a third smaller, as lossless WebP, from which the PNG is made again byte for byte when read.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image as PillowImage

from capex.errors import DamagedFile
from capex.untrusted import picture, read_bytes

ImageFormat = Literal["png", "webp"]
FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)
JPEG_QUALITY = 80
IMAGES = "images"  # the folder of an episode that holds them


def load_codecs() -> None:
    """Import what encodes pictures, which Pillow would do in the middle of the first attempt. Only
    PNG and JPEG: for WebP it imports all that it has, where that is asked for.
    """
    PillowImage.preinit()


def encode_png(image: npt.NDArray[np.uint8]) -> bytes:
    """Lossless and fast; the same pixels give the same bytes."""
    out = io.BytesIO()
    PillowImage.fromarray(image).save(out, format="PNG", compress_level=1)
    return out.getvalue()


def encode_jpeg(image: npt.NDArray[np.uint8], quality: int = JPEG_QUALITY) -> bytes:
    """Small, for pages that show many."""
    out = io.BytesIO()
    PillowImage.fromarray(image).save(out, format="JPEG", quality=quality)
    return out.getvalue()


def as_format(png: bytes, form: ImageFormat) -> bytes:
    """A PNG in the form in which it is kept."""
    if form == "png":
        return png
    out = io.BytesIO()
    with PillowImage.open(io.BytesIO(png)) as plain:
        plain.save(out, format="WEBP", lossless=True, method=0, quality=0)
    return out.getvalue()


def keep(folder: Path, png: bytes, form: ImageFormat = "png") -> Path:
    """Write a picture into a folder once: whole, flushed, under its hash."""
    path = folder / f"{hashlib.sha256(png).hexdigest()}.{form}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.writing")
    with open(unfinished, "wb") as out:
        out.write(as_format(png, form))
        out.flush()
        os.fsync(out.fileno())
    os.replace(unfinished, path)
    return path


def find(folder: Path, sha256: str) -> Path:
    """Where a picture lies; where its PNG would be when there is none."""
    if re.fullmatch(r"[0-9a-f]{1,64}", sha256) is None:  # a log may name anything
        raise DamagedFile(folder, f"'{sha256[:80]}' is no hash of a picture")
    paths = [folder / f"{sha256}.{form}" for form in FORMATS]
    there = (path for path in paths if path.is_file() and not path.is_symlink())
    return next(there, paths[0])


def read_png(path: Path) -> bytes:
    """A kept picture as the PNG that the model was sent."""
    kept = read_bytes(path)
    if path.suffix == ".png":
        return kept
    return encode_png(np.asarray(picture(kept).convert("RGB")))
