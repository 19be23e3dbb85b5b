"""A person's stop, from another process than the collector: within a tick, latched, never lost."""

from __future__ import annotations

import contextlib
import socket
from contextlib import contextmanager

import pytest
from pressing import ask, press
from rig_of import calls, rig_of

from capex.errors import RigFault
from capex.rigs.client import open_link
from capex.rigs.stops import CLIENTS_MAX, stop_address
from capex.worlds import ArmCommand, Command

STEP = Command({"arm": ArmCommand((0.005, 0.0, 0.0))})


@contextmanager
def opened(rig):
    link = open_link(rig)
    try:
        yield link
    finally:
        link.close()


@pytest.mark.parametrize("clock", ["lock-step", "real"])
@pytest.mark.parametrize("request_is", ["ticks", "home"])
def test_no_command_follows_the_tick_in_which_stop_was_pressed(tmp_path, clock, request_is):
    requests = {  # home is one request and many ticks
        "home": lambda link: link.home(),
        "ticks": lambda link: [link.tick(STEP) for _ in range(20)],
    }
    rig = rig_of(tmp_path, clock=clock, start_m=(0.3, 0.2, 0.5), pressed_at=5)
    with opened(rig) as link:
        with pytest.raises(RigFault, match="stopped by Ada"):
            requests[request_is](link)
        with pytest.raises(RigFault, match="stopped by Ada"):
            link.settle()  # what a new attempt would begin with
        assert [stop.by for stop in link.stops()] == ["Ada"]
    told = [call["call"] for call in calls(tmp_path)]
    assert told.count("command") == 5  # the present tick's was the last
    after = told[told.index("command") :]
    assert after.index("stop") > len(after) - after[::-1].index("command") - 1


def test_a_stop_while_nobody_asks_the_rig_anything_waits_for_a_person(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        link.tick(STEP)
        answer = press(link.process)  # the model thinks, or the collector hangs
        assert (answer["held"], answer["carried"]["by"]) == ("stopped by Ada", "Ada")
        assert [call["call"] for call in calls(tmp_path)][-1] == "stop"
        with pytest.raises(RigFault, match="stopped by Ada"):
            link.clear()  # whoever says so cannot know of it yet
        link.clear()
        assert ask(link.process, {})["held"] == ""
        assert not link.tick(STEP).stopped


def test_a_press_that_is_sent_again_is_one_stop(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        first = press(link.process, "one")
        assert press(link.process, "one") == first  # its answer was lost
        assert press(link.process, "two", "Ben")["carried"] == first["carried"]  # it stood already
        with pytest.raises(RigFault):
            link.tick(STEP)
        link.clear()
        late = press(link.process, "one")  # that one was carried out, and cleared
        assert (late["held"], late["carried"]) == ("", first["carried"])
        assert press(link.process, "three")["held"] == "stopped by Ada"
        assert [stop.by for stop in link.stops()] == ["Ada", "Ada"]


def test_a_stop_after_a_fault_is_told_before_the_fault_is_cleared(tmp_path):
    error = tmp_path / "arm" / "error"
    with opened(rig_of(tmp_path)) as link:
        link.tick(STEP)
        error.write_text("user stop")
        with pytest.raises(RigFault, match="user stop"):
            link.tick(STEP)
        press(link.process)  # a person at a page, while another one reads of the fault
        error.unlink()
        with pytest.raises(RigFault, match="stopped by Ada"):
            link.clear()
        link.clear()
        assert not link.tick(STEP).stopped


def test_a_press_while_a_stop_is_cleared_is_a_stop_of_its_own(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        link.tick(STEP)
        press(link.process, "one", "Ada")
        with pytest.raises(RigFault, match="stopped by Ada"):
            link.tick(STEP)
        (tmp_path / "arm" / "press").write_text("Ben")  # comes while Ada's is being cleared
        with pytest.raises(RigFault, match="stopped by Ben"):
            link.clear()
        answer = ask(link.process, {})
        assert (answer["held"], answer["stop"]["by"]) == ("stopped by Ben", "Ben")
        with pytest.raises(RigFault, match="stopped by Ben") as fault:
            link.tick(STEP)
        assert fault.value.stop == link.stops()[-1]
        link.clear()
        assert not link.tick(STEP).stopped
        assert [stop.by for stop in link.stops()] == ["Ada", "Ben"]


def test_a_stop_stays_where_clearing_fails(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        link.tick(STEP)
        press(link.process)
        with pytest.raises(RigFault, match="stopped by Ada"):
            link.tick(STEP)
        (tmp_path / "arm" / "error").write_text("user stop")
        with pytest.raises(RigFault, match="cannot go on yet"):
            link.clear()
        assert ask(link.process, {})["stop"]["by"] == "Ada"
        (tmp_path / "arm" / "error").unlink()
        link.clear()
        assert ask(link.process, {})["stop"] is None


def test_a_fault_that_does_not_carry_the_stop_tells_nobody_of_it(tmp_path):
    lost = tmp_path / "arm" / "lost"
    with opened(rig_of(tmp_path)) as link:
        link.tick(STEP)
        press(link.process)
        lost.touch()
        with pytest.raises(RigFault, match="does not answer") as fault:
            link.read()
        assert fault.value.stop is None
        lost.unlink()
        with pytest.raises(RigFault, match="stopped by Ada"):
            link.clear()
        link.clear()
        assert not link.tick(STEP).stopped


def test_nonsense_and_silence_at_the_socket_keep_nobody_waiting(tmp_path):
    with opened(rig_of(tmp_path)) as link:
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(CLIENTS_MAX + 5)]
        for each in silent:
            each.connect(str(stop_address(link.process)))
        for nonsense in (b"no JSON\n", b"[]\n", b"[" * 1500 + b"\n", b"x" * 5000, b"\n"):
            with contextlib.suppress(ConnectionError):  # it hung up while we sent
                assert ask(link.process, nonsense) is None
        assert not link.tick(STEP).stopped
        assert press(link.process, "k", " A\nda ")["carried"]["by"] == "A da"
        for each in silent:
            each.close()
    assert not stop_address(link.process).exists()
