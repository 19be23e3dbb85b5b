"""Numbers after faults: records, spend.jsonl, status and report agree, whatever was cut off, continued, possibly billed or branched."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

import capex
from capex.campaign.repair import repair
from capex.campaign.replay import replay
from capex.campaign.status import read_status
from capex.cli.progress import forecast_sentence, table
from capex.errors import DamagedFile
from capex.models import ModelError, RequestAttempt
from capex.models.exchanges import read_times
from capex.report.compare import compare, totals
from capex.report.data import load
from capex.report.sections import SectionInput
from capex.report.sections.summary import summary
from capex.report.sources import group
from capex.run.files import read_json, write_json
from capex.run.spend import Account, Spend
from capex.run.summary import Taken, invalid_attempts, unrecorded
from lab.campaigns import collect, contents, price_file
from lab.model import LabModel

ONE = {"names": "lab.world:high", "arm": "base", "slots": 1, "starts": "0:3"}


class Flaky(LabModel):
    """Fails at one request: with an attempt that is billed as said, or, told to `stop`, by ending the process's work."""

    def __init__(self, rest: str, at: int, billed: str = "no"):
        super().__init__(rest)
        self._at, self._billed, self._asked = at, billed, 0

    def complete(self, request, observer=None):
        self._asked += 1
        if self._asked != self._at:
            return super().complete(request, observer)
        if self._billed == "stop":
            raise MemoryError("cut off")
        attempt = RequestAttempt(
            "timeout", self._billed, 60.0, kind="timeout", error="the server gave no answer in time"
        )
        observer.before(request, 1)
        observer.after(request, 1, attempt)
        raise ModelError("timeout", attempt.error, (attempt,))


def _sources(*paths):
    data = load(list(paths))
    return data, group(data)[0]


def _agree(path) -> Account:
    """Report and status have the sums of spend.jsonl."""
    account = Spend(path / "spend.jsonl").account()
    _, sources = _sources(path)
    rows = [row for s in sources for row in s.attempts]
    assert sum(r.requests for r in rows) == account.requests
    assert sum(r.wire_attempts for r in rows) == account.attempts
    assert sum(r.usd[0] for r in rows) == pytest.approx(float(account.settled_usd), abs=1e-9)
    assert sum(r.usd[1] for r in rows) == pytest.approx(float(account.total_usd), abs=1e-9)
    assert sum(r.tokens.output for r in rows) == account.tokens.output
    told = read_status(path).as_json()["total"]
    assert told["requests"] == account.requests
    assert (told["usd"], told["usd_at_most"]) == pytest.approx(
        (float(account.settled_usd), float(account.total_usd)), abs=1e-9
    )
    return account


def test_a_continued_attempt_is_counted_once(shm):
    run, _ = collect(shm / "run", **ONE, model=Flaky("", 4), prices=price_file(shm))
    (invalid,) = run.invalid
    assert invalid.note.continues
    assert invalid.note.ledger.requests > 0
    account = _agree(shm / "run")
    assert account.requests == sum(e.record.requests for e in run.episodes)
    assert account.settled_usd == sum(Decimal(str(e.record.cost_usd)) for e in run.episodes)
    _, (source,) = _sources(shm / "run")
    assert (
        totals(source).requests.per_attempt == account.requests / 4
    )  # three episodes and the attempt that failed


def test_an_attempt_that_nobody_continued_counts_whole(shm):
    run, _ = collect(shm / "run", **ONE, model=Flaky("", 4), prices=price_file(shm))
    (chain,) = run.chains
    (invalid,) = run.invalid
    alone = replace(chain, episodes=tuple(e for e in chain.episodes if e.index != invalid.index))
    ((_, taken),) = invalid_attempts(alone)
    assert taken.requests == invalid.note.ledger.requests
    assert invalid_attempts(chain)[0][1].requests == 0


