/**
 * The exports of a plan: made by the service on a click, saved as files; what it refuses is shown with its reason.
 * @module plan/exports
 */

import { fetchFile, problemOf } from "../api.js";
import { byId, fill, say } from "../dom.js";
import { errorNotice } from "../notice.js";
import { save } from "../saving.js";
import { duration, quantity } from "../units.js";

const LOOK_MS = 500;
const BUSY_MS = 5000;
const ATTEMPTS = 6;

/** Let the buttons of the section work. @param {string} path of the plan */
export function enableExports(path) {
  for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (
    document.querySelectorAll("[data-export], [data-export-into]")
  )) {
    button.disabled = false;
    button.addEventListener("click", () => void exported(button, path));
  }
}

/** @param {HTMLButtonElement} button @param {string} path */
async function exported(button, path) {
  const name = button.dataset.export ?? button.dataset.exportInto ?? "";
  const body = button.dataset.exportInto ? programOf(name) : undefined;
  if (body === null) {
    say(byId("export-status"), "Choose the file of your program first: the export is written into it.");
    return byId(`into-${name}`).focus();
  }
  const began = performance.now();
  let received = 0;
  const look = () => {
    const size = received ? `, ${quantity(received, "B")}` : "";
    say(byId("export-status"), `Making ${name}: ${duration((performance.now() - began) / 1000)}${size}`);
  };
  button.disabled = true;
  fill(byId("export-problem"));
  look();
  const timer = setInterval(look, LOOK_MS);
  try {
    const file = await patiently(() => fetchFile(`${path}/export?to=${name}`, body, (bytes) => (received = bytes)));
    save(file.name, file);
    say(byId("export-status"), `Saved ${file.name}, ${quantity(file.size, "B")}.`);
  } catch (error) {
    say(byId("export-status"), "");
    fill(byId("export-problem"), errorNotice(error));
  } finally {
    clearInterval(timer);
    button.disabled = false;
  }
}

/** Try again for a while where the service is busy. @param {() => Promise<File>} request @returns {Promise<File>} */
async function patiently(request) {
  for (let left = ATTEMPTS; ; left -= 1) {
    try {
      return await request();
    } catch (error) {
      if (problemOf(error).code !== "busy" || left <= 1) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
  }
}

/** The chosen program as a form, or null. @param {string} name */
function programOf(name) {
  const [file] = byId(`into-${name}`).files;
  if (!file) return null;
  const form = new FormData();
  form.append("file", file, file.name);
  return form;
}
