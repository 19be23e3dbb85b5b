"""The command line: one frozen dataclass per command, sentences for a user's mistakes, never a
traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import DisallowNone, subcommand

from capex.cli.collect import Collect, Repair, Replay, Status
from capex.cli.console import errors
from capex.cli.dataset import DatasetCommand
from capex.cli.demo import Demo
from capex.cli.expert import ExpertCommand, HumanCommand
from capex.cli.export import Certify, Export
from capex.cli.install import Install
from capex.cli.look import Bench, Check, Doctor, Film, Prompt, Tasks
from capex.cli.pilot import PilotCommand
from capex.cli.report import Report
from capex.cli.students import Evaluate, PolicyCommand, Study, Train
from capex.errors import CapexError

Command = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Doctor, subcommand("doctor")]
    | Annotated[Tasks, subcommand("tasks")]
    | Annotated[Prompt, subcommand("prompt")]
    | Annotated[Collect, subcommand("collect")]
    | Annotated[Status, subcommand("status")]
    | Annotated[Replay, subcommand("replay")]
    | Annotated[Repair, subcommand("repair")]
    | Annotated[ExpertCommand, subcommand("expert")]
    | Annotated[Certify, subcommand("certify")]
    | Annotated[Export, subcommand("export")]
    | Annotated[DatasetCommand, subcommand("dataset")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Study, subcommand("study")]
    | Annotated[PolicyCommand, subcommand("policy")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Film, subcommand("film")]
    | Annotated[PilotCommand, subcommand("pilot")]
    | Annotated[HumanCommand, subcommand("human")]
    | Annotated[Install, subcommand("install")]
)


# Commands that go on where they were when given again.
CONTINUE = (Demo, Collect, ExpertCommand, HumanCommand, Certify, Repair, Train, Evaluate, Study)


def _after_interrupt(command: object) -> str:
    """What is true after Ctrl-C."""
    if isinstance(command, CONTINUE):
        return "; what was finished is kept, the same command continues it"
    if isinstance(command, Report):
        return "; the report is not finished, the same command makes it anew"
    return "; no dataset was written" if isinstance(command, Export) else ""


def parse(words: Sequence[str] | None = None) -> Any:
    """The command of a command line, this process's own by default; nothing is run. A wrong one
    ends the process with its usage.
    """
    description = "Turns a frozen vision-language model into a robot demonstrator."
    # Where nothing was said is None; nobody types it.
    return tyro.cli(
        Command, args=words, prog="capex", description=description, config=(DisallowNone,)
    )


def main() -> None:
    """Entry point of `capex`."""
    command = parse()
    try:
        status: int = command.run()
    except CapexError as error:
        errors.print(f"capex: {error}", markup=False, highlight=False, soft_wrap=True)
        status = 2
    except OSError as error:
        sentence = (
            f"capex: '{error.filename or 'the disk'}' cannot be read or written"
            f" ({error.strerror or error}); choose another path"
        )
        errors.print(sentence, markup=False, highlight=False, soft_wrap=True)
        status = 2
    except KeyboardInterrupt:
        errors.print(
            f"capex: interrupted{_after_interrupt(command)}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        status = 130
    sys.exit(status)