@pytest.mark.parametrize("billed", ["unknown", "no"])
def test_a_request_that_may_have_been_billed_gives_an_interval_and_no_gap(shm, billed):
    run, _ = collect(shm / "run", **ONE, model=Flaky("", 4, billed), prices=price_file(shm))
    account = _agree(shm / "run")
    data, (source,) = _sources(shm / "run")
    line = totals(source)
    solved = line.tally.successes
    assert line.usd.value == pytest.approx(float(account.settled_usd) / solved)
    assert line.usd.most == pytest.approx(float(account.total_usd) / solved)
    assert line.usd.interval[0] <= line.usd.value
    assert line.usd.interval[1] >= line.usd.most
    status = read_status(shm / "run")
    (section,) = summary(SectionInput(data, [source], [line]))
    said = " ".join([*section.text, forecast_sentence(status.board.forecast())])
    if billed == "no":
        assert account.held_usd == 0
        assert " to $" not in said
    else:
        assert account.held_usd > 0
        low, high = status.board.total.usd_per_success
        assert f"at ${low:.2f} to ${high:.2f}" in said
        assert "some requests may have been billed" in said
        assert any(
            f"{low:.2f}-{high:.2f}" in cell
            for cell in table(status.board, "").tables[-1].columns[-1].cells
        )
        (chain,) = run.chains
        assert len(unrecorded(chain, Spend(shm / "run/spend.jsonl").slots())) == 1


def test_an_episode_with_a_request_of_unknown_bill_says_what_it_may_have_cost(shm):
    """The timeout is retried within the request, so that the episode's own record holds it."""

    class Retried(LabModel):
        def complete(self, request, observer=None):
            observer.before(request, 1)
            observer.after(
                request,
                1,
                RequestAttempt("timeout", "unknown", 60.0, kind="timeout", error="no answer"),
            )
            return super().complete(request, observer)

    run, _ = collect(shm / "run", **ONE, model=Retried(""), prices=price_file(shm))
    record = run.episodes[0].record
    assert record.cost_usd is None
    assert record.ledger.held_usd > 0
    _, (source,) = _sources(shm / "run")
    assert not source.lost
    _agree(shm / "run")


def test_what_was_waited_for_before_a_cut_off_counts_as_time(shm):
    """A model that says it took 100 s for each answer: nobody waits for it, but what is replayed counts as it was told."""

    class Slow(Flaky):
        def complete(self, request, observer=None):
            self._delay_s, real = 0.0, self._delay_s
            try:
                return super().complete(request, _Claims(observer))
            finally:
                self._delay_s = real

    class _Claims:
        def __init__(self, observer):
            self.before, self._after = observer.before, observer.after

        def after(self, request, number, attempt):
            self._after(request, number, replace(attempt, latency_s=100.0))

    with pytest.raises(MemoryError):
        collect(shm / "run", **{**ONE, "starts": "0:1"}, model=Slow("", 4, "stop"))
    (left,) = (shm / "run").glob("chains/*/unfinished/*.jsonl")
    assert [row.latency_s for row in read_times(left)] == [100.0] * 3
    run, _ = collect(shm / "run", **{**ONE, "starts": "0:1"}, model=LabModel(""))
    (episode,) = run.episodes
    assert 300.0 <= episode.seconds < 400.0
    assert episode.timing.model_s >= 300.0
    assert [row.latency_s for row in read_times(episode.path / "exchanges.jsonl")][:3] == [
        100.0
    ] * 3
    collect(shm / "calm", **{**ONE, "starts": "0:1"}, model=LabModel(""))
    assert contents(shm / "run") == contents(shm / "calm")
    assert not list((shm / "run").glob("chains/*/unfinished/*"))


