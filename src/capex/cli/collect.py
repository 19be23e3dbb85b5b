"""`capex collect`, `capex status`, `capex replay`, `capex repair`."""

from __future__ import annotations

import contextlib
import functools
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from rich.markup import escape
from rich.table import Table
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg

from capex.campaign.settings import ALIASES, NOWHERE, OPTIONS
from capex.cli.allowing import Allowed
from capex.cli.console import console, errors
from capex.cli.following import print_next
from capex.cli.help import Examples, Groups, SameAs
from capex.cli.tables import FittedTable
from capex.errors import CapexError, ErrorCode
from capex.setting import Setting, as_flag

if TYPE_CHECKING:
    from capex.campaign.prepare import DryRun

Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]


def flag_of(name: str, setting: Setting, text: str = "") -> tuple[str, Any, Any]:
    """A setting as a flag, with its own help or another."""
    look = arg(help=text or setting.help, metavar=setting.metavar, help_behavior_hint="")
    return name, Annotated[str | None, look], field(default=None)


def _other_name(name: str, same: str) -> tuple[str, Any, Any]:
    _, kind, default = flag_of(name, OPTIONS[same])
    return name, Annotated[kind, SameAs(same)], default


# What was typed stays known: --method is not turned into --arm.
OTHER_NAMES = {other: same for other, same in ALIASES.items() if same in OPTIONS}
Flags = make_dataclass(
    "Flags",
    [flag_of(*item) for item in OPTIONS.items()]
    + [_other_name(*item) for item in OTHER_NAMES.items()],
    frozen=True,
)


