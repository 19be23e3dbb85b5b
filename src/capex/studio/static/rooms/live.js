// A running episode as it happens: pictures with the plan in them, confidences, the model's words, reports; pause and stop.
import { ask, chainWords, count, h, listen, outcome, path, problem, query, renew, send, typing } from "../dom.js";
import { became, fate, legend, overlay, planTable, sentence } from "../plan.js";
import { modelName, money, standIn, term } from "../words.js";

const NAME = "capex-name";
const order = (camera) => (/left/.test(camera) ? 0 : /wrist|hand/.test(camera) ? 2 : 1);

async function list(host, shell) {
  const { attempts } = await ask("live");
  const { runs } = await ask("campaigns");
  const running = runs.filter((run) => run.running).map((run) => run.name);
  host.append(h("h1", {}, "Live"));
  if (!attempts.length) host.append(h("p", { class: "hint" }, running.length ? "No attempt has begun yet." : "Nothing runs now. Begin a campaign, and it appears here: capex collect kitchen:CloseFridge --starts 0:3 --out runs/first"));
  host.append(h("div", { class: "list" }, attempts.map((a) => {
    const { task, arm } = chainWords(a.chain);
    return h("article", { class: "card running" }, h("div", { class: "row" }, h("span", { class: "dot on" }), h("h2", {}, h("a", { href: path("live", a.run, a.chain, a.start) }, `${task}, start ${a.start}`)), h("span", { class: "muted" }, `${arm} · ${a.run}`), h("a", { class: "button push", href: path("live", a.run) }, "Follow this run")));
  })));
  const timer = setInterval(async () => {
    const later = await ask("live").catch(() => null);
    shell.connected(later !== null);
    if (later && JSON.stringify(later.attempts) !== JSON.stringify(attempts)) dispatchEvent(new HashChangeEvent("hashchange"));
  }, 1500);
  return () => clearInterval(timer);
}

// What is known of the attempt, built from its events; every event leads to the same page, however late it was opened.
const fresh = () => ({ facts: null, memory: null, deciding: null, replies: [], plan: null, past: [], driven: [], now: null, step: 0, ended: null, over: false, tokens: null, usd: null, paused: false, driver: null });

function take(state, event) {
  const kinds = {
    began: () => Object.assign(state, fresh(), { facts: event }),
    remembered: () => { state.memory = event; },
    deciding: () => {
      if (state.plan) state.past.push({ decision: state.deciding?.decision, plan: state.plan });
      Object.assign(state, { deciding: event, paused: false, driver: null, plan: null, replies: [], now: event.tips, step: event.step, usd: event.usd });
    },
    replied: () => { state.replies.push(event); Object.assign(state, { tokens: event.tokens, usd: event.usd }); },
    committed: () => { state.plan = { waypoints: event.waypoints, count: event.count, tips: state.deciding?.tips, outcomes: {}, current: 0 }; },
    moving: () => { Object.assign(state, { now: event.tips, step: Math.max(event.step, state.step) }); if (state.plan && event.k >= 0) state.plan.current = event.k; },
    paused: () => { state.paused = event; },
    taken: () => { Object.assign(state, { driver: event.by, paused: false }); },
    returned: () => { state.driver = null; state.driven.push(event); },
    passed: () => {
      if (!state.plan) return;
      state.plan.outcomes[event.k] = event;
      const stopped = fate(event.status) === "stopped";
      state.plan.current = !stopped && event.k + 1 < state.plan.count ? event.k + 1 : null;
      const ran = Object.values(state.plan.outcomes).reduce((sum, o) => sum + o.steps, 0);
      Object.assign(state, { now: event.tips, step: Math.max(state.step, (state.deciding?.step ?? 0) + ran) });
    },
    ended: () => { state.ended = event; if (state.plan) state.plan.current = null; },
  };
  kinds[event.event]?.();
}

const total = (tokens) => (tokens ? Object.entries(tokens).filter(([k]) => k !== "reasoning").reduce((sum, [, v]) => sum + v, 0) : 0);
const act = (replies) => replies.at(-1)?.calls.find((call) => call.name === "act");

function reasoning(replies) {
  const call = act(replies);
  try {
    return JSON.parse(call.arguments).reasoning ?? "";
  } catch {
    return "";
  }
}

// What a rig's camera sees, over the picture of the last decision, as fast as it comes.
class Screen {
  constructor(view, of) {
    Object.assign(this, { view, of, open: true, frames: 0 });
    this.canvas = h("canvas", { class: "screen", role: "img", "aria-label": `camera ${view.dataset.camera}, live` });
    view.firstChild.after(this.canvas);
    this.run();
  }

