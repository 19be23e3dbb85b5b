// LeRobot v3 folders: which there are, what one holds, an episode with its pictures, states and actions, and what differs between two.
import { ask, count, h, path, problem, query, span } from "../dom.js";
import { Film } from "../film.js";
import { lines } from "../plots.js";
import { modelName, standIn, term } from "../words.js";

const FIRST = ["observation.state", "action"];
const STYLES = ["subtask", "motion", "plan", "memory"];

async function overview(host) {
  const { datasets } = await ask("dataset");
  host.append(h("h1", {}, "Datasets"));
  if (!datasets.length) return void host.append(h("p", { class: "hint" }, "No LeRobot folder lies below the studio's folders. Give one: capex studio runs datasets"));
  host.append(h("div", { class: "scroll" }, h("table", { class: "runs" }, h("thead", {}, h("tr", {}, ["Dataset", "Format", "Robot", "Episodes", "Frames", "Frames a second"].map((t, k) => h("th", { scope: "col", class: ["", "more", "", "r", "r", "r more"][k] }, t)))),
    h("tbody", {}, datasets.map((d) => h("tr", {}, h("td", {}, h("a", { href: path("dataset", d.name) }, d.name)), d.error ? h("td", { colspan: 5, class: "wide" }, d.error) : [h("td", { class: "more" }, d.codebase_version ?? "–"), h("td", {}, d.robot_type ?? "–"), ...[d.total_episodes, d.total_frames, d.fps].map((n, k) => h("td", { class: k === 2 ? "r more" : "r" }, n?.toLocaleString("en") ?? "–"))]))))));
}

const crumbs = (name, episode) => h("p", { class: "crumbs" }, h("a", { href: path("dataset") }, "Datasets"), h("span", {}, "/"), episode === undefined ? h("span", {}, name) : [h("a", { href: path("dataset", name) }, name), h("span", {}, "/"), h("span", {}, `episode ${episode}`)]);
const number = (v) => (v === null || v === undefined ? "–" : Math.abs(v) >= 1e4 || (v && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(4))));

function statistics(about) {
  const rows = Object.entries(about.features).filter(([name, f]) => f.kind === "number" && about.stats[name]?.mean).flatMap(([name, f]) => about.stats[name].mean.map((_, k) => [name, f.names[k] ?? String(k), ...["min", "max", "mean", "std"].map((kind) => about.stats[name][kind]?.[k])]));
  return h("details", {}, h("summary", {}, `Statistics of ${count(rows.length, "number")}`), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["Feature", "", "Least", "Most", "Mean", "Deviation"].map((t, k) => h("th", { class: k > 1 ? "r" : null }, t)))), h("tbody", {}, rows.map(([name, part, ...values]) => h("tr", {}, h("td", {}, name), h("td", {}, part), values.map((v) => h("td", { class: "r" }, number(v)))))))));
}

// Who made an episode, in words.
function maker(from) {
  const { model, arm, stand_in } = from;
  if (model === "human" || arm === "human") return ["a person, driving"];
  if (model === "expert" || arm === "expert") return ["the privileged expert, a program that knows the scene ", standIn(true)];
  return [model ? modelName(String(model)) : "–", " ", standIn(stand_in)];
}

// WORLD:TASK, which may be broken before a capital letter.
const taskName = (from) => [from.world, from.task].filter(Boolean).join(":").split(/(?=[A-Z:])/).flatMap((part, k) => (k ? [h("wbr", {}), part] : [part]));

