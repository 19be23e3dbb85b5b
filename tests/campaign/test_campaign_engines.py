"""Engines: a worker that dies, and a Ray cluster that loses a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import ray
from ray._private.state import available_resources_per_node
from ray.cluster_utils import Cluster

from capex.campaign import events as ev
from capex.campaign.core import Core, Lease, Waiting
from capex.errors import ErrorCode
from capex.run.spend import Spend
from lab.campaigns import TESTS, collect, contents
from lab.model import LabModel
from refusals import refuses


def test_a_worker_that_dies_is_replaced_and_its_attempts_continue(shm):
    crash = shm / "crash"
    crash.touch()
    collect(shm / "calm", model=f"lab.model:crash={crash}x")
    run, events = collect(shm / "run", model=f"lab.model:crash={crash}", parallel=2)
    assert any(
        "the worker process died (exit code 7)" in e.reason
        for e in events
        if isinstance(e, ev.AttemptCutOff)
    )
    named = {
        k: v.replace(b"crash=" + str(crash).encode() + b"x", b"crash=" + str(crash).encode())
        for k, v in contents(shm / "calm").items()
    }
    assert contents(shm / "run") == named
    account = Spend(shm / "run/spend.jsonl").account()
    recorded = sum(e.record.ledger.attempts for e in run.episodes)
    assert 0 < account.attempts - recorded == account.unsettled


def test_a_worker_that_always_dies_stops_its_chain_with_a_sentence(shm):
    with refuses(
        ErrorCode.GIVEN_UP,
        r"the worker process died \(exit code 9\) 3 times over start 0 of lab.world:deadly",
    ):
        collect(shm / "run", "lab.world:deadly", arm="base", starts="0:1", parallel=2)


def test_a_script_without_a_guard_gets_a_sentence(shm):
    script = shm / "script.py"
    script.write_text(
        f"import capex\ncapex.collect('lab.world:low', out='{shm}/run', model='lab.model:', starts='0:1', parallel=2)\n"
    )
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, script], env=env, capture_output=True, text=True, check=False
    )
    assert (
        "worker processes die as they start (exit code 1); a script that calls capex.collect"
        in done.stderr.splitlines()[-1]
    )


def test_a_model_object_stays_in_its_process(shm):
    with refuses(ErrorCode.CONFLICTING_SETTINGS, "a model object stays in its process"):
        collect(shm / "run", model=LabModel(""), parallel=2)


def test_the_clock_of_a_turn_stands_still_while_it_queues():
    core = Core()
    lease = Lease(core)
    with lease:
        before = lease.clock()
        lease.queued_s += 100.0
        assert lease.clock() < before - 99
    model = LabModel("")
    phases = []
    lease = Lease(core, phases.append)
    with lease:
        assert core.busy

        class Looking(LabModel):
            def complete(self, request, observer=None):
                phases.append(core.busy)
                return None

        Waiting(Looking(""), lease).complete(None)
    assert phases == ["simulating", "waiting", False, "simulating"]
    assert not core.busy
    assert model.name == "lab.model:"


def test_a_ray_cluster_that_loses_a_node_gives_the_same_records(shm):
    small = {"num_cpus": 1, "object_store_memory": 80_000_000}
    # Connected before there is a second node: on one machine the driver would else sit on either of them.
    cluster = Cluster(
        initialize_head=True, connect=True, head_node_args={**small, "include_dashboard": False}
    )
    try:
        nodes = [cluster.add_node(**small)]
        cluster.wait_for_nodes()
        slow = {"model": "lab.model:delay=0.1"}
        collect(shm / "calm", **slow)
        lost, taken = [], []

        def watch(event, board):
            if isinstance(event, ev.AttemptCutOff):
                lost.append(event.reason)
            # The other node is taken while it has two attempts, each of a quarter of its processor
            # (late in the run, one); were they just over, the next node is.
            free = available_resources_per_node().get(nodes[-1].node_id, {"CPU": 1})
            waited = not taken or time.monotonic() - taken[-1] > 5
            busy = free.get("CPU", 0) < (0.6 if board.total.episodes < 8 else 0.8)
            if board.total.episodes > 2 and busy and waited and not lost:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                nodes.append(cluster.add_node(**small))
                taken.append(time.monotonic())

        # Requests are counted at the driver's; four attempts at a time, as many as may be lost.
        paced = {"ray": cluster.address, "requests_per_minute": 6000, "slots": 4}
        run, _ = collect(shm / "run", **slow, **paced, watch=watch)
        assert contents(shm / "run") == contents(shm / "calm")
        assert any("of the cluster was lost" in reason for reason in lost)
        account = Spend(shm / "run/spend.jsonl").account()
        recorded = sum(e.record.ledger.attempts for e in run.episodes)
        assert recorded <= account.attempts <= recorded + 4
        assert json.loads((shm / "run/pace.json").read_text())
        assert not list((shm / "run").rglob(".writing-*"))
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_cluster_that_is_not_there_is_a_sentence(shm):
    with refuses(ErrorCode.NOT_AVAILABLE):
        collect(shm / "other", ray="127.0.0.1:1")
    with refuses(ErrorCode.BAD_SETTING, "is a client's address"):
        collect(shm / "other", ray="ray://127.0.0.1:10001")
