// All runs, live ones first; a run's own page lists its attempts.
import { ask, chainWords, count, dollars, h, listen, outcomeOf, path, percent, renew, s, span } from "../dom.js";
import { modelName, money, standIn, term } from "../words.js";

const PHASES = { waiting: "waiting for the model", queueing: "queued (processor busy)", simulating: "moving", judging: "waiting for the operator", arranging: "waiting for its scene", driving: "a person drives", starting: "starting", paused: "paused" };

function interval(line) {
  if (!line.judged) return h("span", { class: "muted" }, "–");
  const rate = line.successes / line.judged;
  const words = `${line.successes} of ${line.judged} solved, 95 % interval ${percent(line.interval[0])} to ${percent(line.interval[1])}`;
  return h("span", { class: "ranged" }, s("svg", { class: "interval", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": words },
    s("title", {}, words),
    s("rect", { class: "all", x: 0, y: 3, width: 100, height: 4 }),
    s("rect", { class: "range", x: 100 * line.interval[0], y: 1, width: Math.max(0.5, 100 * (line.interval[1] - line.interval[0])), height: 8 }),
    s("line", { x1: 100 * rate, x2: 100 * rate, y1: 0, y2: 10 })), h("small", { class: "muted", "aria-hidden": "true" }, range(line)));
}
const range = (line) => `${Math.round(100 * line.interval[0])} to ${percent(line.interval[1])}`;

const rate = (line) => (line.judged ? [`${line.successes}`, h("small", {}, ` of ${line.judged}, ${percent(line.successes / line.judged)} (`, term("95 % interval"), ` ${range(line)})`)] : "–");
const wanted = (line) => (line.until_successes ? `${line.until_successes} successes` : line.wanted === null ? "" : `${line.wanted}`);

function progress(line) {
  const whole = line.until_successes ? line.successes / line.until_successes : line.wanted ? (line.episodes + line.invalid) / line.wanted : null;
  if (whole === null) return null;
  const share = Math.min(1, whole);
  return h("div", { class: "progress", role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "progress" },
    h("i", { style: { width: `${100 * share}%` } }));
}

const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value));

function facts(run) {
  const all = run.total;
  const rest = run.usd_rest_low === null || run.usd_rest_low === undefined ? null : `rest ${dollars(run.usd_rest_low)} to ${run.usd_rest_high === null ? "?" : dollars(run.usd_rest_high)}`;
  return h("dl", { class: "facts" },
    fact("Solved", rate(all)),
    fact("Attempts", all.episodes.toLocaleString("en"), wanted(all) && h("small", {}, ` of ${wanted(all)}`)),
    fact("Spent", money(run.usd, run.stand_in), rest && h("small", {}, ` · ${rest}`)),
    run.running && fact("Time left", run.hours_left === null ? "not known yet" : span(3600 * run.hours_left)),
    all.invalid > 0 && fact("Invalid", String(all.invalid)),
    all.driven > 0 && fact(term("with help"), String(all.driven), h("small", {}, " not counted")),
    all.unjudged > 0 && fact("To judge", String(all.unjudged)));
}

const phase = (name, n) => h("span", { class: `phase ${name}` }, `${n} ${PHASES[name] ?? name}`);

export const now = (run, chain, moved) =>
  h("a", { class: `phase ${moved.phase}`, href: path("live", run, chain, moved.start), title: PHASES[moved.phase] ?? moved.phase },
    `start ${moved.start}: ${moved.decision ? `decision ${moved.decision}, ` : ""}${PHASES[moved.phase] ?? moved.phase}`);

