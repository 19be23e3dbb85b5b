// The scene that a campaign waits for: live over stored, blended, by edges, flickering or as a difference, until somebody says that it is ready.
import { chainWords, h, listen, path, percent, problem, query, renew, send, typing } from "../dom.js";

const MODES = { blend: "wanted over now, blended", flicker: "flicker", edges: "edges: red wanted, green now", difference: "difference", live: "now alone", stored: "wanted alone" };
const FLICKER_MS = 450;

// CHAIN start 3, in words.
function sceneWords(scene) {
  const [chain, start] = scene.split(" start ");
  const { task, arm } = chainWords(chain);
  return task && start !== undefined ? `${task}, ${arm}, start ${start}` : scene;
}

function overview(host, shell) {
  const list = h("div", { class: "list" });
  host.append(h("h1", {}, "Which scene is to be arranged?"), list);
  return listen("arrange/scenes", {}, { now: ({ scenes }) => renew(list, scenes.length
    ? h("ul", { class: "plain" }, scenes.map((s) => h("li", {}, h("a", { class: "button", href: path("arrange", s.run) }, `${s.run}: ${sceneWords(s.scene)}`))))
    : h("p", { class: "hint" }, "No campaign waits for a scene. One on a rig shows it here before each attempt.")) }, (yes) => shell.connected(yes));
}

// The spots that differ, by number, each as it is now and as it is wanted.
const AROUND = 0.03; // of the picture, so that a thing is seen whole
class Camera {
  constructor(run, name, compared) {
    Object.assign(this, { run, name, compared, boxes: [] });
    this.live = h("img", { alt: `${name}, live`, onload: () => this.fit() });
    this.stored = h("img", { alt: `${name}, stored`, class: "over" });
    this.marks = h("div", { class: "marks" });
    this.pairs = h("div", { class: "pairs" });
    this.element = h("figure", { class: "view overlaid" }, this.live, compared ? this.stored : null, this.marks, h("figcaption", {}, compared ? name : `${name}: nothing is stored`));
    if (compared) this.stored.src = this.address("stored");
  }

  fit() {
    this.element.style.setProperty("--aspect", this.live.naturalWidth / this.live.naturalHeight);
  }

  address(kind, taken) {
    return `api/arrange/picture?${query({ run: this.run, camera: this.name, kind, taken })}`;
  }

  async update(mode, taken, spots, from) {
    const next = new Image();
    const edges = mode === "edges" && this.compared;
    next.src = this.address(edges ? "edges" : "live", taken);
    await next.decode().catch(() => {});
    if (!next.naturalWidth) return;
    this.live.src = next.src;
    this.mark(spots, from);
    if (!edges) this.crop(next);
    this.element.dataset.taken = taken;
  }

