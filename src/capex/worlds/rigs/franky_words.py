"""What libfranka says, in a sentence for whoever stands at the robot."""

from __future__ import annotations

import re
from collections.abc import Sequence

_VERSIONS = re.compile(r"server version: (\d+), library version: (\d+)")
_STANDS_STILL = {
    "Guiding": "user stop: the arm is guided by hand; release the button",
    "UserStopped": "user stop: the button is pressed; release it and say that it is safe",
    "Other": "not ready: unlock the joints and activate FCI in Desk",
    "AutomaticErrorRecovery": "reflex: the control box recovers from an error",
}


def why_not_connected(kind: str, said: str, arm: str) -> str:
    """Why an arm could not be reached: the kind of libfranka's exception and its text."""
    low = said.lower()
    if "IncompatibleVersion" in kind:
        versions = _VERSIONS.search(said)
        server, library = versions.groups() if versions else ("another", "this one")
        return (
            f"{arm} speaks version {server} of Franka's protocol, the installed franky version"
            f" {library}; install the franky-control that is built for server version {server}"
            " (docs/franka.md: a Panda needs another than an FR3)"
        )
    if "refused" in low:
        return (
            f"{arm} refuses the control interface; take control and activate FCI in Desk, or"
            " correct the address"
        )
    if "host not found" in low:
        return f"there is no computer of that name: {arm}; it must be the control box's address"
    if "interrupted" in low or "timeout" in low or "closed connection" in low:
        return (
            f"{arm} is there and does not answer; another program may drive it, and it takes one"
            f" at a time: end that one first ({said})"
        )
    if "realtime" in low or "real-time" in low or "Realtime" in kind:
        return (
            f"{arm}: this user may not run a real-time thread ({said}); give it rtprio 99 in"
            ' /etc/security/limits.conf, or say realtime = "ignore" in the options of the arm'
        )
    return f"{arm} cannot be used: {said}"


def error_words(mode: str, errors: Sequence[str]) -> str:
    """Why the arm does not move; empty while it may. A person's stop says "user stop"."""
    first = (error.partition("\n")[0].removeprefix("libfranka: ") for error in errors)
    named = ", ".join(line.removesuffix(" []") for line in first)
    low = named.lower()
    if mode == "Reflex" and ("user stop" in low or "user_stop" in low):
        return f"user stop: {named}"
    if mode == "Reflex":
        return f"reflex: {named}" if named else "reflex"
    if mode in _STANDS_STILL:
        return _STANDS_STILL[mode]
    return ""
