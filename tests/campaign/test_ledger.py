from __future__ import annotations

import io
import json
import math
import multiprocessing
import os
import pickle
import random
import resource
import signal
import threading
import time
from dataclasses import replace
from datetime import date
from decimal import Decimal
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from PIL import Image

from capex import codec
from capex.campaign.ledger import Budget, Ledger, Totals, budgets_for
from capex.errors import BudgetExceeded, ErrorCode
from capex.models import (
    AssistantMessage,
    LedgerTotals,
    Picture,
    Request,
    RequestAttempt,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from capex.models.prices import (
    LongContext,
    Price,
    cost,
    input_bound,
    load_prices,
    picture_bound,
    worst_case,
)
from capex.run.spend import Account, Spend
from refusals import refuses

ASTRA = load_prices().find("gpt-6-astra")
SMALL = Usage(1000, 0, 0, 100)
D = Decimal


def _price(rng: random.Random) -> Price:
    rates = [D(rng.randrange(0, 10**8)).scaleb(-6) for _ in range(4)]
    tier = (
        LongContext(rng.randrange(1000, 50_000), D(rng.choice(["0.5", "2"])), D("1.5"))
        if rng.random() < 0.5
        else None
    )
    return Price("m", *rates, source="random", checked=date(2026, 1, 1), long_context=tier)


def _usage(rng: random.Random, inputs: int = 10**6, outputs: int = 10**5) -> Usage:
    total = rng.randint(0, inputs)
    cached = rng.randint(0, total)
    write = rng.randint(0, total - cached)
    output = rng.randint(0, outputs)
    return Usage(total - cached - write, cached, write, output, rng.randint(0, output))


def _png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height)).save(out, "PNG")
    return out.getvalue()


def _request(text: str = "Pick up the mug.", **sampling: int) -> Request:
    return Request("You move a robot.", (UserMessage((Text(text),)),), (), Sampling(**sampling))  # type: ignore[arg-type]


def _ok(usage: Usage | None = SMALL) -> RequestAttempt:
    return RequestAttempt("ok", "yes", 1.0, usage)


def test_the_papers_prices():
    assert ASTRA is not None
    assert (ASTRA.fresh, ASTRA.cached, ASTRA.cache_write, ASTRA.output) == (10, 1, D("12.5"), 50)
    assert ASTRA.checked == date(2026, 9, 22)
    assert cost(Usage(1_000_000, 0, 0, 0), _without_tier(ASTRA)) == 10
    assert cost(Usage(3, 5, 7, 11, reasoning=10), ASTRA) == D("0.0006725")
    assert cost(Usage(0, 0, 0, 1), ASTRA) == D("0.00005")
    assert cost(Usage(1000, 2000, 400, 800, reasoning=600), ASTRA) == D("0.01") + D("0.002") + D(
        "0.005"
    ) + D("0.04")


def _without_tier(price: Price) -> Price:
    return replace(price, long_context=None)


def test_long_context_raises_all_rates_of_the_request():
    assert cost(Usage(72_000, 200_000, 0, 1000), ASTRA) == D("0.72") + D("0.2") + D("0.05")
    assert cost(Usage(72_001, 200_000, 0, 1000), ASTRA) == 2 * (D("0.72001") + D("0.2")) + D(
        "0.075"
    )


def test_cost_is_exact_over_many_replies():
    rng = random.Random(1)
    for _ in range(300):
        price, usages = _without_tier(_price(rng)), [_usage(rng) for _ in range(20)]
        micro = sum(
            u.fresh * int(price.fresh * 10**6)
            + u.cached * int(price.cached * 10**6)
            + u.cache_write * int(price.cache_write * 10**6)
            + u.output * int(price.output * 10**6)
            for u in usages
        )
        assert sum(cost(u, price) for u in usages) * 10**12 == micro


def test_what_is_not_known_costs_none():
    prices = load_prices()
    assert prices.find("qwen3.8-27b") is None
    assert prices.find("") is None
    assert cost(Usage(1, 1, 1, 1), None) is None
    assert cost(None, ASTRA) is None
    assert worst_case(_request(), None) is None
    with pytest.raises(ValueError, match="negative"):
        cost(Usage(-1, 0, 0, 0), ASTRA)


