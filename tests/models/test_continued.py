"""An episode that was cut off continues: what was answered comes from its log, the rest from the model, and nothing is paid twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capex.campaign.ledger import Ledger
from capex.models import (
    Observers,
    Request,
    Text,
    Tool,
    ToolResult,
    UserMessage,
    openai_chat,
    openai_responses,
)
from capex.models.cassette import Continued
from capex.models.exchanges import LOG, ExchangeLog
from capex.run.spend import Spend
from wire_server import Turn, WireServer

ASK = Request(
    "system",
    (UserMessage((Text("what now?"),)),),
    (Tool("act", "moves", {"type": "object", "properties": {}}),),
)
ACT = [("act", {"reasoning": "on"})]


def _model(wire: str, server: WireServer):
    return (
        openai_responses.make("gpt-test", base_url=server.url)
        if wire == "responses"
        else openai_chat.make(f"qwen-test@{server.url}")
    )


def _following(request: Request, reply) -> Request:
    return replace(
        request,
        messages=(*request.messages, reply.as_message(), ToolResult(reply.calls[0].id, "done")),
    )


@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_it_continues_in_the_middle_of_a_decision_as_if_nothing_had_happened(
    wire, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    turns = [
        Turn(ACT),
        Turn(fault="http", status=500, headers={"retry-after-ms": "1"}),
        Turn(ACT),
        Turn(ACT),
    ]
    spend = Spend(tmp_path / "spend.jsonl")
    with WireServer(turns) as server:
        model = _model(wire, server)
        first_log, first_ledger = ExchangeLog(tmp_path / "first", model), Ledger(None, (), spend)
        one = model.complete(ASK, Observers(first_log, first_ledger))
        two = model.complete(_following(ASK, one), Observers(first_log, first_ledger))
        last = _following(_following(ASK, one), two)
        undisturbed = model.complete(last, Observers(first_log, first_ledger))
        sent, paid = server.bodies[-1], spend.account().attempts
        # The process died before the last answer was logged, in the middle of its line.
        lines = (tmp_path / "first" / LOG).read_bytes().splitlines(keepends=True)
        (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:100])
        server.turns.append(Turn(ACT))
        again = Continued(_model(wire, server), tmp_path / "cut.jsonl")
        log, ledger = ExchangeLog(tmp_path / "second", model), Ledger(None, (), spend)
        first = again.complete(ASK, Observers(log, ledger))
        second = again.complete(_following(ASK, first), Observers(log, ledger))
        assert spend.account().attempts == paid
        assert server.requests == paid
        reply = again.complete(_following(_following(ASK, first), second), Observers(log, ledger))
        assert server.bodies[-1] == sent  # the provider's own items included
        assert spend.account().attempts == paid + 1
    assert reply.calls == undisturbed.calls
    assert ledger.totals == first_ledger.totals
    written, before = (
        (tmp_path / name / LOG).read_bytes().splitlines() for name in ("second", "first")
    )
    assert written[:-1] == before[:-1]  # the last answer came anew, at another time
    assert len(written) == len(before)


def test_another_request_ends_the_log(tmp_path):
    with WireServer([Turn(ACT)] * 4) as server:
        model = openai_chat.make(f"qwen-test@{server.url}")
        log = ExchangeLog(tmp_path, model)
        for _ in range(2):
            model.complete(ASK, log)
        again = Continued(model, tmp_path / LOG)
        again.complete(replace(ASK, system="another"))
        again.complete(ASK)
        assert server.requests == 4