  mark(spots, from) {
    const name = (k) => String(from + k + 1);
    this.boxes = spots.map(([left, top, right, bottom]) => [Math.max(0, left - AROUND), Math.max(0, top - AROUND), Math.min(1, right + AROUND), Math.min(1, bottom + AROUND)]);
    this.marks.replaceChildren(...this.boxes.map(([left, top, right, bottom], k) => h("span", { class: "spot", style: { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` } }, h("b", {}, name(k)))));
    const canvas = (words) => h("figure", {}, h("canvas", { role: "img", "aria-label": words }), h("figcaption", {}, words));
    if (this.pairs.children.length !== this.boxes.length || this.from !== from) this.pairs.replaceChildren(...this.boxes.map((_, k) => h("div", { class: "pair" }, h("b", {}, name(k)), canvas("now"), canvas("wanted"))));
    this.from = from;
  }

  crop(now) {
    for (const [k, [left, top, right, bottom]] of this.boxes.entries()) {
      for (const [canvas, image] of [...this.pairs.children[k].querySelectorAll("canvas")].map((c, i) => [c, [now, this.stored][i]])) {
        if (!image.naturalWidth) continue;
        const [w, h] = [image.naturalWidth, image.naturalHeight];
        Object.assign(canvas, { width: Math.round((right - left) * w), height: Math.round((bottom - top) * h) });
        canvas.getContext("2d").drawImage(image, left * w, top * h, (right - left) * w, (bottom - top) * h, 0, 0, canvas.width, canvas.height);
      }
    }
  }
}

// Whether the scene is as it was.
function verdict(now, spots) {
  if (now.score === null) return "Arrange the scene as you like; later attempts will match it.";
  return spots ? `Not matched yet: ${spots === 1 ? "1 spot differs" : `${spots}${spots >= 6 ? " or more" : ""} spots differ`}.` : "Matched, as far as the cameras tell: nothing of size differs.";
}
const sourceWords = (source) => source.replace(/\S+--(\S+)--(\S+)/, "$1, $2");

export function open(host, parts, shell) {
  const [run] = parts;
  if (!run) return overview(host, shell);
  let mode = "blend", cameras = new Map(), state = null, busy = false, shown = null;
  const title = h("h1", {}), told = h("p", { class: "next", role: "status" }), detail = h("p", { class: "muted" }), said = h("p", { class: "said", role: "status" });
  const pictures = h("div", { class: "pictures arrange" }), pairs = h("section", { class: "spots" });
  const share = h("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "how much of the stored picture", oninput: () => pictures.style.setProperty("--share", share.value / 100) });
  const modes = h("select", { "aria-label": "how the two are shown", onchange: () => look(modes.value) }, Object.entries(MODES).map(([key, words]) => h("option", { value: key }, words)));
  const by = h("input", { name: "by", value: sessionStorage.getItem("capex-judge") ?? "", maxlength: 80, "aria-label": "who arranges", placeholder: "your name" });
  const notes = h("input", { name: "notes", maxlength: 500, "aria-label": "notes on this scene", placeholder: "notes on this scene" });
  const ready = h("button", { type: "button", name: "ready", onclick: () => matched() }, "Matched: the robot may move");
  const tools = h("div", { class: "row" }, h("label", {}, "shown ", modes), share, by, notes, ready);
  const flicker = setInterval(() => pictures.classList.toggle("away"), FLICKER_MS);
  host.append(h("p", { class: "crumbs" }, h("a", { href: path("arrange") }, "Arrange"), h("span", {}, "/"), h("span", {}, run)), title, told, detail, tools, said, h("div", { class: "watch wide" }, pictures, pairs),
    h("p", { class: "muted keys" }, h("kbd", {}, "m"), " next way of showing; the button alone lets the robot move."));

  function look(next) {
    mode = next;
    modes.value = next;
    pictures.className = `pictures arrange ${next}`;
    if (state?.taken) update();
  }

  async function update() {
    if (busy) return;
    busy = true;
    shown = state.taken;
    let from = 0;
    const spots = [...cameras.values()].map((camera) => { const own = state.spots?.[camera.name] ?? [], first = from; from += own.length; return camera.update(mode, shown, own, first); });
    await Promise.all(spots);
    busy = false;
    if (state.taken && state.taken !== shown) update();
  }

  function follow(now) {
    const changed = now.scene !== state?.scene;
    state = now;
    tools.hidden = !now.scene;
    if (!now.scene) {
      title.textContent = "No scene is waited for";
      told.textContent = "The campaign goes on, or is over.";
      pictures.replaceChildren();
      pairs.replaceChildren();
      detail.textContent = "";
      cameras = new Map();
      return;
    }
    if (changed || [...cameras.values()].some((c) => c.compared !== now.cameras[c.name])) {
      cameras = new Map(Object.entries(now.cameras).map(([name, compared]) => [name, new Camera(run, name, compared)]));
      pictures.replaceChildren(...[...cameras.values()].map((c) => c.element));
      pairs.replaceChildren(...[...cameras.values()].map((c) => c.pairs));
      said.textContent = "";
      notes.value = "";
      ready.disabled = false;
    }
    title.textContent = sceneWords(now.scene);
    const spots = Object.values(now.spots ?? {}).reduce((n, own) => n + own.length, 0);
    told.textContent = verdict(now, spots);
    told.dataset.matched = String(now.score !== null && !spots);
    detail.textContent = [now.source && `Wanted: the scene of ${/^first/.test(now.source) ? "the " : ""}${sourceWords(now.source)}.`, now.score !== null && `Difference ${now.score.toFixed(3)}, ${percent(now.changed)} of the pixels.`, now.notes].filter(Boolean).join(" ");
    ready.textContent = spots ? "Let the robot move all the same" : "Matched: the robot may move";
    ready.className = spots ? "danger" : "primary";
    update();
  }

  async function matched() {
    if (!by.value.trim()) {
      said.replaceChildren(problem(new Error("Say who arranges first.")));
      return;
    }
    sessionStorage.setItem("capex-judge", by.value.trim());
    ready.disabled = true;
    try {
      await send("arrange/ready", { run, scene: state.scene, by: by.value.trim(), notes: notes.value });
      said.textContent = "Told. The robot moves next.";
    } catch (error) {
      ready.disabled = false;
      said.replaceChildren(problem(error));
    }
  }

  const keys = (event) => {
    if (typing(event) || event.key !== "m") return;
    const names = Object.keys(MODES);
    look(names[(names.indexOf(mode) + 1) % names.length]);
  };
  addEventListener("keydown", keys);
  look("blend");
  shell.title("Arrange", run);
  const end = listen("arrange/events", { run }, { now: follow }, (yes) => shell.connected(yes));
  return () => { end(); clearInterval(flicker); removeEventListener("keydown", keys); };
}
