// Confidences against what happened: reliability, every waypoint as a dot that leads to its episode, weights, deferrals.
import { ask, chainWords, confidence, count, h, path, percent, s } from "../dom.js";
import { colour, lines } from "../plots.js";
import { term } from "../words.js";

const FEW = 20; // waypoints of a bin below which its share says little


async function search(host) {
  const { runs } = await ask("campaigns");
  host.append(h("h1", {}, "Calibration"), h("p", { class: "muted" }, "Choose a run."), h("ul", { class: "plain" }, runs.filter((r) => !r.error).map((r) => h("li", {}, h("a", { href: path("calibration", r.name) }, r.name), h("span", { class: "muted" }, ` ${r.model}, ${count(r.total.episodes, "attempt")}`)))));
  return () => {};
}

function reliability(predictors) {
  const size = 310, pad = 44;
  const x = (p) => pad + p * (size - pad - 8), y = (p) => size - pad - p * (size - pad - 8);
  const svg = s("svg", { class: "reliability", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": predictors.map((p) => `${p.name}: expected calibration error ${p.ece.toFixed(3)}`).join("; ") });
  for (const v of [0, 0.25, 0.5, 0.75, 1]) svg.append(s("line", { class: "grid", x1: x(v), x2: x(v), y1: y(0), y2: y(1) }), s("line", { class: "grid", x1: x(0), x2: x(1), y1: y(v), y2: y(v) }), s("text", { x: x(v), y: y(0) + 14, class: "middle" }, v.toFixed(2)), s("text", { x: x(0) - 5, y: y(v) + 3, class: "end" }, v.toFixed(2)));
  svg.append(s("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }), s("text", { x: x(0.5), y: size - 4, class: "middle" }, "predicted: confidence"), s("text", { transform: `translate(11 ${y(0.5)}) rotate(-90)`, class: "middle" }, "share that was reached"));
  for (const p of predictors) {
    const at = p.bins.map((b) => `${x(b.predicted).toFixed(1)},${y(b.reached).toFixed(1)}`).join(" ");
    svg.append(...p.bins.map((b) => s("line", { class: `range ${p.name}`, x1: x(b.predicted), x2: x(b.predicted), y1: y(b.least), y2: y(b.most) })), s("polyline", { class: p.name, points: at }), ...p.bins.map((b) => s("circle", { class: p.name, cx: x(b.predicted), cy: y(b.reached), r: 2.5 + 7 * Math.sqrt(b.count / p.n) }, s("title", {}, `${p.name} ${b.low.toFixed(1)} to ${b.high.toFixed(1)}: ${b.count} waypoints, mean ${confidence(b.predicted)}, ${percent(b.reached)} reached, 95 % interval ${percent(b.least)} to ${percent(b.most)}`))));
  }
  return svg;
}

const judgedTable = (predictors) => h("table", { class: "small" }, h("thead", {}, h("tr", {}, ["", "Mean", "ECE", "AUROC", "Brier"].map((t) => h("th", { class: t && "r" }, term(t))))),
  h("tbody", {}, predictors.map((p) => h("tr", {}, h("th", {}, h("i", { class: `key ${p.name}` }), p.name), [p.mean, p.ece, p.auroc, p.brier].map((v) => h("td", { class: "r" }, v === null ? "–" : v.toFixed(3)))))));

// Bins by their counts: how much each dot of the drawing weighs.
function binTable(predictors) {
  const rows = predictors.flatMap((p) => p.bins.map((b) => h("tr", { class: b.count < FEW ? "few" : "" }, h("td", {}, p.name), h("td", { class: "r" }, `${b.low.toFixed(1)} to ${b.high.toFixed(1)}`), h("td", { class: "r" }, String(b.count)), h("td", { class: "r" }, `${Math.round(b.reached * b.count)} of ${b.count}`), h("td", { class: "r" }, `${percent(b.least)} to ${percent(b.most)}`, b.count < FEW && h("span", { class: "label" }, " few")))));
  return h("details", {}, h("summary", {}, "The dots in numbers"), h("div", { class: "scroll" }, h("table", { class: "small" }, h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", { class: "r" }, "Confidence"), h("th", { class: "r" }, "Waypoints"), h("th", { class: "r" }, "Reached"), h("th", { class: "r" }, term("95 % interval")))), h("tbody", {}, rows))));
}

// What the model states itself, beside what calibration made of it.
function compared(stated, calibrated) {
  const gain = stated.ece - calibrated.ece;
  const off = `what the model states itself is off by ${Math.round(100 * stated.ece)} points`;
  if (stated.auroc !== null && stated.auroc < 0.6) return `Calibrating matters: ${off}${stated.ece < 0.1 ? " only" : ""}, but does not tell waypoints that are reached from those that are not (AUROC ${stated.auroc.toFixed(2)}; 0.50 is a coin toss).`;
  return Math.abs(gain) < 0.01 ? "Calibrating changed little." : `For comparison, ${off}${gain > 0 ? "" : ", less than that"}.`;
}

// What a person wants to know: may the confidences be believed?
function verdict(predictors) {
  if (!predictors.length) return ["Nothing can be said yet: no waypoint was executed with a confidence."];
  const of = Object.fromEntries(predictors.map((p) => [p.name, p]));
  const best = of.calibrated ?? of.stated;
  const reached = best.bins.reduce((n, b) => n + b.reached * b.count, 0) / best.n;
  const off = best.mean - reached;
  const bias = Math.abs(off) < 0.03 ? "on average neither too sure nor too unsure" : off > 0 ? `too sure by ${Math.round(100 * off)} points on average` : `too unsure by ${Math.round(-100 * off)} points on average`;
  const words = [`${best.name === "calibrated" ? "Calibrated confidence" : "The model's stated confidence"} ${best.ece < 0.05 ? "can be believed" : best.ece < 0.1 ? "is roughly right" : "cannot be believed"} here: off by ${Math.round(100 * best.ece)} points in a typical bin, ${bias}.`];
  if (best.auroc !== null) words.push(best.auroc < 0.6 ? "It hardly tells waypoints that are reached from those that are not." : best.auroc < 0.75 ? "It tells somewhat which waypoints are reached." : "It tells well which waypoints are reached.");
  const worst = best.bins.filter((b) => b.count >= 10 && (b.predicted > b.most || b.predicted < b.least)).sort((a, b) => Math.abs(b.predicted - b.reached) - Math.abs(a.predicted - a.reached))[0];
  if (worst) words.push(`Not everywhere: where it says about ${confidence(worst.predicted)}, ${percent(worst.reached)} were reached (${count(worst.count, "waypoint")}), so there it is too ${worst.predicted > worst.reached ? "sure" : "unsure"}.`);
  if (of.calibrated && of.stated) words.push(compared(of.stated, of.calibrated));
  if (best.n < 100) words.push(`Only ${count(best.n, "waypoint")}: a small sample, take it as a hint.`);
  return words;
}

// Every waypoint: in the order of the chain, as high as its confidence, coloured by what became of it.
function cloud(host, data, go) {
  const canvas = h("canvas", { class: "cloud", role: "img", tabindex: 0, "aria-label": `${data.dots.k.length} waypoints by confidence; the list of surprises names the most telling ones` });
  const tip = h("p", { class: "muted tipline", role: "status" }, "A dot is a waypoint; a click opens it in its episode. Arrow keys go from dot to dot, Enter opens one.");
  const which = h("select", { "aria-label": "confidence", onchange: () => draw() }, h("option", { value: "calibrated" }, "calibrated"), h("option", { value: "stated" }, "stated"));
  host.append(h("div", { class: "row" }, h("h2", {}, "Every waypoint"), which, h("ul", { class: "legend" }, [["done", "reached"], ["stopped", "not reached"], ["deferred", "deferred"], ["skipped", "not executed"]].map(([k, words]) => h("li", {}, h("i", { style: { "--trust": `var(--${k})` } }), words)))), canvas, tip);
  const d = data.dots, n = d.k.length;
  let points = [], near = -1;
  const first = new Map();
  d.episode.forEach((e, i) => { if (!first.has(e)) first.set(e, i); });
  const kind = (i) => (d.label[i] === 1 ? "done" : d.label[i] === 0 ? "stopped" : d.fate[i] === "deferred" ? "deferred" : "skipped");
  function draw() {
    const scale = devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
    Object.assign(canvas, { width: width * scale, height: height * scale });
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    const left = 46, bottom = 36, x = (i) => left + ((i + 0.5) / Math.max(1, n)) * (width - left - 8), y = (p) => height - bottom - p * (height - bottom - 10);
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = colour("--muted");
    c.strokeStyle = colour("--line");
    for (const v of [0, 0.25, 0.5, 0.75, 1]) { c.beginPath(); c.moveTo(left, y(v)); c.lineTo(width - 8, y(v)); c.stroke(); c.fillText(v.toFixed(2), 18, y(v) + 4); }
    c.textAlign = "center";
    c.fillText("episode, in the order of the chain", (left + width) / 2, height - 4);
    c.save();
    c.translate(10, (height - bottom) / 2);
    c.rotate(-Math.PI / 2);
    c.fillText(`${which.value} confidence`, 0, 0);
    c.restore();
    c.textAlign = "start";
    let last = -99;
    for (const [e, i] of first) if (x(i) - last > 46) { last = x(i); c.fillText(`${e}`, x(i), height - 20); c.beginPath(); c.moveTo(x(i), y(0)); c.lineTo(x(i), y(0) + 4); c.stroke(); }
    const r = n > 3000 ? 2 : n > 600 ? 3 : 4.5;
    const colours = Object.fromEntries(["done", "stopped", "deferred", "skipped"].map((k) => [k, colour(`--${k}`)]));
    points = d[which.value].map((p, i) => [x(i), y(p)]);
    for (const [i, [px, py]] of points.entries()) {
      c.beginPath();
      c.arc(px, py, r, 0, 7);
      const k = kind(i);
      c.globalAlpha = 0.85;
      if (k === "deferred") { c.strokeStyle = colours[k]; c.lineWidth = 1.6; c.stroke(); } else { c.fillStyle = colours[k]; c.fill(); }
    }
    c.globalAlpha = 1;
    if (near >= 0) { c.strokeStyle = colour("--ink"); c.lineWidth = 2; c.beginPath(); c.arc(...points[near], r + 3, 0, 7); c.stroke(); }
  }
  const words = (i) => `episode ${d.episode[i]}, decision ${d.decision[i]}, waypoint ${d.k[i]}: stated ${confidence(d.stated[i])}, calibrated ${confidence(d.calibrated[i])}, ${{ done: "reached", stopped: "not reached", deferred: "deferred", skipped: "not executed" }[kind(i)]}`;
  const point = (i) => { near = i; if (i >= 0) tip.textContent = words(i); draw(); };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.x, py = event.clientY - box.y;
    let best = -1, distance = 14 ** 2;
    for (const [i, [x, y]] of points.entries()) { const r = (x - px) ** 2 + (y - py) ** 2; if (r < distance) { distance = r; best = i; } }
    if (best !== near) point(best);
    canvas.style.cursor = best >= 0 ? "pointer" : "default";
  });
  canvas.addEventListener("click", () => near >= 0 && go(d.episode[near], d.decision[near]));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") { event.preventDefault(); point(Math.max(0, Math.min(n - 1, near + (event.key === "ArrowRight" ? 1 : -1)))); }
    if (event.key === "Enter" && near >= 0) go(d.episode[near], d.decision[near]);
  });
  draw();
  return draw;
}

async function weights(host, w) {
  host.append(h("h2", {}, "The calibrator's weights"));
  if (!w.values.length) return void host.append(h("p", { class: "muted" }, "Nothing was learned yet: without labels the stated confidence is believed as it is."));
  const box = h("div", { class: "plot" });
  host.append(box);
  const plot = await lines(box, "episode's place in the chain", "place", [...w.names.slice(1), w.names[0]], [w.position, ...w.values.slice(1), w.values[0]], { height: 280, points: w.position.length < 40, side: "weight", bold: w.names[0] }); // on top: it may be as large as another
  return () => plot.setSize({ width: box.clientWidth, height: 280 });
}

function deferred(d) {
  const share = d.planned ? ` (${percent(d.count / d.planned)} of those planned)` : "";
  const words = d.known ? `Of ${count(d.cuts, "cut")}, ${d.known} ${d.known === 1 ? "is" : "are"} known from plans executed whole afterwards: ${d.right} ${d.right === 1 ? "was" : "were"} right, the waypoint at the cut is not reached.${d.known < FEW ? ` ${d.known} is a small sample: take it as a hint.` : ""}` : d.count ? "Whether that was right is known once their plans are executed whole: capex counterfactual RUN." : "";
  return h("section", {}, h("h2", {}, "What was deferred"), h("p", {}, `${count(d.count, "waypoint")} waited for another look${share}. ${words}`));
}

async function show(host, [run, wanted], shell) {
  host.append(h("p", { class: "hint" }, "Reading every waypoint .."));
  const data = await ask("calibration", { run, chain: wanted });
  host.replaceChildren();
  shell.title("Calibration", run);
  const choice = h("select", { "aria-label": "chain", onchange: (event) => { location.hash = path("calibration", run, event.target.value); } }, data.chains.map((name) => { const { task, arm } = chainWords(name); return h("option", { value: name, selected: name === data.chain }, `${task}, ${arm}`); }));
  host.append(h("p", { class: "crumbs" }, h("a", { href: path("campaigns") }, "Campaigns"), h("span", {}, "/"), h("a", { href: path("campaigns", run) }, run), h("span", {}, "/"), h("span", {}, "calibration")), h("div", { class: "row" }, h("h1", {}, "Calibration"), choice));
  if (!data.chain || !data.dots.k.length) {
    host.append(h("p", { class: "hint" }, "No waypoint of this chain carries a confidence."));
    return () => {};
  }
  const [first, ...more] = verdict(data.predictors);
  host.append(h("p", { class: "next" }, first), ...(more.length ? [h("p", { class: "story" }, more.join(" "))] : []));
  const go = (episode, decision) => { location.hash = path("episode", run, data.chain, `${episode}@${decision}`); };
  const left = h("div", {}), right = h("div", {});
  host.append(h("div", { class: "watch two-thirds" }, left, right));
  left.append(h("h2", {}, "Reliability"), ...(data.predictors.length ? [reliability(data.predictors), judgedTable(data.predictors), binTable(data.predictors), h("p", { class: "muted" }, `${count(data.predictors[0].n, "executed waypoint")} of ${count(data.episodes, "episode")}; each predicted before its episode.`)] : [h("p", { class: "muted" }, "No label yet.")]), deferred(data.deferred));
  const draw = cloud(right, data, go);
  const resize = await weights(right, data.weights);
  const rows = (label) => data.surprises.filter((d) => d.label === label).slice(0, 8).map((d) => h("li", {}, h("a", { href: path("episode", run, data.chain, `${d.episode}@${d.decision}`) }, `episode ${d.episode}, decision ${d.decision}, waypoint ${d.k}`), h("span", { class: "muted" }, ` calibrated ${confidence(d.calibrated)}, stated ${confidence(d.stated)}`)));
  left.append(h("section", {}, h("h2", {}, "Surprises"), h("h3", {}, "trusted, and not reached"), h("ul", { class: "plain" }, rows(0)), h("h3", {}, "distrusted, and reached"), h("ul", { class: "plain" }, rows(1))));
  const redraw = () => { draw(); resize?.(); };
  addEventListener("resize", redraw);
  return () => removeEventListener("resize", redraw);
}

export function open(host, parts, shell) {
  return parts.length ? show(host, parts, shell) : search(host);
}