  async run() {
    const ask = (after) => fetch(`api/live/frame?${query({ ...this.of(), camera: this.view.dataset.camera, after })}`).catch(() => null);
    let after = "", next = ask(after);
    while (this.open && this.view.isConnected) {
      const response = await next;
      if (!response?.ok || response.status === 205) break; // 205: the attempt is over
      after = response.headers.get("X-Taken") ?? after;
      const blob = await response.blob();
      next = ask(after); // it is waited for while this one is decoded
      if (response.status === 204) continue;
      const bitmap = await createImageBitmap(blob);
      Object.assign(this.canvas, { width: bitmap.width, height: bitmap.height });
      this.canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      this.view.dataset.frames = ++this.frames;
    }
    this.canvas.remove();
    delete this.view.dataset.frames;
  }
}

function watch(host, [run, chain, start], shell) {
  const state = fresh();
  let where = { chain, start };
  let large = null;
  const part = (name) => h("div", { class: name });
  const head = part("head"), pictures = part("pictures"), say = h("p", { class: "next", role: "status", "aria-live": "polite" }), table = part("table"), words = part("words"), memory = part("memory"), controls = part("controls");
  const standing = h("p", { class: "standing", role: "status" });
  const key = h("div", { class: "key-of", hidden: true }, legend());
  let asked = {};
  controls.append(standing);
  host.append(head, say, h("div", { class: "watch" }, h("div", { class: "see" }, pictures), h("div", { class: "know" }, table, key, words, memory)), controls);

  const address = (sha) => `api/live/picture?${query({ run, chain: where.chain, start: where.start, sha })}`;

  function drawHead() {
    const f = state.facts ?? {};
    const d = state.deciding;
    drawStanding();
    const meters = [d && `decision ${d.decision}`, d && ["step ", h("span", { class: "at" }, String(state.step)), ` of ${f.horizon} `, h("small", {}, "(", term("horizon"), ")")], h("span", { class: "more" }, `${total(state.tokens).toLocaleString("en")} tokens · `, money(state.usd, f.stand_in))].filter(Boolean);
    renew(head,
      h("p", { class: "crumbs" }, h("a", { href: path("campaigns") }, "Campaigns"), h("span", {}, "/"), h("a", { href: path("campaigns", run) }, run), h("span", {}, "/"), h("span", {}, "live")),
      h("div", { class: "row title" }, h("span", { class: `dot ${done() ? "" : "on"}` }), h("h1", {}, [f.task ?? (chainWords(where.chain ?? "").task || run), where.start !== undefined && `start ${where.start}`].filter(Boolean).join(", ")), state.ended && outcome(state.ended.success), pill()),
      h("div", { class: "row meta muted" }, h("span", {}, f.arm ?? ""), h("span", {}, modelName(f.model) ?? ""), standIn(f.stand_in), h("span", { class: "push meters" }, meters.map((m, k) => [k > 0 && h("span", { class: k === meters.length - 1 ? "more" : "" }, " · "), m]))));
  }

  const moving = () => state.plan && state.plan.current !== null;
  const done = () => Boolean(state.ended) || state.over; // its last events may have gone unseen

  function pill() {
    const told = (kind, words) => h("span", { class: `phase ${kind}` }, words);
    if (state.ended) return state.ended.end !== "success" && told("", `ended: ${state.ended.end}`);
    if (state.over) return told("", "over");
    if (state.driver) return told("paused", `${state.driver} drives`);
    if (state.paused) return told("paused", "stands still");
    return moving() ? told("simulating", "moving") : state.deciding && told("waiting", "the model thinks");
  }

  // Whether the robot moves, where it never scrolls away; a pause that was asked for comes at the end of a plan.
  function drawStanding() {
    const pausing = moving() ? `Pausing: the robot moves until this plan ends, waypoint ${state.plan.current + 1} of ${state.plan.count}.` : `Pausing: the plan that the model thinks about is still carried out, then the robot stands still.`;
    const gone = state.paused && state.paused.gone;
    const words = done() ? asked.pause && "Paused: no attempt begins." : gone && !state.driver && !asked.pause ? `The page of ${gone} is gone: this attempt alone stands still, ${state.paused.until ? `until ${new Date(1000 * state.paused.until).toLocaleTimeString()}; then the model goes on, unless somebody takes over.` : "until somebody takes it over, or presses Pause and then Go on."}` : !asked.pause ? "" : state.driver ? "Paused, but for whoever drives." : state.paused ? `Paused: the robot stands still since step ${state.step}.` : state.deciding ? pausing : "Paused: no attempt begins.";
    standing.replaceChildren(...[pill(), words && h("b", {}, words), words && asked.pause && h("span", { class: "muted" }, `${asked.pause.by} asked for a pause`)].filter(Boolean));
  }

  function drawPictures() {
    const d = state.deciding;
    if (!d) return;
    Object.assign(pictures.dataset, { chain: where.chain, start: where.start, decision: d.decision });
    const names = Object.keys(d.images).sort((a, b) => order(a) - order(b));
    large = names.includes(large) ? large : names[0];
    const shown = [large, ...names.filter((n) => n !== large)];
    for (const [k, name] of shown.entries()) {
      const old = pictures.children[k];
      const src = address(d.images[name]);
      if (!old || old.dataset.camera !== name) {
        const view = h("figure", { class: "view", data: { camera: name } }, h("img", { src, alt: `camera ${name}`, width: d.cameras[name].size[0], height: d.cameras[name].size[1] }), h("figcaption", {}));
        view.addEventListener("click", (event) => { if (event.target.closest(".waypoint")) return; large = view.dataset.camera; drawPictures(); });
        if (old) old.replaceWith(view);
        else pictures.append(view);
        if (state.facts?.live_cameras) view.screen = new Screen(view, () => ({ run, chain: where.chain, start: where.start }));
      } else if (!old.firstChild.src.endsWith(src)) old.firstChild.src = src;
      drawPlan(pictures.children[k]);
    }
    while (pictures.children.length > shown.length) pictures.lastChild.remove();
  }

  function drawPlan(view) {
    const camera = state.deciding.cameras[view.dataset.camera];
    const still = view.dataset.camera.match(/wrist|hand/); // it moves with the hand, which is in no place of an older picture
    const moved = state.step > state.deciding.step;
    view.querySelector("svg")?.remove();
    (view.querySelector("canvas") ?? view.firstChild).after(overlay(camera, still && view.dataset.frames ? null : state.plan, still ? null : state.now, choose, moved && view.dataset.camera === large ? "now" : ""));
    view.querySelector("figcaption").textContent = view.dataset.frames ? `${view.dataset.camera}, live${still ? "" : `; the plan is that of step ${state.deciding.step}`}` : `${view.dataset.camera}, seen at step ${state.deciding.step}${moved && !still && view.dataset.camera === large ? `; the ring is the hand at step ${state.step}` : ""}`;
  }

  function choose(k) {
    for (const row of table.querySelectorAll("tr")) row.classList.toggle("chosen", row.dataset.k === String(k));
    table.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
  }

  function drawPlans() {
    for (const view of pictures.children) if (state.deciding) drawPlan(view);
    key.hidden = !state.deciding;
    if (state.plan) {
      say.textContent = (!done() && sentence(state.plan, state.facts?.tau)) || "";
      table.replaceChildren(planTable(state.plan, state.facts?.tau, choose, `Plan of decision ${state.deciding?.decision}`));
    } else {
      const last = state.past.at(-1);
      say.textContent = state.deciding && !done() ? `Decision ${state.deciding.decision}: the model looks at these pictures${state.replies.length ? ` (round ${state.replies.length + 1} of its questions)` : ""}.${last ? ` Before: ${became(last.plan)}` : ""}` : "";
      if (!state.deciding) table.replaceChildren();
    }
    if (state.driver) say.textContent = `${state.driver} drives, the model waits.`;
    if (state.paused) say.textContent = `Stands still before decision ${(state.deciding?.decision ?? 0) + 1}.${state.plan ? ` Before: ${became(state.plan)}` : ""}`;
  }

  function drawWords() {
    const said = reasoning(state.replies);
    const rounds = state.replies.map((r) => h("li", {}, `round ${r.round}, ${r.seconds} s: `, r.calls.map((c) => h("code", {}, c.name === "act" ? "act" : `${c.name}(${c.arguments})`)), r.text && ` “${r.text}”`));
    words.replaceChildren(...(said ? [h("blockquote", {}, said)] : []), ...(rounds.length ? [h("details", {}, h("summary", {}, count(rounds.length, "reply", "replies")), h("ol", { class: "rounds" }, rounds))] : []),
      ...(state.deciding ? [h("details", {}, h("summary", {}, "What the model is told now"), h("pre", {}, state.deciding.text))] : []));
  }

  function drawMemory() {
    const m = state.memory;
    if (!m) return memory.replaceChildren();
    memory.replaceChildren(h("details", {}, h("summary", {}, "Memory: ", m.skeleton ? "a " : "no ", term("skeleton"), `, ${m.references.length} `, term("reference"), m.references.length === 1 ? "" : "s", `, ${m.labels} `, term("label"), m.labels === 1 ? "" : "s"),
      m.skeleton && h("pre", {}, m.skeleton), m.references.map((text) => h("pre", {}, text))));
  }

  // Made once and changed in place, so that nobody's click is lost or word erased when the answer to a question comes.
  const word = h("input", { name: "word", class: "word", placeholder: "a word to the model", "aria-label": "a word to the model", maxlength: 500, autocomplete: "off" });
  const name = h("input", { name: "by", placeholder: "your name", "aria-label": "your name", value: localStorage.getItem(NAME) ?? "", maxlength: 80, autocomplete: "off" });
  const pause = h("button", { type: "button", onclick: () => go(pause.name) }), halt = h("button", { type: "button", name: "stop", onclick: () => go("stop") }, "Stop after this", h("span", { class: "more" }, " episode")), over = h("a", { class: "button", name: "takeover" }, "Take over");
  const speak = h("details", { class: "speaking", open: matchMedia("(min-width: 44rem)").matches }, h("summary", {}, "Say", h("span", { class: "more" }, " something")), h("div", { class: "row" }, name, h("form", { class: "row speak", onsubmit: (event) => { event.preventDefault(); if (word.value.trim()) go("message"); } }, word, h("button", { name: "say" }, "Say"))));
  const notes = h("div", { class: "notes" }), refused = h("div", {});

  async function go(what) {
    localStorage.setItem(NAME, name.value);
    document.activeElement?.blur(); // the room's keys are keys again
    try {
      await send("live/ask", { run, what, by: name.value || "studio", ...(what === "message" && { ...where, start: Number(where.start), text: word.value }) });
      if (what === "message") word.value = "";
      refused.replaceChildren();
    } catch (error) {
      return refused.replaceChildren(problem(error));
    }
    await drawControls();
  }

  async function drawControls() {
    asked = await ask("live/requests", { run, ...(where.start !== undefined && where) }).catch(() => asked);
    drawStanding();
    pause.name = asked.pause ? "resume" : "pause";
    renew(pause, asked.pause ? "Go on " : "Pause ", h("kbd", {}, "p"));
    halt.disabled = Boolean(asked.stop);
    if (where.start !== undefined) over.href = path("drive", "takeover", run, where.chain, where.start);
    over.hidden = where.start === undefined;
    renew(notes, state.driven.map((d) => h("span", { class: "muted" }, `${d.by} drove ${count(d.steps, "step")}`)),
      asked.stop && h("span", { class: "muted" }, `${asked.stop.by} asked to stop: what runs is finished, nothing else begins`),
      (asked.messages ?? []).map((w) => h("span", { class: "muted" }, `${w.by} said “${w.text}”${w.decision ? ` (told at decision ${w.decision})` : " (not told yet)"}`)));
    if (!controls.contains(pause)) controls.append(h("div", { class: "row" }, pause, halt, over, speak, notes), refused);
  }

  const redraw = { began: () => { pictures.replaceChildren(); drawHead(); drawPlans(); drawWords(); drawMemory(); }, remembered: drawMemory, deciding: () => { drawHead(); drawPictures(); drawPlans(); drawWords(); }, replied: () => { drawHead(); drawPlans(); drawWords(); }, committed: () => { drawHead(); drawPlans(); drawWords(); }, moving: () => { const at = head.querySelector(".at"); if (at) at.textContent = state.step; for (const view of pictures.children) drawPlan(view); }, passed: () => { drawHead(); drawPlans(); }, paused: () => { drawHead(); drawPlans(); }, taken: () => { drawHead(); drawPlans(); }, returned: () => { drawHead(); drawPlans(); }, ended: () => { drawHead(); drawPlans(); } };
  const stop = listen("live/events", { run, chain, start }, {
    attempt(found) { where = found; shell.title(`${chainWords(found.chain).task}, start ${found.start}`); drawHead(); drawControls(); },
    live(event) { take(state, event); redraw[event.event]?.(); },
    waiting({ whole }) {
      if (whole) location.replace(path("episode", run, chain, start));
      else if (state.over) say.append(" Waiting for the next one.");
      else say.textContent = "Waiting for an attempt to begin.";
    },
    over({ whole, chain: of, start: index }) {
      const link = whole ? h("a", { href: path("episode", run, of, index) }, "Look at the whole episode.") : "It left no episode: it was cut off or invalid.";
      state.over = true;
      drawHead();
      drawPlans();
      say.replaceChildren("The attempt is over. ", link);
    },
    failed({ error }) { say.textContent = error; },
  }, shell.connected);
  const keys = (event) => {
    if (typing(event)) return;
    if (event.key === "p") controls.querySelector("[name=pause], [name=resume]")?.click();
    if (event.key === "c" && state.deciding) { const names = Object.keys(state.deciding.images).sort((a, b) => order(a) - order(b)); large = names[(names.indexOf(large) + 1) % names.length]; drawPictures(); }
  };
  addEventListener("keydown", keys);
  drawHead();
  drawControls();
  const timer = setInterval(drawControls, 3000);
  return () => { stop(); for (const view of pictures.children) if (view.screen) view.screen.open = false; clearInterval(timer); removeEventListener("keydown", keys); };
}

export function open(host, parts, shell) {
  return parts.length ? watch(host, parts, shell) : list(host, shell);
}
