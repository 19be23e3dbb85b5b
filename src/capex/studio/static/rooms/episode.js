// One episode: a player over its frames, its decisions on a timeline, and every word of them; beside another one of the same start.
import { ask, count, h, outcome, outcomeOf, path, problem, query, s, span, typing } from "../dom.js";
import { Frames } from "../frames.js";
import { became, fate, fates, legend, overlay, plainly, planTable } from "../plan.js";
import { modelName, money, standIn, term } from "../words.js";

const WIDTH = 480;
const SPEEDS = [0.5, 1, 2, 4, 8];
const order = (camera) => (/left/.test(camera) ? 0 : /wrist|hand/.test(camera) ? 2 : 1);

async function search(host) {
  const { runs } = await ask("campaigns");
  host.append(h("h1", {}, "Episode"), h("p", { class: "muted" }, "Choose a run, then one of its attempts."),
    h("ul", { class: "plain" }, runs.filter((run) => !run.error).map((run) => h("li", {}, h("a", { href: path("campaigns", run.name) }, run.name), h("span", { class: "muted" }, ` ${count(run.total.episodes, "attempt")}`)))));
  return () => {};
}

function parse(parts) {
  const side = ([run, chain, at]) => {
    if (at === undefined) return null;
    const [index, decision] = at.split("@");
    return { of: { run, chain, episode: index }, decision: decision ? Number(decision) : null };
  };
  return [side(parts), side(parts.slice(3))];
}

const turnAt = (episode, tick) => episode.turns.findLast((turn) => turn.step <= tick && turn.waypoints.length) ?? episode.turns[0];
// Which waypoint of a plan is under way at a tick; those before it are over.
function progress(turn, tick) {
  let step = turn.step;
  for (const [k, o] of turn.outcomes.entries()) {
    step += o.steps;
    if (tick < step) return k;
  }
  return turn.outcomes.length;
}

function planAt(turn, tick, tips) {
  const now = progress(turn, tick);
  // What was stopped is marked from the beginning: who looks back knows it.
  const outcomes = Object.fromEntries(turn.outcomes.map((o, k) => [k, o]).filter(([k, o]) => (k < now && fate(o.status) !== "deferred") || fate(o.status) === "stopped"));
  return { waypoints: turn.waypoints, count: turn.count, outcomes, current: now < turn.count ? now : null, tips };
}

const shortOf = (episode) => episode.turns.filter((turn) => turn.outcomes.some((o) => fate(o.status) === "stopped"));
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);
const drivenBy = (t) => `${t.by} drove ${t.steps === 1 ? `step ${t.step + 1}` : `steps ${t.step + 1} to ${t.step + t.steps}`}`;

// How an attempt went, in a sentence or two.
function story(episode) {
  const short = shortOf(episode).map((turn) => turn.decision);
  const how = episode.success ? `Solved at step ${episode.steps}, after ${count(episode.turns.length, "decision")}.` : `${episode.success === null ? "Not judged" : "Not solved"}: ${episode.end === "horizon" ? `it ran out of its ${episode.horizon} steps` : `it ended with “${episode.end || "nothing"}” at step ${episode.steps} of ${episode.horizon}`}, after ${count(episode.turns.length, "decision")}.`;
  const kept = short.length ? `${short.length === 1 ? "Decision" : "Decisions"} ${short.length > 8 ? `${short.slice(0, 8).join(", ")} and ${short.length - 8} more` : listed(short)} stopped short of ${short.length === 1 ? "its" : "their"} plan.` : "No plan was stopped short.";
  const helped = episode.takeovers.length ? `${listed(episode.takeovers.map(drivenBy))}, so it counts as nobody's success or failure.` : "";
  return [how, episode.turns.length && kept, helped].filter(Boolean).join(" ");
}

const result = (episode) => [outcome(episode.success), episode.takeovers.length > 0 && h("span", { class: "muted" }, " ", term("with help"), ": not counted")];

