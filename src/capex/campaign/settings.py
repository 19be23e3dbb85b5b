"""The settings of a campaign, by flag, in a TOML file or in Python, and what they resolve to.

`Settings` declares those of a campaign, `MethodSettings` those of a method; `OPTIONS` is both. The
flags of the command line, the keys of a config file and the keywords of `capex.collect` are its
names. Flags win over the file, the file over the defaults.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from capex.campaign import world_files
from capex.campaign.names import (
    checked_hints,
    checked_resources,
    listed_names,
    parse_names,
    read_dollars,
    read_starts,
    readable,
)
from capex.errors import CapexError, ErrorCode, UnknownName
from capex.method.context import Limits
from capex.method.presets import PRESETS, SILENT_DECISIONS, MethodSettings, PlanSetting, preset
from capex.method.prompts import read_hints
from capex.models import CHAT_KINDS, ChatSettings, Effort, Sampling
from capex.models.pictures import ImageFormat
from capex.run.manifest import EnginePlan, Manifest, RunPlan
from capex.run.pace import Rate
from capex.setting import Setting, as_flag, declared

Order = Literal["interleave", "turn", "allocate"]
Open = Literal["server"]  # a sampling setting that is left to the server
NOWHERE = Path(os.devnull)  # the run directory of a dry run that names none
FORMER_IMAGE_SIZE = 512  # the default before it was each camera's own size
# The code says method, records and older files say arm; users may say either.
ALIASES = {"method": "arm", "methods": "arms"}


@dataclass(frozen=True)
class Settings:
    """A campaign: every setting that is not a method's, and what was resolved from them."""

    tasks: tuple[tuple[str, str], ...]  # (world, task)
    methods: tuple[MethodSettings, ...]
    typed: frozenset[str] = frozenset()  # the settings that the user gave, wherever
    chat: ChatSettings | None = None  # of a chat: model
    arm: Annotated[str, Setting(metavar="NAME[,NAME..]", read=listed_names)] = "capex"
    """Arms by name, several with commas; they share the starts, in the same order: capex (default),
    base, capex-fresh, capex-stated, capex-no-PART (skeleton, references or commitment), and past
    the paper capex-failures and capex-transfer."""
    prior: Annotated[str | None, Setting(metavar="RUN[,RUN..]", read=listed_names)] = None
    """Earlier runs whose labels of other tasks capex-transfer begins with (default: none)."""
    model: Annotated[str, Setting(metavar="MODEL")] = "pilot"
    """{default} (default), openai:NAME, chat:NAME@URL, chat-text:NAME@URL, anthropic:NAME,
    cassette:RUN, script:FILE, apprentice:SKILL,SEED."""
    starts: Annotated[tuple[int, ...], Setting(metavar="STARTS", read=read_starts)] = tuple(
        range(20)
    )
    """Start indices: 0:20 (default, the starts 0 to 19), 7 or 1,4,9."""
    until_successes: Annotated[int | None, Setting(1)] = None
    """Go on over further starts until each chain has this many successes (default: only
    --starts)."""
    max_starts: Annotated[int | None, Setting(1)] = None
    """With --until-successes: give up on a chain after this many starts (default: never)."""
    seed: Annotated[int, Setting(0, 2**31 - 1)] = 0
    """Another seed gives other starts under the same indices (default {default})."""
    campaign_usd: Annotated[Decimal | None, Setting(0, metavar="USD", read=read_dollars)] = None
    """Dollars the whole run may cost, earlier commands included; raise it to continue a run that
    has reached it (default: that of the run's earlier commands, else no limit, above $25 you are
    asked first)."""
    steps: Annotated[int | None, Setting(1)] = None
    """Control steps, 20 a second, after which an episode ends, if fewer than the task's horizon
    (default: the horizon)."""
    episode_minutes: Annotated[float | None, Setting(0, metavar="MINUTES")] = None
    """Wall time after which an episode ends (default: no limit)."""
    campaign_hours: Annotated[float | None, Setting(0, metavar="HOURS")] = None
    """Wall time after which this command begins no more episodes (default: no limit)."""
    requests_per_minute: Annotated[int | None, Setting(1)] = None
    """Requests that may be sent in any minute, by all processes and nodes together (default: no
    limit)."""
    tokens_per_minute: Annotated[int | None, Setting(1)] = None
    """The same for tokens; a request counts with its largest answer until its own is known
    (default: no limit)."""
    effort: Annotated[Effort | None, Setting()] = None
    """Reasoning effort asked for (default medium)."""
    temperature: Annotated[float | Open | None, Setting(0, 2)] = None
    """Sampling temperature, 0 to 2; server: send none (default: 1.0 with chat:, as in the paper,
    else server)."""
    top_p: Annotated[float | Open | None, Setting(0, 1)] = None
    """Nucleus sampling, 0 to 1; server: send none (default: 0.95 with chat:, as in the paper, else
    server)."""
    top_k: Annotated[int | Open | None, Setting(1, 1_000_000)] = None
    """Sampling among the N likeliest tokens; server: send none (default: 20 with chat:, as in the
    paper, else server)."""
    context_tokens: Annotated[int | None, Setting(1, 100_000_000)] = None
    """With chat:, tokens that the server's context holds, prompt and answer together (default
    32768, as in the paper)."""
    max_output_tokens: Annotated[int | None, Setting(1, 1_000_000)] = None
    """Output tokens a request may have (default 8000)."""
    prompt: Annotated[Path | None, Setting(metavar="FILE", read=readable("prompt"))] = None
    """A system prompt to fill instead of ours, for one arm (default: ours)."""
    hints: Annotated[Path | None, Setting(metavar="FILE", read=checked_hints)] = None
    """Passages about the robot and the task that are added to every arm's system prompt, at most
    4000 characters (default: none but the world's own)."""
    prices: Annotated[Path | None, Setting(metavar="FILE", read=readable("price"))] = None
    """A price file like the package's prices.toml, in dollars per million tokens; its rows win
    (default: the package's)."""
    round_size: Annotated[int, Setting(1, 1000)] = 1
    """Episodes of a chain that share one snapshot of memory and may run at once; {default}
    (default) is the paper's algorithm."""
    out: Annotated[Path, Setting(metavar="RUN")] = NOWHERE
    """Run directory; the same command again continues it. Needed unless
    --dry-run is given."""
    parallel: Annotated[int, Setting(1, 1024)] = 1
    """Processes, one for each core to use (default {default}: all in this process); the records do
    not depend on it."""
    ray: Annotated[str | None, Setting(metavar="ADDRESS")] = None
    """Run on a Ray cluster instead: auto, HOST:PORT, or local to start one here; extra `ray`
    (default: none)."""
    ray_resources: Annotated[str | None, Setting(metavar="NAME=N[,..]", read=checked_resources)] = (
        None
    )
    """What an attempt takes of a node of the cluster, named as the cluster does: CPU=0.5,GPU=0.1
    (default CPU=0.25: most of its time it waits for its model)."""
    slots: Annotated[int | None, Setting(1, 10_000)] = None
    """Episodes under way at once (default 16 a process): while some wait for the model, others
    simulate."""
    order: Annotated[Order, Setting()] = "interleave"
    """{default} (default): tasks and arms take turns at each start; turn: one after the other;
    allocate: what --allocate says. On a robot one attempt runs at a time."""
    operator: Annotated[Literal["person", "scripted"] | None, Setting()] = None
    """Who arranges and judges a robot's attempts: person, at this terminal, or scripted, a stand-in
    that only a simulated room has (default: what the robot's file says)."""
    arrangements: Annotated[Path | None, Setting(metavar="SOURCE")] = None
    """Take a robot's starts from here: another run (trial N then starts from the arrangement of its
    trial N), a folder of pictures (0007.png, 0007/front.png) or a LeRobot folder (default: a
    start's first attempt makes its arrangement, and the other arms match it)."""
    keep_images: Annotated[Literal["all", "start"], Setting()] = "all"
    """{default} (default): every picture the model was sent; start: those of the start only, which
    references need."""
    image_format: Annotated[ImageFormat, Setting()] = "png"
    """{default} (default), or webp: lossless, a third smaller."""
    judge: Annotated[Literal["now", "later"], Setting()] = "now"
    """Where a person judges: {default} (default) asks after each attempt, because memory needs it;
    later goes on without, and `capex judge RUN` asks."""

    @property
    def limits(self) -> Limits:
        """What ends an episode besides its method and its task."""
        minutes = self.episode_minutes
        return Limits(self.steps, None if minutes is None else 60.0 * minutes)

    @property
    def rate(self) -> Rate | None:
        """What the provider lets pass in a minute; None without a limit."""
        rate = Rate(self.requests_per_minute, self.tokens_per_minute)
        return None if rate == Rate() else rate

    @property
    def hints_text(self) -> str:
        """The passages of the hints file; nothing without one."""
        return "" if self.hints is None else read_hints(self.hints)

    @property
    def sampling(self) -> Sampling:
        """What a request asks for: what was given, else the defaults of `Sampling`."""
        given = {f.name: getattr(self, f.name) for f in fields(Sampling)}
        return Sampling(**{k: v for k, v in given.items() if v not in (None, "server")})

    @property
    def identity(self) -> dict[str, Any]:
        """What the records of the run depend on. Tasks, methods and starts may be added to a run;
        what is here stays as it is.
        """
        return {
            "command": "collect",
            "model": self.model,
            "seed": self.seed,
            "round_size": self.round_size,
            "limits": asdict(self.limits),
            "sampling": asdict(self.sampling),
            **({} if self.chat is None else {"chat": asdict(self.chat)}),
            **({} if self.arrangements is None else {"arrangements": str(self.arrangements)}),
            **({world_files.KEY: held} if (held := world_files.contents(self.tasks)) else {}),
            "prompt": None if self.prompt is None else self.prompt.read_text(encoding="utf-8"),
            **({} if self.hints is None else {"hints": self.hints_text}),
            "tasks": [f"{world}:{task}" for world, task in self.tasks],
            "arms": {method.name: _identity(method) for method in self.methods},
        }

    def as_begun(self, manifest: Manifest) -> Settings:
        """These settings for a run that has begun. Its budget holds unless the user gives another.
        Where a default changed since, its methods go on without `silent_decisions` and with images
        of 512 pixels, unless the user asks otherwise.
        """
        arms = manifest.recorded.arms
        methods = []
        for method in self.methods:
            begun = arms.get(method.name, method)
            silent = "silent_decisions" in self.typed or begun.silent_decisions
            if not silent and method.silent_decisions == SILENT_DECISIONS:
                method = replace(method, silent_decisions=0)
            sized = "image_size" in self.typed or begun.image_size != FORMER_IMAGE_SIZE
            if not sized and method.image_size is None:
                method = replace(method, image_size=FORMER_IMAGE_SIZE)
            methods.append(method)
        usd = self.campaign_usd
        if "campaign_usd" not in self.typed:
            kept = manifest.plan.campaign_usd
            setting = OPTIONS["campaign_usd"]
            usd = None if kept is None else setting.checked("the budget in the manifest", str(kept))
        return replace(self, methods=tuple(methods), campaign_usd=usd)

    @property
    def keeps_budget(self) -> bool:
        """Whether the campaign's budget is that of an earlier command."""
        return self.campaign_usd is not None and "campaign_usd" not in self.typed

    @property
    def plan(self) -> RunPlan:
        """What a later command may change: how far to go, what to spend, what to keep."""
        return RunPlan(
            starts=self.starts,
            until_successes=self.until_successes,
            max_starts=self.max_starts,
            campaign_usd=self.campaign_usd,
            campaign_hours=self.campaign_hours,
            keep_images=self.keep_images,
            image_format=self.image_format,
            engine=EnginePlan(parallel=self.parallel, ray=self.ray, slots=self.slots),
            order=self.order,
            judge=self.judge,
        )


