// A plan in a picture, and its confidences: what the robot will do next, and how sure that is. Colours and words are the report's.
import { confidence, h, s } from "./dom.js";
import { term } from "./words.js";

// In photographs colours are the same in a light and a dark page: the report's stopped, deferred and done.
const RAMP = [[0, [255, 77, 94]], [0.5, [255, 210, 63]], [1, [53, 197, 124]]];
const POINTER_M = 0.035;
const FATES = { reached: "done", gripper: "done", base: "drove", terminal: "done", deferred: "deferred", "not executed": "skipped", "out of steps": "skipped", ended: "skipped" };

export const fate = (status) => FATES[status] ?? "stopped";

// A base motion in words that need no signs: back 12 cm, right 6 cm.
const BASE = [/base forward (-?\d+) cm, left (-?\d+) cm, turn (-?\d+) deg/, /base moved (-?\d+) cm forward, (-?\d+) cm left, turned (-?\d+) deg left/];
export function plainly(text) {
  const way = (value, plus, minus, unit) => (Number(value) ? `${value > 0 ? plus : minus} ${Math.abs(value)} ${unit}` : null);
  const words = (verb, still) => (_, forward, left, turn) => `wheels ${verb}${[way(forward, "ahead", "back", "cm"), way(left, "left", "right", "cm"), way(turn, "turn left", "turn right", "deg")].filter(Boolean).join(", ") || still}`;
  return text.replace(BASE[0], words("", "stay")).replace(BASE[1], words("moved ", "not at all"));
}

// Why a waypoint waits: its own trust, or that of the one that its tail follows.
const why = (plan, k, tau) => (k > plan.count ? `deferred: follows waypoint ${plan.count + 1}` : `deferred: trusted ${confidence(trust(plan.waypoints[k]))}, less than ${confidence(tau)}`);

export function trustColour(p) {
  if (p === null || p === undefined) return "#ffffff";
  const k = p < 0.5 ? 0 : 1;
  const [[from, a], [to, b]] = [RAMP[k], RAMP[k + 1]];
  const share = Math.min(1, Math.max(0, (p - from) / (to - from)));
  return `rgb(${a.map((v, i) => Math.round(v + share * (b[i] - v))).join(" ")})`;
}

// A base-frame point (metres) in pixels of the camera's picture; null behind the camera or where it is not calibrated.
export function project(camera, point) {
  const m = camera?.projection;
  if (!m || !point) return null;
  const [x, y, z] = point;
  const [u, v, w] = [0, 4, 8].map((r) => m[r] * x + m[r + 1] * y + m[r + 2] * z + m[r + 3]);
  return w > 0 ? [u / w, v / w] : null;
}

