/** The list of runs: newest first, by status, page by page, looked at again and again. */

import { get, problemOf } from "../api.js";
import { enableDemo } from "../demo.js";
import { byId, fill, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { problemNotice } from "../notice.js";
import { isEnded } from "../run-state.js";
import { RunsTable } from "../runs-table.js";
import { several } from "../units.js";

const PER_PAGE = 25;
const LIVELY_MS = 2000;
const CALM_MS = 8000;

const address = new URLSearchParams(location.search);
const table = new RunsTable(byId("runs"));
const filter = byId("filter");
let timer = 0;
let latest = 0;

/** @param {Record<string, string>} changes */
function go(changes) {
  for (const [name, value] of Object.entries(changes))
    value ? address.set(name, value) : address.delete(name);
  history.pushState(null, "", address.size ? `?${address}` : location.pathname);
  void look();
}

async function look() {
  clearTimeout(timer);
  const mine = ++latest;
  let pause = CALM_MS;
  try {
    const query = new URLSearchParams({ limit: String(PER_PAGE) });
    for (const name of ["status", "cursor"]) if (address.has(name)) query.set(name, address.get(name) ?? "");
    const { items, next } = await get(`/v1/runs?${query}`);
    if (mine !== latest) return;
    show(items, next);
    if (items.some((/** @type {any} */ run) => !isEnded(run.status))) pause = LIVELY_MS;
  } catch (error) {
    if (mine === latest) fill(byId("trouble"), problemNotice(problemOf(error)));
  }
  timer = window.setTimeout(() => (document.hidden ? (timer = 0) : look()), pause);
}

/** @param {any[]} runs @param {string | null} next */
function show(runs, next) {
  const isFiltered = address.has("status");
  const isFirst = !address.has("cursor");
  fill(byId("trouble"));
  byId("loading").hidden = true;
  byId("welcome").hidden = runs.length > 0 || isFiltered || !isFirst;
  byId("list").hidden = byId("new").hidden = !byId("welcome").hidden;
  byId("none").hidden = runs.length > 0;
  byId("frame").hidden = runs.length === 0;
  table.show(runs);
  byId("older").disabled = !next;
  byId("older").onclick = () => go({ cursor: next ?? "" });
  byId("newest").disabled = isFirst;
  byId("pager").hidden = isFirst && !next;
  const running = runs.filter((run) => !isEnded(run.status)).length;
  say(byId("list-status"), running ? `${several(running, "run")} under way` : "");
}

function restore() {
  const status = address.get("status") ?? "";
  for (const input of filter.querySelectorAll("input")) input.checked = input.value === status;
}

filter.addEventListener("change", (/** @type {any} */ event) =>
  go({ status: event.target.value, cursor: "" }),
);
byId("newest").addEventListener("click", () => go({ cursor: "" }));
addEventListener("popstate", () => {
  for (const name of ["status", "cursor"]) {
    const value = new URLSearchParams(location.search).get(name);
    value ? address.set(name, value) : address.delete(name);
  }
  restore();
  void look();
});
document.addEventListener("visibilitychange", () => document.hidden || timer || look());

restore();
watchHealth();
const demo = document.getElementById("demo");
if (demo instanceof HTMLButtonElement) enableDemo(demo, byId("demo-status"));
void look();
