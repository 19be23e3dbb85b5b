"""Worlds that a person judges: the chain waits for verdicts, memory learns from them, and nothing a model says decides."""

from __future__ import annotations

import capex
from capex.campaign import events as ev
from capex.campaign.replay import replay
from capex.errors import ErrorCode
from capex.run.files import now
from capex.run.verdicts import Verdict, append_verdict, read_verdicts
from lab.campaigns import collect, contents, kinds
from lab.operator import LabOperator
from refusals import refuses

TASK = "lab.world:judged"
CHAIN = "chains/lab.world--judged--capex"


def judged(out, words, **options):
    operator = LabOperator(words)
    run, events = collect(out, TASK, operator=operator, **{"arm": "capex", **options})
    return run, events, operator


def test_a_chain_waits_for_verdicts_and_memory_learns_from_them(shm):
    run, events, operator = judged(shm / "run", "sfsf")
    assert operator.starts == [0, 1, 2, 3]
    asked = operator.asked[0]
    assert (asked.criterion, asked.method) == ("the left tip rose by 5 cm", "capex")
    assert asked.claimed_done == (asked.end == "done")
    assert [e.success for e in run.episodes] == [True, False, True, False]
    assert [e.record.success for e in run.episodes] == [None] * 4
    assert run.chains[0].successes == 2
    told = [e.summary.success for e in events if isinstance(e, ev.EpisodeEnded)]
    assert told == [True, False, True, False]
    at = "2026-11-16T00:00:00+00:00"
    seen = [e.verdicts_seen for e in run.episodes]
    assert seen[0] == {}
    assert seen[1] == {"0": {"verdict": "success", "at": at}}
    assert [seen[3][s]["verdict"] for s in "012"] == ["success", "failure", "success"]
    system = next(run.episodes[3].exchanges()).request["system"]
    assert "3 earlier attempts, 2 succeeded, 1 failed" in str(system)


def test_the_operator_ends_an_attempt(shm):
    operator = LabOperator("f", ends_after=1)
    run, _ = collect(shm / "run", TASK, operator=operator, arm="capex", starts="0:1")
    (episode,) = run.episodes
    assert (episode.record.end, episode.success) == ("operator", False)
    last = episode.record.turns[-1].waypoints
    assert [w.status for w in last if w.steps] == ["ended"]
    assert last[0].report == "cut short by the operator"
    assert len(episode.steps()["actions"]) == episode.record.steps == 1


def test_a_resumed_chain_asks_first(shm):
    whole, _, _ = judged(shm / "whole", "ssss")
    run, events, operator = judged(shm / "run", "s-")
    assert operator.starts == [0, 1]
    assert [e.success for e in run.episodes] == [True, None]
    ended = next(e for e in events if isinstance(e, ev.ChainEnded))
    assert f"1 waits for a verdict: capex judge {run.path}" in ended.error
    assert events[-1].why == "waiting for verdicts"
    run, _, operator = judged(shm / "run", "sss")
    assert operator.starts == [1, 2, 3]
    seen = [e.verdicts_seen for e in run.episodes]
    words = [[v["verdict"] for v in s.values()] for s in seen]
    assert words == [["success"] * n for n in range(4)]
    assert [e.record.steps for e in run.episodes] == [e.record.steps for e in whole.episodes]


def test_invalid_runs_the_start_again_without_limit_and_is_counted(shm):
    run, events, operator = judged(shm / "run", "siiisss")
    assert operator.starts == [0, 1, 1, 1, 1, 2, 3]
    again = [e for e in events if isinstance(e, ev.AttemptInvalid)]
    assert {(e.start, e.error, e.then) for e in again} == {(1, "judged invalid by Ada", "again")}
    assert [p.name for p in sorted((run.path / CHAIN / "invalid").iterdir())] == [
        "0001-1",
        "0001-2",
        "0001-3",
    ]
    assert [a.verdict.verdict for a in run.invalid] == ["invalid"] * 3
    assert [e.success for e in run.episodes] == [True] * 4
    plain, _, _ = judged(shm / "plain", "ssss")
    times = [{e.verdicts_seen.get("0", {}).get("at") for e in r.episodes} for r in (run, plain)]
    assert times[0] == times[1]
    assert [e.record.turns for e in run.episodes] == [e.record.turns for e in plain.episodes]


