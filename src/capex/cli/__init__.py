"""The command line: one frozen dataclass per command, sentences for a user's mistakes, never a
traceback.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union

from capex.errors import CapexError, ErrorCode, UnknownName
from capex.processes import safe_path
from capex.registry import load

if TYPE_CHECKING:
    from rich.text import Text

# The sections of `capex --help`, in the order in which a newcomer needs them: command -> its
# dataclass, imported when the command is called, and its line there.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start here": {
        "demo": ("capex.cli.demo:Demo", "Two-minute tour: collect, report, export; no key"),
        "doctor": ("capex.cli.look:Doctor", "What works here, and what mends the rest"),
        "tasks": ("capex.cli.look:Tasks", "A world's tasks and how success is judged"),
    },
    "Collect and look": {
        "collect": ("capex.cli.collect:Collect", "Demonstrations by a model, within budgets"),
        "status": ("capex.cli.collect:Status", "Where a campaign stands"),
        "forecast": (
            "capex.cli.forecast:ForecastCommand",
            "What a run still needs, and where to spend",
        ),
        "studio": ("capex.cli.studio:StudioCommand", "Watch, understand and steer in a browser"),
        "judge": ("capex.cli.judge:Judge", "Verdicts on attempts that a person judges"),
        "report": ("capex.cli.report:Report", "Tables, figures and one HTML page of runs"),
        "film": ("capex.cli.look:Film", "A picture strip and a video of an episode"),
        "fork": ("capex.cli.fork:ForkCommand", "Go on from a saved state, otherwise"),
        "expert": ("capex.cli.expert:ExpertCommand", "Demonstrations by the expert, a stand-in"),
        "human": ("capex.cli.expert:HumanCommand", "Recorded human demonstrations as a run"),
        "replay": ("capex.cli.collect:Replay", "Re-run a campaign without a model; compare"),
        "counterfactual": (
            "capex.cli.counterfactual:CounterfactualCommand",
            "What deferred plans would have done",
        ),
        "calibrate": (
            "capex.cli.counterfactual:Calibrate",
            "The commit threshold of each task, from that",
        ),
        "repair": ("capex.cli.collect:Repair", "Move damaged episodes of a run aside"),
    },
    "Datasets and students": {
        "certify": ("capex.cli.export:Certify", "Execute every success again, bit for bit"),
        "export": ("capex.cli.export:Export", "Certified demonstrations as a dataset"),
        "dataset": ("capex.cli.dataset:DatasetCommand", "Check a dataset, or compare two"),
        "learn": ("capex.cli.learn:Learn", "From a run to judged students, in one go"),
        "train": ("capex.cli.students:Train", "A student on datasets: ACT or Diffusion Policy"),
        "evaluate": ("capex.cli.students:Evaluate", "Roll a policy out on unseen starts"),
        "study": ("capex.cli.students:Study", "Train and evaluate a whole grid of students"),
        "policy": ("capex.cli.students:PolicyCommand", "Serve a policy on this machine"),
    },
    "Worlds, models and tools": {
        "prompt": ("capex.cli.look:Prompt", "The system prompt that a model is sent"),
        "pilot": ("capex.cli.pilot:PilotCommand", "Serve the built-in stand-in for a model"),
        "check": ("capex.cli.look:Check", "The environment contract on a world"),
        "rig": ("capex.cli.rig:RigCommand", "Where a rig's arms and cameras are"),
        "bench": ("capex.cli.look:Bench", "The speed table of docs/kitchen.md"),
        "install": ("capex.cli.install:Install", "An extra that pip alone cannot install"),
    },
}
COMMANDS = {name: row for section in SECTIONS.values() for name, row in section.items()}

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


# Commands that continue from where they stopped when they are given again.
CONTINUE = (
    *("demo", "collect", "fork", "expert", "human", "counterfactual", "certify", "repair"),
    *("learn", "train", "evaluate", "study"),
)
AFTER_INTERRUPT = {
    **dict.fromkeys(CONTINUE, "; what was finished is kept, the same command continues it"),
    "report": "; the report is not finished, the same command makes it anew",
    "export": "; no dataset was written",
}


def parse(words: Sequence[str] | None = None) -> Any:
    """The command of a command line, this process's own by default; nothing is run. Help, version
    and completion end the process after they are printed, a wrong flag with a word about it.
    """
    words = sys.argv[1:] if words is None else list(words)
    first = words[0] if words else "--help"
    if first in COMMANDS:
        from capex.cli.console import console
        from capex.cli.help import command_page, pages
        from capex.cli.values import refuse_wrong_values

        kind = load(COMMANDS[first][0])
        known, two = pages({first: kind}), " ".join(words[:2])
        name = two if two in known else first
        if {"-h", "--help"} & set(words):
            _print(command_page(name, known[name], console.width))
        refuse_wrong_values(name, known[name], words[len(name.split()) :])
        # Where nothing was said is None; nobody types it.
        import tyro

        return tyro.cli(
            kind, args=words[1:], prog=f"capex {first}", config=(tyro.conf.DisallowNone,)
        )
    if first in ("-h", "--help"):
        from capex.cli.console import console
        from capex.cli.help import root_page

        sections = {t: {n: line for n, (_, line) in rows.items()} for t, rows in SECTIONS.items()}
        _print(root_page(WHAT, sections, EXAMPLES, NOTES, console.width))
    if first == "--version":
        from importlib import metadata

        from rich.text import Text

        _print(Text(f"capex {metadata.version('capex')}\n"))
    if first == "--completion":
        shell = words[1] if len(words) > 1 else ""
        if shell not in SHELLS:
            raise UnknownName("shell", shell, SHELLS, flag=first)
        import tyro

        tyro.cli(all_commands(), args=["--tyro-print-completion", shell], prog="capex")
    if first.startswith("-"):
        raise CapexError(
            f"there is no command before {first}; capex --help lists the commands",
            code=ErrorCode.MISSING_SETTING,
        )
    raise UnknownName("command", first, COMMANDS)


def all_commands() -> Any:
    """Every command as one union for tyro, all of their modules imported."""
    from tyro.conf import subcommand

    members = (
        Annotated[load(target), subcommand(name, description=summary)]
        for name, (target, summary) in COMMANDS.items()
    )
    return Union[tuple(members)]  # noqa: UP007


def _print(page: Text) -> None:
    """Print and end the process."""
    from capex.cli.console import console

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
    problem, status = "", 0
    try:
        command = parse()
        from capex.cli.allowing import permit

        permit(command)
        with safe_path():
            status = command.run()
    except CapexError as error:
        problem, status = str(error), 2
    except OSError as error:
        problem, status = _of_file(error), 2
    except KeyboardInterrupt:
        name = sys.argv[1] if len(sys.argv) > 1 else ""
        problem, status = f"interrupted{AFTER_INTERRUPT.get(name, '')}", 130
    if problem:
        from capex.cli.console import errors

        errors.print(f"capex: {problem}", markup=False, highlight=False, soft_wrap=True)
    sys.exit(status)