def test_snapshots_have_the_price_of_their_model_and_other_models_do_not():
    prices = load_prices()
    for name in (
        "gpt-6-astra-2026-08-01",
        "GPT-6-Astra",
        "gpt-6-astra-20260801",
        "gpt-6-astra-latest",
    ):
        assert prices.find(name) == ASTRA
    for name in (
        "gpt-6-astra-mini",
        "gpt-6-astra2026-08-01",
        "gpt-6",
        "gpt-6-astral",
        "xgpt-6-astra",
    ):
        assert prices.find(name) is None


def test_a_users_file_overrides_rows_and_the_longest_name_wins(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("""
[[price]]
model = "gpt-6-astra"
fresh = 0.1
output = 3
source = "our contract"
checked = 2025-01-01
[[price]]
model = "gpt-6-astra-2026-08-01"
fresh = 7
output = 9
source = "old"
checked = 2026-01-01
[[price]]
model = "gpt-6-astra-2026-08-01"
fresh = 8
cached = 0.30
output = 9
source = "new"
checked = 2026-02-01
""")
    prices = load_prices(path)
    row = prices.find("gpt-6-astra")
    assert (row.fresh, row.cached, row.cache_write, row.output) == (D("0.1"), D("0.1"), D("0.1"), 3)
    assert prices.find("gpt-6-astra-2026-08-01").source == "new"
    assert prices.find("gpt-6-astra-2026-09-09").source == "our contract"
    assert prices.find("gpt-5.6-sol") == load_prices().find("gpt-5.6-sol")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "[[price]]\nmodel = 'm'\nfresh = 1\noutput = 2\nsource = 's'",
            ErrorCode.BAD_SETTING,
            "lacks 'checked'",
        ),
        (
            "[[price]]\nmodel = 'm'\nfresh = -1\noutput = 2\nsource = 's'\nchecked = 2026-01-01",
            ErrorCode.BAD_SETTING,
            "fresh is",
        ),
        (
            "[[price]]\nmodel = 'm'\nfresh = nan\noutput = 2\nsource = 's'\nchecked = 2026-01-01",
            ErrorCode.BAD_SETTING,
            "fresh is",
        ),
        (
            "[[price]]\nmodel = 'm'\nfresh = true\noutput = 2\nsource = 's'\nchecked = 2026-01-01",
            ErrorCode.BAD_SETTING,
            "fresh is",
        ),
        (
            "[[price]]\nmodel = 'm'\nfresh = 1\noutput = 2\nsource = 's'\nchecked = 'May'",
            ErrorCode.BAD_SETTING,
            "write a date",
        ),
        (
            "[[price]]\nmodel = 'm'\ninput = 1\noutput = 2\nsource = 's'\nchecked = 2026-01-01",
            ErrorCode.UNKNOWN_NAME,
            "unknown key 'input'",
        ),
        (
            "[[price]]\nmodel = 'm'\nfresh = 1\noutput = 2\nsource = 's'\nchecked = 2026-01-01\nlong_context = 5",
            ErrorCode.BAD_SETTING,
            "long_context is 5",
        ),
        ("model = 'm'", ErrorCode.BAD_SETTING, r"must hold \[\[price\]\] rows"),
        ("[[price", ErrorCode.UNREADABLE_FILE, "is not TOML"),
    ],
)
def test_a_bad_price_file_is_refused_with_a_sentence(tmp_path, text, code, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with refuses(code, words):
        load_prices(path)


def test_a_row_survives_the_manifest():
    for row in load_prices().rows:
        assert codec.from_json(json.loads(json.dumps(codec.to_json(row))), Price) == row
    with refuses(ErrorCode.UNREADABLE_FILE):
        load_prices(Path("/nonexistent/prices.toml"))


def test_worst_case_is_never_below_what_a_request_can_cost():
    rng = random.Random(2)
    pictures = {
        size: _png(*size)
        for size in [(1, 1), (32, 32), (512, 512), (640, 480), (33, 2048), (1920, 1080)]
    }
    for _ in range(200):
        texts = [
            "".join(rng.choice('0123456789 abc,."\n\\é机🤖') for _ in range(rng.randrange(400)))
            for _ in range(5)
        ]
        shown = rng.choices(list(pictures), k=rng.randrange(4))
        request = Request(
            texts[0],
            (
                UserMessage((Text(texts[1]), *(Picture("left", pictures[size]) for size in shown))),
                AssistantMessage(
                    (ToolCall("c1", "act", texts[2]),), "", ({"encrypted_content": texts[3]},)
                ),
                ToolResult("c1", texts[4]),
            ),
            (
                Tool(
                    "act",
                    texts[1],
                    {"type": "object", "properties": {texts[2]: {"type": "number"}}},
                ),
            ),
            Sampling(max_output_tokens=rng.randrange(1, 9000)),
        )
        bytes_seen = sum(len(t.encode()) for t in [*texts, texts[1], texts[2]])
        seen = bytes_seen + sum(_most_picture_tokens(*size) for size in shown)
        price = _price(rng)
        most = worst_case(request, price)
        for _ in range(10):
            assert most >= cost(_usage(rng, seen, request.sampling.max_output_tokens), price)
        for kind in range(3):
            tokens = [0, 0, 0]
            tokens[kind] = seen
            assert most >= cost(Usage(*tokens, request.sampling.max_output_tokens), price)


def _most_picture_tokens(width: int, height: int) -> int:
    """The dearest of the published rules: tiles with the short side brought to 768, patches of 32, pixels / 750, cells of 28."""
    fit = min(1, 2048 / max(width, height))
    w, h = width * fit, height * fit
    grow = min(768 / min(w, h), 2048 / max(w, h))
    tiles = math.ceil(w * grow / 512) * math.ceil(h * grow / 512)
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    cells = math.ceil(width / 28) * math.ceil(height / 28)
    return max(85 + 170 * tiles, math.ceil(2.46 * patches), math.ceil(width * height / 750), cells)


def test_pictures_are_bounded_by_their_size():
    assert picture_bound(Picture("left", _png(512, 512))) == 2048 + 1024
    assert picture_bound(Picture("left", _png(1, 17))) == 2048 + 2
    with refuses(ErrorCode.NO_PRICE, "'left' is not a PNG"):
        picture_bound(Picture("left", b"GIF89a"))
    one = Request("s", (UserMessage((Picture("left", _png(512, 512)),)),), ())
    assert input_bound(one) > 3072


def test_totals_count_every_attempt():
    totals = Totals()
    for attempt in (
        _ok(Usage(10, 20, 30, 40, 5)),
        RequestAttempt("http 429", "no", 0.1, http_status=429),
        RequestAttempt("incomplete", "yes", 9.0, Usage(1, 2, 3, 4)),
    ):
        totals = totals.add(attempt, ASTRA)
    assert (totals.requests, totals.attempts) == (2, 3)
    assert totals.tokens == Usage(11, 22, 33, 44, 5)
    assert totals.cost_usd == D("0.0027445")
    ledger = Ledger(ASTRA)
    ledger.totals = totals
    tokens = Usage(11, 22, 33, 44, 5)
    assert ledger.recorded() == LedgerTotals(2, 3, 0, 0, tokens, 0.0027445, 0.0027445)


def test_an_unknown_cost_makes_the_total_unknown_and_is_counted():
    totals = Totals().add(_ok(), ASTRA)
    lost = totals.add(_ok(None), ASTRA)
    assert (lost.cost_usd, lost.known_usd, lost.missing_usage, lost.requests) == (
        None,
        D("0.015"),
        1,
        2,
    )
    slow = totals.add(RequestAttempt("timeout", "unknown", 60.0), ASTRA)
    assert (slow.cost_usd, slow.unknown_billing, slow.requests, slow.attempts) == (None, 1, 1, 2)
    unpriced = Totals().add(_ok(), None)
    assert (unpriced.cost_usd, unpriced.tokens.fresh) == (None, 1000)
    ledger = Ledger(None)
    ledger.totals = unpriced
    assert (ledger.recorded().cost_usd, ledger.recorded().known_cost_usd) == (None, None)
    assert Totals().add(RequestAttempt("http 500", "no", 0.1), None).cost_usd == 0


def test_a_budget_raises_one_typed_error():
    Budget(25).check(D("24.5"), D("0.5"))
    with pytest.raises(
        BudgetExceeded,
        match=r"the episode's budget of \$25\.00 does not cover.*may cost \$0\.5125: \$24\.50 are",
    ) as caught:
        Budget(25).check(D("24.5"), D("0.5125"))
    assert (caught.value.spent, caught.value.asked, caught.value.limit, caught.value.scope) == (
        D("24.5"),
        D("0.5125"),
        25,
        "episode",
    )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), vars(again)) == (str(caught.value), vars(caught.value))
    for limit in (-1, math.nan, math.inf):
        with refuses(ErrorCode.BAD_SETTING, "no limit"):
            Budget(limit)


