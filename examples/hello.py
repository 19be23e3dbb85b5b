"""One decision by hand: a world, a scripted model, a plan, and what became of it. No key needed. `python examples/hello.py`"""

from capex import worlds
from capex.arms import arm
from capex.executor import Executor
from capex.models import Request
from capex.models.scripted import Scripted
from capex.observation import observe
from capex.prompts import system_prompt
from capex.reading import Act, read_calls
from capex.tools import interface, schemas
from capex.worlds import Start

env = worlds.make("kitchen:PickPlaceCounterToStove")
env.reset(Start("PickPlaceCounterToStove", index=0))
settings = arm("capex")
face = interface(env.spec, settings)
executor = Executor(env)

# What a model sees: a system prompt, a page of text and three labelled images.
seen = observe(env, steps_left=executor.steps_left, decisions_left=settings.decisions)
print(seen.text)

# What it answers: tool calls. This one is scripted; models.make("openai:NAME") would ask a real one.
plan = {
    "reasoning": "Forward and down with an open hand, then close.",
    "delta_cm": [5, 0, 0],
    "orientation": "down",
    "confidence": 0.95,
    "chunk": [{"delta_cm": [0, 0, -8], "confidence": 0.9}, {"delta_cm": [0, 0, 0], "gripper": "close", "confidence": 0.9}],
}
model = Scripted([[("act", plan)]])
reply = model.complete(Request(system_prompt(env.spec, settings), (seen.message,), schemas(face)))

# What the harness makes of it: a plan, executed waypoint by waypoint, with a report and a reach label each.
tips = {name: state.T_base_tip.position_m for name, state in env.robot_state().arms.items()}
meaning = read_calls(reply.calls, face, tips)[0].meaning
assert isinstance(meaning, Act), meaning
assert meaning.plan is not None
for waypoint, outcome in zip(meaning.plan.waypoints, executor.execute(meaning.plan.waypoints), strict=True):
    print(f"stated {waypoint.confidence}: {outcome.report} (label {outcome.label})")
