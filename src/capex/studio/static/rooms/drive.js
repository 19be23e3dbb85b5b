// A person drives: while a key is held, one message is one tick, and the next is sent when the last one was answered. A key released, or a page that is gone, moves nothing.
import { ask, chainWords, h, outcome, path, problem, s, typing } from "../dom.js";
import { project } from "../plan.js";

const FULL = 0.6, SLOW = 0.15;
// By key: what it moves, and what it says. Steps are forward, left, up; turns about the same axes; the base forward, left, yaw.
const KEYS = {
  w: ["step", 0, 1, "forward"], s: ["step", 0, -1, "back"], a: ["step", 1, 1, "left"], d: ["step", 1, -1, "right"], r: ["step", 2, 1, "up"], f: ["step", 2, -1, "down"],
  q: ["turn", 2, 1, "turn left"], e: ["turn", 2, -1, "turn right"], i: ["turn", 1, 1, "nose down"], k: ["turn", 1, -1, "nose up"], j: ["turn", 0, -1, "roll left"], l: ["turn", 0, 1, "roll right"],
  ArrowUp: ["base", 0, 1, "base forward"], ArrowDown: ["base", 0, -1, "base back"], ArrowLeft: ["base", 2, 1, "base turns left"], ArrowRight: ["base", 2, -1, "base turns right"], ".": ["wait", 0, 0, "wait"],
};
const GROUPS = [["Move the hand", "wsadrf"], ["Turn the hand", "qeikjl"], ["Base", ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]]];
const SIGNS = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
const GRIP_TICKS = 10; // a gripper needs about half a second

class Wheel {
  constructor(trip, onState, onOver) {
    Object.assign(this, { onState, onOver, held: new Set(), arm: null, camera: null, gripper: {}, slow: false, state: null, pictures: [], waits: true, gripTicks: 0, sentAt: 0, over: false, device: "keyboard" });
    const address = new URL(trip.takeover ? "api/drive/takeover" : "api/drive/wheel", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address);
    this.socket.binaryType = "blob";
    this.socket.onopen = () => this.socket.send(JSON.stringify(trip));
    this.socket.onmessage = (event) => this.hear(event.data);
    this.socket.onclose = () => { if (!this.over) this.end({ event: "failed", error: "the connection to the studio is gone; nothing moves" }); };
  }

  hear(data) {
    if (typeof data !== "string") {
      const name = this.pictures.shift();
      createImageBitmap(data).then((bitmap) => this.onState(null, name, bitmap));
      if (!this.pictures.length) this.ready();
      return;
    }
    const message = JSON.parse(data);
    if (message.event === "over" || message.event === "failed") return this.end(message);
    if (message.event === "asked") return this.onState(null, null, null, null, message);
    if (message.event === "refused") {
      this.onState(null, null, null, message.error);
      return this.ready();
    }
    this.state = message;
    this.pictures = [...message.pictures];
    this.arm ??= Object.keys(message.arms)[0];
    this.camera = message.camera;
    this.onState(message);
  }

  ready() {
    this.waits = false;
    this.pulse();
  }

  end(message) {
    this.over = true;
    this.held.clear();
    this.onOver(message);
    this.socket.close();
  }

  get gamepad() {
    const pad = [...(navigator.getGamepads?.() ?? [])].find(Boolean);
    if (!pad) return null;
    const dead = (v) => (Math.abs(v ?? 0) < 0.15 ? 0 : Math.max(-1, Math.min(1, v)));
    const step = [-dead(pad.axes[1]), -dead(pad.axes[0]), -dead(pad.axes[3])];
    return step.some(Boolean) ? { step, turn: [0, 0, -dead(pad.axes[2])] } : null;
  }

  move() {
    const speed = this.slow ? SLOW : FULL;
    const message = { arm: this.arm, camera: this.camera, step: [0, 0, 0], turn: [0, 0, 0], base: [0, 0, 0], gripper: this.gripper[this.arm] ?? 0 };
    for (const key of this.held) {
      const [kind, axis, sign] = KEYS[key];
      if (kind === "base" && !this.state.mobile) continue;
      if (kind !== "wait") message[kind][axis] += sign * speed;
    }
    return { ...message, ...(this.gamepad ?? {}) };
  }

