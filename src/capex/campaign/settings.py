"""The settings of a campaign: what a user may say, by flag, in a TOML file or in Python, and what
that resolves to.

`Options` is the one list of names: the command line's flags, the keys of a config file and the
keywords of `capex.collect` are its fields. None means that the user said nothing. `resolve` turns
them into `Settings`; flags win over the file, the file over the defaults.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args

from capex.campaign.names import STARTS_EXAMPLE, parse_names, parse_starts
from capex.errors import CapexError, UnknownName
from capex.method.demonstrator import DEFAULT_SAMPLING, NO_LIMITS, Limits
from capex.method.presets import PRESETS, SILENT_DECISIONS, MethodSettings, arm
from capex.models import CHAT_KINDS, ChatSettings, Effort, Sampling
from capex.models.pictures import FORMATS, ImageFormat

Switch = Literal["on", "off"]
Kept = Literal["all", "start"]
Open = Literal["server"]  # a sampling setting that is left to the server
IMAGE_SIZES = (32, 2048)
NOWHERE = Path(os.devnull)  # the run directory of a dry run that names none


def _about(help_: str, metavar: str) -> dict[str, str]:
    """What a person is told about a setting."""
    return {"help": help_, "metavar": metavar}


@dataclass(frozen=True)
class Options:
    """Everything that can be set. What means what stands in the fields' `help`."""

    arm: str | None = field(
        default=None,
        metadata=_about(
            "Arms by name, several with commas; they share the starts, in the same order: capex"
            " (default), base, capex-fresh, capex-stated.",
            "NAME[,NAME..]",
        ),
    )
    model: str | None = field(
        default=None,
        metadata=_about(
            "pilot (default), openai:NAME, chat:NAME@URL, chat-text:NAME@URL, anthropic:NAME,"
            " cassette:RUN, script:FILE.",
            "MODEL",
        ),
    )
    starts: str | None = field(
        default=None, metadata=_about("Start indices: 0:20 (default), 7 or 1,4,9.", "0:20")
    )
    until_successes: int | None = field(
        default=None,
        metadata=_about("Go on over further starts until each chain has this many successes.", "N"),
    )
    max_starts: int | None = field(
        default=None,
        metadata=_about("With --until-successes: give up on a chain after this many starts.", "N"),
    )
    seed: int | None = field(
        default=None,
        metadata=_about("Another seed gives other starts under the same indices (default 0).", "N"),
    )
    episode_usd: float | None = field(
        default=None,
        metadata=_about(
            "Dollars an episode may cost (default 25 where the model has a price).", "X"
        ),
    )
    campaign_usd: float | None = field(
        default=None,
        metadata=_about(
            "Dollars the whole run may cost, earlier commands included; raise it to continue a run"
            " that has reached it.",
            "X",
        ),
    )
    decisions: int | None = field(
        default=None, metadata=_about("Decisions an episode may take (default 80).", "N")
    )
    silent_decisions: int | None = field(
        default=None,
        metadata=_about(
            "Decisions in a row without a valid tool call after which an episode has failed"
            " (default 3; 0: never, as in the paper).",
            "N",
        ),
    )
    steps: int | None = field(
        default=None,
        metadata=_about(
            "Control steps after which an episode ends, if fewer than the task's horizon.", "N"
        ),
    )
    episode_minutes: float | None = field(
        default=None, metadata=_about("Wall time after which an episode ends.", "X")
    )
    campaign_hours: float | None = field(
        default=None,
        metadata=_about("Wall time after which this command begins no more episodes.", "X"),
    )
    tau: float | None = field(default=None, metadata=_about("Commit threshold (default 0.5).", "X"))
    calibrated: Switch | None = field(
        default=None, metadata=_about("Whether outcomes correct stated confidences.", "on|off")
    )
    memory: Literal["chain", "fresh"] | None = field(
        default=None,
        metadata=_about(
            "chain: each episode sees what the ones before it left; fresh: cleared before each.",
            "chain|fresh",
        ),
    )
    references: int | None = field(
        default=None,
        metadata=_about("Own successes shown as references: 0, 1 or 2 (default).", "N"),
    )
    skeleton: Switch | None = field(
        default=None, metadata=_about("Whether the reliability summary is shown.", "on|off")
    )
    notes: Switch | None = field(
        default=None,
        metadata=_about("Whether the model may leave itself notes (default off).", "on|off"),
    )
    locate: Switch | None = field(
        default=None,
        metadata=_about(
            "Whether locate_pixel is offered (default: where the world has depth).", "on|off"
        ),
    )
    base_motion: Switch | None = field(
        default=None,
        metadata=_about("Whether driving is offered (default: where the robot can).", "on|off"),
    )
    plan_max: int | None = field(
        default=None, metadata=_about("Waypoints in a plan at most (default 24).", "N")
    )
    history: int | None = field(
        default=None, metadata=_about("Past acts shown with their reports (default 6).", "N")
    )
    rounds: int | None = field(
        default=None, metadata=_about("Model rounds a decision may take (default 6).", "N")
    )
    show_dollars: Switch | None = field(
        default=None,
        metadata=_about("Whether the model is told the dollars left (default off).", "on|off"),
    )
    image_size: int | None = field(
        default=None, metadata=_about("Side of the images in pixels (default 512).", "N")
    )
    effort: Effort | None = field(
        default=None,
        metadata=_about(
            "Reasoning effort asked for (default medium).", "none|minimal|low|medium|high"
        ),
    )
    temperature: float | Open | None = field(
        default=None,
        metadata=_about(
            "Sampling temperature; server: send none (default: 1.0 with chat:, as in the paper,"
            " else server).",
            "X|server",
        ),
    )
    top_p: float | Open | None = field(
        default=None,
        metadata=_about(
            "Nucleus sampling; server: send none (default: 0.95 with chat:, as in the paper, else"
            " server).",
            "X|server",
        ),
    )
    top_k: int | Open | None = field(
        default=None,
        metadata=_about(
            "Sampling among the N likeliest tokens; server: send none (default: 20 with chat:, as"
            " in the paper, else server).",
            "N|server",
        ),
    )
    context_tokens: int | None = field(
        default=None,
        metadata=_about(
            "With chat:, what the server's context holds, prompt and answer together (default"
            " 32768, as in the paper).",
            "N",
        ),
    )
    max_output_tokens: int | None = field(
        default=None, metadata=_about("Output tokens a request may have (default 8000).", "N")
    )
    prompt: Path | None = field(
        default=None,
        metadata=_about("A system prompt to fill instead of ours, for one arm.", "FILE"),
    )
    prices: Path | None = field(
        default=None,
        metadata=_about("A price file like the package's prices.toml; its rows win.", "FILE"),
    )
    round_size: int | None = field(
        default=None,
        metadata=_about(
            "Episodes of a chain that share one snapshot of memory and may run at once; 1 (default)"
            " is the paper's algorithm.",
            "N",
        ),
    )
    out: Path | None = field(
        default=None, metadata=_about("Run directory; the same command again continues it.", "RUN")
    )
    parallel: int | None = field(
        default=None,
        metadata=_about(
            "Processes, one for each core to use (default 1: all in this process); the records do"
            " not depend on it.",
            "N",
        ),
    )
    ray: str | None = field(
        default=None,
        metadata=_about(
            "Run on a Ray cluster instead: auto, HOST:PORT, or local to start one here (extra"
            " `ray`).",
            "ADDRESS",
        ),
    )
    slots: int | None = field(
        default=None,
        metadata=_about(
            "Episodes under way at once (default 16 a process): while some wait for the model,"
            " others simulate.",
            "N",
        ),
    )
    keep_images: Kept | None = field(
        default=None,
        metadata=_about(
            "all (default): every picture the model was sent; start: those of the start only, which"
            " references need.",
            "all|start",
        ),
    )
    image_format: ImageFormat | None = field(
        default=None,
        metadata=_about("png (default), or webp: lossless, a third smaller.", "png|webp"),
    )