class Side {
  constructor(of, episode, box) {
    Object.assign(this, { of, episode, frames: null, hz: 20, tick: -1, stage: null, begin: {} });
    this.canvas = h("canvas", { role: "img", "aria-label": `${episode.task}, start ${episode.start}` });
    this.view = h("div", { class: "view stage" }, this.canvas);
    this.note = h("p", { class: "muted note" }, "Setting the stage ..");
    this.title = h("div", { class: "row side-title" }, h("b", {}, episode.arm), h("span", { class: "muted" }, modelName(episode.model), ` · ${of.run}`), standIn(episode.stand_in), h("span", { class: "push" }, result(episode)));
    box.append(h("div", { class: "side" }, this.title, this.view, this.note));
  }

  async open() {
    try {
      this.stage = await ask("episode/stage", this.of);
    } catch (error) {
      this.note.textContent = `There are no pictures: ${error.message}`;
      return;
    }
    this.note.textContent = "";
    this.hz = this.stage.hz;
    this.frames = new Frames(this.of, this.stage.ticks, WIDTH);
    this.look(Object.keys(this.stage.cameras).sort((a, b) => order(a) - order(b))[0]);
  }

  get cameras() {
    return Object.keys(this.stage?.cameras ?? {}).sort((a, b) => order(a) - order(b));
  }

  get last() {
    return this.frames ? this.frames.ticks - 1 : this.episode.steps;
  }

  look(camera) {
    this.frames?.look(camera);
    const [width, height] = this.stage.cameras[camera].size;
    Object.assign(this.canvas, { width: WIDTH, height: Math.round((WIDTH * height) / width) });
    this.tick = -1;
  }

  // Show a tick, now or when it has come; false while it has not.
  show(tick, ahead) {
    if (!this.frames) return true;
    const at = Math.min(tick, this.last);
    const ready = this.frames.has(at);
    if (!ready) {
      this.frames.want(at, ahead).then((frame) => {
        if (this.frames.failed) this.note.textContent = this.frames.failed.message;
        if (frame && this.wanted === at) this.draw(frame);
      });
    } else {
      this.frames.want(at, ahead);
      this.draw(ready);
    }
    this.wanted = at;
    return Boolean(ready);
  }

  draw(frame) {
    if (frame.tick === this.tick || frame.bitmap.width === 0) return;
    this.tick = frame.tick;
    this.canvas.getContext("2d").drawImage(frame.bitmap, 0, 0);
    this.canvas.dataset.tick = frame.tick;
    const turn = turnAt(this.episode, frame.tick);
    this.view.querySelector("svg")?.remove();
    if (!turn?.waypoints.length) return;
    if (frame.tick === turn.step) this.begin[turn.decision] = frame.tips;
    const before = this.begin[turn.decision] ?? this.episode.turns.findLast((t) => t.decision < turn.decision && t.outcomes.length)?.outcomes.at(-1).tips ?? null;
    this.view.append(overlay({ size: frame.size, projection: frame.projection }, planAt(turn, frame.tick, before), /wrist|hand/.test(this.frames.camera) ? null : frame.tips, this.choose));
  }
}

