// The scene that a campaign waits for: live over stored, blended, by edges, flickering or as a difference, until somebody says that it is ready.
import { chainWords, h, listen, path, percent, problem, query, send, typing } from "../dom.js";

const MODES = { blend: "both, blended", flicker: "flicker", edges: "edges: red stored, green live", difference: "difference", live: "live alone", stored: "stored alone" };
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
  return listen("arrange/scenes", {}, { now: ({ scenes }) => list.replaceChildren(scenes.length
    ? h("ul", { class: "plain" }, scenes.map((s) => h("li", {}, h("a", { class: "button", href: path("arrange", s.run) }, `${s.run}: ${sceneWords(s.scene)}`))))
    : h("p", { class: "hint" }, "No campaign waits for a scene. One on a rig shows it here before each attempt.")) }, (yes) => shell.connected(yes));
}

class Camera {
  constructor(run, name, compared) {
    Object.assign(this, { run, name, compared });
    this.live = h("img", { alt: `${name}, live` });
    this.stored = h("img", { alt: `${name}, stored`, class: "over" });
    this.element = h("figure", { class: "view overlaid" }, this.live, compared ? this.stored : null, h("figcaption", {}, compared ? name : `${name}: nothing is stored`));
    if (compared) this.stored.src = this.address("stored");
  }

  address(kind, taken) {
    return `api/arrange/picture?${query({ run: this.run, camera: this.name, kind, taken })}`;
  }

  async update(mode, taken) {
    const next = new Image();
    next.src = this.address(mode === "edges" && this.compared ? "edges" : "live", taken);
    await next.decode().catch(() => {});
    if (next.naturalWidth) this.live.src = next.src;
    this.element.dataset.taken = taken;
  }
}

export function open(host, parts, shell) {
  const [run] = parts;
  if (!run) return overview(host, shell);
  let mode = "blend", cameras = new Map(), state = null, busy = false, shown = null;
  const title = h("h1", {}), told = h("p", { class: "next", role: "status" }), said = h("p", { class: "said", role: "status" });
  const pictures = h("div", { class: "pictures arrange" });
  const share = h("input", { type: "range", min: 0, max: 100, value: 50, "aria-label": "how much of the stored picture", oninput: () => pictures.style.setProperty("--share", share.value / 100) });
  const modes = h("select", { "aria-label": "how the two are shown", onchange: () => look(modes.value) }, Object.entries(MODES).map(([key, words]) => h("option", { value: key }, words)));
  const by = h("input", { name: "by", value: sessionStorage.getItem("capex-judge") ?? "", maxlength: 80, "aria-label": "who arranges", placeholder: "your name" });
  const notes = h("input", { name: "notes", maxlength: 500, "aria-label": "notes on this scene", placeholder: "notes on this scene" });
  const ready = h("button", { type: "button", name: "ready", onclick: () => matched() }, "Matched: the robot may move");
  const tools = h("div", { class: "row" }, h("label", {}, "shown ", modes), share, by, notes, ready);
  const flicker = setInterval(() => pictures.classList.toggle("away"), FLICKER_MS);
  host.append(h("p", { class: "crumbs" }, h("a", { href: path("arrange") }, "Arrange"), h("span", {}, "/"), h("span", {}, run)), title, told, tools, said, pictures,
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
    await Promise.all([...cameras.values()].map((camera) => camera.update(mode, shown)));
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
      cameras = new Map();
      return;
    }
    if (changed || [...cameras.values()].some((c) => c.compared !== now.cameras[c.name])) {
      cameras = new Map(Object.entries(now.cameras).map(([name, compared]) => [name, new Camera(run, name, compared)]));
      pictures.replaceChildren(...[...cameras.values()].map((c) => c.element));
      said.textContent = "";
      notes.value = "";
      ready.disabled = false;
    }
    title.textContent = sceneWords(now.scene);
    told.textContent = now.score === null ? "Arrange the scene as you like; later attempts will match it." : `Difference ${now.score.toFixed(3)}, ${percent(now.changed)} of the pixels. ${now.source ? `Match the scene of ${now.source}.` : ""} ${now.notes ?? ""}`;
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