  // One tick, if one is wanted and the last one was answered; no faster than the robot's own clock.
  pulse() {
    if (this.waits || this.over || !this.state) return;
    if (!this.held.size && !this.gripTicks && !this.gamepad) return;
    const wait = this.sentAt + 1000 / this.state.hz - performance.now();
    if (wait > 1) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.pulse(), wait);
      return;
    }
    this.gripTicks = Math.max(0, this.gripTicks - 1);
    this.send(this.move());
  }

  send(message) {
    this.waits = true;
    this.sentAt = performance.now();
    this.socket.send(JSON.stringify(message));
  }

  press(key) {
    this.held.add(key);
    this.pulse();
  }

  // Let go of a key, or of all; a robot on the real clock stops where it is.
  release(...keys) {
    const held = this.held.size > 0;
    for (const key of keys.length ? keys : [...this.held]) this.held.delete(key);
    if (held && !this.held.size && !this.gripTicks) this.say("still");
  }

  grip() {
    this.gripper[this.arm] = (this.gripper[this.arm] ?? -1) > 0 ? -1 : 1;
    this.gripTicks = GRIP_TICKS;
    this.pulse();
  }

  look(camera) {
    this.camera = camera;
    if (!this.waits) this.send({ do: "look", camera });
  }

  say(what) {
    if (!this.over && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ do: what }));
  }
}

// The ways that the keys move the hand, drawn from the tip: forward, left, up.
const AXES = [[[1, 0, 0], "w", "forward", "#ff7a59"], [[0, 1, 0], "a", "left", "#35c57c"], [[0, 0, 1], "r", "up", "#4cc9ff"]];
const ARROW_M = 0.09;
function axes(camera, tip) {
  const [width, height] = camera.size;
  const unit = Math.max(width, height) / 400;
  const svg = s("svg", { class: "axes", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "the ways in which the keys w, a and r move the hand" });
  const from = project(camera, tip);
  if (!from) return svg;
  for (const [way, key, words, colour] of AXES) {
    const to = project(camera, tip.map((v, i) => v + ARROW_M * way[i]));
    if (!to) continue;
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy);
    if (length < 6 * unit) continue; // it points at the camera
    const [x, y] = [from[0] + (dx * (length + 13 * unit)) / length, from[1] + (dy * (length + 13 * unit)) / length];
    const line = { x1: from[0], y1: from[1], x2: to[0], y2: to[1] };
    svg.append(s("line", { ...line, class: "under", "stroke-width": 5 * unit }), s("line", { ...line, stroke: colour, "stroke-width": 2.6 * unit }, s("title", {}, `${key}: ${words}`)), s("text", { x, y: y + 3.5 * unit, "font-size": 11 * unit, fill: colour }, key));
  }
  return svg;
}

// Whether the task is done, as far as anybody can tell.
function doneness(state, takeover) {
  if (takeover) return state.success ? { kind: "reached", words: ["Done."] } : { kind: "open", words: ["You drive, the model waits. Hand back when it can go on."] };
  if (state.success === null) return { kind: "waiting", words: ["A person judges this task: say when you think that it is done."] };
  return state.success ? { kind: "reached", words: ["Done: kept as a success."] } : { kind: "open", words: ["Not done yet; it ends by itself when it is."] };
}