function chainTable(run) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ...["Task", "Method"].map((t) => h("th", { scope: "col" }, t)), h("th", { scope: "col", class: "r" }, "Attempts"), h("th", { scope: "col", class: "r" }, "Solved"), h("th", { scope: "col" }, term("95 % interval")), h("th", { scope: "col", class: "r" }, "Spent"), h("th", { scope: "col" }, "Now"))),
    h("tbody", {}, run.chains.map((line) => {
      const { task, arm } = chainWords(line.chain);
      return h("tr", {}, h("td", {}, task), h("td", {}, arm),
        h("td", { class: "r" }, `${line.episodes}${wanted(line) && !line.until_successes ? ` of ${wanted(line)}` : ""}`),
        h("td", { class: "r" }, line.judged ? `${line.successes} of ${line.judged}` : "–"),
        h("td", {}, interval(line)),
        h("td", { class: "r" }, money(run.usd === null ? null : line.usd, run.stand_in)),
        h("td", {}, line.now.length ? h("div", { class: "row" }, line.now.slice(0, 6).map((m) => now(run.name, line.chain, m))) : h("span", { class: "muted" }, line.state)));
    }))));
}

function invalid(run) {
  const rows = [...run.invalid.map((a) => `${chainWords(a.chain).task}, ${chainWords(a.chain).arm}, start ${a.start}: ${a.why}`), ...run.damaged.map((d) => `damaged: ${d}`)];
  return rows.length > 0 && h("details", {}, h("summary", {}, count(rows.length, "invalid or damaged attempt")), h("ul", {}, rows.map((text) => h("li", {}, text))));
}

function card(run) {
  if (run.error) return h("article", { class: "card" }, h("h2", {}, run.name), h("p", { class: "notice" }, run.error));
  return h("article", { class: "card", data: { run: run.name } },
    h("div", { class: `row ${run.running ? "running" : ""}` }, h("span", { class: "dot" }), h("h2", {}, h("a", { href: path("campaigns", run.name) }, run.name)),
      h("span", { class: "muted" }, modelName(run.model)), standIn(run.stand_in),
      Object.entries(run.phases).map(([name, n]) => phase(name, n)),
      h("span", { class: "muted push" }, run.state)),
    facts(run), progress(run.total), run.running && chainTable(run), invalid(run));
}