function timeline(side, seek) {
  const { episode } = side;
  const steps = Math.max(1, episode.steps);
  const svg = s("svg", { class: "timeline", viewBox: `0 0 1000 34`, preserveAspectRatio: "none", role: "slider", tabindex: 0, "aria-label": "step", "aria-valuemin": 0, "aria-valuemax": episode.steps, "aria-valuenow": 0 });
  for (const turn of episode.turns) {
    let step = turn.step;
    for (const [k, o] of turn.outcomes.entries()) {
      const width = Math.max(o.steps ? 1.2 : 0, (1000 * o.steps) / steps);
      if (o.steps) svg.append(s("rect", { class: fate(o.status), x: (1000 * step) / steps, y: 8, width, height: 18 }, s("title", {}, `decision ${turn.decision}, waypoint ${k + 1}: ${o.report}`)));
      step += o.steps;
    }
    const x = (1000 * turn.step) / steps;
    svg.append(s("line", { class: "decision", x1: x, x2: x, y1: 2, y2: 32 }, s("title", {}, `decision ${turn.decision}`)));
  }
  for (const t of episode.takeovers) svg.append(s("rect", { class: "person", x: (1000 * t.step) / steps, y: 4, width: Math.max(1.2, (1000 * t.steps) / steps), height: 26 }, s("title", {}, `${t.by} drove ${t.steps} steps`)));
  const numbers = h("div", { class: "numbers", "aria-hidden": "true" });
  let last = -99;
  for (const turn of episode.turns) {
    const x = (100 * turn.step) / steps;
    if (x - last < (innerWidth < 700 ? 6 : 2.6)) continue;
    last = x;
    numbers.append(h("span", { class: shortOf(episode).includes(turn) ? "stopped" : "", style: { left: `${x}%` } }, String(turn.decision)));
  }
  const head = s("line", { class: "head", x1: 0, x2: 0, y1: 0, y2: 34 });
  svg.append(head);
  const parts = (tick) => svg.insertBefore(s("line", { class: "parting", x1: (1000 * tick) / steps, x2: (1000 * tick) / steps, y1: 0, y2: 34 }, s("title", {}, `from here on they differ, step ${tick}`)), head);
  const at = (event) => Math.round(((event.clientX - svg.getBoundingClientRect().x) / svg.getBoundingClientRect().width) * episode.steps);
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    seek(at(event));
  });
  svg.addEventListener("pointermove", (event) => { if (event.buttons) seek(at(event)); });
  const box = h("div", { class: "lined" }, numbers, svg);
  return { svg, box, parts, move(tick) { const x = (1000 * Math.min(tick, steps)) / steps; head.setAttribute("x1", x); head.setAttribute("x2", x); svg.setAttribute("aria-valuenow", tick); } };
}

function facts(episode) {
  const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
  return h("dl", { class: "facts" }, fact("Ended", episode.end || "–"), fact("Steps", String(episode.steps), h("small", {}, ` of ${episode.horizon} (`, term("horizon"), ")")), fact("Decisions", String(episode.turns.length)), fact("Requests", String(episode.requests)), fact("Cost", money(episode.cost_usd, episode.stand_in)),
    fact("Took", span(episode.timing.episode_s)), fact(h("span", {}, term("label"), "s before"), String(episode.labels_before ?? "–")));
}

// What was done to an attempt that comparisons may want to leave out.
function marks(episode) {
  const steered = [episode.messages.length > 0 && "the operator spoke to the model", episode.takeovers.length > 0 && listed(episode.takeovers.map(drivenBy))].filter(Boolean);
  return steered.length > 0 && h("span", { class: "phase paused" }, steered.join("; "), ": not the model's alone");
}

