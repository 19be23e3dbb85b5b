"""What Anthropic's models take, by name, whichever server they are behind.

Up to Claude 5 a request may require a tool call; later models answer `any` and `tool` with HTTP 400
and take `auto` alone. Effort came with Opus 4.5. The tables list the earlier models, so that a
model that is newer than this package is asked as the newest ones are.
"""

from __future__ import annotations

import re

from capex.models import Effort

# A name as Anthropic, Bedrock, Vertex and OpenRouter write it: claude-opus-4-5-20251101,
# us.anthropic.claude-opus-4-5-20251101-v1:0, claude-opus-4-5@20251101, anthropic/claude-opus-4.5.
_NAME = re.compile(
    r"(?:^|.*[./])claude-(?P<family>[a-z0-9.-]+?)(-v\d+)?([-@](\d{8}|latest|default))?(-v\d+)?(:.*)?"
)
_BEFORE_EFFORT = re.compile(r"[123]\b.*|instant.*|(opus|sonnet)-4(-[01])?|(sonnet|haiku)-4-5")
_BEFORE_AUTO = re.compile(
    _BEFORE_EFFORT.pattern + r"|(opus|sonnet)-4-[5-9]|(opus|sonnet|fable|mythos)-5"
)
_LEVELS: dict[Effort, str] = {"none": "low", "minimal": "low"}  # the least there is


def forces_calls(model: str) -> bool:
    """Whether a request to the model may require a tool call; true for models of others."""
    family = _family(model)
    return family is None or _BEFORE_AUTO.fullmatch(family) is not None


def effort(model: str, asked: Effort | None) -> str | None:
    """The effort level to send to the model; None where it takes none, or none was asked for."""
    family = _family(model)
    if asked is None or family is None or _BEFORE_EFFORT.fullmatch(family):
        return None
    return _LEVELS.get(asked, asked)


def _family(model: str) -> str | None:
    found = _NAME.fullmatch(model.lower())
    return None if found is None else found["family"].replace(".", "-")