// Episodes, a line each; of ours also who made them and whether that was repeated.
function episodes(name, about, cameras) {
  const known = (key) => about.episodes.some((e) => e.from[key] !== undefined && e.from[key] !== null);
  const [camera] = cameras[0] ?? [];
  const columns = [
    camera && ["", (e) => h("a", { href: path("dataset", name, e.index), tabindex: -1, "aria-hidden": "true" }, h("img", { class: "thumb", loading: "lazy", alt: "", src: `api/dataset/frame?${query({ name, episode: e.index, camera, tick: Math.floor(e.length / 2), width: 192 })}` }))],
    ["Episode", (e) => h("a", { href: path("dataset", name, e.index) }, `episode ${e.index}`)],
    ["Task", (e) => [e.from.task && h("b", {}, taskName(e.from)), h("div", { class: "muted" }, e.tasks.map((t) => `“${t}”`).join("; "))], "wide"],
    known("model") && ["Made by", (e) => maker(e.from), "wide"], known("arm") && ["Method", (e) => String(e.from.arm ?? ""), "more"], known("start") && ["Start", (e) => String(e.from.start ?? ""), "r more"],
    known("success") && ["Solved", (e) => yes(e.from.success)], known("certified") && [term("certified"), (e) => yes(e.from.certified), "more"],
    ["Frames", (e) => String(e.length), "r more"], ["Seconds", (e) => (e.length / about.fps).toFixed(1), "r more"],
  ].filter(Boolean);
  return h("div", { class: "scroll" }, h("table", { class: "episodes" }, h("thead", {}, h("tr", {}, columns.map(([words, , kind]) => h("th", { scope: "col", class: kind ?? null }, words)))),
    h("tbody", {}, about.episodes.map((e) => h("tr", {}, columns.map(([, cell, kind]) => h("td", { class: kind ?? null }, cell(e))))))));
}
const yes = (value) => (value === null || value === undefined ? "–" : value === true || value === "True" || value === "true" || value === 1 ? "yes" : "no");

async function whole(host, name) {
  const [about, { datasets }] = [await ask("dataset/about", { name }), await ask("dataset")];
  const fact = (key, value) => h("div", {}, h("dt", {}, key), h("dd", {}, value));
  const features = Object.entries(about.features);
  const cameras = features.filter(([, f]) => f.kind !== "number" && f.kind !== "other");
  const answer = h("div", { "aria-live": "polite" });
  const others = h("select", { "aria-label": "compared with", onchange: (event) => compare(event.target.value) }, h("option", { value: "" }, "compare with .."), datasets.filter((d) => d.name !== name).map((d) => h("option", {}, d.name)));
  host.append(crumbs(name), h("div", { class: "row" }, h("h1", {}, name), h("span", { class: "muted" }, about.format + (about.ours ? ", written by capex" : "")), h("span", { class: "push" }, others)),
    h("dl", { class: "facts" }, fact("Episodes", about.totals.episodes?.toLocaleString("en") ?? "–"), fact("Frames", about.totals.frames?.toLocaleString("en") ?? "–"), fact("Length", span(about.totals.frames / about.fps)), fact("Frames a second", String(about.fps)), fact("Cameras", cameras.map(([key, f]) => `${key.replace("observation.images.", "")}${f.size ? ` ${f.size.join("x")}` : ""}`).join(", ") || "none")),
    answer, h("section", {}, h("h2", {}, "Episodes"), episodes(name, about, cameras)),
    h("details", {}, h("summary", {}, count(features.length, "feature")), h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, features.map(([key, f]) => h("tr", {}, h("td", {}, key), h("td", {}, `${f.dtype} [${f.shape.join(", ")}]`), h("td", { class: "wide muted" }, f.names.join(", ")))))))), statistics(about));

  async function compare(other) {
    if (!other) return answer.replaceChildren();
    answer.replaceChildren(h("p", { class: "muted" }, "Comparing every frame .."));
    try {
      const { sentence, differences } = await ask("dataset/diff", { name, other });
      answer.replaceChildren(h("h2", {}, `${name} and ${other}`), h("p", {}, differences.length ? count(differences.length, "difference") : "They do not differ", `; ${sentence}.`), h("div", { class: "scroll" }, h("table", { class: "differences" }, h("tbody", {}, differences.map((d) => h("tr", {}, h("td", {}, d.what), h("td", { class: "wide" }, d.where), h("td", {}, d.first), h("td", {}, d.second)))))));
    } catch (error) {
      answer.replaceChildren(problem(error));
    }
  }
}

// Of an episode of ours: what, by whom, and whether it was solved.
function madeBy(from) {
  if (from.task === undefined) return "";
  const solved = yes(from.success);
  return h("p", { class: "story" }, h("b", {}, taskName(from)), from.start !== undefined && from.start !== null && `, start ${from.start}`, ". Made by ", maker(from), from.arm && from.arm !== "human" && ` (method ${from.arm})`, solved === "–" ? ". Nobody says whether it was solved." : solved === "yes" ? ". Solved" : ". Not solved", solved === "yes" && (yes(from.certified) === "yes" ? [" and ", term("certified"), "."] : "."), solved === "no" && ".");
}

