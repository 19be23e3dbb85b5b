// A film without a plan in it: frames by tick, played, scrubbed and stepped through. What judges and datasets look at.
import { Frames } from "./frames.js";
import { h, typing } from "./dom.js";

const WIDTH = 480;
const SPEEDS = [0.5, 1, 2, 4, 8];

export class Film {
  // `stage`: cameras with their sizes, hz and how many ticks; `address`: where a frame is asked for with `of`.
  constructor(stage, of, address, speed = 2, moved = () => {}) {
    this.stage = stage;
    this.moved = moved;
    this.speed = speed;
    this.tick = 0;
    this.playing = false;
    this.frames = new Frames(of, stage.ticks, WIDTH, address);
    this.canvas = h("canvas", { role: "img", "aria-label": "the attempt, frame by frame" });
    this.note = h("p", { class: "muted note", role: "status" });
    this.button = h("button", { type: "button", name: "play", onclick: () => this.play(!this.playing) }, "Play");
    this.slider = h("input", { type: "range", min: 0, max: stage.ticks - 1, value: 0, "aria-label": "step", class: "scrub", oninput: (event) => { this.play(false); this.seek(Number(event.target.value)); } });
    this.clock = h("output", { class: "clock short" });
    this.choice = h("select", { "aria-label": "camera", onchange: (event) => this.look(event.target.value) }, Object.keys(stage.cameras).map((name) => h("option", {}, name)));
    const speeds = h("select", { "aria-label": "speed", onchange: (event) => { this.speed = Number(event.target.value); } }, SPEEDS.map((v) => h("option", { value: v, selected: v === speed }, `${v}x`)));
    this.element = h("div", { class: "film" }, h("figure", { class: "view stage" }, this.canvas), this.note, h("div", { class: "player row" }, this.button, this.clock, this.choice, speeds), this.slider);
    this.keys = (event) => this.typed(event);
    addEventListener("keydown", this.keys);
    this.look(Object.keys(stage.cameras)[0]);
  }

  get last() {
    return this.stage.ticks - 1;
  }

  look(camera) {
    if (!camera) return;
    this.frames.look(camera);
    this.choice.value = camera;
    const [width, height] = this.stage.cameras[camera].size;
    Object.assign(this.canvas, { width: WIDTH, height: Math.round((WIDTH * height) / width) });
    this.seek(this.tick);
  }

  seek(to, ahead = this.playing ? 12 : 2) {
    this.tick = Math.max(0, Math.min(to, this.last));
    const at = this.tick;
    this.slider.value = at;
    this.clock.textContent = `step ${at} of ${this.last} · ${(at / this.stage.hz).toFixed(1)} s`;
    this.moved(at);
    const ready = this.frames.has(at);
    if (ready) this.draw(ready);
    this.frames.want(at, ahead).then?.((frame) => {
      if (this.frames.failed) this.note.textContent = this.frames.failed.message;
      if (frame && this.tick === at) this.draw(frame);
    });
    return Boolean(ready);
  }

  draw(frame) {
    if (frame.bitmap.width === 0) return;
    this.canvas.getContext("2d").drawImage(frame.bitmap, 0, 0, this.canvas.width, this.canvas.height);
    this.canvas.dataset.tick = frame.tick;
  }

  play(yes) {
    this.playing = yes;
    this.button.textContent = yes ? "Pause" : "Play";
    this.button.setAttribute("aria-pressed", yes);
    cancelAnimationFrame(this.timer);
    if (!yes) return;
    if (this.tick >= this.last) this.tick = 0;
    let before = performance.now(), due = this.tick;
    const beat = (now) => {
      if (!this.playing) return;
      const ready = this.frames.has(this.tick) || this.frames.failed;
      if (ready) due += ((now - before) / 1000) * this.stage.hz * this.speed; // a late frame holds the clock
      before = now;
      if (Math.floor(due) !== this.tick || !ready) this.seek(Math.min(Math.floor(due), this.last), 12);
      if (this.tick >= this.last) return this.play(false);
      this.timer = requestAnimationFrame(beat);
    };
    this.timer = requestAnimationFrame(beat);
  }

  typed(event) {
    if (typing(event)) return;
    const many = event.shiftKey ? 10 : 1;
    const cameras = Object.keys(this.stage.cameras);
    const moves = { ArrowRight: () => this.seek(this.tick + many), ArrowLeft: () => this.seek(this.tick - many), Home: () => this.seek(0), End: () => this.seek(this.last), " ": () => this.play(!this.playing), c: () => this.look(cameras[(cameras.indexOf(this.frames.camera) + 1) % cameras.length]) };
    if (!moves[event.key] || (event.key === " " && event.target.closest?.("button, summary, a"))) return;
    event.preventDefault();
    if (event.key !== " " && event.key !== "c") this.play(false);
    moves[event.key]();
  }

  close() {
    this.play(false);
    removeEventListener("keydown", this.keys);
    this.frames.close();
  }
}
