"""`capex pilot serve`: the stand-in behind the wires of real providers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tyro.conf import Positional, arg

from capex.cli.console import console
from capex.cli.help import Examples


@dataclass(frozen=True)
class PilotCommand:
    """The built-in stand-in as a server on this machine, on the OpenAI Responses and Chat
    Completions wires.
    """

    EXAMPLES: ClassVar[Examples] = {
        "On its usual port": "capex pilot serve",
        "On any free port": "capex pilot serve --port 0",
    }

    command: Positional[Annotated[Literal["serve"], arg(metavar="serve")]]
    """Answer until interrupted."""
    port: Annotated[int, arg(metavar="PORT")] = 8009
    """Port on 127.0.0.1; 0 takes any free one."""

    def run(self) -> int:
        """Serve until Ctrl-C."""
        from capex.pilot.serve import server

        with server(self.port) as service:
            url = f"http://127.0.0.1:{service.server_address[1]}/v1"
            console.print(
                f"the pilot, a stand-in, answers at {url}; Ctrl-C stops it",
                highlight=False,
                soft_wrap=True,
            )
            console.print(f"  chat:pilot@{url}", highlight=False, soft_wrap=True)
            console.print(
                f"  openai:pilot   with OPENAI_BASE_URL={url} and OPENAI_API_KEY=none",
                highlight=False,
                soft_wrap=True,
            )
            try:
                service.serve_forever(poll_interval=0.1)
            except KeyboardInterrupt:
                console.print("stopped")
        return 0