CAMPAIGN, METHOD = declared(Settings), declared(MethodSettings)
OPTIONS = CAMPAIGN | {name: setting for name, setting in METHOD.items() if setting.help}


def _identity(method: MethodSettings) -> dict[str, Any]:
    """A method for the manifest. Older runs lack the settings of `later`: absent means off."""
    later = ("silent_decisions", "task_tau", "failures", "transfer", "priors")
    return {k: v for k, v in asdict(method).items() if k not in later or v}


def read_config(path: Path) -> dict[str, Any]:
    """A TOML file as a mapping; one that cannot be read is refused with a sentence."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CapexError(
            f"the config file {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise CapexError(
            f"the config file {path} is not TOML: {error}", code=ErrorCode.UNREADABLE_FILE
        ) from None


def resolve(
    names: str | Sequence[str],
    given: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    *,
    dry: bool = False,
    presets: Mapping[str, MethodSettings] = PRESETS,
) -> Settings:
    """`given` wins over `config`, that over the defaults; None says nothing. `dry`: without out."""
    file = _by_name(config or {})
    tasks, arms = file.pop("tasks", ()), file.pop("arms", {})
    tables = ("tasks", "arms", "methods")
    for source, valid in ((given, OPTIONS), (config or {}, (*tables, *OPTIONS))):
        for key in source:
            name = key.replace("-", "_")
            if name not in valid and name != "method" and source[key] is not None:
                raise UnknownName("setting", key, ("method", *valid), where=" of a campaign")
    values = file | _by_name(given)
    said = {name: OPTIONS[name].checked(name, value) for name, value in values.items()}
    listed = [names] if isinstance(names, str) else list(names)
    listed = listed or ([tasks] if isinstance(tasks, str) else [str(t) for t in tasks])
    if not listed:
        raise CapexError(
            "no task was named; write WORLD:TASK, for example kitchen:CloseFridge, or tasks = [..]"
            " in the config file",
            code=ErrorCode.MISSING_SETTING,
        )
    if "out" not in said and not dry:
        raise CapexError(
            "no run directory was named; write --out runs/NAME", code=ErrorCode.MISSING_SETTING
        )
    if "ray_resources" in said and "ray" not in said:
        raise CapexError(
            "--ray-resources is what attempts take of a cluster; give --ray too",
            code=ErrorCode.MISSING_SETTING,
        )
    if "ray" in said and said.get("parallel", 1) > 1:
        raise CapexError(
            f"--parallel {said['parallel']} and --ray {said['ray']} are two engines; give one of"
            " them",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    written = (key for source in (given, config or {}) for key in source if source[key] is not None)
    word = next((key for key in written if key in ("arm", "method")), "arm")
    methods = _methods(said, arms, word, presets)
    if "prompt" in said and len(methods) > 1:
        raise CapexError(
            f"--prompt fills the prompt of one {word}, and {len(methods)} {word}s were named;"
            " collect them with commands of their own",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    settings = Settings(
        tasks=tuple(parse_names(listed)),
        methods=methods,
        typed=frozenset(said),
        **{name: value for name, value in said.items() if name in CAMPAIGN},
    )
    return replace(settings, chat=_chat(settings))


def _by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, under the settings' own names; None says nothing."""
    said: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        name = ALIASES.get(name, name)
        if value is not None and name in said:
            raise CapexError(
                f"'{key}' is another name of '{name}'; give one of them",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
        said |= {} if value is None else {name: value}
    return said


def _chat(settings: Settings) -> ChatSettings | None:
    """What a chat: server is sent and can hold: what was said, else the paper's values. None for
    every other kind of model.
    """
    if settings.model.partition(":")[0] not in CHAT_KINDS:
        if settings.context_tokens is not None:
            raise CapexError(
                "--context-tokens bounds what is sent to a chat: or chat-text: server, and the"
                f" model is {settings.model}; leave it out",
                code=ErrorCode.NOT_APPLICABLE,
            )
        return None
    given = {f.name: getattr(settings, f.name) for f in fields(ChatSettings)}
    values: Any = {k: None if v == "server" else v for k, v in given.items() if v is not None}
    chat = replace(ChatSettings(), **values)
    answer = settings.sampling.max_output_tokens
    if chat.context_tokens <= answer:
        raise CapexError(
            f"--context-tokens {chat.context_tokens} has no room beside an answer of up to"
            f" {answer} tokens; raise it, or lower --max-output-tokens",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    return chat


def _methods(
    said: Mapping[str, Any], tables: Any, word: str, presets: Mapping[str, MethodSettings]
) -> tuple[MethodSettings, ...]:
    """The methods by name, presets or tables of the config file, with every override that means
    something to them. `word`: what the user calls them, arm or method.
    """
    if not isinstance(tables, Mapping) or not all(
        isinstance(table, Mapping) for table in tables.values()
    ):
        raise CapexError(
            "'arms' in the config file must hold tables: [arms.NAME] with preset = \"capex\" and"
            " what differs",
            code=ErrorCode.BAD_SETTING,
        )
    own = {name: _own_method(name, table) for name, table in tables.items()}
    names = [n.strip() for n in said.get("arm", ",".join(own) or "capex").split(",") if n.strip()]
    if not names:
        raise CapexError(
            f"--{word} is '{said['arm']}', which names no {word}; write {', '.join(PRESETS)},"
            " several with commas",
            code=ErrorCode.BAD_SETTING,
        )
    known = {**presets, **own}
    overrides = {name: value for name, value in said.items() if name in METHOD.keys() - CAMPAIGN}
    methods = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise UnknownName(word, name, known)
        meant = {k: v for k, v in overrides.items() if _means(known[name], k)}
        methods.append(replace(known[name], **meant))
    for name in overrides:
        if not any(_means(method, name) for method in methods):
            raise CapexError(
                f"{as_flag(name)} means nothing to the {word} {methods[0].name}, which has one"
                " waypoint, no confidence and no memory",
                code=ErrorCode.NOT_APPLICABLE,
            )
    return tuple(methods)


def _means(method: MethodSettings, name: str) -> bool:
    """Whether a setting means something to a method."""
    return method.prompt != "base" or not isinstance(METHOD[name], PlanSetting)


def _own_method(name: str, table: Mapping[str, Any]) -> MethodSettings:
    if "--" in name or "/" in name or name.startswith(".") or name in PRESETS or name == "expert":
        raise CapexError(
            f"[arms.{name}] cannot be the name of an arm of your own; choose one without --, / and"
            " unlike the presets'",
            code=ErrorCode.BAD_SETTING,
        )
    overrides = {}
    for typed, value in table.items():
        key = typed.replace("-", "_")
        if key == "preset":
            continue
        if key not in METHOD:
            valid = ("preset", *sorted(METHOD))
            raise UnknownName("setting", key, valid, where=f" of [arms.{name}]")
        overrides[key] = METHOD[key].checked(key, value)
    return replace(preset(str(table.get("preset", "capex"))), name=name, **overrides)