def test_a_typed_dollar_budget_needs_a_price():
    assert budgets_for("openai:gpt-6-astra", ASTRA, [Budget(25)]) == (Budget(25),)
    assert budgets_for("chat:qwen3.8-27b@http://127.0.0.1:8000", None, [Budget(25)]) == ()
    for scope in ("episode", "campaign"):
        with refuses(
            ErrorCode.NO_PRICE, rf"\$10\.00 per {scope} cannot hold for chat:x, which has no price"
        ):
            budgets_for("chat:x", None, [Budget(25), Budget(10, scope, typed=True)])


def test_spend_reserves_settles_and_refuses(tmp_path):
    spend, other = Spend(tmp_path / "spend.jsonl"), Spend(tmp_path / "spend.jsonl")
    assert spend.account() == Account()
    first = spend.reserve(D("0.60"), limit=D(1), start=("kitchen--lift--capex", 7))
    with pytest.raises(BudgetExceeded) as caught:
        other.reserve(D("0.41"), limit=D(1))
    assert (caught.value.spent, caught.value.asked, caught.value.scope) == (
        D("0.60"),
        D("0.41"),
        "campaign",
    )
    spend.settle(first, D("0.10"), Usage(1, 2, 3, 4, 4), reply=True)
    second = other.reserve(D("0.90"), limit=D(1))
    assert spend.total() == 1
    other.settle(second, None)
    assert spend.total() == 1
    assert spend.account() == Account(
        D("0.10"), D("0.90"), 2, 0, 1, 0, Usage(1, 2, 3, 4, 4), requests=1, priced=True
    )
    assert spend.slots() == {
        ("kitchen--lift--capex", 7): Account(
            D("0.10"), attempts=1, tokens=Usage(1, 2, 3, 4, 4), requests=1, priced=True
        )
    }
    with pytest.raises(ValueError, match="settled before"):
        spend.settle(second, D(0))
    free = pickle.loads(pickle.dumps(spend))
    third = free.reserve(None)
    free.settle(third, None, Usage(5, 0, 0, 0))
    assert (spend.total(), spend.account().tokens.fresh) == (1, 6)
    rows = [json.loads(line) for line in (tmp_path / "spend.jsonl").read_text().splitlines()]
    assert rows[0] == {
        "line": "reserve",
        "ticket": first,
        "usd": "0.60",
        "chain": "kitchen--lift--capex",
        "episode": 7,
    }
    with pytest.raises(ValueError, match="no amount"):
        spend.reserve(D(-1))
    with pytest.raises(ValueError, match="needs the worst case"):
        spend.reserve(None, limit=D(1))