def test_a_kill_in_flight_is_counted_from_the_books(shm):
    with pytest.raises(MemoryError):
        collect(shm / "run", **ONE, model=Flaky("", 4, "stop"), prices=price_file(shm))
    spend = Spend(shm / "run" / "spend.jsonl")
    spend.reserve(Decimal("0.5"), start=("lab.world--high--base", 0))  # in flight at the kill
    run, _ = collect(shm / "run", **ONE, model=LabModel(""), prices=price_file(shm))
    account = _agree(shm / "run")
    assert (account.unsettled, account.held_usd) == (1, Decimal("0.5"))
    (chain,) = run.chains
    assert unrecorded(chain, spend.slots()) == {
        0: Taken(0, 1, (Decimal(0), Decimal("0.5")), account.tokens.__class__(0, 0, 0, 0))
    }
    _, (source,) = _sources(shm / "run")
    assert [row.start for row in source.lost] == [0]


def test_a_branch_keeps_the_settings_its_episodes_were_made_with(shm):
    names = {"names": "lab.world:high", "arm": "capex"}
    collect(shm / "first", **names, starts="0:2")
    collect(shm / "first", **names, starts="0:3", tau=0.9, branch=True)
    collect(shm / "first-branch1", **names, starts="0:4", tau=0.8, branch=True)
    data, sources = _sources(shm / "first", shm / "first-branch1")
    assert [(s.runs, s.tau, len(s.episodes)) for s in sources] == [
        (("first",), 0.5, 2),
        (("first-branch1",), 0.9, 1),
    ]
    assert compare(*sources).pairs.n == 0
    assert data.origins == [
        "Run first-branch1 was branched from first with 2 episodes made before arms.capex.tau changed; they are counted with first."
    ]
    # Alone, a branch shows what it began with apart; one of a branch knows all its ancestors.
    data, sources = _sources(shm / "first-branch1-branch1")
    assert [(s.tau, [e.start for e in s.episodes]) for s in sources] == [
        (0.8, [3]),
        (0.9, [2]),
        (0.5, [0, 1]),
    ]
    assert all(
        "shown apart, under the settings they were made with" in text for text in data.origins
    )
    # Everything together counts every episode once.
    _, sources = _sources(shm / "first", shm / "first-branch1", shm / "first-branch1-branch1")
    assert sorted((s.tau, len(s.episodes)) for s in sources) == [(0.5, 2), (0.8, 1), (0.9, 1)]


def test_an_attempt_that_failed_before_a_branch_is_counted_once(shm):
    names = {"names": "lab.world:high", "arm": "capex", "prices": price_file(shm)}
    collect(shm / "first", **names, starts="0:1", model=Flaky("", 3))
    collect(shm / "first", **names, starts="0:2", tau=0.9, branch=True, model=LabModel(""))
    chain = (shm / "first-branch1/chains/lab.world--high--capex").resolve()
    (
        chain / "episodes/0000/record.json"
    ).unlink()  # its own name for the file: the first run keeps it
    (chain / "episodes/0000/record.json").write_text("{}")
    data, sources = _sources(shm / "first", shm / "first-branch1")
    assert [(s.tau, len(s.episodes), len(s.invalid)) for s in sources] == [(0.5, 1, 1), (0.9, 1, 0)]
    assert data.origins == []  # nothing of the first run can be read here


def test_status_and_report_of_a_branch_agree_on_an_attempt_from_before_it(shm):
    """It would have been continued; in the branch its start is run anew."""

    class Ends(Flaky):
        def complete(self, request, observer=None):
            if self._asked >= self._at:
                raise MemoryError("killed")
            return super().complete(request, observer)

    names = {"names": "lab.world:high", "arm": "capex", "prices": price_file(shm), "starts": "0:1"}
    with pytest.raises(MemoryError):
        collect(shm / "first", **names, model=Ends("", 2, "unknown"))
    (invalid,) = capex.load_run(shm / "first").invalid
    assert invalid.note.continues
    boards = []
    collect(
        shm / "first",
        **names,
        tau=0.9,
        branch=True,
        model=LabModel(""),
        watch=lambda event, board: boards.append(board),
    )
    status = read_status(shm / "first-branch1")
    rows = [row for s in _sources(shm / "first-branch1")[1] for row in s.attempts]
    assert status.board.total.usd == pytest.approx(
        (sum(r.usd[0] for r in rows), sum(r.usd[1] for r in rows))
    )
    assert (
        status.board.total.all_taken.requests
        == sum(r.requests for r in rows)
        > status.account.requests
    )
    assert boards[-1].total.usd == pytest.approx(status.board.total.usd)


