// The page: keeps a stream of what the server reads, and shows it.

import { act, askForSettings, askForToken, askToDrop, forgetToken, mayAct, showWhy } from "./acts.js";
import { draw, duration } from "./chart.js";
import { element, letterTable, named, number, partitionTable, readable } from "./rows.js";

const LINES = 3; // partitions in the chart beside the whole queue
const KEPT = 600; // seconds of a partition's line
const SORTS = {
  backlog: "most waiting", oldest: "oldest item", running: "most running",
  used: "share used",
};
const at = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const view = { queue: asked.get("queue") ?? "", sort: asked.get("sort") ?? "backlog", find: asked.get("find") ?? "" };
const partitions = partitionTable(at("rows"), mayAct);
const letters = letterTable(at("letters"), mayAct);
const traces = new Map(); // partition -> [[time, oldest, waiting], ...]
let stream = null, shown = null, readOnly = true;

function say(state, text) {
  if (at("live").dataset.state === state) return;
  at("live").dataset.state = state;
  at("live").textContent = text;
}

function complain(text) {
  at("notice").textContent = text;
  at("notice").hidden = text === "";
}

function show(state) {
  if (state.error) {
    say("silent", state.error);
    return;
  }
  say("live", "live");
  if (state !== shown) note(state);
  // Items of a queue that was filled by an earlier release do not tell since when they wait.
  if (!shown && state.totals.oldest === null && state.totals.waiting) at("measure").value = "waiting";
  shown = state;
  for (const place of document.querySelectorAll("[data-total]")) {
    const value = state.totals[place.dataset.total];
    place.textContent = place.dataset.total === "oldest" ? duration(value) : number(value);
  }
  at("pause-queue").textContent = state.totals.paused ? "Resume the queue" : "Pause the queue";
  partitions.show(state.rows, (row) => row.name);
  letters.show(state.letters, (letter) => JSON.stringify([letter.id, letter.died]));
  at("letters").hidden = !state.letters.length;
  at("no-letters").hidden = state.letters.length > 0;
  at("more").textContent = sayHowMany(state);
  drawChart(state);
}

function sayHowMany({ rows, most, totals }) {
  if (!rows.length) return view.find ? "No partition that waits or runs has this in its name." : "Nothing waits and nothing runs.";
  return rows.length < most ? "" : `The first ${number(most)} are shown, of ${number(totals.partitions)} with work.`;
}

function note(state) {
  for (const row of state.rows) {
    if (!traces.has(row.name)) traces.set(row.name, []);
    traces.get(row.name).push([state.at, row.oldest, row.waiting]);
  }
  for (const [name, points] of traces) {
    while (points.length && points[0][0] < state.at - KEPT) points.shift();
    if (!points.length) traces.delete(name);
  }
}

function drawChart(state) {
  const { at: now, history, rows, totals } = state;
  const ages = at("measure").value === "oldest";
  const column = ages ? 1 : 2;
  const line = (points) => points.filter(([time]) => time > now - KEPT).map((point) => [point[0], point[column] ?? 0]);
  const chosen = rows.slice(0, LINES).map((row) => row.name);
  const whole = line(history);
  const say = ages ? duration : (value) => number(Math.round(value));
  draw(at("chart"), [whole, ...chosen.map((name) => line(traces.get(name)))], now, say);
  at("legend").replaceChildren(
    element("li", { "data-line": 0 }, ages ? "oldest of the queue" : "whole queue"),
    ...chosen.map((name, index) => element("li", { "data-line": index + 1 }, named(name))));
  const last = ages ? totals.oldest ?? 0 : totals.waiting;
  const most = Math.max(last, ...whole.map(([, value]) => value));
  const what = ages ? "The oldest item waits for" : "Items that wait:";
  at("chart-says").textContent = `${what} ${say(last)} now, ${say(most)} at most while somebody looked.`;
}

function follow() {
  stream?.close();
  stream = null;
  if (document.hidden) return; // nothing is read for a page that nobody sees
  stream = new EventSource(`events?${new URLSearchParams(view)}`);
  stream.onmessage = (event) => show(JSON.parse(event.data));
  stream.onerror = () => {
    say("connecting", "connecting");
    if (stream?.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
}

function turnTo(change) {
  Object.assign(view, change);
  const query = new URLSearchParams(Object.entries(view).filter(([, value]) => value));
  history.replaceState(null, "", `?${query}`);
  follow();
}

async function attempt(work) {
  try {
    complain("");
    await work();
  } catch (failure) {
    complain(failure.message);
  }
}

function press(event) {
  const control = event.target.closest("button[data-act]");
  const data = control?.closest("tr")?.data;
  if (!data) return;
  const { queue } = view;
  attempt({
    why: () => showWhy(queue, data),
    set: () => askForSettings(queue, data),
    drop: () => askToDrop(queue, data),
    requeue: () => act("requeue", { queue, item: data.id }),
    pause: () => act("pause", { queue, partition: data.name }),
    resume: () => act("resume", { queue, partition: data.name }),
  }[control.dataset.act]);
}

function showControls() {
  at("unlock").hidden = readOnly;
  at("unlock").textContent = mayAct() ? "Lock actions" : "Unlock actions";
  for (const control of document.querySelectorAll("[data-needs-token]")) control.hidden = !mayAct();
  if (shown) show(shown);
}

function listen() {
  at("rows").addEventListener("click", press);
  at("letters").addEventListener("click", press);
  at("measure").addEventListener("change", () => shown && drawChart(shown));
  at("sort").addEventListener("change", () => turnTo({ sort: at("sort").value }));
  at("queues").addEventListener("change", () => {
    traces.clear();
    turnTo({ queue: at("queues").value });
    at("queue").textContent = readable(view.queue);
  });
  let typing = 0;
  at("find").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => turnTo({ find: at("find").value }), 300);
  });
  at("unlock").addEventListener("click", () => {
    if (!mayAct()) return askForToken(view.queue, showControls);
    forgetToken();
    return showControls();
  });
  at("pause-queue").addEventListener("click", () => {
    const action = shown?.totals.paused ? "resume" : "pause";
    attempt(() => act(action, { queue: view.queue, partition: "" }));
  });
  document.addEventListener("visibilitychange", follow);
  new ResizeObserver(() => shown && drawChart(shown)).observe(at("chart"));
}

async function start() {
  const about = await (await fetch("about", { credentials: "same-origin" })).json();
  readOnly = about.readOnly;
  if (!about.queues.includes(view.queue)) view.queue = about.queues[0];
  if (!about.sorts.includes(view.sort)) view.sort = "backlog";
  at("queue").textContent = readable(view.queue);
  at("queues").append(...about.queues.map((name) => element("option", { value: name }, readable(name))));
  at("queues").value = view.queue;
  at("choose").hidden = about.queues.length < 2;
  at("sort").append(...about.sorts.map((name) => element("option", { value: name }, SORTS[name] ?? name)));
  at("sort").value = view.sort;
  at("find").value = view.find;
  listen();
  showControls();
  follow();
}

start().catch((failure) => complain(`The page could not start: ${failure.message}`));
