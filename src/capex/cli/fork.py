"""`capex fork`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from tyro.conf import OmitArgPrefixes, Positional, arg

from capex.campaign.settings import OPTIONS
from capex.cli.allowing import Allowed
from capex.cli.collect import Flag, confirm_cost, flag_of
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.help import Examples, Groups
from capex.setting import as_flag

GROUPS: Groups = {
    "What to run": (
        "run_dir",
        "states",
        "times",
        "model",
        "arm",
        "seed",
        "remember",
        "retry_invalid",
    ),
    "Budgets": (
        *("campaign_usd", "episode_usd", "yes", "prices", "campaign_hours", "episode_minutes"),
        *("steps", "decisions", "rounds", "silent_decisions"),
    ),
    "Method": (
        *("tau", "plan_max", "calibrated", "memory", "references", "skeleton", "notes", "history"),
        *("locate", "base_motion", "image_size", "show_dollars"),
    ),
    "Model": (*("effort", "temperature", "top_p", "top_k", "context_tokens", "max_output_tokens"),),
    "Engine": ("parallel", "slots"),
    "Output": ("out", "keep_images", "image_format", "json_events"),
}
# Where nothing is said, a fork does as its origin did.
SAME = {
    *GROUPS["Method"],
    *GROUPS["Model"],
    *("episode_usd", "episode_minutes", "steps", "decisions", "rounds", "silent_decisions"),
}
OWN_HELP = {
    "arm": "Arms by name, several with commas (default: the origin's).",
    "memory": "chain: what its origin was shown; fresh: nothing (default: the origin's).",
    "model": "Who goes on, as --model of capex collect (default: the origin's).",
}


def _help(name: str) -> str:
    usual = OWN_HELP.get(name, OPTIONS[name].help)
    return re.sub(r"\(default[^)]*\)", "(default: the origin's)", usual) if name in SAME else usual


Flags = make_dataclass(
    "Flags",
    [
        flag_of(name, OPTIONS[name], _help(name))
        for names in GROUPS.values()
        for name in names
        if name in OPTIONS and name not in ("seed", "out")
    ],
    frozen=True,
)


@dataclass(frozen=True)
class ForkCommand:
    """Go on from a saved state of a recorded episode, with another model, method or seed, as often
    as you like. Settings that are not given are the origin's. The same command again continues.
    """

    GROUPS: ClassVar[Groups] = GROUPS
    EXAMPLES: ClassVar[Examples] = {
        "Five times from the third decision of an episode, each with other noise": (
            "capex fork runs/first kitchen--TurnOffStove--capex/2@3 --times 5 --out runs/forks"
        ),
        "The same state with a bolder threshold": (
            "capex fork runs/first kitchen--TurnOffStove--capex/2@3 --times 5 --tau 0.3"
            " --out runs/bolder"
        ),
    }

    run_dir: Positional[Annotated[Path, arg(metavar="RUN")]]
    """The run that holds the episodes."""
    states: Positional[
        Annotated[tuple[str, ...], arg(metavar="CHAIN/EPISODE@DECISION", help_behavior_hint="")]
    ]
    """States to go on from, of one task: decisions count from 1, and 1 is the start."""
    out: Annotated[Path, arg(metavar="FORKS")]
    """Run directory of the forks; the same command again continues it."""
    settings: Annotated[Any, OmitArgPrefixes, arg(name="campaign", constructor=Flags)] = field(
        default_factory=Flags
    )
    """What differs from the origin, within which limits."""
    times: Annotated[int, arg(metavar="N", help_behavior_hint="")] = 1
    """Forks of each state (default 1); more of them extend the run."""
    seed: Annotated[int, arg(metavar="N", help_behavior_hint="")] = 0
    """Shifts the seed of a stand-in: by N in the first fork of a state, by one more in each further
    one (default 0: the first repeats its origin, where nothing else differs)."""
    remember: Flag = False
    """Let each fork see the ones before it, as episodes of a chain do: for one state (default: it
    sees what its origin saw)."""
    retry_invalid: Flag = False
    """Try forks again that were recorded as invalid."""
    yes: Flag = False
    """Agree to what the forks may cost, without --campaign-usd and without being asked."""
    json_events: Flag = False
    """Print one JSON object per event instead of a display."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Check, run, and say what to type next."""
        from capex.analysis.fork import fork
        from capex.cli.progress import watching

        given = {
            name: OPTIONS[name].checked(as_flag(name), text, from_text=True)
            for name, text in vars(self.settings).items()
            if text is not None
        }
        asks = sys.stdin.isatty() and console.is_terminal and not self.json_events
        with watching(console, self.json_events) as watch:
            run = fork(
                self.run_dir,
                self.states,
                out=self.out,
                times=self.times,
                seed=self.seed,
                remember=self.remember,
                retry_invalid=self.retry_invalid,
                yes=self.yes,
                confirm=confirm_cost if asks else None,
                watch=watch,
                **given,
            )
        if not self.json_events and run.episodes:
            print_next("capex", "report", run.path, "--out", Path("reports", run.path.name))
        return 0