def test_invalid_can_be_taken_back_until_the_start_runs_again(shm):
    run, _, _ = judged(shm / "run", "ss-", starts="0:3")
    episode = run.path / CHAIN / "episodes/0002"
    append_verdict(episode, Verdict("invalid", "Ada", now()))
    held = capex.load_run(run.path)
    assert [e.index for e in held.episodes] == [0, 1]
    assert [(a.index, a.undoable) for a in held.invalid] == [(2, True)]
    append_verdict(episode, Verdict("undo", "Ada", now()))
    append_verdict(episode, Verdict("failure", "Ada", now()))
    run, events, operator = judged(shm / "run", "", starts="0:3")
    assert kinds(events) == ["CampaignBegan", "CampaignEnded"]
    append_verdict(episode, Verdict("invalid", "Ada", now()))
    run, _, operator = judged(shm / "run", "s", starts="0:2")
    assert operator.starts == [2]
    (attempt,) = run.invalid
    assert (attempt.path.name, attempt.undoable) == ("0002-1", False)
    assert len(read_verdicts(attempt.path)) == 4
    assert [e.position for e in run.episodes] == [0, 1, 2]


def test_until_successes_counts_verdicts(shm):
    run, _, operator = judged(shm / "run", "fsfs", starts="0:2", until_successes=2)
    assert operator.starts == [0, 1, 2, 3]
    assert run.chains[0].successes == 2
    with refuses(
        ErrorCode.CONFLICTING_SETTINGS, r"judges lab.world:judged later, so successes cannot"
    ):
        judged(shm / "run", "", until_successes=2, judge="later")


def test_later_goes_on_with_memory_as_it_was_and_says_so(shm):
    run, events, operator = judged(shm / "run", "", judge="later")
    assert operator.asked == []
    assert "a person judges these attempts later" in events[0].warning
    assert [e.success for e in run.episodes] == [None] * 4
    assert run.episodes[3].verdicts_seen == {"0": None, "1": None, "2": None}
    assert run.episodes[3].record.labels_before > 0
    append_verdict(run.episodes[0].path, Verdict("success", "Ada", now()))
    before = contents(run.path)
    run, _, _ = judged(run.path, "", judge="later", starts="0:5")
    assert {k: contents(run.path)[k] for k in before} == before
    assert not any(r.difference or r.skipped or r.damaged for r in replay(run.path))
    seen = run.episodes[4].verdicts_seen
    assert [v and v["verdict"] for v in seen.values()] == ["success", None, None, None]


def test_a_campaign_without_anybody_to_ask_is_refused(shm):
    with refuses(ErrorCode.PERSON_NEEDED, "there is nobody to ask; give an operator"):
        collect(shm / "run", TASK)
    with refuses(ErrorCode.CONFLICTING_SETTINGS, "leave --parallel and --ray out"):
        collect(shm / "run", TASK, operator=LabOperator(""), parallel=2)
    assert not (shm / "run").exists()


def test_a_branch_has_verdicts_of_its_own(shm):
    run, _, _ = judged(shm / "run", "si-", starts="0:2")
    branch, _, operator = judged(shm / "run", "s", starts="0:2", tau=0.3, branch=True)
    assert operator.starts == [1]
    assert [e.success for e in branch.episodes] == [True, True]
    append_verdict(branch.episodes[0].path, Verdict("failure", "Bob", now()))
    assert len(read_verdicts(run.episodes[0].path)) == 1


def test_a_damaged_list_of_verdicts_damages_the_episode(shm):
    run, _, _ = judged(shm / "run", "ss", starts="0:2")
    (run.episodes[1].path / "verdicts.jsonl").write_text('{"verdict": "perhaps"}\n')
    held = capex.load_run(run.path)
    assert [e.index for e in held.episodes] == [0]
    assert "verdicts.jsonl is damaged" in held.damaged[0].reason