FIELDS = tuple(f.name for f in fields(Options))
# What an arm with the base prompt cannot have: it plans one waypoint, without confidence, memory or
# grounding.
NOT_FOR_BASE = (
    "tau",
    "calibrated",
    "memory",
    "references",
    "skeleton",
    "locate",
    "plan_max",
    "notes",
)
FOR_EVERY_ARM = (
    "decisions",
    "silent_decisions",
    "episode_usd",
    "image_size",
    "history",
    "rounds",
    "base_motion",
    "show_dollars",
)
LEFT_OPEN = ("temperature", "top_p", "top_k")
SWITCHES = tuple(f.name for f in fields(Options) if "Switch" in str(f.type))


@dataclass(frozen=True)
class Settings:
    """A campaign, resolved."""

    tasks: tuple[tuple[str, str], ...]  # (world, task)
    arms: tuple[MethodSettings, ...]
    model: str
    starts: tuple[int, ...]
    until_successes: int | None = None
    max_starts: int | None = None
    seed: int = 0
    campaign_usd: Decimal | None = None
    campaign_hours: float | None = None
    limits: Limits = NO_LIMITS
    sampling: Sampling = DEFAULT_SAMPLING
    chat: ChatSettings | None = None  # of a chat: model
    prompt: Path | None = None
    prices: Path | None = None
    round_size: int = 1
    out: Path = NOWHERE
    parallel: int = 1
    ray: str | None = None
    slots: int | None = None
    keep_images: Kept = "all"
    image_format: ImageFormat = "png"
    typed: frozenset[str] = frozenset()  # what the user said, wherever

    @property
    def identity(self) -> dict[str, Any]:
        """What the records of the run depend on. Tasks, arms and starts may be added to a run; what
        is here stays as it is.
        """
        return {
            "command": "collect",
            "model": self.model,
            "seed": self.seed,
            "round_size": self.round_size,
            "limits": asdict(self.limits),
            "sampling": asdict(self.sampling),
            **({} if self.chat is None else {"chat": asdict(self.chat)}),
            "prompt": None if self.prompt is None else self.prompt.read_text(encoding="utf-8"),
            "tasks": [f"{world}:{task}" for world, task in self.tasks],
            "arms": {a.name: _arm_identity(a) for a in self.arms},
        }

    def as_begun(self, manifest: Mapping[str, Any]) -> Settings:
        """These settings for a run that began without `silent_decisions`: its arms go on without,
        unless the user asks for it.
        """
        held = manifest.get("settings", {}).get("arms", {})
        old = {
            name
            for name, values in held.items()
            if "silent_decisions" not in values and "silent_decisions" not in self.typed
        }
        arms = (
            (
                replace(a, silent_decisions=0)
                if a.name in old and a.silent_decisions == SILENT_DECISIONS
                else a
            )
            for a in self.arms
        )
        return replace(self, arms=tuple(arms))

    @property
    def plan(self) -> dict[str, Any]:
        """What a later command may change: how far to go, what to spend, what to keep."""
        return {
            "starts": list(self.starts),
            "until_successes": self.until_successes,
            "max_starts": self.max_starts,
            "campaign_usd": None if self.campaign_usd is None else str(self.campaign_usd),
            "campaign_hours": self.campaign_hours,
            "keep_images": self.keep_images,
            "image_format": self.image_format,
            "engine": {"parallel": self.parallel, "ray": self.ray, "slots": self.slots},
        }