// Runs that rest, a line each.
function table(runs) {
  return h("div", { class: "scroll" }, h("table", { class: "runs" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Run"), h("th", { scope: "col" }, "Model"), h("th", { scope: "col", class: "r" }, "Attempts"), h("th", { scope: "col", class: "r" }, "Solved"), h("th", { scope: "col" }, term("95 % interval")), h("th", { scope: "col", class: "r" }, "Spent"), h("th", { scope: "col" }, "State"))),
    h("tbody", {}, runs.map((run) => (run.error
      ? h("tr", { data: { run: run.name } }, h("td", {}, run.name), h("td", { colspan: 6, class: "wide" }, run.error))
      : h("tr", { data: { run: run.name } }, h("td", {}, h("a", { href: path("campaigns", run.name) }, run.name)), h("td", {}, modelName(run.model), " ", standIn(run.stand_in)),
        h("td", { class: "r" }, `${run.total.episodes.toLocaleString("en")}${run.total.wanted ? ` of ${run.total.wanted.toLocaleString("en")}` : ""}`), h("td", { class: "r" }, run.total.judged ? `${run.total.successes} (${percent(run.total.successes / run.total.judged)})` : "–"), h("td", {}, interval(run.total)), h("td", { class: "r" }, money(run.usd, run.stand_in)),
        h("td", { class: "wide" }, [run.state, run.total.unjudged && `${run.total.unjudged} to judge`, run.total.invalid && `${run.total.invalid} invalid`, run.total.driven && `${run.total.driven} with help, not counted`].filter(Boolean).join("; "))))))));
}

// What waits for a person, as links.
function needs(runs) {
  const found = [];
  for (const run of runs.filter((r) => !r.error)) {
    const waiting = run.phases.arranging ?? 0;
    if (run.total.unjudged) found.push({ n: run.total.unjudged, link: h("a", { href: path("judge", run.name) }, `judge ${run.total.unjudged} of ${run.name}`) });
    if (waiting) found.push({ n: waiting, link: h("a", { href: path("arrange", run.name) }, `arrange the scene of ${run.name}`) });
  }
  const n = found.reduce((sum, { n: k }) => sum + k, 0);
  const stopped = runs.filter((r) => r.unfinished).length;
  const tail = stopped ? ` ${stopped === 1 ? "1 run was" : `${stopped} runs were`} stopped before the end; whether to go on is up to you.` : "";
  return h("p", { class: `needs ${n ? "some" : ""}`, role: "status" }, n ? [`${count(n, "attempt")} ${n === 1 ? "needs" : "need"} you: `, found.map(({ link }, k) => [k > 0 && ", ", link]), "."] : "Nothing needs you now.", h("span", { class: "muted" }, tail));
}

async function copy(button, text) {
  await navigator.clipboard?.writeText(text);
  button.textContent = "Copied";
}

// A run that was stopped before its end, with what goes on with it.
function stopped(run) {
  return h("article", { class: "card unfinished", data: { run: run.name } },
    h("div", { class: "row" }, h("span", { class: "dot" }), h("h2", {}, h("a", { href: path("campaigns", run.name) }, run.name)), h("span", { class: "muted" }, modelName(run.model)), standIn(run.stand_in), h("span", { class: "phase paused" }, "stopped before its end"),
      h("span", { class: "muted" }, `${run.total.episodes.toLocaleString("en")}${wanted(run.total) ? ` of ${wanted(run.total)}` : ""} attempts, ${run.total.judged ? `${run.total.successes} of ${run.total.judged} solved` : "none judged"}${run.total.driven ? `, ${run.total.driven} with help, not counted` : ""}`, " · ", money(run.usd, run.stand_in))),
    continuing(run), invalid(run));
}

// The command that goes on with a run that was stopped.
function continuing(run) {
  if (!run.unfinished) return null;
  return run.command ? h("div", { class: "row command" }, h("code", {}, run.command), h("button", { type: "button", name: "copy", onclick: (event) => copy(event.target, run.command) }, "Copy")) : h("p", { class: "muted" }, run.model === "human" ? ["Left before it was over; ", h("a", { href: path("drive") }, "drive it again"), "."] : "Run the command again with which you began it: it goes on where it was stopped. Its settings are too many to tell here.");
}

// What all runs cost together: paid and simulated apart.
function costs(runs) {
  const known = runs.filter((r) => !r.error && r.usd !== null);
  const sum = (rows) => rows.reduce((n, r) => n + r.usd, 0);
  const [paid, pretended, without] = [known.filter((r) => !r.stand_in), known.filter((r) => r.stand_in), runs.filter((r) => !r.error && r.usd === null)];
  return [`Paid: ${dollars(sum(paid))}${paid.length ? ` in ${count(paid.length, "run")}` : ""}.`, pretended.length && `${dollars(sum(pretended))} more are a simulated price of stand-ins, nothing paid.`, without.length && `${count(without.length, "run")} ${without.length === 1 ? "has" : "have"} no price.`].filter(Boolean).join(" ");
}

function overview(host, shell) {
  const list = h("div", { class: "list", "aria-live": "off" }), need = h("div", {});
  host.append(h("div", { class: "row" }, h("h1", {}, "Campaigns"), h("span", { class: "muted total" })), need, list);
  return listen("campaigns/events", {}, {
    now(all) {
      const running = all.runs.filter((run) => run.running).length;
      host.querySelector(".total").textContent = `${count(all.runs.length, "run")}, ${running} running. ${costs(all.runs)}`;
      const open = new Set([...list.querySelectorAll("details[open]")].map((d) => d.closest("article").dataset.run));
      renew(need, needs(all.runs));
      const resting = all.runs.filter((run) => !run.running && !run.unfinished);
      renew(list, all.runs.filter((run) => run.running).map(card), all.runs.filter((run) => run.unfinished).map(stopped), resting.length > 0 && table(resting),
        !all.runs.length && h("p", { class: "hint" }, "There is no run yet. Collect one: capex collect kitchen:CloseFridge --starts 0:3 --out runs/first"));
      for (const name of open) list.querySelector(`article[data-run="${CSS.escape(name)}"] details`)?.setAttribute("open", "");
    },
    failed({ error }) { list.replaceChildren(h("p", { class: "notice" }, error)); },
  }, shell.connected);
}

function attempts(run, chain) {
  const a = chain.attempts;
  return h("div", { class: "tiles" }, a.index.map((index, k) => {
    const words = `start ${a.start[k]}: ${outcomeOf(a.success[k])}${a.driven[k] ? " with a person's help, not counted" : ""}, ${a.steps[k]} steps, ${a.requests[k]} requests${a.usd[k] === null ? "" : `, ${dollars(a.usd[k])}`}; ended: ${a.end[k]}`;
    return h("a", { class: a.driven[k] ? "helped" : outcomeOf(a.success[k]).replace(" ", "-"), href: path("episode", run, chain.chain, index), title: words, "aria-label": words });
  }));
}

async function one(host, name, shell) {
  shell.title(name);
  let shown = "", timer = null, closed = false;
  const look = async () => {
    const run = await ask("campaigns/run", { run: name });
    const text = JSON.stringify(run);
    if (closed) return;
    if (text !== shown) renew(host, page(run, name));
    shown = text;
    // What rests stays as it is.
    if (run.running) timer = setTimeout(() => look().then(() => shell.connected(true), () => { shell.connected(false); timer = setTimeout(look, 3000); }), 3000);
  };
  await look();
  return () => { closed = true; clearTimeout(timer); };
}

// Tasks of the plan that do not show below, since nothing of them was collected.
function notBegun(run) {
  const names = (run.not_begun ?? []).map((chain) => { const { task, arm } = chainWords(chain); return `${task} (${arm})`; });
  return names.length ? h("p", { class: "muted" }, `Not begun yet: ${names.join(", ")}.`) : "";
}
const tileKey = () => h("ul", { class: "legend" }, [["solved", "solved"], ["not-solved", "not solved"], ["not-judged", "not judged"], ["helped", "with help"]].map(([kind, words]) => h("li", {}, h("span", { class: "tiles" }, h("a", { class: kind })), words)), h("li", {}, "a square is an attempt; it opens one"));

function page(run, name) {
  const parts = [];
  parts.push(h("p", { class: "crumbs" }, h("a", { href: path("campaigns") }, "Campaigns"), h("span", {}, "/"), h("span", {}, name)),
    h("div", { class: `row ${run.running ? "running" : ""}` }, h("span", { class: "dot" }), h("h1", {}, name), h("span", { class: "muted" }, modelName(run.model)), standIn(run.stand_in), h("span", { class: "muted" }, run.state),
      h("a", { class: "button push", href: path("calibration", name) }, "Calibration")),
    facts(run), notBegun(run), h("p", { class: "muted" }, run.path), continuing(run) || "", ...run.sentences.map((t) => h("p", { class: "notice" }, t)), invalid(run) || "");
  for (const chain of run.chains) {
    parts.push(h("article", { class: "card" },
      h("div", { class: "row" }, h("h2", {}, chain.task || chain.chain), h("span", { class: "muted" }, `${chain.world} · ${chain.arm}`),
        chain.now.map((m) => now(name, chain.chain, m)), h("span", { class: "push muted" }, `${chain.successes} of ${chain.judged} solved${chain.driven ? `, ${chain.driven} with help, not counted` : ""}`), interval(chain)),
      attempts(name, chain)));
  }
  parts.push(tileKey());
  return parts;
}

export function open(host, [run], shell) {
  return run ? one(host, run, shell) : overview(host, shell);
}
