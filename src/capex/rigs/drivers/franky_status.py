"""What libfranka reports, as a status and in a sentence for the person at the robot."""

from __future__ import annotations

import re
from typing import Any

from capex.rigs.drivers import ArmStatus

_VERSIONS = re.compile(r"server version: (\d+), library version: (\d+)")
# Of libfranka's robot modes, by name, those in which the arm does not move.
STATUS_OF_MODE = {
    "Guiding": (ArmStatus.USER_STOP, "the arm is guided by hand; release the button"),
    "UserStopped": (
        ArmStatus.USER_STOP,
        "the button is pressed; release it and say that it is safe",
    ),
    "Other": (ArmStatus.NOT_READY, "unlock the joints and activate FCI in Desk"),
    "AutomaticErrorRecovery": (ArmStatus.FAULT, "the control box recovers from an error"),
    "Reflex": (ArmStatus.REFLEX, ""),
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
            f" (docs/franky.md names the build: libfranka's server version 5 is a Panda's, franky"
            " with libfranka 0.9.2)"
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


def first_line(error: BaseException) -> str:
    """What an exception of libfranka says, without the log that it carries."""
    return str(error).partition("\n")[0].removeprefix("libfranka: ").removesuffix(" []")


def errors_set(errors: Any) -> tuple[str, ...]:
    """The names of the errors of a libfranka state that are set."""
    names = (name for name in dir(type(errors)) if not name.startswith("_"))
    return tuple(name.replace("_", " ") for name in names if getattr(errors, name) is True)