def test_a_start_of_a_branch_that_was_repaired_is_the_branchs_own(shm):
    names = {"names": "lab.world:high", "arm": "capex"}
    collect(shm / "first", **names, starts="0:3")
    collect(shm / "first", **names, starts="0:3", tau=0.9, branch=True)
    branch = shm / "first-branch1"
    record = branch / "chains/lab.world--high--capex/episodes/0001/record.json"
    record.unlink()
    record.write_text("{}")
    assert len(repair(branch).moved) == 1
    collect(branch, **names, starts="0:3", tau=0.9)
    collect(branch, **names, starts="0:3", tau=0.8, branch=True)
    for place, own in ((branch, 0.9), (shm / "first-branch1-branch1", 0.9)):
        _, sources = _sources(place)
        assert {s.tau: [e.start for e in s.episodes] for s in sources if s.episodes} == {
            own: [1],
            0.5: [0, 2],
        }
    assert [bool(r.skipped) for r in replay(branch)] == [True, False, True]


@pytest.mark.parametrize(
    "told",
    [
        "first",
        [1],
        {"run": 3, "episodes": 5, "changed": 7, "invalid": []},
        {
            "episodes": {"lab.world--high--capex": 5},
            "changed": "tau",
            "invalid": {"lab.world--high--capex": 1},
        },
        {
            "run": "first",
            "episodes": {"lab.world--high--capex": ["0", None]},
            "changed": [5, {}],
            "branched_from": "x",
        },
        {
            "run": "first",
            "episodes": {"lab.world--high--capex": [0]},
            "changed": [{"name": "arms.capex.tau.deeper"}, {"name": 3, "before": {}}],
        },
    ],
)
def test_a_garbled_word_on_a_branchs_origin_is_refused_with_one_sentence(shm, told):
    collect(shm / "run", "lab.world:high", arm="capex", starts="0:2")
    manifest = read_json(shm / "run" / "manifest.json")
    write_json(shm / "run" / "manifest.json", {**manifest, "branched_from": told})
    for read in (read_status, lambda path: list(replay(path)), repair):
        with pytest.raises(DamagedFile, match=r"manifest\.json is damaged: .*branched_from"):
            read(shm / "run")
    _, sources = _sources(shm / "run")
    assert sum(len(s.episodes) for s in sources) == 2


@pytest.mark.parametrize(
    "told",
    [
        {"run": "first"},
        {
            "run": "first",
            "episodes": {"lab.world--high--capex": [0]},
            "changed": [{"name": "arms.capex.tau.deeper"}],
        },
    ],
)
def test_an_origin_that_tells_little_ends_no_command(shm, told):
    collect(shm / "run", "lab.world:high", arm="capex", starts="0:2")
    manifest = read_json(shm / "run" / "manifest.json")
    write_json(shm / "run" / "manifest.json", {**manifest, "branched_from": told})
    assert read_status(shm / "run").as_json()["total"]["episodes"] == 2
    assert all(isinstance(sentence, str) for sentence in read_status(shm / "run").sentences)
    _, sources = _sources(shm / "run")
    assert sum(len(s.episodes) for s in sources) == 2
    assert not any(r.difference or r.damaged for r in replay(shm / "run"))
    assert repair(shm / "run").moved == []


def test_an_unpriced_run_has_nothing_open(shm):
    collect(shm / "run", **ONE)
    page = capex.report.write([shm / "run"], shm / "report", strips=0)
    assert json.loads((page.parent / "report.json").read_text())["summary"]
    rows = (page.parent / "tables" / "books.tex").read_text().splitlines()
    (row,) = [r for r in rows if r.startswith("run &")]
    assert row.endswith(r"& 0 \\")
    assert row.count("---") == 4