// The exact requests and replies of a decision.
async function exchanges(of, decision) {
  const { attempts } = await ask("episode/exchanges", { ...of, decision });
  if (!attempts.length) return [h("p", { class: "muted" }, "No model was asked, or nothing of it was kept.")];
  const picture = (sha) => `api/live/picture?${query({ run: of.run, chain: of.chain, start: of.episode, sha })}`;
  const part = (p, kept) => (p.text !== undefined ? h("pre", {}, p.text) : p.sha256 ? h("figure", { class: "seen" }, kept.includes(p.sha256) ? h("img", { src: picture(p.sha256), alt: p.picture, loading: "lazy" }) : h("p", { class: "muted" }, "not kept"), h("figcaption", {}, p.picture)) : h("pre", {}, JSON.stringify(p, null, 1)));
  const message = (m, kept) => (m.user ? m.user.map((p) => part(p, kept)) : [h("pre", {}, JSON.stringify(m, null, 1))]);
  return attempts.map((a, k) => h("section", { class: "exchange" },
    h("h3", {}, `Attempt ${k + 1}: ${a.status}${a.seconds === null ? "" : `, ${a.seconds.toFixed(1)} s`}${a.usage ? `, ${Object.entries(a.usage).map(([n, v]) => `${v.toLocaleString("en")} ${n}`).join(", ")}` : ""}`),
    a.error && h("p", { class: "notice" }, a.error),
    a.request && h("details", {}, h("summary", {}, `Request: ${count(a.request.messages?.length ?? 0, "message")}`), a.request.system && h("details", {}, h("summary", {}, "System prompt"), h("pre", {}, a.request.system)), a.request.tools && h("details", {}, h("summary", {}, "Tools"), h("pre", {}, JSON.stringify(a.request.tools, null, 1))), h("div", { class: "messages" }, (a.request.messages ?? []).map((m) => message(m, a.kept)))),
    a.answer && h("div", {}, a.answer.text && h("blockquote", {}, a.answer.text), a.answer.calls.map((c) => h("pre", {}, `${c.name}(${c.arguments})`))),
    h("details", {}, h("summary", {}, "Body as received"), h("pre", {}, a.body))));
}

// What became of a plan; the table has it waypoint by waypoint.
const sentenceOf = (plan) => { const words = became(plan); return words.charAt(0).toUpperCase() + words.slice(1); };

// The decision of the other attempt at the same moment, in short.
function otherPage(episode, turn, choose) {
  if (!turn) return [h("h2", {}, episode.arm), h("p", { class: "muted" }, "It decides nothing.")];
  const plan = { waypoints: turn.waypoints, count: turn.count, outcomes: Object.fromEntries(turn.outcomes.map((o, k) => [k, o])), current: null };
  return [h("h2", {}, `${episode.arm}: decision ${turn.decision} of ${episode.turns.length}`), h("p", { class: "muted" }, `at step ${turn.step}`), turn.waypoints.length > 0 && h("p", { class: "became" }, sentenceOf(plan)), turn.reasoning && h("blockquote", {}, turn.reasoning), turn.waypoints.length > 0 && planTable(plan, episode.tau, choose)].filter(Boolean);
}

// Numbers of two attempts beside each other.
function bothFacts(pair) {
  const rows = [["Outcome", (e) => result(e)], ["Ended", (e) => e.end || "–"], ["Steps", (e) => `${e.steps} of ${e.horizon}`], ["Decisions", (e) => String(e.turns.length)], ["Stopped short", (e) => String(shortOf(e).length)], ["Requests", (e) => String(e.requests)], ["Cost", (e) => money(e.cost_usd, e.stand_in)]];
  return h("table", { class: "small both" }, h("thead", {}, h("tr", {}, h("th", {}), pair.map((e) => h("th", { scope: "col" }, e.arm)))), h("tbody", {}, rows.map(([words, value]) => h("tr", {}, h("th", { scope: "row" }, words), pair.map((e) => h("td", {}, value(e)))))));
}

// Where the outcomes part: what the one that failed last stopped at, or was doing when the other was done.
function parted(pair) {
  const [won, lost] = [pair.find((e) => e.success === true), pair.find((e) => e.success === false)];
  if (!won || !lost) return null;
  const last = shortOf(lost).at(-1);
  const halted = last?.outcomes.findIndex((o) => fate(o.status) === "stopped");
  const why = last ? ` Its decision ${last.decision} was the last to stop short: waypoint ${halted + 1} ${plainly(last.outcomes[halted].report)}, step ${last.step}.` : " None of its plans was stopped short: it did other things.";
  return { words: `${won.arm} was done at step ${won.steps}; ${lost.arm} went on to step ${lost.steps} (${lost.end === "horizon" ? "out of steps" : lost.end}).${why}`, step: last?.step ?? won.steps };
}

