"""Two arms: a world names its arms, and nothing above it changes. `python examples/two_arms.py`

One act gives each arm a target; the arms move together, then the grippers act, and a waypoint is
reached when both are there. The tool that a model sees is made from the world's spec.
"""

from my_world import Table

from capex import PRESETS, ArmTarget, Executor, Start, Waypoint
from capex.method.tools import interface, schemas

env = Table(arms=("left", "right"))
env.reset(Start("Touch", 1))

(act, *_) = schemas(interface(env.spec, PRESETS["capex"]))
print("the model's tool has", ", ".join(sorted(act.parameters["properties"])))

apart = Waypoint(
    {
        "left": ArmTarget((0.45, 0.20, 0.25), "keep", "close"),
        "right": ArmTarget((0.45, -0.05, 0.25), "keep", "keep"),
    }
)
x, y, z = env.goal
down = [Waypoint({"right": ArmTarget((x, y, height))}) for height in (0.2, 0.12, z)]
for outcome in Executor(env).execute([apart, *down]):
    print(outcome.report)
tips = {name: arm.T_base_tip.position_m.round(2) for name, arm in env.robot_state().arms.items()}
print(tips, "success:", env.success())