function cockpit(host, trip, shell, back) {
  const large = h("canvas", { role: "img", "aria-label": "what the chosen camera sees" });
  const small = h("canvas", { class: "small", role: "img", "aria-label": "what another camera sees" });
  const note = h("p", { class: "next", role: "status" }, "The world opens ..");
  const facts = h("dl", { class: "facts" });
  const warning = h("p", { class: "warning", role: "alert" });
  const cameras = h("select", { "aria-label": "camera", onchange: (event) => wheel.look(event.target.value) });
  const arms = h("select", { "aria-label": "arm", onchange: (event) => { wheel.arm = event.target.value; event.target.blur(); } });
  const button = (name, words, action) => h("button", { type: "button", name, onclick: action }, words);
  const status = h("p", { class: "doneness", role: "status" });
  const inset = h("figcaption", { class: "small" });
  const switching = h("span", { hidden: true }, h("kbd", {}, "x"), " other arm; ");
  const tools = h("div", { class: "row" }, button("grip", [h("kbd", {}, "g"), " gripper"], () => wheel.grip()), h("label", {}, "camera ", cameras), arms);
  const ends = h("div", { class: "row ends" }, h("button", { type: "button", name: "done", class: "primary", onclick: () => wheel.say("done") }, h("kbd", {}, "Enter"), trip.takeover ? " hand back to the model" : " I am done: keep it"), !trip.takeover && h("button", { type: "button", name: "leave", class: "danger push", onclick: () => wheel.say("leave") }, h("kbd", {}, "Backspace"), " leave, keep nothing"));
  const hold = (key) => h("button", { type: "button", class: "hold", data: { key }, onpointerdown: (event) => { event.preventDefault(); event.target.setPointerCapture?.(event.pointerId); wheel.press(key); }, onpointerup: () => wheel.release(key), onpointercancel: () => wheel.release(key), onlostpointercapture: () => wheel.release(key) }, h("kbd", {}, SIGNS[key] ?? key), ` ${KEYS[key][3]}`);
  const pads = h("div", { class: "pads" }, GROUPS.map(([words, keys]) => h("section", { class: words === "Base" ? "base" : null }, h("h3", {}, words), h("div", { class: "row" }, [...keys].map(hold)))));
  host.replaceChildren(h("div", { class: "row" }, h("h1", {}, `${trip.task}, start ${trip.start}`), h("span", { class: "muted" }, `${trip.by} drives`)), note, status,
    h("div", { class: "watch" }, h("div", { class: "see" }, h("figure", { class: "view stage" }, large, small, inset), warning), h("div", { class: "know" }, facts, tools, pads, ends, h("p", { class: "muted keys" }, "Hold a key to move, with ", h("kbd", {}, "shift"), " slowly; ", h("kbd", {}, "."), " waits; ", switching, h("kbd", {}, "c"), " next camera. Nothing moves without a key."))));
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

  function show(state, name, bitmap, error, asked) {
    if (error) warning.textContent = error;
    if (asked) note.textContent = "Asked. The attempt finishes its present decision, then it is yours ..";
    if (bitmap) {
      const canvas = name === wheel.state.camera ? large : small;
      Object.assign(canvas, { width: bitmap.width, height: bitmap.height });
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      canvas.dataset.tick = wheel.state.tick;
      if (canvas === small) inset.textContent = name;
      return;
    }
    if (!state) return;
    note.textContent = state.instruction;
    if (cameras.options.length !== state.cameras.length) cameras.replaceChildren(...state.cameras.map((c) => h("option", {}, c)));
    cameras.value = state.camera;
    const names = Object.keys(state.arms);
    if (arms.options.length !== names.length) arms.replaceChildren(...names.map((a) => h("option", {}, a)));
    arms.hidden = names.length < 2;
    switching.hidden = names.length < 2;
    const { kind, words } = doneness(state, trip.takeover);
    if (status.dataset.kind !== kind) status.replaceChildren(...words);
    status.dataset.kind = kind;
    arms.value = wheel.arm;
    host.classList.toggle("still", !state.mobile);
    const arm = state.arms[wheel.arm];
    large.parentElement.querySelector("svg")?.remove();
    if (state.projection) large.after(axes(state.projection, arm.tip_cm.map((v) => v / 100)));
    facts.replaceChildren(fact("Tip, cm (forward, left, up)", arm.tip_cm.map((v) => v.toFixed(1)).join(", ")), fact("Opening", `${arm.opening_cm.toFixed(1)} cm`), fact("Holds", arm.held.join(", ") || "nothing"), fact("Touches", [...new Set([...arm.touching, ...state.touching])].join(", ") || "nothing"), trip.takeover ? fact("You drove", `${state.tick} ${state.tick === 1 ? "step" : "steps"}`) : fact("Step", `${state.tick} of ${state.horizon}`));
    Object.assign(host.dataset, { tick: state.tick, tip: JSON.stringify(arm.tip_cm) });
    warning.textContent = [...state.guard, state.stopped && `stopped by the guard: ${state.stopped}`, arm.limits.length && `joint limit: ${arm.limits.join(", ")}`].filter(Boolean).join("; ");
  }

  function over(message) {
    removeListeners();
    delete host.dataset.tick;
    if (trip.takeover && message.event === "over") {
      const told = message.handed ? `You drove ${message.handed} ${message.handed === 1 ? "step" : "steps"}; the record says so, and the attempt counts as nobody's success or failure.` : "You drove nothing.";
      return host.replaceChildren(h("h1", {}, "Handed back"), h("p", {}, told, " The model goes on from here."), h("p", {}, h("a", { class: "button", href: path("live", trip.run, trip.chain, trip.start) }, "Watch it")));
    }
    const words = message.event === "failed" ? [problem(new Error(message.error))] : message.kept
      ? [h("h1", {}, "Recorded"), h("p", {}, outcome(message.success), ` ${message.end}, kept in ${message.run}`), h("p", { class: "row" }, h("a", { class: "button", href: path("episode", message.run, message.chain, message.episode) }, "Look at it"), message.success === null && h("a", { class: "button", href: path("judge", message.run) }, "Judge it"))]
      : [h("h1", {}, "Nothing was kept"), h("p", { class: "muted" }, "The attempt was left before it was over.")];
    host.replaceChildren(...words, h("p", {}, h("button", { type: "button", name: "again", onclick: back }, "Drive another")));
  }

  const wheel = new Wheel(trip, show, over);
  const next = (all, now) => all[(all.indexOf(now) + 1) % all.length];
  const down = (event) => {
    wheel.slow = event.shiftKey;
    if (typing(event)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const actions = { g: () => wheel.grip(), c: () => wheel.look(next(wheel.state.cameras, wheel.camera)), x: () => { const all = Object.keys(wheel.state.arms); if (all.length > 1) { wheel.arm = next(all, wheel.arm); show(wheel.state); } }, Enter: () => wheel.say("done"), Backspace: () => { if (!trip.takeover) wheel.say("leave"); } };
    if (!wheel.state || (!KEYS[key] && !actions[key]) || (key === "Enter" && event.target.closest?.("button"))) return;
    event.preventDefault();
    if (KEYS[key]) wheel.press(key);
    else if (!event.repeat) actions[key]();
  };
  const up = (event) => {
    wheel.slow = event.shiftKey;
    wheel.release(event.key.length === 1 ? event.key.toLowerCase() : event.key);
  };
  const let_go = () => wheel.release();
  const plugged = setInterval(() => wheel.pulse(), 50);
  function removeListeners() {
    clearInterval(plugged);
    removeEventListener("keydown", down);
    removeEventListener("keyup", up);
    removeEventListener("blur", let_go);
    document.removeEventListener("visibilitychange", let_go);
  }
  addEventListener("keydown", down);
  addEventListener("keyup", up);
  addEventListener("blur", let_go);
  document.addEventListener("visibilitychange", let_go);
  shell.title(trip.takeover ? "Take over" : "Drive", trip.task);
  return () => { removeListeners(); wheel.say("leave"); wheel.over = true; wheel.socket.close(); };
}

// Take an attempt of a running campaign over.
function takeOver(host, [run, chain, start], shell) {
  const { task } = chainWords(chain);
  let close = null;
  const by = h("input", { name: "by", required: true, value: sessionStorage.getItem("capex-judge") ?? localStorage.getItem("capex-name") ?? "", maxlength: 80, autocomplete: "name" });
  const begin = (event) => {
    event.preventDefault();
    sessionStorage.setItem("capex-judge", by.value.trim());
    document.activeElement?.blur();
    close = cockpit(host, { takeover: true, run, chain, task, start: Number(start), by: by.value.trim(), device: device() }, shell, () => { location.hash = path("live", run, chain, start); });
  };
  host.append(h("p", { class: "crumbs" }, h("a", { href: path("live", run, chain, start) }, "Live"), h("span", {}, "/"), h("span", {}, "take over")), h("h1", {}, `Take over ${task}, start ${start}`),
    h("p", { class: "muted" }, "Before its next decision the model waits, and you drive. Enter hands back to it. The record says who drove which steps; the attempt then counts as nobody's success or failure. If this page vanishes, the attempt stands still: a simulated one for a minute, then the model goes on; a robot until somebody takes it over again."),
    h("form", { class: "form", onsubmit: begin }, h("label", {}, "Who drives", by), h("button", { name: "begin", class: "primary" }, "Take over")));
  return () => close?.();
}
const device = () => (matchMedia("(pointer: coarse)").matches ? "pointer" : "keyboard");

export async function open(host, parts, shell) {
  if (parts[0] === "takeover") return takeOver(host, parts.slice(1), shell);
  const about = await ask("drive");
  let close = null;
  const form = () => {
    close?.();
    close = null;
    const field = (name, value, extra = {}) => h("input", { name, value, required: true, ...extra });
    const by = field("by", sessionStorage.getItem("capex-judge") ?? "", { maxlength: 80, autocomplete: "name" });
    const tasks = [...new Set([...(parts[0] ? [parts[0]] : []), ...about.tasks])];
    const other = h("input", { name: "other", hidden: true, placeholder: "WORLD:TASK", "aria-label": "another task, by name" });
    const task = h("select", { name: "task", onchange: () => { other.hidden = Boolean(task.value); other.required = !task.value; } }, tasks.map((name) => h("option", {}, name)), h("option", { value: "" }, "another one, by its name .."));
    const start = field("start", parts[1] ?? "0", { type: "number", min: 0 });
    const run = field("run", parts[2] ?? "human", { maxlength: 60, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*" });
    const begin = (event) => {
      event.preventDefault();
      sessionStorage.setItem("capex-judge", by.value.trim());
      document.activeElement?.blur();
      close = cockpit(host, { task: task.value || other.value.trim(), start: Number(start.value), run: run.value.trim(), by: by.value.trim(), device: device() }, shell, form);
    };
    host.replaceChildren(...[h("h1", {}, "Drive a robot yourself"), h("p", { class: "muted" }, "What you do is recorded as the demonstrator “human”, in the same form as a model's attempts. Simulated worlds move only while you hold a key."),
      about.taken && h("p", { class: "notice" }, "Somebody drives now; one person drives at a time."), h("form", { class: "form", onsubmit: begin }, h("label", {}, "Task", task, other), h("label", {}, "Start", start), h("label", {}, "Into the run", run), h("label", {}, "Who drives", by), h("button", { name: "begin", class: "primary" }, "Begin"))].filter(Boolean));
  };
  form();
  return () => close?.();
}
