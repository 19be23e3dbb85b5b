// Frames of an episode: fetched ahead of the playhead, kept as bitmaps, each with its camera's projection and the tips of that moment.
import { query } from "./dom.js";

const KEPT = 160;
const AHEAD = 10;
const AT_ONCE = 3;

export class Frames {
  constructor(of, ticks, width, address = "episode/frame") {
    this.address = address;
    this.of = of;
    this.ticks = ticks;
    this.width = width;
    this.camera = "";
    this.kept = new Map();
    this.asked = new Map();
    this.failed = null;
    this.waiting = [];
  }

  look(camera) {
    if (camera === this.camera) return;
    this.camera = camera;
    this.close();
  }

  has(tick) {
    return this.kept.get(tick);
  }

  // A frame, and those that follow it.
  want(tick, ahead = AHEAD) {
    this.waiting = [];
    for (let t = tick; t <= Math.min(tick + ahead, this.ticks - 1); t++) if (!this.kept.has(t) && !this.asked.has(t)) this.waiting.push(t);
    this.next();
    return this.kept.get(tick) ?? this.asked.get(tick) ?? Promise.resolve(null);
  }

  next() {
    while (this.asked.size < AT_ONCE && this.waiting.length) {
      const tick = this.waiting.shift();
      const camera = this.camera;
      const promise = this.fetch(tick, camera).then((frame) => {
        if (camera === this.camera && frame) this.keep(tick, frame);
        return frame;
      }).catch((error) => {
        this.failed = error;
        return null;
      }).finally(() => {
        if (this.asked.get(tick) === promise) this.asked.delete(tick);
        this.next();
      });
      this.asked.set(tick, promise);
    }
  }

  async fetch(tick, camera) {
    const response = await fetch(`api/${this.address}?${query({ ...this.of, camera, tick, width: this.width })}`);
    if (!response.ok) throw new Error((await response.json()).error);
    const [projection, tips] = ["X-Projection", "X-Tips"].map((name) => JSON.parse(response.headers.get(name)));
    const bitmap = await createImageBitmap(await response.blob());
    return { tick, bitmap, projection, tips, size: [bitmap.width, bitmap.height] };
  }

  keep(tick, frame) {
    this.kept.set(tick, frame);
    if (this.kept.size <= KEPT) return;
    const [oldest] = this.kept.keys();
    this.kept.get(oldest).bitmap.close();
    this.kept.delete(oldest);
  }

  close() {
    for (const frame of this.kept.values()) frame.bitmap.close();
    this.kept.clear();
    this.asked.clear();
    this.waiting = [];
    this.failed = null;
  }
}
