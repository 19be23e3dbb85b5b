"""Which format a folder has."""

from __future__ import annotations

from pathlib import Path

from capex.dataset.inspect.model import Dataset, Findings
from capex.errors import CapexError, ErrorCode
from capex.untrusted import damage, read_json, require_plain_tree

HDF5 = (".hdf5", ".h5")


def open_dataset(path: Path, findings: Findings) -> Dataset:
    """A LeRobot folder, an HDF5 file, or the folder of one; CapexError where it is none of them.
    Whoever reads on in it does so within `damage`: its values may have any type.

    pyarrow and h5py are imported for the format that needs them.
    """
    with damage(path):
        return _open(path, findings)


def _open(path: Path, findings: Findings) -> Dataset:
    if not path.exists():
        raise CapexError(
            f"there is no {path}; give the folder of a dataset", code=ErrorCode.NOT_FOUND
        )
    if path.is_dir():
        require_plain_tree(path)
    files = sorted(p for p in path.iterdir() if p.suffix in HDF5) if path.is_dir() else [path]
    if path.is_dir() and (path / "meta" / "info.json").is_file():
        return _open_lerobot(path, findings)
    if len(files) == 1 and files[0].suffix in HDF5:
        from capex.dataset.inspect.robomimic import Robomimic

        return Robomimic(files[0], findings)
    if files and path.is_dir():
        names = ", ".join(p.name for p in files)
        raise CapexError(
            f"{path} holds several HDF5 files ({names}); name one of them",
            code=ErrorCode.WRONG_CONTENT,
        )
    inside = [p.parent.parent.name for p in path.glob("*/meta/info.json")] if path.is_dir() else []
    hint = f"; its folders {', '.join(sorted(inside))} are" if inside else ""
    raise CapexError(
        f"{path} is no dataset: it has neither meta/info.json, as LeRobot's have, nor an HDF5"
        f" file{hint}",
        code=ErrorCode.WRONG_CONTENT,
    )


def _open_lerobot(path: Path, findings: Findings) -> Dataset:
    version = str(read_json(path / "meta" / "info.json").get("codebase_version"))
    if version.startswith("v3."):
        from capex.dataset.inspect.lerobot_v3 import LeRobotV3

        return LeRobotV3(path, findings)
    if version.startswith("v2."):
        from capex.dataset.inspect.lerobot_v2 import LeRobotV2

        return LeRobotV2(path, findings)
    raise CapexError(
        f"{path / 'meta' / 'info.json'} has the codebase_version {version}; v3 and v2 can be read",
        code=ErrorCode.WRONG_CONTENT,
    )
