"""`capex install`: extras that a plain `pip install` cannot bring."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from capex.cli.console import console
from capex.cli.help import Examples
from capex.errors import CapexError, ErrorCode


@dataclass(frozen=True)
class Install:
    """Install an extra beside what is there, LeRobot included: robosuite without the pins that
    would take numpy back below 2.
    """

    EXAMPLES: ClassVar[Examples] = {
        "robosuite and its worlds": "capex install robosuite",
        "The commands that would be run": "capex install robosuite --dry-run",
    }

    extra: Positional[Annotated[str, arg(metavar="robosuite")]]
    """The extra; there is one."""
    constraint: Annotated[Path | None, arg(metavar="FILE")] = None
    """A pip constraints file, such as constraints.txt (default: none)."""
    dry_run: bool = False
    """Only print the commands."""

    def run(self) -> int:
        """Run the commands one after the other in this environment, and stop at the first that
        fails.
        """
        from capex.worlds.robosuite.packages import install_commands  # brings MuJoCo

        if self.constraint is not None and not self.constraint.is_file():
            raise CapexError(
                f"there is no constraints file {self.constraint}; leave --constraint out, or give a"
                " file that exists",
                code=ErrorCode.NOT_FOUND,
            )
        for command in install_commands(self.extra, self.constraint):
            console.print(shlex.join(command), highlight=False, markup=False, soft_wrap=True)
            if not self.dry_run and subprocess.run(command, check=False).returncode != 0:
                raise CapexError(
                    f"{shlex.join(command)} failed; its messages stand above",
                    code=ErrorCode.JOB_FAILED,
                )
        if not self.dry_run:
            console.print("done; capex check robosuite:Lift tries it")
        return 0
