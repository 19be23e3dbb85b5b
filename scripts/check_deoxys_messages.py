"""Compare our messages of Deoxys' wire with its published definitions: every field, and the bytes.

    python scripts/check_deoxys_messages.py PROTO_DIR

PROTO_DIR is the folder deoxys/proto of a checkout of Deoxys; nothing of it is kept here. Needs
grpcio-tools beside capex, or protoc on the path. `--hex` also prints the bytes of each message that
we send, as made by the published definitions: tests/rigs/test_deoxys_messages.py has them.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from capex.pose import Pose
from capex.rigs.drivers.deoxys import messages as ours
from capex.rigs.drivers.deoxys.schema import ENUMS, MESSAGES

POSITION_M = (0.4, -0.1, 0.25)
QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # of a turn about z


def compile_protos(folder: Path) -> dict[str, Any]:
    """The published messages' classes by name, in a pool of their own."""
    files = [p for p in sorted(folder.rglob("*.proto")) if "franka" in p.name]
    if not files:
        sys.exit(f"there are no franka*.proto under {folder}; give Deoxys' folder deoxys/proto")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set"
        roots = sorted({f"-I{path.parent}" for path in files})
        arguments = [*roots, "--include_imports", f"--descriptor_set_out={out}", *map(str, files)]
        try:
            from grpc_tools import protoc

            include = Path(protoc.__file__).parent / "_proto"
            status = protoc.main(["protoc", f"-I{include}", *arguments])
        except ImportError:
            status = subprocess.run(["protoc", *arguments], check=False).returncode
        if status:
            sys.exit("the definitions do not compile")
        described = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in described.file:
        pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in MESSAGES
    }


def fields(kind: Any) -> set[tuple[Any, ...]]:
    """Name, number, type, whether repeated and packed, and the type's name, of every field."""
    rows = set()
    for field in kind.DESCRIPTOR.fields:
        inner = field.message_type or field.enum_type
        row = field.name, field.number, field.type, field.is_repeated, field.is_packed
        rows.add((*row, inner.full_name if inner else ""))
    return rows


def enums(classes: dict[str, Any]) -> set[tuple[str, str, int]]:
    """Every value of every enumeration."""
    found = set()
    for name in ENUMS:
        outer, _, inner = name.partition(".")
        values = classes[outer].DESCRIPTOR.enum_types_by_name[inner].values
        found |= {(name, value.name, value.number) for value in values}
    return found


def filled(message: Any, seed: int = 1) -> Any:
    """The message with a number of its own in every field, also those of messages within."""
    for field in message.DESCRIPTOR.fields:
        value = seed + field.number
        if field.message_type and field.message_type.full_name == "google.protobuf.Any":
            continue
        if field.message_type:
            filled(getattr(message, field.name), value)
        elif field.is_repeated:
            getattr(message, field.name).extend(value + 0.1 * k for k in range(3))
        elif field.enum_type:
            setattr(message, field.name, len(field.enum_type.values) - 1)
        elif field.type == field.TYPE_BOOL:
            setattr(message, field.name, True)
        else:
            setattr(message, field.name, value)
    return message


def sent() -> dict[str, bytes]:
    """What we send, by our own functions."""
    pose = Pose(np.array(POSITION_M), QUARTER)
    return {
        "pose_goal": ours.pose_goal(pose, ours.Gains()),
        "no_control": ours.no_control(),
        "terminate": ours.terminate(),
        "move_fingers": ours.move_fingers(0.08, 0.1),
        "grasp": ours.grasp(0.0, 0.1, 30.0, 0.08),
        "stop_fingers": ours.stop_fingers(),
    }


def published(classes: dict[str, Any]) -> dict[str, bytes]:
    """The same by the published definitions, with protobuf's own Pack."""
    arm: Callable[..., Any] = classes["FrankaControlMessage"]
    gripper = classes["FrankaGripperControlMessage"]
    goal = arm(
        controller_type=arm.OSC_POSE,
        traj_interpolator_type=arm.LINEAR_POSE,
        traj_interpolator_time_fraction=0.3,
        timeout=0.2,
    )
    controller = classes["FrankaOSCPoseControllerMessage"](
        translational_stiffness=[150.0] * 3, rotational_stiffness=[250.0] * 3
    )
    controller.config.residual_mass_vec[:] = [0.0, 0.0, 0.0, 0.0, 0.1, 0.5, 0.5]
    controller.goal.x, controller.goal.y, controller.goal.z = POSITION_M
    controller.goal.az = math.pi / 2
    goal.control_msg.Pack(controller)
    goal.state_estimator_msg.estimator_type = 1
    goal.state_estimator_msg.config.Pack(
        classes["ExponentialSmoothingConfig"](
            alpha_q=0.9, alpha_dq=0.9, alpha_eef=1.0, alpha_eef_vel=1.0
        )
    )
    fingers = {}
    for name, inner in {
        "move_fingers": classes["FrankaGripperMoveMessage"](width=0.08, speed=0.1),
        "grasp": classes["FrankaGripperGraspMessage"](
            width=0.0, speed=0.1, force=30.0, epsilon_inner=0.08, epsilon_outer=0.08
        ),
        "stop_fingers": classes["FrankaGripperStopMessage"](stop=True),
    }.items():
        message = gripper()
        message.control_msg.Pack(inner)
        fingers[name] = message.SerializeToString()
    return {
        "pose_goal": goal.SerializeToString(),
        "no_control": arm(controller_type=arm.NO_CONTROL, timeout=0.2).SerializeToString(),
        "terminate": arm(termination=True, timeout=0.2).SerializeToString(),
        **fingers,
    }


def main() -> None:
    """Print a line for each comparison; the exit status is 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proto_dir", type=Path)
    parser.add_argument("--hex", action="store_true")
    arguments = parser.parse_args()
    theirs = compile_protos(arguments.proto_dir)
    results = {"enumerations: every value": enums(ours.CLASSES) == enums(theirs)}
    for name in MESSAGES:
        mine, other = ours.CLASSES[name], theirs[name]
        same = filled(mine()).SerializeToString() == filled(other()).SerializeToString()
        results[f"{name}: {len(fields(other))} fields"] = fields(mine) == fields(other)
        results[f"{name}: bytes with every field set"] = same
    golden = published(theirs)
    for name, data in sent().items():
        results[f"sent {name}: {len(data)} bytes"] = data == golden[name]
    for what, same in results.items():
        print(f"{'same' if same else 'DIFFERENT'}  {what}")
    print(f"{sum(results.values())} of {len(results)} comparisons are the same")
    if arguments.hex:
        for name, data in golden.items():
            print(name, data.hex())
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