function decisionPage(of, episode, turn, choose) {
  const points = turn.located.map((p) => h("p", { class: "muted" }, `${p.camera} (${Math.round(p.u)}, ${Math.round(p.v)}): `, p.position_m ? `[${p.position_m.map((v) => Math.round(100 * v)).join(",")}] cm` : p.text));
  const located = points.length ? [h("details", {}, h("summary", {}, `${count(points.length, "point")} located in pictures`), points)] : [];
  const talk = h("details", { class: "talk" }, h("summary", {}, `Requests and replies (${count(turn.calls, "reply", "replies")})`));
  talk.addEventListener("toggle", async () => {
    if (!talk.open || talk.dataset.asked) return;
    talk.dataset.asked = "1";
    try {
      talk.append(...(await exchanges(of, turn.decision)));
    } catch (error) {
      talk.append(problem(error));
    }
  });
  const plan = { waypoints: turn.waypoints, count: turn.count, outcomes: Object.fromEntries(turn.outcomes.map((o, k) => [k, o])), current: null };
  const size = turn.waypoints.length;
  return [h("div", { class: "row" }, h("h2", {}, `Decision ${turn.decision}`), h("span", { class: "muted" }, `at step ${turn.step}: `, size ? [`a plan of ${count(size, "waypoint")}, ${turn.count === size ? "all" : turn.count} `, term("committed")] : "no plan"),
    h("button", { type: "button", class: "push", name: "share", onclick: (event) => copy(event.target, location.href) }, "Copy link")),
  size > 0 && h("p", { class: "became" }, sentenceOf(plan)),
  episode.takeovers.filter((t) => t.decision === turn.decision).map((t) => h("p", { class: "notice" }, `Before this decision ${drivenBy(t)}, with ${t.device === "pointer" ? "buttons" : `a ${t.device ?? "keyboard"}`}; the model was told so.`)),
  episode.messages.filter((w) => w.decision === turn.decision).map((w) => h("p", { class: "notice" }, `${w.by} said to the model: “${w.text}”`)),
  turn.reasoning && h("blockquote", {}, turn.reasoning), turn.skipped_reason && h("p", { class: "notice" }, turn.skipped_reason), located, turn.repairs.map((m) => h("p", { class: "muted" }, term("repaired"), `: ${m}`)),
  turn.waypoints.length ? planTable(plan, episode.tau, choose) : null, talk,
  h("details", {}, h("summary", {}, "Go on from here, otherwise"), h("pre", {}, episode.fork[turn.decision - 1]))];
}

async function copy(button, text) {
  await navigator.clipboard?.writeText(text);
  button.textContent = "Copied";
}