const HEIGHT = (n) => (n > 1 ? 150 : 230);
const AT_ONCE = 8; // lines of a plot, each in a colour of its own
// Lines that fit into one plot: a base's numbers apart from an arm's, at most eight together.
function grouped(parts) {
  const base = parts.map((part, k) => [part, k]).filter(([part]) => /^base/.test(part)), rest = parts.map((part, k) => [part, k]).filter(([part]) => !/^base/.test(part));
  const groups = [];
  for (const rows of [rest, base]) {
    const each = Math.ceil(rows.length / Math.ceil(rows.length / AT_ONCE));
    for (let k = 0; k < rows.length; k += each) groups.push(rows.slice(k, k + each));
  }
  return groups;
}

async function one(host, name, index, shell) {
  const episode = await ask("dataset/episode", { name, episode: index });
  const about = await ask("dataset/about", { name });
  const last = about.episodes.length - 1;
  const goto = (to, words) => h("a", { class: "button", href: path("dataset", name, to) }, words);
  const words = h("dl", { class: "words-now" });
  const see = h("div", { class: "see" }), know = h("div", { class: "know" });
  const plots = [];
  host.append(crumbs(name, index), h("div", { class: "row" }, h("h1", {}, `Episode ${index}`), h("span", { class: "muted" }, episode.tasks.map((t) => `“${t}”`).join(" ")), h("span", { class: "push row" }, index > 0 && goto(index - 1, "before"), index < last && goto(index + 1, "after"))), madeBy(about.episodes[index]?.from ?? {}), h("div", { class: "watch" }, see, know));
  const moved = (tick) => {
    words.replaceChildren(...STYLES.flatMap((style) => { const now = episode.words.find((w) => w.style === style && w.from_frame <= tick && tick < w.to_frame); return now ? [h("dt", {}, style), h("dd", {}, now.text)] : []; }));
    for (const plot of plots) plot.setCursor({ left: plot.valToPos(tick, "x"), top: 0 }, false);
  };
  let film = null;
  if (Object.keys(episode.stage.cameras).length) {
    film = new Film(episode.stage, { name, episode: index }, "dataset/frame", 1, moved);
    see.append(film.element);
  } else see.append(h("p", { class: "hint" }, "This dataset has no pictures."));
  see.append(words);
  const names = Object.keys(episode.numbers).sort((a, b) => FIRST.indexOf(b) - FIRST.indexOf(a) || a.localeCompare(b));
  const choose = async (feature, box) => {
    const { names: parts, values } = episode.numbers[feature];
    const ticks = values[0].map((_, k) => k * episode.every);
    const groups = grouped(parts);
    for (const rows of groups) {
      const part = h("div", {});
      box.append(part);
      plots.push(await lines(part, groups.length > 1 ? "" : "frame", "frame", rows.map(([words]) => words), [ticks, ...rows.map(([, k]) => values[k])], { height: HEIGHT(groups.length) }));
    }
  };
  for (const feature of [...names].filter((n) => FIRST.includes(n)).reverse()) {
    const box = h("div", { class: "plot", data: { feature } });
    know.append(h("section", {}, h("h2", {}, feature), box));
    await choose(feature, box);
  }
  const rest = names.filter((n) => !FIRST.includes(n));
  if (rest.length) {
    const box = h("div", { class: "plot" });
    const more = h("select", { "aria-label": "another feature", onchange: (event) => { box.replaceChildren(); if (event.target.value) choose(event.target.value, box); } }, h("option", { value: "" }, "another feature .."), rest.map((n) => h("option", {}, n)));
    know.append(h("section", {}, more, box));
  }
  moved(0);
  shell.title("Dataset", name, `episode ${index}`);
  const resize = () => { for (const plot of plots) plot.setSize({ width: plot.root.parentElement?.clientWidth || 300, height: plot.height - (plot.root.querySelector(".u-title")?.offsetHeight ?? 0) }); };
  addEventListener("resize", resize);
  return () => { film?.close(); removeEventListener("resize", resize); for (const plot of plots) plot.destroy(); };
}

export function open(host, parts, shell) {
  const [name, index] = parts;
  if (!name) return overview(host);
  return index === undefined ? whole(host, name) : one(host, name, Number(index), shell);
}