def _arm_identity(arm_: MethodSettings) -> dict[str, Any]:
    """An arm for the manifest. Runs from before `silent_decisions` lack it: absent means off, so
    that they stay what they are.
    """
    return {k: v for k, v in asdict(arm_).items() if k != "silent_decisions" or v}


def read_config(path: Path) -> dict[str, Any]:
    """A TOML file as a mapping; one that cannot be read is refused with a sentence."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CapexError(
            f"the config file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise CapexError(f"the config file {path} is not TOML: {error}") from None


def resolve(
    names: str | Sequence[str],
    given: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    *,
    dry: bool = False,
) -> Settings:
    """Settings from what was said: `given` (flags or keywords, None where nothing was said) wins
    over `config`, that over the defaults.

    `dry`: nothing will be written, so no run directory needs to be named.
    """
    file = {str(k).replace("-", "_"): v for k, v in (config or {}).items()}
    tasks, arm_tables = file.pop("tasks", ()), file.pop("arms", {})
    flags = {k: v for k, v in given.items() if v is not None}
    for name in (*file, *flags):
        if name not in FIELDS:
            raise UnknownName("setting", name, ("tasks", "arms", *FIELDS), where=" of a campaign")
    said = {k: _checked(k, v) for k, v in {**file, **flags}.items()}
    listed = [names] if isinstance(names, str) else list(names)
    listed = listed or ([tasks] if isinstance(tasks, str) else [str(t) for t in tasks])
    if not listed:
        raise CapexError(
            "no task was named; write WORLD:TASK, for example kitchen:CloseFridge, or tasks = [..]"
            " in the config file"
        )
    if "out" not in said and not dry:
        raise CapexError("no run directory was named; write --out runs/NAME")
    if "ray" in said and said.get("parallel", 1) > 1:
        raise CapexError(
            f"--parallel {said['parallel']} and --ray {said['ray']} are two engines; give one of"
            " them"
        )
    arms = _arms(said, arm_tables)
    if said.get("prompt") is not None and len(arms) > 1:
        raise CapexError(
            f"--prompt fills one arm's prompt, and {len(arms)} arms were named; collect them with"
            " commands of their own"
        )
    sampling = Sampling(
        **{
            f.name: said[f.name]
            for f in fields(Sampling)
            if f.name in said and said[f.name] != "server"
        }
    )
    minutes = said.get("episode_minutes")
    return Settings(
        tasks=tuple(parse_names(listed)),
        arms=arms,
        model=said.get("model", "pilot"),
        starts=tuple(said.get("starts", range(20))),
        until_successes=said.get("until_successes"),
        max_starts=said.get("max_starts"),
        seed=said.get("seed", 0),
        campaign_usd=None if "campaign_usd" not in said else Decimal(str(said["campaign_usd"])),
        campaign_hours=said.get("campaign_hours"),
        limits=Limits(said.get("steps"), None if minutes is None else 60.0 * minutes),
        sampling=sampling,
        chat=_chat(said, sampling),
        prompt=said.get("prompt"),
        prices=said.get("prices"),
        round_size=said.get("round_size", 1),
        out=said.get("out", NOWHERE),
        parallel=said.get("parallel", 1),
        ray=said.get("ray"),
        slots=said.get("slots"),
        keep_images=said.get("keep_images", "all"),
        image_format=said.get("image_format", "png"),
        typed=frozenset(said),
    )


def _chat(said: Mapping[str, Any], sampling: Sampling) -> ChatSettings | None:
    """What a chat: server is sent and can hold: what was said, else the paper's values. None for
    every other kind of model.
    """
    model = said.get("model", "pilot")
    if model.partition(":")[0] not in CHAT_KINDS:
        if "context_tokens" in said:
            raise CapexError(
                "--context-tokens bounds what is sent to a chat: or chat-text: server, and the"
                f" model is {model}; leave it out"
            )
        return None
    given: dict[str, Any] = {f.name: said[f.name] for f in fields(ChatSettings) if f.name in said}
    chat = ChatSettings(**(given | {k: None for k, v in given.items() if v == "server"}))
    if chat.context_tokens <= sampling.max_output_tokens:
        answer = f"an answer of up to {sampling.max_output_tokens} tokens"
        raise CapexError(
            f"a context of {chat.context_tokens} tokens has no room beside {answer}; lower"
            " --max-output-tokens"
        )
    return chat


def _arms(said: Mapping[str, Any], tables: Any) -> tuple[MethodSettings, ...]:
    """The arms by name, presets or tables of the config file, with every override that means
    something to them.
    """
    if not isinstance(tables, Mapping) or not all(
        isinstance(table, Mapping) for table in tables.values()
    ):
        raise CapexError(
            "'arms' in the config file must hold tables: [arms.NAME] with preset = \"capex\" and"
            " what differs"
        )
    own = {name: _own_arm(name, table) for name, table in tables.items()}
    names = [n.strip() for n in said.get("arm", ",".join(own) or "capex").split(",") if n.strip()]
    if not names:
        raise CapexError(
            f"--arm is '{said['arm']}', which names no arm; write {', '.join(PRESETS)}, several"
            " with commas"
        )
    arms = []
    for name in dict.fromkeys(names):
        if name not in own and name not in PRESETS:
            raise UnknownName("arm", name, {**PRESETS, **own})
        base = own.get(name) or arm(name)
        meant = FOR_EVERY_ARM + (() if base.prompt == "base" else NOT_FOR_BASE)
        arms.append(replace(base, **{k: _arm_value(k, said[k]) for k in meant if k in said}))
    for name in NOT_FOR_BASE:
        if name in said and all(a.prompt == "base" for a in arms):
            flag = name.replace("_", "-")
            raise CapexError(
                f"--{flag} means nothing to the arm {arms[0].name}, which has one waypoint, no"
                " confidence and no memory"
            )
    return tuple(arms)


def _own_arm(name: str, table: Mapping[str, Any]) -> MethodSettings:
    if "--" in name or "/" in name or name.startswith(".") or name in PRESETS or name == "expert":
        raise CapexError(
            f"[arms.{name}] cannot be the name of an arm of your own; choose one without --, / and"
            " unlike the presets'"
        )
    known = {f.name for f in fields(MethodSettings)} - {"name", "prompt"}
    for key in table:
        if key != "preset" and key not in known:
            raise UnknownName(
                "setting", key, ("preset", *sorted(known)), where=f" of [arms.{name}]"
            )
    overrides = {
        k: _arm_value(k, _checked(k, v) if k in FIELDS else v)
        for k, v in table.items()
        if k != "preset"
    }
    return replace(arm(str(table.get("preset", "capex"))), name=name, **overrides)


def _arm_value(name: str, value: Any) -> Any:
    return value == "on" if name in SWITCHES else value


# name -> (type, lowest, highest)
_NUMBERS: dict[str, tuple[type, float, float]] = {
    "until_successes": (int, 1, math.inf),
    "max_starts": (int, 1, math.inf),
    "seed": (int, 0, 2**31 - 1),
    "episode_usd": (float, 0, math.inf),
    "campaign_usd": (float, 0, math.inf),
    "decisions": (int, 1, 10_000),
    "silent_decisions": (int, 0, 10_000),
    "steps": (int, 1, math.inf),
    "episode_minutes": (float, 0, math.inf),
    "campaign_hours": (float, 0, math.inf),
    "tau": (float, 0, 1),
    "references": (int, 0, 2),
    "plan_max": (int, 1, 24),
    "history": (int, 1, 100),
    "rounds": (int, 1, 20),
    "image_size": (int, *IMAGE_SIZES),
    "temperature": (float, 0, 2),
    "top_p": (float, 0, 1),
    "top_k": (int, 1, 1_000_000),
    "context_tokens": (int, 1, 100_000_000),
    "max_output_tokens": (int, 1, 1_000_000),
    "round_size": (int, 1, 1000),
    "parallel": (int, 1, 1024),
    "slots": (int, 1, 10_000),
}
_WORDS: dict[str, tuple[str, ...]] = {
    "memory": ("chain", "fresh"),
    "effort": get_args(Effort),
    "keep_images": get_args(Kept),
    "image_format": FORMATS,
    **{name: get_args(Switch) for name in SWITCHES},
}


def _checked(name: str, value: Any) -> Any:
    """A value of the right type and range, or a sentence."""
    if name in LEFT_OPEN and value == "server":
        return value
    if name in _NUMBERS:
        kind, low, high = _NUMBERS[name]
        right = isinstance(value, int if kind is int else int | float) and not isinstance(
            value, bool
        )
        if not right or not math.isfinite(value) or not low <= value <= high:
            whole = "a whole number" if kind is int else "a number"
            bounds = f"of at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
            word = ", or the word server" if name in LEFT_OPEN else ""
            raise CapexError(f"{name} is {value!r}; it must be {whole} {bounds}{word}")
        return kind(value)
    if name in SWITCHES and isinstance(value, bool):
        return "on" if value else "off"
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise CapexError(f"{name} is {value!r}; valid: {', '.join(_WORDS[name])}")
        return value
    if name == "starts":
        return _starts(value)
    if name in ("prompt", "prices"):
        path = Path(value)
        try:
            path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CapexError(
                f"the {'prompt' if name == 'prompt' else 'price'} file {path} cannot be read:"
                f" {reason}"
            ) from None
        return path
    if name == "out":
        return Path(value)
    if name == "arm" and not isinstance(value, str) and isinstance(value, Sequence):
        return ",".join(str(v) for v in value)
    if not isinstance(value, str):
        raise CapexError(f"{name} is {value!r}; it must be a text")
    return value


def _starts(value: Any) -> list[int]:
    if isinstance(value, str):
        return parse_starts(value)
    listed = (
        [value]
        if isinstance(value, int)
        else list(value)
        if isinstance(value, Sequence | range)
        else []
    )
    if not listed or not all(
        isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in listed
    ):
        raise CapexError(f"starts is {value!r}; {STARTS_EXAMPLE}")
    return list(dict.fromkeys(listed))