def test_a_torn_last_line_is_never_money_lost(tmp_path):
    path = tmp_path / "spend.jsonl"
    spend = Spend(path)
    spend.settle(spend.reserve(D("0.5")), D("0.25"))
    before = path.read_bytes()
    ticket = spend.reserve(D("0.5"))
    held = path.read_bytes()
    spend.settle(ticket, D("0.125"))
    settled = path.read_bytes()
    for cut in range(len(before), len(settled)):
        path.write_bytes(settled[:cut])
        watching = Spend(path)
        expected = D("0.25") if cut < len(held) else D("0.75")
        assert watching.total() == expected
        fresh = Spend(path)
        fresh.reserve(D(1))
        assert Spend(path).total() == watching.total() == expected + 1
        assert path.read_bytes().startswith(
            settled[: max(len(before), len(held) if cut >= len(held) else 0)] + b'{"line":"reserve"'
        )


def test_spending_is_not_forgotten(tmp_path):
    path = tmp_path / "spend.jsonl"
    spend = Spend(path)
    spend.reserve(D("0.5"))
    whole = path.read_bytes()
    for damage in (
        b"\n",
        b"{}\n",
        b'{"line": "settle", "ticket": "none", "usd": "0", "tokens": null, "reply": true}\n',
        b'{"line": "reserve", "ticket": "a", "usd": "NaN"}\n',
        b'{"line": "reserve", "ticket": "a", "usd": "0", "chain": "c", "episode": -1}\n',
        b'{"line": "other", "ticket": "a", "usd": "0"}\n',
        b"[1]\n",
        b"\0\0\n",
    ):
        path.write_bytes(damage + whole)
        with refuses(ErrorCode.SPENT_UNKNOWN, "damaged at byte 0"):
            Spend(path).total()
    path.write_bytes(b"")
    with refuses(ErrorCode.SPENT_UNKNOWN, "has shrunk"):
        spend.total()
    path.unlink()
    with refuses(ErrorCode.SPENT_UNKNOWN, "is gone"):
        spend.total()


