"""Writes placeholder assets into a source checkout of RoboCasa, so that its own code can build and
step kitchens where its downloads (about 10 GB) cannot be had.

    python scripts/robocasa_placeholders.py ROBOCASA_CHECKOUT [--layout 7] [--style 7] [--remove]

Nothing of RoboCasa's is copied: fixtures are boxes with the joints, sites, geoms and regions that
its fixture classes look up, objects are boxes and cylinders with the extent that its registry asks
for, textures are plain. What is there already is left alone, so real assets are never overwritten;
a list of what was written lies beside it in models/assets, and --remove takes it away again.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from PIL import Image
from placeholders.fixtures import FIXTURES, SMALL
from placeholders.objects import OBJECT_SIZES, OF_TYPE, OTHER, object_shape
from placeholders.shapes import Box, Shape, model_xml

LIST = "placeholders.json"  # in models/assets: read by capex doctor
INSTANCES = 4  # of each category and registry: the first half for pretraining, the rest the target
REGISTRIES = {"objaverse": "objaverse", "lightwheel": "lightwheel"}


def main() -> None:
    """Write the placeholders, or remove them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="a source checkout of RoboCasa")
    parser.add_argument("--layout", type=int, default=7)
    parser.add_argument("--style", type=int, default=7)
    parser.add_argument("--remove", action="store_true", help="take the placeholders away again")
    told = parser.parse_args()
    assets = told.checkout / "robocasa" / "models" / "assets"
    if not (assets / "fixtures" / "fixture_registry").is_dir():
        raise SystemExit(f"{told.checkout} is no checkout of RoboCasa: it has no {assets}")
    begun = time.monotonic()
    if told.remove:
        print(f"removed {remove(assets)} placeholders")
        return
    remove(assets)
    files = dict(_files(assets, told.layout, told.style))
    written = [path for path in files if not path.exists()]
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[path])
    names = sorted(str(path.relative_to(assets)) for path in written)
    (assets / LIST).write_text(json.dumps({"placeholders": names}, indent=0), encoding="utf-8")
    size = sum(len(files[path]) for path in written)
    took = time.monotonic() - begun
    print(f"{len(written)} placeholders, {size / 1e6:.1f} MB, in {took:.1f} s below {assets}")


def remove(assets: Path) -> int:
    """Delete what an earlier run has written, and the folders left empty."""
    listed = assets / LIST
    if not listed.is_file():
        return 0
    names = json.loads(listed.read_text(encoding="utf-8"))["placeholders"]
    for name in names:
        path = assets / name
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == assets or not folder.is_dir() or any(folder.iterdir()):
                break
            folder.rmdir()
    listed.unlink()
    return len(names)


def _files(assets: Path, layout: int, style: int) -> Iterator[tuple[Path, bytes]]:
    yield from _textures(assets)
    yield from _fixtures(assets, layout, style)
    yield from _objects(assets)


def _textures(assets: Path) -> Iterator[tuple[Path, bytes]]:
    """A plain picture for every texture that RoboCasa's source names."""
    package = assets.parents[1]
    pattern = re.compile(r"(?:generative_)?textures/[\w/ .-]+?\.png")
    names = set[str]()
    for kind in ("yaml", "py", "xml"):
        for source in package.rglob(f"*.{kind}"):
            names |= set(pattern.findall(source.read_text(encoding="utf-8", errors="replace")))
    for name in sorted(names):
        yield assets / name, _picture(name)
    for wanted in _xml_pictures(assets):
        yield wanted, _picture(wanted.name)


def _xml_pictures(assets: Path) -> Iterator[Path]:
    """Pictures that the XML in the checkout names relative to itself."""
    for source in assets.rglob("*.xml"):
        for name in re.findall(r'file="([^"]+\.png)"', source.read_text(encoding="utf-8")):
            path = (source.parent / name).resolve()
            if path.is_relative_to(assets.resolve()):
                yield assets / path.relative_to(assets.resolve())


