/** The list of runs: searched, filtered, sorted, page by page, looked at again and again. */

import { get, getAll, pages } from "../api.js";
import { enableComparison } from "../comparing.js";
import { enableDemo } from "../demo.js";
import { byId, element, fill, say, throttled } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice } from "../notice.js";
import { deleteRuns, editLabels } from "../run-dialogs.js";
import { isEnded } from "../run-state.js";
import { RunsTable } from "../runs-table.js";
import { several } from "../units.js";

const PER_PAGE = 25;
const LIVELY_MS = 2000;
const CALM_MS = 8000;
const TYPING_MS = 250;
const NEWEST = "-created";
const FILTERS = ["q", "status", "mesh", "tag", "batch"];

const address = new URLSearchParams(location.search);
let timer = 0;
let latest = 0;
let knownLabels = "";
const table = new RunsTable(byId("runs"), { onSort: sortBy, onSelect: showSelection, onTag: (tag) => go({ tag, cursor: "" }), all });

/** @param {Record<string, string>} changes @param {boolean} [isStep] whether going back leads to what was before */
function go(changes, isStep = true) {
  const demo = new URLSearchParams(location.search).get("demo"); // which the demo keeps there
  demo ? address.set("demo", demo) : address.delete("demo");
  for (const [name, value] of Object.entries(changes))
    value ? address.set(name, value) : address.delete(name);
  const url = address.size ? `?${address}` : location.pathname;
  isStep ? history.pushState(null, "", url) : history.replaceState(null, "", url);
  restore();
  void look();
}

/** @param {string} key */
function sortBy(key) {
  const now = address.get("sort") ?? NEWEST;
  const next = now === key ? `-${key}` : now === `-${key}` ? key : key === "created" ? NEWEST : key;
  go({ sort: next === NEWEST ? "" : next, cursor: "" });
}

async function look() {
  clearTimeout(timer);
  const mine = ++latest;
  let pause = CALM_MS;
  try {
    const query = new URLSearchParams({ ...wanted([...FILTERS, "sort", "cursor"]), limit: String(PER_PAGE) });
    const [{ items, next }] = await Promise.all([get(`/v1/runs?${query}`), showLabels()]);
    if (mine !== latest) return;
    show(items, next);
    if (items.some((/** @type {any} */ run) => !isEnded(run.status))) pause = LIVELY_MS;
  } catch (error) {
    if (mine === latest) fill(byId("trouble"), errorNotice(error));
  }
  timer = window.setTimeout(() => (document.hidden ? (timer = 0) : look()), pause);
}

/** What the address asks for. @param {string[]} names */
function wanted(names) {
  return Object.fromEntries(names.flatMap((name) => (address.has(name) ? [[name, address.get(name) ?? ""]] : [])));
}

/** All runs that are like that, in order, those of other pages too. */
function all() {
  return getAll("/v1/runs", wanted([...FILTERS, "sort"]));
}

/** The meshes and tags that runs can be filtered by. */
async function showLabels() {
  const { tags, meshes } = await get("/v1/runs/labels");
  const text = JSON.stringify([tags, meshes]);
  if (text === knownLabels) return;
  knownLabels = text;
  showChoices("mesh", meshes);
  showChoices("tag", tags);
  byId("tag-label").hidden = !Object.keys(tags).length && !address.has("tag");
  fill(byId("known-tags"), ...Object.keys(tags).map((tag) => element("option", { value: tag })));
}

/** @param {string} name @param {Record<string, number>} counts */
function showChoices(name, counts) {
  const chosen = address.get(name) ?? "";
  const known = chosen && !(chosen in counts) ? { ...counts, [chosen]: 0 } : counts;
  const options = Object.entries(known).map(([value, count]) => element("option", { value }, `${value} (${count})`));
  fill(byId(name), element("option", { value: "" }, "any"), ...options);
  byId(name).value = chosen;
}

/** @param {any[]} runs @param {string | null} next */
function show(runs, next) {
  const isFiltered = FILTERS.some((name) => address.has(name));
  const isFirst = !address.has("cursor");
  fill(byId("trouble"));
  byId("loading").hidden = true;
  byId("welcome").hidden = runs.length > 0 || isFiltered || !isFirst;
  byId("list").hidden = byId("new").hidden = !byId("welcome").hidden;
  byId("none").hidden = runs.length > 0;
  byId("frame").hidden = runs.length === 0;
  table.show(runs, address.get("sort") ?? NEWEST);
  byId("older").disabled = !next;
  byId("older").onclick = () => go({ cursor: next ?? "" });
  byId("newest").disabled = isFirst;
  byId("pager").hidden = isFirst && !next;
  const running = runs.filter((run) => !isEnded(run.status)).length;
  say(byId("list-status"), running ? `${several(running, "run")} under way` : "");
  showSelection();
}

function showSelection() {
  const chosen = [...table.selected.values()];
  byId("selection").hidden = !chosen.length;
  say(byId("selected"), `${several(chosen.length, "run")} selected`);
  enableComparison(byId("compare"), "runs", chosen.map((run) => run.id));
}

function restore() {
  const status = address.get("status") ?? "";
  for (const input of byId("filter").querySelectorAll("input")) input.checked = input.value === status;
  for (const name of ["q", "mesh", "tag", "sort"]) {
    const field = byId(name);
    if (document.activeElement !== field || name !== "q") field.value = address.get(name) ?? "";
  }
  const batch = address.get("batch");
  const leave = () => go({ batch: "", cursor: "" });
  fill(
    byId("batch-chip"),
    batch
      ? element("span", { class: "chip" }, "batch ", element("a", { href: pages.batch(batch) }, batch), " ", element("button", { type: "button", class: "chip-close", "aria-label": "Runs of all batches", onclick: leave }, "✕"))
      : null,
  );
}

const search = throttled(() => go({ q: byId("q").value.trim(), cursor: "" }, false), TYPING_MS);
byId("q").addEventListener("input", search);
byId("filters").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
byId("filters").addEventListener("change", (/** @type {any} */ event) => {
  if (event.target.name !== "q") go({ [event.target.name]: event.target.value, cursor: "" });
});
byId("newest").addEventListener("click", () => go({ cursor: "" }));
byId("all-runs").addEventListener("click", () => {
  byId("q").value = "";
  go({ ...Object.fromEntries(FILTERS.map((name) => [name, ""])), cursor: "" });
});
byId("clear").addEventListener("click", () => table.deselect());
byId("edit-labels").addEventListener("click", () => editLabels([...table.selected.values()], () => void look()));
byId("delete").addEventListener("click", () =>
  deleteRuns([...table.selected.values()], (ids) => {
    table.deselect(ids);
    void look();
  }),
);
addEventListener("popstate", () => {
  const now = new URLSearchParams(location.search);
  for (const name of [...FILTERS, "sort", "cursor"]) {
    const value = now.get(name);
    value ? address.set(name, value) : address.delete(name);
  }
  restore();
  void look();
});
document.addEventListener("visibilitychange", () => document.hidden || timer || look());

restore();
watchHealth();
enableDemo();
void look();
