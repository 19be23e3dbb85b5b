// Words of the trade, explained where they stand: a dotted line, and the meaning on a touch, a key or the pointer.
import { h } from "./dom.js";

const MEANING = {
  "stand-in": "A program that takes the place of a real model or person. Its numbers say nothing about any.",
  "no price": "This model has no row in the price table, so no dollars are counted.",
  simulated: "Nobody paid this: a stand-in is billed as the named model would be.",
  repaired: "The plan was not quite as asked for, and this was put right before it was used.",
  horizon: "The task's limit of control steps, 20 a second. The attempt ends there.",
  label: "What the calibrator learns: 1 reached, 0 kept from it. None where nothing can be said.",
  reference: "The record of an earlier success from another start, shown to the model.",
  skeleton: "The order of phases that earlier successes shared, shown to the model.",
  forward: "The gripper points ahead, along x. “down” points at the floor; numbers are angles in degrees.",
  stated: "How sure the model says that it is.",
  calibrated: "How often waypoints like this one were really reached, learned from earlier attempts.",
  threshold: "Waypoints that are trusted less than this wait for another look.",
  committed: "Trusted enough to run. The rest of the plan waits for another look.",
  certified: "Run again in a fresh process from the same start, and it succeeded again.",
  ECE: "Expected calibration error: how far confidence and outcome lie apart, on average. 0 is best.",
  AUROC: "How well confidence tells reached from missed: 0.5 is chance, 1 is always.",
  Brier: "Mean squared distance of confidence and outcome. 0 is best.",
  "95 % interval": "Where the true success rate lies, in 95 of 100 cases (Wilson); the line is what was seen.",
  "wheels drove": "The robot's mobile base moved; the arm held still.",
  "with help": "A person took this attempt over for a while. It counts as nobody's success or failure.",
};

// Model names of the package in words; others stay as they are.
const PILOT = { blur: (v) => `its eyes are off by ${v} pixels`, usual: (v) => `it states about ${v}`, price: (v) => `billed as ${v} would be, in simulated dollars`, blind: () => "it sees nothing", scatter: (v) => `its confidences scatter by ${v}`, touch: (v) => `touch ${v}` };
function pilotWords(name) {
  const [seed, ...settings] = name.slice("pilot".length).replace(/^:/, "").split(",");
  const told = (/^\d+$/.test(seed) ? settings : [seed, ...settings]).filter(Boolean).map((s) => { const [key, value] = s.split("="); return PILOT[key]?.(value) ?? s; });
  return ["The built-in pilot, a stand-in for a model", /^\d+$/.test(seed) && seed !== "0" ? `variant ${seed}` : "", ...told].filter(Boolean).join("; ") + ".";
}

export function term(word, meaning = MEANING[word]) {
  return meaning ? h("span", { class: "term", tabindex: 0, "aria-description": meaning, data: { meaning } }, word) : word;
}
export const standIn = (yes) => yes && h("span", { class: "stand-in term", tabindex: 0, "aria-description": MEANING["stand-in"], data: { meaning: MEANING["stand-in"] } }, "stand-in");
export const modelName = (name) => (name?.startsWith("pilot") ? term(name, pilotWords(name)) : name);
// Dollars; those of a stand-in are nobody's.
export function money(usd, pretended = false, digits = 2) {
  if (usd === null || usd === undefined) return term("no price");
  return pretended ? term(`$${usd.toFixed(digits)} simulated`, MEANING.simulated) : `$${usd.toFixed(digits)}`;
}
