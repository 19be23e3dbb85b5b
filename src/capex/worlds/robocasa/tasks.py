"""The paper's 18 RoboCasa tasks: family, horizon (control steps, RoboCasa 1.0.1), when it is done.

The horizons of 1.0 are two thirds of these. The instruction is an example; an episode has the one
that was recorded with its start. `scripts/check_robocasa_source.py` compares names and horizons
with a source checkout.
"""

from __future__ import annotations

from capex.worlds import TaskInfo

PICK, DOORS, DRAWERS, BUTTONS, NAVIGATION = (
    "Pick and place",
    "Doors and lids",
    "Drawers and racks",
    "Buttons, knobs, levers",
    "Navigation",
)
_AWAY = "and the gripper is more than 25 cm away from it"

_ROWS: tuple[tuple[str, str, int, str, str], ...] = (
    ("CoffeeSetupMug", PICK, 600, "Pick the mug from the counter and place it under the coffee machine dispenser.",
     f"the mug stands within 4 cm (across) and 10 cm (up) of the dispenser's place, {_AWAY}"),
    ("PickPlaceCounterToCabinet", PICK, 750, "Pick the jam from the counter and place it in the cabinet.",
     f"the thing's bounding box is inside the cabinet, {_AWAY}"),
    ("PickPlaceCounterToStove", PICK, 600, "Pick the corn from the plate and place it in the pan.",
     f"the thing touches the pan within 7 cm of its middle, {_AWAY}"),
    ("PickPlaceDrawerToCounter", PICK, 750, "Pick the spoon from the drawer and place it on the counter.",
     f"the thing touches a counter, {_AWAY}"),
    ("PickPlaceSinkToCounter", PICK, 900, "Pick the apple from the sink and place it on the plate located on the counter.",
     f"the thing touches the plate within 0.7 of its radius, the plate touches a counter, {_AWAY}"),
    ("PickPlaceToasterToCounter", PICK, 600, "Pick the toasted bread from the toaster and place it on the plate.",
     f"the thing touches the plate within 0.7 of its radius, {_AWAY}"),
    ("CloseBlenderLid", DOORS, 900, "Close the blender lid.",
     "the lid is within 4 cm of its closed place, tilted by less than 7 degrees, and the gripper is more than 15 cm away from it"),
    ("CloseFridge", DOORS, 900, "Close the fridge.", "every door of the fridge is within 0.5 % of closed"),
    ("CloseToasterOvenDoor", DOORS, 450, "Close the toaster oven door.", "the door is within 0.5 % of closed"),
    ("OpenCabinet", DOORS, 1050, "Open the cabinet doors.", "every door of the cabinet is open by at least 90 % of its range"),
    ("OpenStandMixerHead", DOORS, 450, "Open the stand mixer head.", "the head is up by more than 99 % of its range"),
    ("OpenDrawer", DRAWERS, 750, "Open the left drawer.", "the drawer is out by at least 95 % of 0.55 of its depth"),
    ("SlideDishwasherRack", DRAWERS, 450, "Fully slide the top dishwasher rack out.",
     "the rack is out by at least 95 % of its range, or in to at most 5 %, as the instruction says"),
    ("TurnOffStove", BUTTONS, 750, "Turn off the front left burner of the stove.", "the named burner's knob is within 0.35 rad of off"),
    ("TurnOnElectricKettle", BUTTONS, 450, "Press down the lever to turn on the electric kettle.",
     "the lever was pressed down to at least 95 % of its range, and the kettle is still on"),
    ("TurnOnMicrowave", BUTTONS, 450, "Press the start button on the microwave.",
     "the start button was pressed with the door closed, and the gripper is more than 15 cm away from it"),
    ("TurnOnSinkFaucet", BUTTONS, 600, "Turn on the sink faucet.", "the handle's angle is between 0.40 rad and half a turn"),
    ("NavigateKitchen", NAVIGATION, 450, "Navigate to the fridge.",
     "the base is within 20 cm of its goal at the fixture, its heading within 11.5 degrees"),
)  # fmt: skip
TASKS: dict[str, TaskInfo] = {row[0]: TaskInfo(*row) for row in _ROWS}
