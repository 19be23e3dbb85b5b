"""The placeholders of RoboCasa's objects: a size for a category or a type, and a shape for those
that hold something. Imported by scripts/robocasa_placeholders.py.
"""

from __future__ import annotations

from placeholders.shapes import Box, Region, Shape, Triple, shell

OBJECT_SIZES: dict[str, Triple] = {  # width, depth, height in metres, after RoboCasa's own scale
    "plate": (0.22, 0.22, 0.02),
    "bowl": (0.16, 0.16, 0.07),
    "pan": (0.24, 0.24, 0.05),
    "pot": (0.22, 0.22, 0.12),
    "saucepan": (0.18, 0.18, 0.08),
    "mug": (0.065, 0.065, 0.09),
    "cup": (0.06, 0.06, 0.09),
    "sandwich_bread": (0.1, 0.1, 0.02),
    "tray": (0.32, 0.24, 0.03),
    "oven_tray": (0.36, 0.26, 0.03),
    "cutting_board": (0.3, 0.2, 0.02),
    "colander": (0.22, 0.22, 0.1),
    "basket": (0.26, 0.2, 0.12),
    "can": (0.06, 0.06, 0.12),
}
OF_TYPE: dict[str, Triple] = {
    "utensil": (0.16, 0.025, 0.02),
    "tool": (0.18, 0.03, 0.025),
    "drink": (0.06, 0.06, 0.18),
    "condiment": (0.06, 0.06, 0.15),
    "packaged_food": (0.06, 0.05, 0.13),
    "receptacle": (0.16, 0.16, 0.07),
}
OTHER: Triple = (0.05, 0.05, 0.07)  # fingers open 8 cm, and instances grow by up to 12 %
OPEN = ("bowl", "pan", "pot", "saucepan", "tray", "oven_tray", "basket", "colander")


def object_shape(category: str, size: Triple, *, upright: bool) -> Shape:
    """A box of a size; what holds things is open above, a plate has a round rim."""
    w, d, h = size
    if upright:  # a slice that stands on its edge
        size = w, d, h = h, d, w
    inside: list[Region] = []
    if category in OPEN:
        boxes = shell(size, front=True, top=False)
        inside = [Region("int", (0, 0, 0.005), (w * 0.8, d * 0.8, h * 0.8))]
    elif category in ("plate", "mug", "cup", "can"):
        boxes = [Box((0, 0, 0), size, shape="cylinder", rgba="0.9 0.9 0.88 1")]
    else:
        boxes = [Box((0, 0, 0), size, rgba="0.8 0.5 0.3 1")]
    return Shape(size, boxes, regions=inside, extent="bbox")