async function show(host, first, second, shell) {
  const episode = await ask("episode", first.of);
  const other = second && (await ask("episode", second.of));
  const { run, chain } = first.of;
  shell.title(`${episode.task}, start ${episode.start}`);
  const box = h("div", { class: `sides ${other ? "two" : ""}` });
  const sides = [new Side(first.of, episode, box), ...(other ? [new Side(second.of, other, box)] : [])];
  const page = h("div", { class: "know" }), page2 = h("div", { class: "know other" });
  const clock = h("output", { class: "clock" });
  const playButton = h("button", { type: "button", name: "play", onclick: () => play(!playing) });
  const speedChoice = h("select", { "aria-label": "speed", onchange: (event) => { speed = Number(event.target.value); } }, SPEEDS.map((v) => h("option", { value: v, selected: v === 1 }, `${v}x`)));
  const sync = h("select", { "aria-label": "synchronise by" }, h("option", { value: "step" }, "by step"), h("option", { value: "time" }, "by time"));
  const cameraChoice = h("select", { "aria-label": "camera", onchange: (event) => look(event.target.value) });
  const lines = sides.map((side) => timeline(side, (tick) => { play(false); seek(tick); }));
  const compare = h("select", { "aria-label": "compare with another attempt", onchange: (event) => { if (event.target.value) location.hash = event.target.value; } }, h("option", { value: "" }, "Compare with another attempt"));
  const apart = h("p", { class: "apart muted", role: "status" });
  let tick = 0, playing = false, speed = 1, shown = null, shown2 = null, timer = null, closed = false;

  host.append(h("p", { class: "crumbs" }, h("a", { href: path("campaigns") }, "Campaigns"), h("span", {}, "/"), h("a", { href: path("campaigns", run) }, run), h("span", {}, "/"), h("span", {}, chain)),
    h("div", { class: "row" }, h("h1", {}, `${episode.task}, start ${episode.start}`), !other && result(episode), h("span", { class: "muted" }, `“${episode.instruction}”`), marks(episode)),
    h("p", { class: "story" }, other ? [episode, other].map((e) => h("span", {}, h("b", {}, e.arm), ": ", story(e), " ")) : story(episode)),
    h("div", { class: `watch ${other ? "wide" : ""}` }, h("div", { class: "see" }, box, h("div", { class: "player row" }, playButton, clock, cameraChoice, speedChoice, other && sync, compare), lines.map((line, k) => [other && h("p", { class: "muted line-name" }, h("b", {}, sides[k].episode.arm), ` ${outcomeOf(sides[k].episode.success)}`), line.box]), apart, fates(), legend(),
      h("p", { class: "muted keys" }, h("kbd", {}, "space"), " play ", h("kbd", {}, "←"), h("kbd", {}, "→"), " step, with ", h("kbd", {}, "shift"), " ten ", h("kbd", {}, "["), h("kbd", {}, "]"), " decision ", h("kbd", {}, "c"), " camera")),
    h("div", {}, other ? bothFacts([episode, other]) : facts(episode), other && h("h2", { class: "of" }, episode.arm), page, other && page2)));

  const tickOf = (side) => (sync.value === "time" ? Math.round((tick / sides[0].hz) * side.hz) : tick);
  const last = () => Math.max(...sides.map((side) => side.last));

  function choose(k) {
    for (const row of page.querySelectorAll(".waypoints tr")) row.classList.toggle("chosen", row.dataset.k === String(k));
    page.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
  }

  function seek(to, ahead = playing ? 12 : 2) {
    tick = Math.max(0, Math.min(to, last()));
    const ready = sides.map((side) => side.show(tickOf(side), ahead)).every(Boolean);
    for (const [k, line] of lines.entries()) line.move(tickOf(sides[k]));
    clock.textContent = `step ${tick} of ${episode.steps} · ${(tick / sides[0].hz).toFixed(1)} s`;
    const turn = turnAt(episode, tick);
    if (turn && turn !== shown) {
      shown = turn;
      page.replaceChildren(...decisionPage(first.of, episode, turn, choose).flat().filter(Boolean));
      const at = path("episode", run, chain, `${episode.index}@${turn.decision}`, ...(second ? [second.of.run, second.of.chain, second.of.episode] : []));
      if (!playing) history.replaceState(null, "", at);
    }
    const theirs = other && turnAt(other, tickOf(sides[1]));
    if (other && (theirs !== shown2 || !page2.firstChild)) {
      shown2 = theirs;
      page2.replaceChildren(...otherPage(other, theirs, null));
    }
    const now = shown && progress(shown, tick);
    for (const row of page.querySelectorAll(".waypoints tr")) row.classList.toggle("current", row.dataset.k === String(now) && now < shown.count);
    return ready;
  }

  function play(yes) {
    playing = yes;
    playButton.replaceChildren(yes ? "Pause" : "Play");
    playButton.setAttribute("aria-pressed", yes);
    cancelAnimationFrame(timer);
    if (!yes || closed) return;
    if (tick >= last()) tick = 0;
    let before = performance.now(), due = tick;
    const beat = (now) => {
      if (!playing) return;
      const ready = sides.every((side) => !side.frames || side.frames.has(Math.min(tickOf(side), side.last)) || side.frames.failed);
      if (ready) due += ((now - before) / 1000) * sides[0].hz * speed;  // a frame that is late holds the clock
      before = now;
      if (Math.floor(due) !== tick || !ready) seek(Math.min(Math.floor(due), last()), 12);
      if (tick >= last()) return play(false);
      timer = requestAnimationFrame(beat);
    };
    timer = requestAnimationFrame(beat);
  }

  function look(camera) {
    for (const side of sides) if (side.cameras.includes(camera)) side.look(camera);
    cameraChoice.value = camera;
    seek(tick);
  }

  const decide = (by) => {
    const steps = [...new Set(episode.turns.map((turn) => turn.step))];
    seek(by > 0 ? steps.find((v) => v > tick) ?? last() : steps.findLast((v) => v < tick) ?? 0);
  };
  const keys = (event) => {
    if (typing(event)) return;
    const moves = { ArrowRight: () => seek(tick + (event.shiftKey ? 10 : 1)), ArrowLeft: () => seek(tick - (event.shiftKey ? 10 : 1)), Home: () => seek(0), End: () => seek(last()), "]": () => decide(1), "[": () => decide(-1), " ": () => play(!playing), c: () => { const all = sides[0].cameras; if (all.length) look(all[(all.indexOf(cameraChoice.value) + 1) % all.length]); } };
    if (!moves[event.key] || (event.key === " " && event.target.closest?.("button, summary, a"))) return;
    event.preventDefault();
    if (event.key !== " ") play(false);
    moves[event.key]();
  };
  addEventListener("keydown", keys);
  for (const side of sides) side.choose = choose;
  play(false);
  // Without a decision in the address what failed is looked at where it first stopped short.
  const wanted = first.decision ? episode.turns.find((turn) => turn.decision === first.decision) : !other && episode.success === false && shortOf(episode)[0];
  seek(wanted ? wanted.step : 0);
  const begin = async () => {
    for (const side of sides) await side.open();
    if (closed) return;
    cameraChoice.replaceChildren(...sides[0].cameras.map((name) => h("option", {}, name)));
    seek(tick);
  };
  begin();
  if (second) {
    ask("episode/apart", { ...first.of, run2: second.of.run, chain2: second.of.chain, episode2: second.of.episode }).then((d) => {
      if (d.step === null) return void (apart.textContent = "They never differ.");
      for (const line of lines) line.parts(d.step);
      const go = (step) => h("button", { type: "button", onclick: () => { play(false); seek(step); } }, "Go there");
      const first2 = [episode, other].map((e) => { const turn = turnAt(e, d.step); return `${e.arm}: ${turn?.waypoints.length ? plainly(turn.waypoints[Math.min(progress(turn, d.step), turn.waypoints.length - 1)].command) : "nothing"}`; });
      const end = parted([episode, other]);
      apart.replaceChildren(h("b", { class: "parting-key" }), `They first differ at ${d.decision ? `decision ${d.decision}, ` : ""}step ${d.step} (${first2.join("; ")}). `, go(d.step), ...(end ? [h("br", {}), h("br", {}), `Their outcomes: ${end.words} `, go(end.step)] : []));
    }).catch(() => {});
  }
  ask("episode/others", first.of).then(({ others }) => compare.append(...others.map((o) => h("option", { value: path("episode", run, chain, String(episode.index), o.run, o.chain, o.index) }, `${o.arm}, ${o.model}, ${outcomeOf(o.success)} (${o.run})`)))).catch(() => {});
  return () => { closed = true; play(false); removeEventListener("keydown", keys); for (const side of sides) side.frames?.close(); };
}

export function open(host, parts, shell) {
  const [first, second] = parse(parts);
  return first ? show(host, first, second, shell) : search(host);
}
