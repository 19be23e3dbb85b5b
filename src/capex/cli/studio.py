"""`capex studio`: runs in a browser."""

from __future__ import annotations

import importlib.util
import webbrowser
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import OmitArgPrefixes, Positional, arg

from capex.cli.allowing import Allowed
from capex.cli.console import console
from capex.cli.help import Examples
from capex.errors import CapexError, ErrorCode

if TYPE_CHECKING:
    from capex.studio.app import Address

NEEDS = ("starlette", "uvicorn", "wsproto")
EXPOSED = (
    "whoever reaches {} and has the token sees every run below {}, with pictures, prompts and"
    " replies, may pause or stop campaigns, judge attempts, say that a scene is"
    " ready, and drive; the connection is not encrypted"
)


@dataclass(frozen=True)
class StudioCommand:
    """Runs and datasets in a browser: campaigns as they go, plans with their confidences, episodes
    step by step; to judge, to arrange and to drive. Reached from this machine alone, with the token
    in the address that is printed.
    """

    EXAMPLES: ClassVar[Examples] = {
        "All runs below runs/": "capex studio",
        "Runs and datasets, and a rig of yours to drive": (
            "capex studio runs datasets --drive rig:lab.toml"
        ),
    }

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="[RUNS ..]")]] = (Path("runs"),)
    """Run directories, or folders of them (default: runs)."""
    port: Annotated[int, arg(metavar="PORT")] = 8040
    """Port to listen on; 0 takes any free one."""
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """Address to listen on; any other than this machine's own shows the runs to its network."""
    token: Annotated[str | None, arg(metavar="TOKEN", help_behavior_hint="")] = None
    """The secret in the address, at least 16 letters and digits (default: one is drawn)."""
    drive: Annotated[tuple[str, ...], arg(metavar="[WORLD ..]", help_behavior_hint="")] = ()
    """Worlds besides the package's own that may be driven: a rig file as rig:FILE, a module of
    yours (default: none)."""
    open: bool = False
    """Open the page in this machine's browser."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Serve until Ctrl-C."""
        if missing := [name for name in NEEDS if importlib.util.find_spec(name) is None]:
            raise CapexError(
                f'the studio needs {" and ".join(missing)}: pip install "capex[studio]"',
                code=ErrorCode.MISSING_PACKAGE,
            )
        from capex.studio.serve import studio_server

        studio = studio_server(self.runs, self.host, self.port, self.token, self.drive)
        self._say(studio.address)
        try:
            studio.run()
        except KeyboardInterrupt:
            console.print("stopped")
        return 0

    def _say(self, address: Address) -> None:
        from capex.studio.serve import is_loopback

        def say(line: str) -> None:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

        folders = ", ".join(map(str, self.runs))
        if not is_loopback(address.host):
            say(EXPOSED.format(f"{address.host}:{address.port}", folders))
        say(f"the studio shows {folders} at")
        say(f"  {address.url}")
        say("Ctrl-C stops it; campaigns go on without it")
        if self.open:
            webbrowser.open(address.url)