def _picture(name: str) -> bytes:
    """An even picture whose colour comes from its name."""
    red, green, blue = hashlib.sha256(name.encode()).digest()[:3]
    picture = Image.new("RGB", (16, 16), (90 + red // 2, 90 + green // 2, 90 + blue // 2))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _fixtures(assets: Path, layout: int, style: int) -> Iterator[tuple[Path, bytes]]:
    """What a layout in a style loads, beside what its XML in the checkout has."""
    scenes = assets / "scenes"
    styles = _yaml(next((scenes / "kitchen_styles").rglob(f"style{style:03d}.yaml")))
    kinds = set(_kinds(_yaml(next((scenes / "kitchen_layouts").rglob(f"layout{layout:03d}.yaml")))))
    registry = assets / "fixtures" / "fixture_registry"
    for kind in sorted(kinds | set(styles)):
        file = registry / f"{kind}.yaml"
        if not file.is_file():
            continue
        entries = _yaml(file)
        for name in _chosen(styles.get(kind, "default")):
            entry = {**entries.get("default", {}), **entries.get(name, {})}
            if "xml" in entry:
                make = FIXTURES.get(kind, SMALL)
                path = assets / entry["xml"]
                path = path if path.suffix == ".xml" else path / "model.xml"
                yield path, model_xml(path.parent.name, make()).encode()
    yield from _panels(assets)


def _panels(assets: Path) -> Iterator[tuple[Path, bytes]]:
    """Every cabinet door and handle that RoboCasa's source names."""
    source = assets.parents[1] / "models" / "fixtures"
    text = "".join((source / f).read_text("utf-8") for f in ("cabinets.py", "cabinet_panels.py"))
    for name in sorted(set(re.findall(r'"(fixtures/[\w/]+/model\.xml)"', text))):
        size = (0.02, 0.03, 0.2) if "handles" in name else (0.4, 0.02, 0.6)
        shape = Shape(size, [Box((0, 0, 0), size)], textured=True, density=10.0)
        yield assets / name, model_xml(Path(name).parent.name, shape).encode()


def _objects(assets: Path) -> Iterator[tuple[Path, bytes]]:
    """A few instances of every category in every registry."""
    source = assets.parents[1] / "models" / "objects" / "kitchen_objects.py"
    for category, rows in _categories(ast.parse(source.read_text(encoding="utf-8"))).items():
        size = OBJECT_SIZES.get(category) or OF_TYPE.get(rows["types"], OTHER)
        for registry in REGISTRIES:
            if registry not in rows:
                continue
            scale = rows[registry].get("scale", 1.0)
            scales = scale if isinstance(scale, list) else [scale] * 3
            folders = rows[registry].get("model_folders") or [f"{registry}/{category}"]
            inner = ["lid"] if rows[registry].get("is_auxiliary_obj") else []
            for number in range(INSTANCES):
                grown = 1.0 + 0.04 * number
                own = tuple(grown * length / s for length, s in zip(size, scales, strict=True))
                folder = assets.joinpath("objects", folders[0], f"placeholder_{number}", *inner)
                for file, upright in (("model.xml", False), ("model_upright.xml", True)):
                    shape = object_shape(category, (own[0], own[1], own[2]), upright=upright)
                    yield folder / file, model_xml(f"{category}_{number}", shape).encode()


def _categories(tree: ast.Module) -> dict[str, dict[str, Any]]:
    """Categories of objects with their registries, read from RoboCasa's table by syntax tree."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "OBJ_CATEGORIES":
            table: dict[str, dict[str, Any]] = _value(node.value)
            return table
    raise SystemExit("RoboCasa's kitchen_objects.py has no OBJ_CATEGORIES")


def _value(node: ast.expr) -> Any:
    """A literal, or dict(name=literal, ..) as a dictionary; None for what is computed."""
    if isinstance(node, ast.Call):
        return {word.arg: _value(word.value) for word in node.keywords if word.arg}
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _kinds(node: Any) -> Iterator[str]:
    """Every `type` below a node of a layout."""
    if isinstance(node, dict):
        if isinstance(node.get("type"), str):
            yield node["type"]
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _kinds(inner)


def _chosen(told: Any) -> list[str]:
    """The names of registry entries that a style gives for a kind."""
    if isinstance(told, dict):
        return [name for inner in told.values() for name in _chosen(inner)]
    return list(told) if isinstance(told, list) else [told]


def _yaml(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


if __name__ == "__main__":
    main()
