// Lines over something, by uPlot, in the page's colours.
import { h } from "./dom.js";

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LINES = ["--source-1", "--source-4", "--source-2", "--source-5", "--source-3", "--source-6", "--source-7", "--source-0"];

function load() {
  if (window.uPlot) return Promise.resolve();
  return new Promise((resolve, reject) => {
    document.head.append(h("link", { rel: "stylesheet", href: "uplot/uPlot.min.css" }), h("script", { src: "uplot/uPlot.iife.min.js", onload: resolve, onerror: () => reject(new Error("the plots could not be loaded")) }));
  });
}

// A plot of series by name over the first row of `data`; `side` names the upright axis, `bold` a series that others may cover.
export async function lines(box, label, unit, names, data, { height = 280, points = false, side = "", bold = "", ...more } = {}) {
  await load();
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  // Without a pointer over the plot the legend has the last values.
  const value = (plot, v, j, i) => { const shown = i === null || i === undefined ? plot.data[j].findLast((w) => w !== null) : v; return shown === null || shown === undefined ? "" : String(Number(shown.toPrecision(3))); };
  const series = names.map((name, j) => ({ label: name, value, stroke: colour(LINES[j % LINES.length]), width: 1.6, dash: j < LINES.length ? undefined : [5, 3], points: { show: points }, ...(name === bold && { stroke: colour("--ink"), width: 2.4, dash: [6, 4], points: { show: false } }) }));
  const sides = side ? { ...axis, label: side, labelSize: 20, size: 44 } : axis;
  return new window.uPlot({ width: box.clientWidth, height, scales: { x: { time: false } }, axes: [label ? { ...axis, label } : axis, sides], series: [{ label: unit, value }, ...series], ...more }, data, box);
}
