// The shell: navigation, and which room the address names. A room exports `open(host, parts, shell)` and returns what closes it.
import { ask, h, path, problem } from "./dom.js";
import { watchRigs } from "./stop.js";

const host = document.querySelector("main");
const link = document.querySelector(".link");
const rooms = new Map();
let close = null;
let turn = 0;

const shell = {
  // Whether what is shown is still fed by the server.
  connected(yes) {
    link.textContent = yes ? "" : "no connection to the studio; what is shown may be old";
    document.body.classList.toggle("lost", !yes);
  },
  title(...words) {
    document.title = [...words, "CAPEX studio"].join(" · ");
  },
};

const nav = document.querySelector("nav");
// On a narrow page the row of rooms scrolls: the present one in sight, edges that hide something faded.
function centre() {
  const here = nav.querySelector("[aria-current]");
  if (here) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;
  fade();
}
function fade() {
  nav.classList.toggle("before", nav.scrollLeft > 2);
  nav.classList.toggle("after", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 2);
}

async function show() {
  const mine = ++turn;
  const [address] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = address.split("/").filter(Boolean).map(decodeURIComponent);
  const name = rooms.has(parts[0]) ? parts.shift() : [...rooms.keys()][0];
  for (const anchor of document.querySelectorAll("nav a")) {
    if (anchor.dataset.room === name) {
      anchor.setAttribute("aria-current", "page");
    }
    else anchor.removeAttribute("aria-current");
  }
  centre();
  close?.();
  close = null;
  host.className = `room-${name}`;
  host.replaceChildren();
  shell.title(rooms.get(name));
  shell.connected(true);
  try {
    const room = await import(`./rooms/${name}.js`);
    if (mine !== turn) return;
    const closing = await room.open(host, parts, shell);
    if (mine === turn) close = closing;
    else closing?.();
  } catch (error) {
    if (mine === turn) host.replaceChildren(problem(error));
  }
}

async function begin() {
  try {
    const about = await ask("studio");
    for (const room of about.rooms) rooms.set(room.name, room.title);
    const links = about.rooms.map((room) => h("a", { href: path(room.name), data: { room: room.name } }, room.title));
    nav.replaceChildren(...links);
  } catch (error) {
    host.replaceChildren(problem(error));
    return;
  }
  nav.addEventListener("scroll", fade);
  addEventListener("resize", centre);
  addEventListener("hashchange", show);
  await show();
}

watchRigs();
begin();
