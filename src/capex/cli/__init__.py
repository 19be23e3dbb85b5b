"""The command line: one frozen dataclass per command, sentences for a user's mistakes, never a
traceback.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any, Union

import tyro
from rich.text import Text
from tyro.conf import DisallowNone, subcommand

from capex.cli.allowing import permit
from capex.cli.collect import Collect, Repair, Replay, Status
from capex.cli.console import console, errors
from capex.cli.counterfactual import Calibrate, CounterfactualCommand
from capex.cli.dataset import DatasetCommand
from capex.cli.demo import Demo
from capex.cli.expert import ExpertCommand, HumanCommand
from capex.cli.export import Certify, Export
from capex.cli.forecast import ForecastCommand
from capex.cli.fork import ForkCommand
from capex.cli.help import command_page, pages, root_page
from capex.cli.install import Install
from capex.cli.judge import Judge
from capex.cli.learn import Learn
from capex.cli.look import Bench, Check, Doctor, Film, Prompt, Tasks
from capex.cli.pilot import PilotCommand
from capex.cli.report import Report
from capex.cli.rig import RigCommand
from capex.cli.students import Evaluate, PolicyCommand, Study, Train
from capex.cli.studio import StudioCommand
from capex.cli.values import refuse_wrong_values
from capex.errors import CapexError, UnknownName
from capex.processes import safe_path

# The sections of `capex --help`, in the order in which a newcomer needs them: command -> its
# dataclass and its line there.
SECTIONS: dict[str, dict[str, tuple[type, str]]] = {
    "Start here": {
        "demo": (Demo, "Two-minute tour: collect, report, export; no key"),
        "doctor": (Doctor, "What works here, and what mends the rest"),
        "tasks": (Tasks, "A world's tasks and how success is judged"),
    },
    "Collect and look": {
        "collect": (Collect, "Demonstrations by a model, within budgets"),
        "status": (Status, "Where a campaign stands"),
        "forecast": (ForecastCommand, "What a run still needs, and where to spend"),
        "studio": (StudioCommand, "Watch, understand and steer in a browser"),
        "judge": (Judge, "Verdicts on attempts that a person judges"),
        "report": (Report, "Tables, figures and one HTML page of runs"),
        "film": (Film, "A picture strip and a video of an episode"),
        "fork": (ForkCommand, "Go on from a saved state, otherwise"),
        "expert": (ExpertCommand, "Demonstrations by the expert, a stand-in"),
        "human": (HumanCommand, "Recorded human demonstrations as a run"),
        "replay": (Replay, "Re-run a campaign without a model; compare"),
        "counterfactual": (CounterfactualCommand, "What deferred plans would have done"),
        "calibrate": (Calibrate, "The commit threshold of each task, from that"),
        "repair": (Repair, "Move damaged episodes of a run aside"),
    },
    "Datasets and students": {
        "certify": (Certify, "Execute every success again, bit for bit"),
        "export": (Export, "Certified demonstrations as a dataset"),
        "dataset": (DatasetCommand, "Check a dataset, or compare two"),
        "learn": (Learn, "From a run to judged students, in one go"),
        "train": (Train, "A student on datasets: ACT or Diffusion Policy"),
        "evaluate": (Evaluate, "Roll a policy out on unseen starts"),
        "study": (Study, "Train and evaluate a whole grid of students"),
        "policy": (PolicyCommand, "Serve a policy on this machine"),
    },
    "Worlds, models and tools": {
        "prompt": (Prompt, "The system prompt that a model is sent"),
        "pilot": (PilotCommand, "Serve the built-in stand-in for a model"),
        "check": (Check, "The environment contract on a world"),
        "rig": (RigCommand, "Where a rig's arms and cameras are"),
        "bench": (Bench, "The speed table of docs/kitchen.md"),
        "install": (Install, "An extra that pip alone cannot install"),
    },
}
COMMANDS = {name: row for section in SECTIONS.values() for name, row in section.items()}
Command: Any = Union[  # noqa: UP007
    tuple(
        Annotated[kind, subcommand(name, description=summary)]
        for name, (kind, summary) in COMMANDS.items()
    )
]

WHAT = "CAPEX turns a frozen vision-language model into a robot demonstrator."
EXAMPLES = {
    "A tour that needs no key and no GPU": "capex demo",
    "Three episodes by the built-in stand-in": (
        "capex collect kitchen:CloseFridge --starts 0:3 --out runs/first"
    ),
}
SHELLS = ("bash", "zsh", "fish")
NOTES = (
    "capex COMMAND --help explains a command, with examples.",
    "capex --version prints the version.",
    "capex --completion bash|zsh|fish prints a completion script for that shell.",
)


# Commands that go on where they were when given again.
CONTINUE = (
    Demo,
    Collect,
    ForkCommand,
    ExpertCommand,
    HumanCommand,
    CounterfactualCommand,
    Certify,
    Repair,
    Learn,
    Train,
    Evaluate,
    Study,
)


def _after_interrupt(command: object) -> str:
    """What is true after Ctrl-C."""
    if isinstance(command, CONTINUE):
        return "; what was finished is kept, the same command continues it"
    if isinstance(command, Report):
        return "; the report is not finished, the same command makes it anew"
    return "; no dataset was written" if isinstance(command, Export) else ""


def parse(words: Sequence[str] | None = None) -> Any:
    """The command of a command line, this process's own by default; nothing is run. Help, version
    and completion end the process after they are printed, a wrong flag with a word about it.
    """
    words = sys.argv[1:] if words is None else list(words)
    first = words[0] if words else "--help"
    if first in COMMANDS:
        kind, _ = COMMANDS[first]
        known, two = pages({first: kind}), " ".join(words[:2])
        name = two if two in known else first
        if {"-h", "--help"} & set(words):
            _print(command_page(name, known[name], console.width))
        refuse_wrong_values(name, known[name], words[len(name.split()) :])
        # Where nothing was said is None; nobody types it.
        return tyro.cli(kind, args=words[1:], prog=f"capex {first}", config=(DisallowNone,))
    if first in ("-h", "--help"):
        sections = {t: {n: line for n, (_, line) in rows.items()} for t, rows in SECTIONS.items()}
        _print(root_page(WHAT, sections, EXAMPLES, NOTES, console.width))
    if first == "--version":
        _print(Text(f"capex {metadata.version('capex')}\n"))
    if first == "--completion":
        shell = words[1] if len(words) > 1 else ""
        if shell not in SHELLS:
            raise UnknownName("shell", shell, SHELLS, flag=first)
        tyro.cli(Command, args=["--tyro-print-completion", shell], prog="capex")
    if first.startswith("-"):
        raise CapexError(f"there is no command before {first}; capex --help lists the commands")
    raise UnknownName("command", first, COMMANDS)


def _print(page: Text) -> None:
    """Print and end the process."""
    console.print(page, end="", soft_wrap=True, highlight=False)
    sys.exit(0)


def _of_file(error: OSError) -> str:
    """What a file, or the disk below it, would not do, in a sentence."""
    why, where = error.strerror or str(error), error.filename
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        holds = f" that holds '{where}'" if where else ""
        return f"the disk{holds} is full; make room and give the same command again"
    if not where:
        return f"a file cannot be read or written ({why})"
    return f"'{where}' cannot be read or written ({why}); choose another path"


def main() -> None:
    """Entry point of `capex`."""
    command = None
    try:
        command = parse()
        permit(command)
        with safe_path():
            status: int = command.run()
    except CapexError as error:
        errors.print(f"capex: {error}", markup=False, highlight=False, soft_wrap=True)
        status = 2
    except OSError as error:
        errors.print(f"capex: {_of_file(error)}", markup=False, highlight=False, soft_wrap=True)
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