@dataclass(frozen=True)
class Collect:
    """Collect demonstrations: chains of episodes by a model, resumable, within budgets. The same
    command again continues.
    """

    GROUPS: ClassVar[Groups] = {
        "What to run": (
            *("names", "arm", "model", "starts", "until_successes", "max_starts", "seed"),
            *("config", "branch", "retry_invalid", "dry_run"),
        ),
        "Budgets": (
            *(
                "campaign_usd",
                "allocate",
                "episode_usd",
                "yes",
                "prices",
                "campaign_hours",
                "episode_minutes",
            ),
            *("steps", "decisions", "rounds", "silent_decisions"),
        ),
        "Method": (
            *("tau", "plan_max", "calibrated", "memory", "round_size", "references", "skeleton"),
            *("failures", "prior"),
            *("notes", "history", "locate", "base_motion", "image_size", "show_dollars", "prompt"),
            "hints",
        ),
        "Model": (
            *("effort", "temperature", "top_p", "top_k", "context_tokens", "max_output_tokens"),
            *("requests_per_minute", "tokens_per_minute"),
        ),
        "Rig": ("operator", "by", "judge", "arrangements", "order"),
        "Engine": ("parallel", "ray", "ray_resources", "slots"),
        "Output": ("out", "keep_images", "image_format", "json_events"),
    }
    EXAMPLES: ClassVar[Examples] = {
        "Two arms on the same three starts by the pilot, a stand-in that needs no key": (
            "capex collect kitchen:TurnOffStove --arm capex,base --starts 0:3 --out runs/first"
        ),
        "What a campaign by a paid model would cost; nothing is sent": (
            "capex collect kitchen:all --model openai:gpt-6-astra --starts 0:20"
            " --campaign-usd 50 --dry-run"
        ),
    }

    names: Positional[
        Annotated[tuple[str, ...], arg(metavar="WORLD:TASK[,TASK..|all]", help_behavior_hint="")]
    ] = ()
    """Which tasks of which worlds; `capex tasks WORLD` lists them."""
    settings: Annotated[Any, OmitArgPrefixes, arg(name="campaign", constructor=Flags)] = field(
        default_factory=Flags
    )
    """What to collect, with what, within which limits."""
    config: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """A TOML file with the same settings; flags win (default: none)."""
    branch: Flag = False
    """Branch the run: changed settings go into a run beside it that begins with its episodes."""
    fork: Annotated[Flag, SameAs("branch")] = False
    retry_invalid: Flag = False
    """Try starts again that were recorded as invalid."""
    allocate: Flag = False
    """Spend --campaign-usd on the tasks where a dollar brings most successes, by the forecast of
    what they have shown so far; the same as --order allocate."""
    yes: Flag = False
    """Agree to what the campaign may cost, without --campaign-usd and without being asked."""
    by: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Where a person judges: who does (default: CAPEX_OPERATOR from the environment, else you are
    asked)."""
    dry_run: Flag = False
    """Print plan, size of requests, highest cost and disk space; send nothing, write nothing."""
    json_events: Flag = False
    """Print one JSON object per event instead of a display."""

    def given(self) -> dict[str, Any]:
        """The settings among the flags, as typed, or a sentence about the first that is wrong."""
        typed = {name: text for name, text in vars(self.settings).items() if text is not None}
        if self.allocate and typed.setdefault("order", "allocate") != "allocate":
            raise CapexError(
                f"--allocate is an order itself; leave --order {typed['order']} out",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
        for other, same in OTHER_NAMES.items():
            if {other, same} <= typed.keys():
                raise CapexError(
                    f"--{other} is another name of --{same}; give one of them",
                    code=ErrorCode.CONFLICTING_SETTINGS,
                )
        return {
            name: OPTIONS[OTHER_NAMES.get(name, name)].checked(as_flag(name), text, from_text=True)
            for name, text in typed.items()
        }

    def run(self) -> int:
        """Check, run, and say how it went."""
        from capex.campaign import api, prepare
        from capex.cli.progress import watching
        from capex.run import Depth

        given = self.given()
        if self.dry_run:
            print_dry_run(
                prepare.dry_run(
                    prepare.prepare(
                        self.names, config=self.config, dry=True, named_by_user=True, **given
                    )
                ),
                self.json_events,
            )
            return 0
        confirm = (
            confirm_cost
            if sys.stdin.isatty() and console.is_terminal and not self.json_events
            else None
        )
        out = errors if self.json_events else console
        with watching(console, self.json_events) as watch, _person(self.by, out, watch) as person:
            run = api.collect(
                self.names,
                config=self.config,
                branch=self.branch or self.fork,
                retry_invalid=self.retry_invalid,
                yes=self.yes,
                confirm=confirm,
                watch=watch,
                person=person,
                depth=Depth.HEADS,
                **given,
            )
        if not self.json_events and any(e.success is None for e in run.episodes):
            print_next("capex", "judge", run.path)
        elif not self.json_events and run.episodes:
            print_next("capex", "report", run.path, "--out", Path("reports", run.path.name))
        return 0


class _Person:
    """The person at this terminal, imported when the campaign needs one."""

    def __init__(self, make: Callable[[], Any]):
        self._make = functools.cache(make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)


@contextlib.contextmanager
def _person(by: str | None, out: Any, watch: Any) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def make() -> Any:
            from capex.cli.operator import at_terminal

            return stack.enter_context(at_terminal(by, out, watch))

        yield _Person(make)


def confirm_cost(cost: str) -> bool:
    """Ask the person at the terminal; anything but a yes is none."""
    words = f"This campaign costs {cost}." if "$" in cost else f"{cost}."
    console.print(words, markup=False, highlight=False, soft_wrap=True)
    try:
        return console.input("Begin? Type yes: ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def print_dry_run(plan: DryRun, as_json: bool) -> None:
    """The plan for a person, or for a machine."""
    from capex.campaign.ceiling import bytes_text
    from capex.campaign.names import starts_text

    s = plan.settings
    if as_json:
        note: dict[str, Any] = {
            "settings": s.identity,
            "plan": s.plan,
            "episodes": plan.episodes,
            "ceiling_usd": plan.ceiling.usd,
        }
        note |= {"expected_usd": plan.ceiling.expected_usd}
        note |= {
            "samples": [asdict(x) for x in plan.samples],
            "disk_bytes": plan.disk,
            "free_bytes": plan.free_bytes,
        }
        sys.stdout.write(json.dumps(note, default=str) + "\n")
        return
    grid = Table(
        title="dry run: nothing was sent, nothing was written",
        title_justify="left",
        show_header=False,
    )
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    further = (
        f", then further ones until {s.until_successes} successes" if s.until_successes else ""
    )
    product = f"{len(s.tasks)} tasks x {len(s.methods)} arms x {len(s.starts)} starts"
    rows = {
        "run directory": "none named" if s.out == NOWHERE else str(s.out),
        "tasks": ", ".join(f"{w}:{t}" for w, t in s.tasks),
        "arms": ", ".join(a.name for a in s.methods),
        "model": s.model,
        "starts": starts_text(s.starts) + further,
        "episodes to run": (
            f"{plan.episodes} of {product}"
            if plan.episodes is not None
            else "until there are enough successes"
        ),
    }
    for x in plan.samples:
        cost = "" if x.first_usd is None else f" and ${x.first_usd:.2f}"
        rows[f"request, {x.world} {x.arm}"] = (
            f"about {x.tokens} tokens at first (at most {x.first_bound}{cost}), never more than"
            f" {x.largest_bound} tokens of input"
        )
    rows |= {"expected cost": plan.ceiling.about} if plan.ceiling.about else {}
    rows["cost"] = plan.ceiling.most
    if plan.disk is not None:
        about, most = (bytes_text(b) for b in plan.disk)
        rows["disk"] = f"about {about}, at most {most}; {bytes_text(plan.free_bytes)} are free"
    for name, value in rows.items():
        grid.add_row(name, escape(value))
    console.print(FittedTable(grid))
    if plan.disk is not None and plan.disk[0] > plan.free_bytes:
        console.print(
            "[yellow]the disk has less room than the campaign will need; see --keep-images and"
            " --image-format[/]"
        )


@dataclass(frozen=True)
class Status:
    """Where a campaign stands, running here, elsewhere, or finished."""

    EXAMPLES: ClassVar[Examples] = {
        "A campaign that runs in another terminal": "capex status runs/first",
        "The same for a program": "capex status runs/first --json",
    }

    path: Positional[Annotated[Path, arg(metavar="RUN")]]
    """The run directory."""
    json: Flag = False
    """Print one JSON object instead of a table."""

    def run(self) -> int:
        """Read the run directory and print it."""
        from capex.campaign.status import read_status
        from capex.cli.progress import forecast_sentence, table

        status = read_status(self.path)
        if self.json:
            sys.stdout.write(json.dumps(status.as_json()) + "\n")
            return 0
        console.print(table(status.board, f"{self.path}: {status.state}", status.note))
        for sentence in status.sentences:
            console.print(sentence, markup=False, highlight=False)
        if (forecast := status.board.forecast()) is not None and status.running:
            console.print(forecast_sentence(forecast), markup=False, highlight=False)
        return 0


@dataclass(frozen=True)
class Replay:
    """Re-run a recorded campaign from its exchanges, without a model, and compare; fails at the
    first difference.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Every episode of a run": "capex replay runs/first",
        "A run that was recorded on a machine with another GPU": (
            "capex replay runs/first --recorded-images"
        ),
    }

    path: Positional[Annotated[Path, arg(metavar="RUN")]]
    """The run directory."""
    recorded_images: Flag = False
    """Do not compare pictures: for a machine that draws other pixels than the one that recorded."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Replay episode by episode."""
        from capex.campaign.replay import replay

        count = damaged = 0
        skipped: Counter[str] = Counter()
        for result in replay(self.path, recorded_images=self.recorded_images):
            if result.difference:
                errors.print(
                    f"capex: {result.path}: {result.difference}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )
                return 1
            if result.damaged:
                damaged += 1
                errors.print(
                    f"{result.path}: left out: {result.damaged}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )
            elif result.skipped:
                skipped[result.skipped] += 1
            else:
                count += 1
                console.print(
                    f"{result.path}: the same", markup=False, highlight=False, soft_wrap=True
                )
        also = "".join(f", {number} skipped ({why})" for why, number in skipped.items())
        also += f", {damaged} left out because of damage (see capex repair)" if damaged else ""
        console.print(f"{count} episodes replayed, all the same{also}", highlight=False)
        return 1 if damaged else 0


@dataclass(frozen=True)
class Repair:
    """Move damaged episodes of a run aside, so that the command that made it runs them again, and
    enter in spend.jsonl what it lacks of the records. Nothing is deleted.
    """

    EXAMPLES: ClassVar[Examples] = {
        "What is damaged, and why": "capex repair runs/first --dry-run",
        "Move it aside": "capex repair runs/first",
    }

    path: Positional[Annotated[Path, arg(metavar="RUN")]]
    """The run directory."""
    dry_run: Flag = False
    """Only list what is damaged."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Print what was moved, why, and what to type next."""
        from capex.campaign.repair import collect_command, repair
        from capex.run.store import find_run

        repaired = repair(self.path, dry_run=self.dry_run)
        found, spend = repaired.moved, repaired.spend
        if not found and spend is None:
            console.print(
                f"{self.path}: nothing is damaged", markup=False, highlight=False, soft_wrap=True
            )
            return 0
        if found:
            title = "damaged" if self.dry_run else "moved aside"
            table = Table(title=f"{self.path}: {len(found)} {title}", title_justify="left")
            columns = ("attempt", "reason") if self.dry_run else ("attempt", "now at", "reason")
            for column in columns:
                table.add_column(column, overflow="fold")
            for item in found:
                places = [p for p in (item.path, item.to) if p is not None]
                table.add_row(
                    *(escape(str(p.relative_to(self.path))) for p in places), escape(item.reason)
                )
            console.print(FittedTable(table))
        if spend is not None:
            console.print(spend.sentence, markup=False, highlight=False, soft_wrap=True)
        if self.dry_run:
            following = f"capex repair {shlex.quote(str(self.path))}"
        else:
            following = (
                collect_command(find_run(self.path))
                or f"the command that made {self.path}, with the same settings"
            )
        console.print(f"next: {following}", markup=False, highlight=False, soft_wrap=True)
        return 0