const at = ([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`;
const trust = (row) => row.calibrated ?? row.stated;

export function describe(row, k, outcome) {
  const words = [`waypoint ${k + 1}: ${plainly(row.command)}`];
  if (row.stated !== null) words.push(`stated ${confidence(row.stated)}`);
  if (row.calibrated !== null) words.push(`calibrated ${confidence(row.calibrated)}`);
  return words.join(", ") + (outcome ? `: ${outcome.report}` : "");
}

// plan: { waypoints, count, tips at its beginning, outcomes by k, current }; `now`: where the tips are, with `named` beside them. `choose(k)` is called for a dot.
export function overlay(camera, plan, now = null, choose = null, named = "") {
  const [width, height] = camera.size;
  const unit = Math.max(width, height) / 512;
  const svg = s("svg", { class: "plan trust", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": plan ? `plan of ${plan.waypoints.length} waypoints, ${plan.count} committed` : "no plan yet" });
  if (plan) {
    const arms = [...new Set(plan.waypoints.flatMap((row) => Object.keys(row.at)))];
    for (const arm of arms) drawArm(svg, camera, plan, arm, unit, choose);
  }
  for (const tip of Object.values(now ?? {})) {
    const p = project(camera, tip);
    if (!p) continue;
    svg.append(s("circle", { class: "tip", cx: p[0], cy: p[1], r: 8 * unit, style: { "stroke-width": `${2.5 * unit}` } }, s("title", {}, "the hand now")));
    if (named) svg.append(s("text", { class: "tipname", x: p[0] + 12 * unit, y: p[1] + 4 * unit, "font-size": 11 * unit }, named));
  }
  return svg;
}

function drawArm(svg, camera, plan, arm, unit, choose) {
  const dots = plan.waypoints.map((row, k) => ({ row, k, p: project(camera, row.at[arm]) })).filter((dot) => dot.p);
  let before = project(camera, plan.tips?.[arm]);
  const legs = s("g", {});
  const marks = s("g", {});
  for (const { row, k, p } of dots) {
    const deferred = k >= plan.count;
    if (before) {
      const shape = { d: `M${at(before)}L${at(p)}`, "stroke-dasharray": deferred ? `${5 * unit} ${4 * unit}` : null };
      legs.append(s("path", { ...shape, class: "under", style: { "stroke-width": `${4.5 * unit}` } }), s("path", { ...shape, class: "over", style: { "stroke-width": `${2 * unit}` } }));
    }
    before = p;
    marks.append(dot(camera, plan, arm, row, k, p, deferred, unit, choose));
  }
  svg.append(legs, marks);
}

function dot(camera, plan, arm, row, k, p, deferred, unit, choose) {
  const outcome = plan.outcomes?.[k];
  const colour = trustColour(trust(row));
  const [x, y] = p;
  const group = s("g", { class: ["waypoint", deferred && "hollow", plan.current === k && "current", outcome && fate(outcome.status)].filter(Boolean).join(" "), "data-k": k, onclick: choose && (() => choose(k)) }, s("title", {}, describe(row, k, outcome)));
  const points = row.points?.[arm];
  const ahead = points && project(camera, row.at[arm].map((v, i) => v + POINTER_M * points[i]));
  if (ahead) group.append(s("path", { class: "pointer", d: `M${at(p)}L${at(ahead)}`, style: { stroke: colour, "stroke-width": `${2.2 * unit}` } }));
  group.append(s("circle", { class: "dot", cx: x.toFixed(2), cy: y.toFixed(2), r: 7.5 * unit, style: { fill: deferred ? "rgb(0 0 0 / 0.45)" : colour, stroke: deferred ? colour : "#111", "stroke-width": `${(deferred ? 2.4 : 1) * unit}` } }));
  group.append(s("text", { x, y: y + 3.4 * unit, "font-size": 9.5 * unit, class: deferred ? "light" : "" }, String(k + 1)));
  const word = row.gripper?.[arm];
  if (word) {
    const gap = ["close", "reclose"].includes(word) ? 1.6 : 4;
    const y1 = y - 17 * unit;
    group.append(s("path", { class: "grip", "stroke-width": 2.2 * unit, d: [-1, 1].map((side) => `M${x + side * gap * unit} ${y1}v${6 * unit}`).join("") + `M${x - gap * unit} ${y1}h${2 * gap * unit}` }));
  }
  if (outcome && fate(outcome.status) === "stopped") {
    const end = project(camera, outcome.tips?.[arm]);
    if (end) {
      const [ex, ey] = end;
      const r = 5 * unit;
      const cross = `M${ex - r} ${ey - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`;
      group.append(s("path", { class: "leg", d: `M${at(p)}L${at(end)}`, "stroke-width": 1.5 * unit }), s("path", { class: "cross-under", d: cross, "stroke-width": 5.5 * unit }), s("path", { class: "cross", d: cross, "stroke-width": 3 * unit }));
    }
  }
  return group;
}

// Stated against calibrated: a bar as long as the calibrated confidence, a circle at the stated one, a line at the threshold.
export function bar(row, tau, kind = "") {
  const p = row.calibrated ?? null;
  const words = `stated ${confidence(row.stated)}, calibrated ${confidence(p)}`;
  return s("svg", { class: `trustbar ${kind}`, viewBox: "0 0 100 12", role: "img", "aria-label": words, preserveAspectRatio: "none" },
    s("title", {}, words),
    s("rect", { class: "all", x: 0, y: 3.5, width: 100, height: 5 }),
    p !== null && s("rect", { class: "p", x: 0, y: 3.5, width: 100 * p, height: 5 }),
    tau !== null && tau !== undefined && s("line", { class: "tau", x1: 100 * tau, x2: 100 * tau, y1: 0.5, y2: 11.5 }),
    row.stated !== null && row.stated !== undefined && s("line", { class: "q", x1: 100 * row.stated, x2: 100 * row.stated, y1: 1.5, y2: 10.5 }));
}

// A word is explained the first time that it stands in a table.
function firstTime() {
  const seen = new Set();
  return (word) => (seen.has(word) ? word : (seen.add(word), term(word)));
}

// A report in words; of what did not run, also why.
const reported = (outcome, halted) => (outcome.status === "not executed" && halted < Infinity ? `not executed: waypoint ${halted + 1} was stopped` : plainly(outcome.report));

// The waypoint that stopped the plan; those after it did not run.
const haltedAt = (plan) => Number(Object.entries(plan.outcomes ?? {}).find(([, o]) => fate(o.status) === "stopped")?.[0] ?? Infinity);

// A waypoint's number as in the picture; one without a confidence has no colour.
function badge(row, k, deferred) {
  const known = trust(row) !== null && trust(row) !== undefined;
  return h("i", { class: [deferred && "ring", !known && "plain"].filter(Boolean).join(" "), style: { "--trust": known ? trustColour(trust(row)) : "var(--muted)" } }, String(k + 1));
}

export function planTable(plan, tau, choose = null, title = "") {
  const halted = haltedAt(plan);
  const once = firstTime();
  const rows = plan.waypoints.map((row, k) => {
    const outcome = plan.outcomes?.[k];
    const deferred = k >= plan.count;
    const kind = outcome ? fate(outcome.status) : deferred ? "deferred" : k > halted ? "skipped" : plan.current === k ? "current" : "";
    const said = outcome?.status === "deferred" || (deferred && !outcome) ? why(plan, k, tau) : outcome ? reported(outcome, halted) : (k > halted ? `not executed: waypoint ${halted + 1} was stopped` : plan.current === k ? "moving" : "");
    return h("tr", { class: kind, "data-k": k, onclick: choose && (() => choose(k)) },
      h("td", { class: "r k" }, badge(row, k, deferred)),
      h("td", { class: "wide" }, plainly(row.command).split(/(forward)/).map((part) => (part === "forward" ? once(part) : part))),
      h("td", { class: "r" }, confidence(row.stated)), h("td", { class: "r" }, confidence(row.calibrated)),
      h("td", {}, trust(row) !== null && trust(row) !== undefined && bar(row, tau, kind)),
      h("td", { class: "wide report" }, said, outcome?.label === 0 || outcome?.label === 1 ? h("span", { class: "label" }, " ", once("label"), ` ${outcome.label}`) : null));
  });
  return h("div", { class: "scroll" }, h("table", { class: "waypoints" }, title && h("caption", {}, title),
    h("thead", {}, h("tr", {}, h("th", { class: "r" }, "k"), h("th", {}, "Command ", h("small", {}, "[ahead, left, up] in cm")), h("th", { class: "r" }, term("stated")), h("th", { class: "r" }, term("calibrated")), h("th", {}), h("th", {}, "Report"))),
    h("tbody", {}, rows)));
}

// What happens next, and how sure that is, in a sentence.
export function sentence(plan, tau) {
  const left = plan.waypoints.map((row, k) => ({ row, k })).filter(({ k }) => !plan.outcomes?.[k]);
  const next = left.find(({ k }) => k < plan.count);
  const deferred = plan.waypoints.length - plan.count;
  const tail = deferred ? ` ${deferred === 1 ? "The last one waits" : `The last ${deferred} wait`} for another look: trust falls below ${confidence(tau)}.` : "";
  const halted = haltedAt(plan);
  if (halted < Infinity) return `Waypoint ${halted + 1} ${plainly(plan.outcomes[halted].report)}. The model looks again.`;
  if (!next) return `${plan.count === 1 ? "The waypoint" : `All ${plan.count} waypoints`}${deferred ? ` that ${plan.count === 1 ? "was" : "were"} trusted` : ""} ran; now the model looks again.${tail}`;
  const p = trust(next.row);
  const sure = p === null || p === undefined ? "" : `, trusted ${confidence(p)}${next.row.calibrated !== null && next.row.stated !== null ? ` (the model says ${confidence(next.row.stated)})` : ""}`;
  return `Next: waypoint ${next.k + 1} of ${plan.waypoints.length}, ${plainly(next.row.command)}${sure}.${tail}`;
}

// What became of a plan, in a sentence.
export function became(plan) {
  const halted = haltedAt(plan);
  const left = plan.count - halted - 1;
  if (halted < Infinity) return `waypoint ${halted + 1} of ${plan.waypoints.length} ${plainly(plan.outcomes[halted].report)}${left > 0 ? `, so that ${left === 1 ? "the one" : `the ${left}`} after it did not run` : ""}.`;
  const ran = Object.values(plan.outcomes ?? {}).filter((o) => ["done", "drove"].includes(fate(o.status))).length;
  const rest = plan.waypoints.length - plan.count;
  const size = plan.waypoints.length;
  const which = ran === size ? (size === 1 ? "its waypoint was" : `all ${size} waypoints were`) : ran === 1 ? `waypoint 1 of ${size} was` : `waypoints 1 to ${ran} of ${size} were`;
  const waited = rest ? `, the last ${rest === 1 ? "one" : rest} waited for another look` : "";
  return ran ? `${which} reached${waited}.` : size === 1 ? "its waypoint did not run." : `none of its ${size} waypoints ran.`;
}

const item = (colour, words, hollow = false) => h("li", {}, h("i", { class: hollow ? "ring" : "", style: { "--trust": colour } }), words);
const group = (words, ...items) => h("div", { class: "legends" }, h("b", {}, words), h("ul", { class: "legend" }, items));

// Dots are coloured by trust, before they run.
export const legend = () => group("Trust", item(trustColour(0.95), "trusted"), item(trustColour(0.5), "doubtful"), item(trustColour(0.05), "distrusted"), item(trustColour(0.45), "hollow: deferred", true), item("#4cc9ff", "the hand now", true),
  h("li", {}, h("b", { class: "tick" }), term("stated")), h("li", {}, h("b", { class: "dash" }), term("threshold")));
// Bars of a timeline by what became of them.
export const fates = () => group("Timeline", ...[["done", "reached"], ["stopped", "not reached"], ["drove", "wheels drove"], ["skipped", "cut short"], ["person", "a person drove"]].map(([kind, words]) => h("li", {}, h("b", { class: `bar-key ${kind}` }), term(words))), h("li", {}, h("b", { class: "tick" }), "decision"));