def test_total_reads_only_what_is_new(tmp_path):
    path = tmp_path / "spend.jsonl"
    spend = Spend(path)
    for _ in range(3):
        spend.reserve(D(1))
    size = path.stat().st_size
    with open(
        path, "r+b"
    ) as file:  # a reader that went back to the beginning would meet the damage
        file.write(b"x" * (size - 1))
    with refuses(ErrorCode.SPENT_UNKNOWN, "damaged"):
        Spend(path).total()
    assert spend.total() == 3
    spend.reserve(D(1))
    assert spend.total() == 4


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path):
    with refuses(ErrorCode.SPENT_UNKNOWN, r"cannot be written \(No such file or directory\)"):
        Spend(tmp_path / "absent" / "spend.jsonl").reserve(D(1))


def test_a_line_that_does_not_fit_leaves_no_trace(tmp_path):
    path = tmp_path / "spend.jsonl"
    spend = Spend(path)
    ticket = spend.reserve(D(1))
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 1, 20):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + room, hard))
        try:
            with refuses(ErrorCode.SPENT_UNKNOWN, "cannot be written"):
                spend.settle(ticket, D("0.5"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == whole
    spend.settle(ticket, D("0.5"))
    assert spend.total() == Spend(path).total() == D("0.5")


def test_threads_share_a_spend(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    refused = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(30):
            try:
                ticket = spend.reserve(D(rng.randrange(1, 100)).scaleb(-2), limit=D(8))
            except BudgetExceeded:
                refused.append(seed)
            else:
                spend.settle(
                    ticket, D(rng.randrange(0, 20)).scaleb(-2) if rng.random() < 0.9 else None
                )

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused
    assert spend.account() == Spend(spend.path).account()


def _worker(path: Path, truth: Path, seed: int, limit: Decimal, price: Price) -> None:
    """Send random requests until the budget refuses; `truth` is the provider's own count of what it charged."""
    rng = random.Random(seed)
    spend = Spend(path)
    charged = os.open(truth, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    refusals = 0
    while refusals < 3:
        request = _request("x" * rng.randrange(2000), max_output_tokens=rng.randrange(1, 8000))
        ledger = Ledger(price, (Budget(limit, "campaign"),), spend, ("c", seed))
        try:
            ledger.before(request, 1)
        except BudgetExceeded:
            refusals += 1
            continue
        usage = _usage(rng, 500, request.sampling.max_output_tokens)
        fate = rng.random()
        if fate > 0.1:
            os.write(charged, f"{cost(usage, price)}\n".encode())
        if rng.random() < 0.3:
            time.sleep(rng.random() * 0.002)
        if fate <= 0.1:
            ledger.after(request, 1, RequestAttempt("http 503", "no", 0.0))
        elif fate <= 0.2:
            ledger.after(request, 1, RequestAttempt("timeout", "unknown", 0.0))
        elif fate <= 0.25:
            ledger.after(request, 1, _ok(None))
        else:
            ledger.after(request, 1, _ok(usage))


def test_the_campaigns_budget_holds_under_concurrency_and_kills(tmp_path):
    context = multiprocessing.get_context("spawn")
    for campaign in range(2):
        rng = random.Random(campaign)
        folder = tmp_path / str(campaign)
        folder.mkdir()
        path = folder / "spend.jsonl"
        price = _price(rng)
        limit = (worst_case(_request("x" * 2000), price) * rng.randrange(60, 90)).quantize(
            D("0.01")
        )
        watching, seen = Spend(path), D(0)
        for generation in range(2):
            workers = [
                context.Process(
                    target=_worker,
                    args=(path, folder / f"truth-{generation}-{n}", seed, limit, price),
                    daemon=True,
                )
                for n, seed in enumerate(rng.sample(range(10**9), 3))
            ]
            for worker in workers:
                worker.start()
            base = watching.account().attempts
            doomed = (
                workers if generation == 0 else workers[:1]
            )  # the first generation dies whole, the second finishes what is left
            kill_at = [base + rng.randrange(2, 50) for _ in doomed]
            while any(worker.is_alive() for worker in workers):
                account = watching.account()
                assert account.total_usd <= limit
                seen = max(seen, account.total_usd)
                for worker, at in zip(doomed, kill_at, strict=True):
                    if account.attempts >= at and worker.is_alive():
                        os.kill(worker.pid, signal.SIGKILL)
                time.sleep(0.001)
            for worker in workers:
                worker.join()
            assert all(worker.exitcode in (0, -signal.SIGKILL) for worker in workers)
        final = Spend(path).account()
        assert final == watching.account()
        assert final.total_usd == _replay(path, limit)
        assert final.overruns == 0
        assert final.attempts > 20
        charged = sum(
            (
                D(line)
                for truth in folder.glob("truth-*")
                for line in truth.read_text().splitlines()
            ),
            D(0),
        )
        assert charged <= final.total_usd <= limit
        assert seen <= limit


def _replay(path: Path, limit: Decimal) -> Decimal:
    """The total by the book, in one pass over the whole file; no line of it may exceed the limit."""
    amounts: dict[str, Decimal] = {}
    total = D(0)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        ticket = row["ticket"]
        if row["usd"] is not None:
            total += D(row["usd"]) - amounts.get(ticket, D(0))
            amounts[ticket] = D(row["usd"])
        assert total <= limit
    return total


def _contender(path: Path, count: int, gate: Barrier) -> None:
    spend = Spend(path)
    gate.wait()
    while count:
        try:
            ticket = spend.reserve(D("0.6"), limit=D(1))
        except BudgetExceeded:
            continue
        spend.settle(ticket, D(0))
        count -= 1


def test_two_reservations_never_pass_the_same_check(tmp_path):
    """Only one of the processes can hold 0.60 of 1.00 at a time, so every reservation is at the limit."""
    context = multiprocessing.get_context("spawn")
    path, gate = tmp_path / "spend.jsonl", context.Barrier(3)
    workers = [
        context.Process(target=_contender, args=(path, 200, gate), daemon=True) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert _replay(path, D(1)) == Spend(path).total() == 0
    assert Spend(path).account().attempts == 600


def test_the_ledger_of_an_episode(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    request = _request()
    worst = worst_case(request, ASTRA)
    ledger = Ledger(ASTRA, (Budget(2 * worst), Budget(100, "campaign")), spend, ("c", 0))
    ledger.before(request, 1)
    assert ledger.spent_usd == spend.total() == worst
    ledger.after(request, 1, RequestAttempt("http 429", "no", 0.1))
    assert ledger.spent_usd == spend.total() == 0
    ledger.before(request, 2)
    ledger.after(request, 2, _ok(Usage(100, 0, 0, 10)))
    assert ledger.spent_usd == spend.total() == ledger.totals.cost_usd == D("0.0015")
    ledger.before(request, 1)
    ledger.after(request, 1, RequestAttempt("timeout", "unknown", 60.0))
    assert ledger.spent_usd == spend.total() == D("0.0015") + worst
    assert ledger.totals.cost_usd is None
    with pytest.raises(BudgetExceeded, match="the episode's budget"):
        ledger.before(request, 2)
    assert spend.account().attempts == ledger.totals.attempts == 3
    with pytest.raises(ValueError, match="not announced"):
        ledger.after(request, 2, _ok())


def test_the_ledger_of_an_episode_stops_at_the_campaigns_limit(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    worst = worst_case(_request(), ASTRA)
    spend.reserve(worst)  # of a process killed long ago
    ledger = Ledger(ASTRA, (Budget(25), Budget(D("1.5") * worst, "campaign")), spend)
    with pytest.raises(BudgetExceeded, match="the campaign's budget"):
        ledger.before(_request(), 1)
    assert (ledger.spent_usd, spend.total()) == (0, worst)


def test_the_ledger_of_an_unpriced_model_counts_tokens(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    for where in (None, spend):
        ledger = Ledger(None, budgets_for("chat:x", None, [Budget(25)]), where)
        ledger.before(_request(), 1)
        ledger.after(_request(), 1, _ok(Usage(1, 2, 3, 4)))
        assert ledger.totals.tokens == Usage(1, 2, 3, 4)
        assert (ledger.totals.cost_usd, ledger.spent_usd) == (None, None)
    assert (spend.account().tokens, spend.account().unknown, spend.total()) == (
        Usage(1, 2, 3, 4),
        1,
        0,
    )
    with pytest.raises(ValueError, match="need a price"):
        Ledger(None, [Budget(25)])
    with pytest.raises(ValueError, match="needs the campaign's Spend"):
        Ledger(ASTRA, (Budget(5, "campaign"),))


def test_a_cost_above_its_bound_is_seen(tmp_path):
    spend = Spend(tmp_path / "spend.jsonl")
    ledger = Ledger(ASTRA, (), spend)
    ledger.before(_request(), 1)
    ledger.after(_request(), 1, _ok(Usage(10**6, 0, 0, 0)))
    assert (ledger.overruns, spend.account().overruns, spend.total()) == (1, 1, 20)
