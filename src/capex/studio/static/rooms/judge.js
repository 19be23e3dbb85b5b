// Attempts that a person judges, one after the other. The page changes when a verdict is on disk, and not before.
import { ask, count, h, path, problem, send, typing } from "../dom.js";
import { Film } from "../film.js";

const WORDS = { s: "success", f: "failure", i: "invalid" };
const NAME = "capex-judge";
const remembered = () => sessionStorage.getItem(NAME) ?? "";

const nameField = (changed) => h("label", {}, "Who judges: ", h("input", { name: "by", value: remembered(), maxlength: 80, autocomplete: "name", onchange: (event) => { sessionStorage.setItem(NAME, event.target.value.trim()); changed(); } }));

async function overview(host) {
  const { runs } = await ask("judge");
  host.append(h("h1", {}, "Which attempts need you?"),
    h("p", { class: "muted" }, "What no program can judge waits here for a person. Neither the method nor another judge's word is shown."));
  if (!runs.length) {
    host.append(h("p", { class: "hint" }, "No attempt below these folders is judged by a person: the worlds judge their own."));
    return;
  }
  host.append(h("div", { class: "scroll" }, h("table", { class: "runs waiting-runs" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Run"), h("th", { scope: "col", class: "r" }, "Wait for a verdict"), h("th", { scope: "col", class: "r" }, "Judged"), h("th", {}))),
    h("tbody", {}, runs.map((row) => h("tr", {}, h("td", {}, h("a", { href: path("judge", row.run) }, row.run)), h("td", { class: "r" }, h("b", {}, String(row.waiting))), h("td", { class: "r" }, `${row.attempts - row.waiting} of ${row.attempts}`),
      h("td", {}, h("a", { class: "button", href: row.waiting ? path("judge", row.run) : path("judge", row.run, "second") }, row.waiting ? "Judge" : "Second opinion"))))))));
}

function agreement(rows) {
  if (!rows?.length) return null;
  return h("section", {}, h("h2", {}, "Agreement of judges"), h("div", { class: "scroll" }, h("table", { class: "runs agreement" },
    h("thead", {}, h("tr", {}, ["First judge", "Second judge", "Both judged", "Same verdict", "Cohen's kappa"].map((t, k) => h("th", { scope: "col", class: k > 1 ? "r" : null }, t)))),
    h("tbody", {}, rows.map((a) => h("tr", {}, h("td", {}, a.first), h("td", {}, a.second), h("td", { class: "r" }, String(a.both)), h("td", { class: "r" }, String(a.equal)), h("td", { class: "r" }, a.kappa === null ? "one verdict only" : a.kappa.toFixed(2))))))),
    h("p", { class: "muted" }, "1 is agreement always, 0 what chance would give. The first judge's verdict is the one that counts."));
}

class Desk {
  constructor(host, run, second, shell) {
    Object.assign(this, { host, run, second, shell, film: null, waits: false, why: null, skipped: new Set(), turn: 0 });
    this.head = h("div", { class: "row" });
    this.body = h("div", {});
    this.said = h("p", { class: "said", role: "status", "aria-live": "polite" });
    host.append(h("p", { class: "crumbs" }, h("a", { href: path("judge") }, "Judge"), h("span", {}, "/"), h("span", {}, run)), this.head, this.said, this.body);
    this.keys = (event) => this.typed(event);
    addEventListener("keydown", this.keys);
  }

  get asked() {
    return { run: this.run, by: remembered(), second: this.second ? 1 : 0 };
  }

  async refresh() {
    this.state = await ask("judge/queue", this.asked);
    await this.next();
  }

  titles() {
    const { queue, waiting, second } = this.state;
    const mode = (words, to, on) => h("a", { class: "button", href: to, "aria-current": on ? "true" : null }, words);
    this.head.replaceChildren(h("h1", {}, this.second ? "Second opinion" : "Judge"), h("span", { class: "left" }, `${count(queue.length, "attempt")} left, ${this.state.done} judged by you`),
      h("span", { class: "push row" }, nameField(() => this.refresh().catch((error) => this.tell(error))), mode(`first verdict (${waiting})`, path("judge", this.run), !this.second), mode(`second opinion (${second})`, path("judge", this.run, "second"), this.second)));
  }

  async next(key = null) {
    const mine = ++this.turn;
    this.film?.close();
    this.film = null;
    this.why = null;
    this.titles();
    const { queue } = this.state;
    this.key = key ?? queue.find((k) => !this.skipped.has(k)) ?? queue[0];
    if (!this.key) {
      const other = !this.second && this.state.second ? h("p", {}, "Another judge's attempts may be judged again, blind: ", h("a", { href: path("judge", this.run, "second") }, "second opinion")) : null;
      this.body.replaceChildren(...[h("p", { class: "hint" }, this.second ? "Nothing is left for a second opinion of yours." : "Nothing waits for a verdict."), other, agreement(this.state.agreement)].filter(Boolean));
      return;
    }
    const about = await ask("judge/attempt", { run: this.run, key: this.key });
    if (mine !== this.turn) return;
    const see = h("div", { class: "see" }, h("p", { class: "muted" }, "The film comes .."));
    this.panel = h("div", { class: "why" });
    this.body.replaceChildren(h("div", { class: "watch judged" }, see, this.question(about)));
    this.body.dataset.key = this.key;
    this.about = about;
    this.show(mine, see);
  }

  async show(mine, see) {
    try {
      const stage = await ask("judge/stage", { run: this.run, key: this.key });
      if (mine !== this.turn) return;
      this.film = new Film(stage, { run: this.run, key: this.key }, "judge/frame", 4);
      see.replaceChildren(this.film.element);
      this.film.play(true);
    } catch (error) {
      if (mine === this.turn) see.replaceChildren(h("p", { class: "notice" }, `There is no film: ${error.message}`));
    }
  }

  question(about) {
    const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
    const key = (letter, words) => h("button", { type: "button", name: words, onclick: () => this.press(letter) }, h("kbd", {}, letter), ` ${words}`);
    const brief = h("div", { class: "brief" }, h("p", { class: "instruction" }, `“${about.instruction}”`),
      about.criterion && h("section", {}, h("h3", {}, "It is a success if"), h("p", {}, about.criterion)));
    const rest = h("div", { class: "know" },
      about.rules.length > 0 && h("section", {}, h("h3", {}, "Rules"), h("ul", {}, about.rules.map((rule) => h("li", {}, rule)))),
      h("dl", { class: "facts" }, fact("Claim", about.claimed_done ? "it says that it is done" : "none"), fact("Ended", about.end), fact("Steps", String(about.steps)), fact("Start", String(about.start))),
      about.said && h("details", {}, h("summary", {}, "Its last words"), h("blockquote", {}, about.said)),
      h("div", { class: "row verdict" }, key("s", "success"), key("f", "failure"), key("i", "invalid"), key("u", "undo"), key("l", "later")), this.panel,
      h("p", { class: "muted keys" }, "Judge the end: ", h("kbd", {}, "End"), " shows the last frame. Invalid: the robot faulted or someone walked in; its start is run again. ", h("kbd", {}, "space"), " play ", h("kbd", {}, "←"), h("kbd", {}, "→"), " step ", h("kbd", {}, "c"), " camera"));
    return [brief, rest];
  }

  // Why not: a reason from the list, a rule that was broken, words; Enter gives none.
  explain(letter) {
    this.why = letter;
    const reasons = letter === "f" ? this.state.reasons.map((r, k) => [String(k + 1), r, r]) : [];
    if (letter === "f") reasons.push(...this.about.rules.map((r, k) => [String.fromCharCode(97 + k), `broken: ${r}`, this.state.broken + r]));
    this.reasons = Object.fromEntries(reasons.map(([k, , value]) => [k, value]));
    const words = h("input", { name: "words", maxlength: 1000, placeholder: "in your words", "aria-label": "in your words", onkeydown: (event) => { if (event.key === "Enter") this.give(letter, ""); if (event.key === "Backspace" && !event.target.value) this.settle(); } });
    this.words = words;
    this.panel.replaceChildren(h("p", {}, letter === "f" ? "Why? A key chooses and writes it down; Enter: no reason; Backspace: not a failure." : "What happened? Enter writes it down; Backspace: not invalid."),
      h("div", { class: "row" }, reasons.map(([k, shown, value]) => h("button", { type: "button", onclick: () => this.give(letter, value) }, h("kbd", {}, k), ` ${shown}`))), words);
    if (letter === "i") words.focus();
  }

  settle() {
    this.why = null;
    this.panel.replaceChildren();
  }

  press(letter) {
    if (this.waits) return;
    if (!remembered()) return this.tell(new Error("Say who judges first: a verdict needs a name."));
    if (letter === "l" && this.key) {
      this.skipped.add(this.key);
      if (this.state.queue.every((k) => this.skipped.has(k))) this.skipped.clear();
      return this.next().catch((error) => this.tell(error));
    }
    if (letter === "u") return this.give("u", "");
    if (!this.key || !this.about) return;
    if (letter === "s") return this.give("s", "");
    this.explain(letter);
  }

  async give(letter, reason) {
    if (this.waits) return;
    this.waits = true;
    this.said.textContent = "writing ..";
    try {
      const words = letter === "u" ? "" : this.words?.isConnected ? this.words.value : "";
      const answer = await send("judge/verdict", { ...this.asked, second: this.second, key: this.key, verdict: WORDS[letter] ?? "undo", reason, words });
      this.state = answer;
      const { written } = answer;
      this.said.textContent = letter === "u" ? "Taken back, and asked again." : `Written: ${written.verdict}${written.reason ? `, ${written.reason}` : ""}, by ${written.by}.`;
      await this.next(letter === "u" ? answer.key : null);
      this.waits = false;
      this.said.dataset.written = String(Number(this.said.dataset.written ?? 0) + 1);
    } catch (error) {
      this.tell(error);
    }
    this.waits = false;
  }

  tell(error) {
    this.said.replaceChildren(problem(error));
  }

  typed(event) {
    if (typing(event)) return;
    if (this.why) {
      const chosen = this.reasons[event.key];
      if (event.key === "Backspace") this.settle();
      else if (chosen !== undefined || event.key === "Enter") {
        event.preventDefault();
        this.give(this.why, chosen ?? "");
      }
      return;
    }
    if ("sfiul".includes(event.key) && event.key.length === 1) {
      event.preventDefault();
      this.press(event.key);
    }
  }

  close() {
    this.turn++;
    this.film?.close();
    removeEventListener("keydown", this.keys);
  }
}

export async function open(host, parts, shell) {
  const [run, mode] = parts;
  if (!run) return overview(host);
  shell.title("Judge", run);
  const desk = new Desk(host, run, mode === "second", shell);
  await desk.refresh();
  return () => desk.close();
}
