// Elements, numbers in words, and how the page asks its server. Foreign text only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// New children in the place of the old. What is equal stays as it is: it keeps its focus, and a press that has begun on it becomes a click.
export function renew(element, ...children) {
  const next = [...h("div", {}, ...children).childNodes];
  for (const extra of [...element.childNodes].slice(next.length)) extra.remove();
  next.forEach((node, k) => {
    const old = element.childNodes[k];
    if (!old) element.append(node);
    else if (old.isEqualNode(node)) return;
    else if (old.cloneNode(false).isEqualNode(node.cloneNode(false))) renew(old, ...node.childNodes);
    else old.replaceWith(node);
  });
}

export const percent = (share) => (share === null || share === undefined ? "" : `${Math.round(100 * share)} %`);
export const dollars = (usd, digits = 2) => (usd === null || usd === undefined ? "no price" : `$${usd.toFixed(digits)}`);
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
export const confidence = (p) => (p === null || p === undefined ? "–" : p.toFixed(2));
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
export const outcomeOf = (success) => (success === null || success === undefined ? "not judged" : success ? "solved" : "not solved");
export const outcome = (success) => h("span", { class: `outcome ${outcomeOf(success).replace(" ", "-")}` }, outcomeOf(success));
// WORLD--TASK--ARM in words.
export function chainWords(name) {
  const [world, task, arm] = [...name.split("--"), "", ""];
  return { world, task, arm };
}
export const path = (...parts) => `#/${parts.map((part) => encodeURIComponent(part).replaceAll("%40", "@")).join("/")}`;
export const query = (values) => new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined && v !== null));

async function answered(response) {
  const kind = response.headers.get("Content-Type") ?? "";
  const value = kind.startsWith("application/json") ? await response.json() : null;
  if (!response.ok) throw new Error(value?.error ?? `the studio answered ${response.status}`);
  return value;
}

export async function ask(address, values = {}, signal = undefined) {
  return answered(await fetch(`api/${address}?${query(values)}`, { signal }));
}

export async function send(address, body) {
  const headers = { "Content-Type": "application/json" };
  return answered(await fetch(`api/${address}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

// Server-sent events: handlers by name. `lost` and `found` tell of the connection. Returns what ends it.
export function listen(address, values, handlers, state = () => {}) {
  const source = new EventSource(`api/${address}?${query(values)}`);
  for (const [name, handler] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
  source.onopen = () => state(true);
  source.onerror = () => state(false);
  return () => source.close();
}

export const problem = (error) => h("p", { class: "notice", role: "alert" }, String(error.message ?? error));
// Text fields keep their keys; a room's keys are for everything else.
export const typing = (event) => event.target.closest?.("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
