"""A model of your own: from a request to tool calls. This one sees a dark dot and goes there.

`python examples/my_model.py` lets it drive the table of examples/my_world.py for one episode. In a
package of yours, `--model my_lab.model:NAME` calls its `make("NAME")` (docs/your-own.md).
"""

import io
import json

import numpy as np
from PIL import Image

from capex import PRESETS, Memory, Start, run_episode
from capex.models import Answer, Picture, RequestAttempt, ToolCall, Usage, UserMessage
from capex.models.retry import conclude


class Gazer:
    """Gets what any model gets: texts and pictures. `stand_in`: it is no foundation model."""

    name = price_name = "gazer"
    stand_in = True

    def complete(self, request, observer=None):
        """Answer a request. Ledger and exchange log hear of an attempt before and after it."""
        if observer is not None:
            observer.before(request, 1)
        parts = [p for m in request.messages if isinstance(m, UserMessage) for p in m.parts]
        # Pictures of reference episodes come first, the present views last.
        picture = [p for p in parts if isinstance(p, Picture)][-1]
        calls = (ToolCall("call_1", "act", json.dumps(self.act(picture.png))),)
        usage = Usage(fresh=1000, cached=0, cache_write=0, output=100)
        attempt = RequestAttempt("ok", "yes", latency_s=0.0, usage=usage, answer=Answer(calls))
        if observer is not None:
            observer.after(request, 1, attempt)
        return conclude([attempt])

    def act(self, png):
        """Above the dot, then down: the table's camera looks straight down at it."""
        image = np.asarray(Image.open(io.BytesIO(png)).convert("L"))
        v, u = np.argwhere(image == 60).mean(axis=0) / image.shape
        x, y = 100 * (0.9 - v), 100 * (0.5 - u)
        path = [{"target_cm": [x, y, z], "confidence": 0.9} for z in (25, 20, 15, 10, 5)]
        return {"reasoning": "Go to the dot.", "orientation": "keep", **path[0], "chunk": path[1:]}


def make(name):
    """What `--model my_lab.model:NAME` calls."""
    return Gazer()


if __name__ == "__main__":
    from my_world import Table

    episode = run_episode(Table(), Start("Touch", 0), Gazer(), PRESETS["capex"], Memory())
    for turn in episode.record.turns:
        reports = [w.report for w in turn.waypoints]
        print(f"decision {turn.decision}: {len(reports)} waypoints, the last: {reports[-1]}")
    print("success:", episode.record.success, "after", episode.record.steps, "steps")
