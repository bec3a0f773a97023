// Draws the rows of both tables. Everything that came from outside becomes text, never markup.

import { duration } from "./chart.js";

const count = new Intl.NumberFormat("en");
const percent = (part) => `${Math.round(part * 100)} %`;
const width = (part) => `${(Math.min(part, 1) * 100).toFixed(1)}%`;
const HELD_UP = new Set(["paused", "held", "limited", "capped"]);
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2060-\u2069\ufeff]/g;

export const number = (value) => (value === null || value === undefined ? "–" : count.format(value));

/** A name as it can be told apart: nothing invisible, nothing that turns the rest around. */
export function readable(name) {
  const shown = name.replace(HIDDEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return shown.trim() === shown && shown !== "" ? shown : `"${shown}"`;
}

export function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

export function named(name) {
  return element("bdi", { class: "name", dir: "auto", title: name.slice(0, 500) }, readable(name));
}

function button(act, text, more = {}) {
  return element("button", { type: "button", "data-act": act, ...more }, text);
}

/** One row for each key, in the given order; rows that stay keep their elements and the focus. */
export class Table {
  constructor(table, make, update) {
    this.table = table;
    this.body = table.tBodies[0];
    this.make = make;
    this.update = update;
    this.rows = new Map();
  }

  show(list, keyOf) {
    const focused = document.activeElement;
    const given = new Map(list.map((each) => [keyOf(each), each]));
    for (const [key, row] of this.rows) {
      if (!given.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    let keys = [...given.keys()];
    if (this.inUse()) {
      // Nobody should pause another tenant than the one under the pointer.
      const fresh = keys.filter((key) => !this.rows.has(key));
      keys = [...this.body.rows].map((row) => row.key).concat(fresh);
    }
    keys.forEach((key, at) => {
      let row = this.rows.get(key);
      if (!row) {
        row = this.make(given.get(key));
        row.key = key;
        this.rows.set(key, row);
      }
      if (this.body.rows[at] !== row) this.body.insertBefore(row, this.body.rows[at] ?? null);
      this.update(row, given.get(key));
    });
    if (focused !== document.activeElement && this.body.contains(focused)) focused.focus();
  }

  inUse() {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }
}

export function partitionTable(table, mayAct) {
  return new Table(table, makePartition, (row, partition) => {
    const cells = row.parts;
    cells.chip.textContent = stateOf(partition);
    cells.waiting.textContent = number(partition.waiting);
    cells.oldest.textContent = duration(partition.oldest);
    cells.running.textContent = number(partition.running)
      + (partition.cap === null ? "" : ` of ${number(partition.cap)}`);
    updateShare(cells, partition);
    cells.pause.textContent = partition.paused ? "Resume" : "Pause";
    cells.pause.dataset.act = partition.paused ? "resume" : "pause";
    row.data = partition;
    for (const control of [cells.pause, cells.set]) control.hidden = !mayAct();
  });
}

function stateOf({ state, left }) {
  if (!HELD_UP.has(state)) return "";
  return left === null ? state : `${state}, ${duration(left)} more`;
}

function updateShare(cells, { used, due, over, share }) {
  const words = `${percent(used)} of ${percent(due)} due`;
  cells.used.style.width = width(used);
  cells.due.style.insetInlineStart = width(due);
  cells.track.classList.toggle("over", over);
  cells.words.textContent = share === 1 ? words : `${words}, share ${share}`;
}

function makePartition(partition) {
  const parts = {
    chip: element("span", { class: "chip" }),
    waiting: element("td", { class: "number", "data-label": "Waiting" }),
    oldest: element("td", { class: "number", "data-label": "Oldest" }),
    running: element("td", { class: "number", "data-label": "Running" }),
    used: element("div", { class: "used" }),
    due: element("div", { class: "due" }),
    words: element("div", { class: "words" }),
    pause: button("pause", "Pause"),
    set: button("set", "Set…"),
  };
  parts.track = element("div", { class: "track", "aria-hidden": "true" }, parts.used, parts.due);
  const head = element("th", { scope: "row" }, named(partition.name), parts.chip);
  const shares = element("td", { class: "shares", "data-label": "Share used against due" }, parts.track, parts.words);
  const actions = element("td", { class: "actions" }, button("why", "Why"), parts.pause, parts.set);
  for (const control of actions.children) control.setAttribute("aria-description", readable(partition.name));
  const row = element("tr", {}, head, parts.waiting, parts.oldest, parts.running, shares, actions);
  row.parts = parts;
  return row;
}

export function letterTable(table, mayAct) {
  return new Table(table, makeLetter, (row, letter) => {
    row.data = letter;
    for (const control of row.querySelectorAll("button")) control.hidden = !mayAct();
  });
}

function makeLetter(letter) {
  const about = element("td", { class: "wide", "data-label": "Reason" }, letter.reason);
  if (letter.error) about.append(element("div", { class: "soft" }, letter.error));
  if (letter.call) about.append(element("pre", { dir: "auto" }, letter.call));
  if (letter.traceback) {
    about.append(element("details", {}, element("summary", {}, "Traceback"), element("pre", {}, letter.traceback)));
  }
  const died = new Date(letter.died * 1000);
  const when = element("time", { datetime: died.toISOString() }, died.toLocaleString("en-GB"));
  return element("tr", {},
    element("th", { scope: "row" }, named(letter.id)),
    element("td", { "data-label": "Partition" }, named(letter.partition)),
    about,
    element("td", { "data-label": "Died" }, when),
    element("td", { class: "number", "data-label": "Timeouts" }, number(letter.timeouts)),
    element("td", { class: "actions" }, button("requeue", "Requeue"), button("drop", "Drop…")));
}
