// The red Stop: one for every rig that runs below the studio's folders, on every page. It has a connection of its own, sends a press again until the rig confirms it, and remembers it when the page is loaded anew.
import { h, renew } from "./dom.js";

const AGAIN_MS = 500; // between two sendings of a press that is not confirmed
const LOST_MS = 5000; // the studio says something twice a second
const KEPT = "capex-stop";
const LIMITS = "It does not replace the emergency stop.";

const at = (seconds) => new Date(1000 * seconds).toLocaleTimeString();
const random = () => [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("");
const name = () => localStorage.getItem("capex-name") || sessionStorage.getItem("capex-judge") || "the studio";

class Stops {
  constructor() {
    this.rigs = new Map(); // by process
    this.ended = new Map(); // what became of those that a person stopped
    this.pressed = new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")); // by process: a press that is not confirmed
    this.buttons = h("div", { class: "row" });
    this.says = h("div", { class: "says", role: "status", "aria-live": "assertive" });
    this.bar = h("aside", { class: "estop", hidden: true, "aria-label": "Stop of a running rig" }, this.buttons, this.says);
    document.querySelector("header").after(this.bar);
    // By whatever comes first of a press: a finger that slides off, a click that is lost to a redraw.
    this.bar.addEventListener("pointerdown", ({ target }) => { const button = target.closest("[name=rig-stop]"); if (button) this.press(Number(button.dataset.process)); });
    this.bar.addEventListener("click", ({ target }) => {
      const process = Number(target.closest("button")?.dataset.process);
      if (target.closest("[name=seen]")) this.ended.delete(process);
      else if (process && !this.rigs.get(process)?.stop) this.press(process); // by a key or by speech: no pointer was down
      this.show();
    });
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.rigs.size) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (!event.repeat) for (const process of this.rigs.keys()) this.press(process);
    }, true);
    new ResizeObserver(() => document.documentElement.style.setProperty("--foot", `${this.bar.offsetHeight}px`)).observe(this.bar);
    setInterval(() => this.beat(), AGAIN_MS);
    this.connect();
  }

  connect() {
    const address = new URL("api/stop", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    this.heard = performance.now();
    const socket = (this.socket = new WebSocket(address));
    socket.onopen = () => this.send();
    socket.onmessage = (event) => { this.heard = performance.now(); this.hear(JSON.parse(event.data)); };
    socket.onclose = () => { if (socket === this.socket) this.lose(); };
  }

  // A connection that is gone is made anew at the next beat; what was pressed waits for it.
  lose() {
    this.socket = null;
    this.show();
  }

  beat() {
    if (this.socket && performance.now() - this.heard > LOST_MS) { this.socket.close(); this.lose(); }
    else if (!this.socket) this.connect();
    else this.send();
  }

  hear(told) {
    if (told.rigs) this.replace(new Map(told.rigs.map((rig) => [rig.process, rig])));
    if (told.rig) this.rigs.set(told.process, told.rig);
    const pressed = this.pressed.get(told.process);
    if (told.carried && pressed?.key === told.key) this.pressed.delete(told.process);
    this.keep();
    this.show();
  }

  // Rigs that have ended can be stopped no more; what was asked of them stays in sight.
  replace(rigs) {
    for (const [process, rig] of this.rigs) {
      if (rigs.has(process)) continue;
      const press = this.pressed.get(process);
      if (rig.stop) this.ended.set(process, `Rig ${rig.rig} was stopped at ${at(rig.stop.at)} by ${rig.stop.by}; its attempt is over.`);
      else if (press) this.ended.set(process, `Rig ${rig.rig} ended before it confirmed the stop of ${at(press.at)}.`);
    }
    for (const process of this.pressed.keys()) if (!rigs.has(process)) this.pressed.delete(process);
    this.rigs = rigs;
  }

  press(process) {
    if (!this.pressed.has(process)) this.pressed.set(process, { key: random(), at: Date.now() / 1000, sent: 0 });
    this.keep();
    this.send();
    this.show();
  }

  send() {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    for (const [process, press] of this.pressed) {
      if (performance.now() - (press.last ?? -AGAIN_MS) < AGAIN_MS / 2) continue;
      Object.assign(press, { last: performance.now(), sent: press.sent + 1 });
      this.socket.send(JSON.stringify({ process, stop: press.key, by: name() }));
    }
    this.show();
  }

  keep() {
    sessionStorage.setItem(KEPT, JSON.stringify([...this.pressed].map(([process, press]) => [process, { ...press, last: undefined }])));
  }

  // What a rig says of itself, or what became of a press.
  words(rig) {
    const press = this.pressed.get(rig.process);
    const lost = this.socket?.readyState !== WebSocket.OPEN;
    if (rig.elsewhere) return ["lost", `Rig ${rig.rig} runs on ${rig.elsewhere}, which this studio does not reach: use the emergency stop.`];
    if (lost) return ["lost", `No connection to the studio: ${press ? `the stop of ${at(press.at)} is not confirmed. ` : `rig ${rig.rig} cannot be stopped from here now. `}Use the emergency stop.`];
    if (press && press.sent > 2) return ["lost", `Rig ${rig.rig} has not confirmed the stop of ${at(press.at)}, which is sent again and again: use the emergency stop.`];
    if (press) return ["sent", `Stopping rig ${rig.rig} ..`];
    if (rig.silent) return ["lost", `Rig ${rig.rig} does not answer: use the emergency stop.`];
    const next = " The attempt ends. Someone beside the robot looks, then lets it go on in the terminal of capex collect, or begins the attempt again.";
    if (rig.stop) return ["stopped", h("b", {}, `Rig ${rig.rig} stopped at ${at(rig.stop.at)} by ${rig.stop.by}; its arms hold.`), next];
    if (rig.held) return ["stopped", h("b", {}, `Rig ${rig.rig} holds its arms: ${rig.held}.`), next];
    return ["runs", `Stops the arms of rig ${rig.rig} within a control step; they hold. ${LIMITS}`];
  }

  show() {
    const rigs = [...this.rigs.values()];
    this.bar.hidden = !rigs.length && !this.ended.size;
    document.body.classList.toggle("rigged", !this.bar.hidden);
    renew(this.buttons, rigs.filter((rig) => !rig.elsewhere).map((rig) => h("button", { type: "button", name: "rig-stop", data: { process: rig.process }, "aria-label": `Stop the arms of rig ${rig.rig} (Escape)` }, h("span", {}, "Stop ", rigs.length > 1 ? rig.rig : "the arms"), h("kbd", {}, rigs.length > 1 ? "Esc: all" : "Esc"))));
    renew(this.says, rigs.map((rig) => { const [kind, ...words] = this.words(rig); return h("p", { class: kind, data: { process: rig.process } }, words); }), [...this.ended].map(([process, words]) => h("p", { class: "ended" }, words, " ", h("button", { type: "button", name: "seen", data: { process } }, "Close"))));
  }
}

export const watchRigs = () => new Stops();
