"""One episode: a world, a model, and what became of each plan. No key needed: the model is
scripted. `python examples/hello.py`
"""

from capex import worlds
from capex.method.context import Committed, Deciding, EpisodeContext, Event, Executed
from capex.method.demonstrator import run_episode
from capex.method.memory import Memory
from capex.method.presets import preset
from capex.models.scripted import Scripted
from capex.worlds import Start

env = worlds.make("kitchen:TurnOnMicrowave")

# What a model answers: tool calls. These are scripted for start 0; models.make("openai:NAME") would
# ask a real one.
press = {
    "reasoning": "Close the fingers, line up with the green button, press it.",
    "target_cm": [38, -1, 71],
    "orientation": "forward",
    "gripper": "close",
    "confidence": 0.95,
    "chunk": [
        {"target_cm": [38, -1, 69], "confidence": 0.93},
        {"target_cm": [40, -1, 69], "confidence": 0.93},
        {"target_cm": [49, -1, 69], "confidence": 0.9},
    ],
}
retreat = {
    "reasoning": "Retreat.",
    "delta_cm": [-9, 0, 0],
    "confidence": 0.95,
    "chunk": [{"delta_cm": [-8, 0, 2], "confidence": 0.95}] * 2,
}
model = Scripted([[("act", press)], [("act", retreat)]])


def show(event: Event) -> None:
    # What the model sees: this page of text, three labelled images, and a system prompt.
    if isinstance(event, Deciding):
        print(f"\ndecision {event.number}\n{event.observation.text}")
    elif isinstance(event, Committed):
        print(
            f"\nplan of {len(event.plan.waypoints)} waypoints, {event.count} of them trusted enough"
            " to run"
        )
    elif isinstance(event, Executed):
        for outcome in event.outcomes:
            print(f"  {outcome.report} (reach label {outcome.label})")


# Memory is empty: the stated confidences are taken as they are. Give the same Memory the record,
# and the next episode is calibrated.
memory = Memory()
start = Start("TurnOnMicrowave", index=0)
context = EpisodeContext(subscribers=[show])
episode = run_episode(
    env, start, model, preset("capex"), memory, EpisodeContext(subscribers=[show])
)
memory.add(episode.record, episode.pictures)
print(
    f"\nsuccess: {episode.record.success} after {episode.record.steps} control steps;"
    f" {memory.labels} labels learned"
)
