"""Help pages as a reader meets them: groups, defaults, examples that parse, lines that fit; and
completion as a shell asks for it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import tyro
from tyro.conf import DisallowNone, OmitSubcommandPrefixes, Positional, subcommand

from capex.campaign.settings import OPTIONS
from capex.cli import COMMANDS, EXAMPLES, SECTIONS, main, parse
from capex.cli.collect import OTHER_NAMES, Collect
from capex.cli.help import arguments, command_page, groups, pages, shell_lines
from capex.registry import load

PAGES = pages({name: load(target) for name, (target, _) in COMMANDS.items()})
NAMES = list(PAGES)
WIDTHS = (60, 80, 120)
# What a generator of parsers writes where a person should have written a word.
GARBAGE = re.compile(r"None|\{|\}|\bSTR\b|\bINT\b|\bFLOAT\b|default: \)|default ''|<class|Path\(")


def _kind(name: str) -> type:
    return PAGES[name]


@pytest.fixture
def say(monkeypatch, capsys):
    """What a command line answers: its exit status, what it prints, what it complains of."""

    def answer(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["capex", *words])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return answer


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_and_says_everything_in_words(name, width):
    page = command_page(name, _kind(name), width).plain
    assert max(len(line) for line in page.splitlines()) <= min(width, 100), page
    assert not (found := GARBAGE.findall(page)), found
    assert page.startswith(f"Usage: capex {name}")
    for argument in arguments(_kind(name)):
        typed = [*argument.flags, *argument.metavar.split()]
        assert all(word in page for word in typed), argument


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_takes_a_value_says_what_holds_without_it(name):
    for argument in arguments(_kind(name)):
        assert argument.text.endswith("."), argument
        free = argument.metavar and argument.flags and not argument.required
        if free and (name, argument.name) != ("collect", "out"):
            assert "default" in argument.text, argument


@pytest.mark.parametrize("name", NAMES)
def test_a_page_names_the_flags_that_the_parser_takes(name, capsys):
    with pytest.raises(SystemExit):
        tyro.cli(_kind(name), args=["--help"], prog="capex", config=(DisallowNone,))
    taken = set(re.findall(r"(?<=[\s\[])--[a-z][a-z-]*(?= |\n|,)", capsys.readouterr().out))
    named = {flag for argument in arguments(_kind(name)) for flag in argument.flags}
    assert named <= taken
    spoken_of = {"--help", "--format", "--out", "--until-successes", "--campaign-usd", "--init"}
    assert {f for f in taken - named if not f.startswith("--no-")} <= spoken_of


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*NAMES, ""])
def test_every_command_has_two_examples_that_it_takes(name, width):
    examples = _kind(name).EXAMPLES if name else EXAMPLES
    assert len(examples) == 2
    for line in examples.values():
        lines = list(shell_lines(line, width))
        assert max(map(len, lines)) <= width
        words = shlex.split("\n".join(lines).replace("\\\n", ""))  # as a shell does
        assert words == shlex.split(line)
        while re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        assert words[0] == "capex"
        assert " ".join(words[1:]).startswith(name)
        command = parse(words[1:])
        if isinstance(command, Collect):
            command.given()


def test_collect_groups_its_options():
    titles = groups(Collect)
    assert list(titles) == [
        *("What to run", "Budgets", "Method", "Model", "Rig", "Engine", "Output")
    ]
    listed = {a.name for members in titles.values() for a in members}
    assert set(OPTIONS) <= listed
    (arm,) = (a for a in titles["What to run"] if a.name == "arm")
    assert arm.flags == ("--arm", *(f"--{other}" for other in OTHER_NAMES))


@dataclass
class Look:
    """Look at something."""

    path: Positional[Path]
    """What to look at."""


@dataclass
class Touch:
    """Touch something."""

    softly: bool = False
    """With a feather."""


@dataclass
class Both:
    """Two commands under one name."""

    command: OmitSubcommandPrefixes[
        Annotated[Look, subcommand("look")] | Annotated[Touch, subcommand("touch")]
    ]


def test_a_command_of_commands_lists_them_and_each_has_its_page():
    known = pages({"both": Both})
    assert known == {"both": Both, "both look": Look, "both touch": Touch}
    page = command_page("both", Both, 80).plain
    assert page.startswith("Usage: capex both look|touch ..\n")
    assert "  capex both look       Look at something.\n" in page
    page = command_page("both look", Look, 80).plain
    assert page.startswith("Usage: capex both look PATH\n")
    assert "--softly" in command_page("both touch", Touch, 60).plain


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_capex_itself_lists_its_commands_one_line_each(words, say, monkeypatch):
    code, out, err = say(*words)
    assert (code, err) == (0, "")
    for title, section in SECTIONS.items():
        assert f"\n{title}\n" in out
        for name, (_, summary) in section.items():
            line = f"  {name:<10}{summary}" if len(name) <= 8 else f"  {name}  {summary}"
            assert f"\n{line}\n" in out
            assert len(line) <= 60
    assert out.index("  demo ") < out.index("  collect ") < out.index("  bench ")


def test_help_is_asked_for_anywhere_on_the_line(say):
    for words in (("collect", "--help"), ("collect", "kitchen:CloseFridge", "--tau", "x", "-h")):
        code, out, err = say(*words)
        assert (code, err) == (0, "")
        assert "\nBudgets\n" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("colect",), "there is no command 'colect'; valid: collect, "),
        (("--tau", "0.4"), "there is no command before --tau; capex --help lists the commands"),
        (("--completion", "csh"), "--completion: there is no shell 'csh'; valid: "),
        (("--completion",), "--completion: there is no shell ''; valid: bash, "),
        (("export", "run", "--out", "d", "--max", "0"), "--max is 0; it must be at least 1"),
        (("export", "r", "--out", "d", "--max", "many"), "--max is 'many'; it must be a whole"),
        (
            ("export", "r", "--max-cost-usd=x", "--out", "d"),
            "--max-cost-usd is 'x'; it must be a n",
        ),
        (("train", "d", "--out", "o", "--policy", "foo"), "--policy is 'foo'; valid: act, diff"),
        (("policy", "play", "p"), "there is no command 'policy play'; valid: policy serve"),
        (("prompt", "--method", "capx"), "there is no method 'capx'; valid: capex"),
        (("check", "kitchen:CloseFridge", "--start", "-1"), "--start: there is no start -1 of"),
        (("demo", "--starts", "x"), "--starts: 'x' names no starts; write 0:20"),
        (("evaluate", "p", "kitchen:CloseFridge", "--starts", "x"), "--starts: 'x' names no"),
        (("train", "d", "--out", "o", "--set", "lr=0"), "--set lr is 0.0; it must be above 0"),
        (("train", "d", "--out", "o", "--set", "lrr=1"), "--set: there is no setting 'lrr' of"),
        (
            ("expert", "kitchen:CloseFridge", "--starts", "99999", "--out", "run"),
            "--starts: there is no start 99999 of kitchen:CloseFridge; valid: 0 to 9999",
        ),
    ],
)
def test_a_mistake_is_told_by_the_flag_that_was_typed(words, sentence, say, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = say(*words)
    assert code == 2
    assert err.startswith(f"capex: {sentence}"), err
    assert not list(tmp_path.iterdir())


def test_a_wrong_flag_is_explained_by_its_own_command_alone(say):
    code, out, err = say("collect", "--metod", "base")
    assert code == 2
    assert "--method" in out + err
    assert "capex collect --help" in out + err
    assert "capex prompt" not in out + err


COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
"$(complete -p capex | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory):
    """The script that `capex --completion bash` prints, in a file."""
    words = [sys.executable, "-m", "capex.cli", "--completion", "bash"]
    file = tmp_path_factory.mktemp("completion") / "capex"
    file.write_text(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return file


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("capex", "col"), {"collect"}),
        (("capex", "e"), {"expert", "export", "evaluate"}),
        (("capex", "collect", "--camp"), {"--campaign-usd", "--campaign-hours"}),
        (("capex", "collect", "--meth"), {"--method"}),
        (("capex", "train", "--policy", ""), {"act", "diffusion"}),
    ],
)
def test_bash_completes_commands_flags_and_choices(typed, offered, bash_script):
    answer = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", str(bash_script), *typed],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {word.strip() for word in answer.stdout.split()} == offered, answer.stderr


@pytest.mark.parametrize(
    ("shell", "begin"), [("zsh", "#compdef capex"), ("fish", "# AUTOMATICALLY")]
)
def test_the_other_shells_get_a_script(shell, begin, say):
    code, out, _ = say("--completion", shell)
    assert not code
    assert out.startswith(begin)
    assert "--until-successes" in out
