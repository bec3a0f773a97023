// What somebody with the token may do, and the dialogs that ask first.

import { element, readable } from "./rows.js";

let token = ""; // in memory only: no storage that another script of this origin could read

export const mayAct = () => token !== "";

/** Ask the server to do something; raises an Error whose message can be shown. */
export async function act(action, body, using = token) {
  const answer = await fetch(`do/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-VTRR-Token": using },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error ?? `the server answered ${answer.status}`);
  return said;
}

/** Open a dialog; when its form is sent, `save` runs, and its error is shown inside. */
function open(id, name, save) {
  const dialog = document.getElementById(id);
  const form = dialog.querySelector("form");
  const error = dialog.querySelector(".error");
  const title = dialog.querySelector("[data-name]");
  if (title) title.textContent = readable(name);
  if (error) error.textContent = "";
  dialog.querySelector("[data-close]").onclick = () => dialog.close();
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      await save?.(form);
      dialog.close();
    } catch (failure) {
      error.textContent = failure.message;
    }
  };
  dialog.showModal();
}

export function askForToken(queue, then) {
  const field = document.getElementById("token");
  field.value = "";
  open("token-dialog", "", async () => {
    const given = field.value.trim();
    if (!/^[\x20-\x7e]+$/.test(given)) throw new Error("the token is missing or wrong");
    await act("check", { queue }, given);
    token = given;
    field.value = "";
    then();
  });
}

export function forgetToken() {
  token = "";
}

export function askForSettings(queue, partition) {
  const dialog = document.getElementById("set-dialog");
  for (const point of ["share", "cap", "rate"]) {
    const field = dialog.querySelector(`[name=${point}]`);
    field.value = field.was = partition.own[point] ?? "";
  }
  open("set-dialog", partition.name, async (form) => {
    const changed = [...form.querySelectorAll("input")].filter((field) => field.value.trim() !== `${field.was}`);
    const settings = changed.map((field) => [field.name, setting(field)]);
    if (settings.length) await act("set", { queue, partition: partition.name, ...Object.fromEntries(settings) });
  });
}

function setting(field) {
  const text = field.value.trim();
  if (text === "") return null;
  if (text === "none") return text;
  if (field.name === "rate") return text;
  if (!Number.isFinite(Number(text))) throw new Error(`${field.name}: a number, none, or nothing`);
  return Number(text);
}

export function askToDrop(queue, letter) {
  open("drop-dialog", letter.id, () => act("drop", { queue, item: letter.id }));
}

export async function showWhy(queue, partition) {
  const list = document.getElementById("why");
  const asked = new URLSearchParams({ queue, partition: partition.name });
  list.replaceChildren();
  open("why-dialog", partition.name);
  const answer = await fetch(`why?${asked}`, { credentials: "same-origin" });
  const said = await answer.json();
  list.replaceChildren(...(said.why ?? [said.error]).map((line) => element("li", { dir: "auto" }, line)));
}
