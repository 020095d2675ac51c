/** One batch: its progress, and a table of its entries with their best values. */

import { addressedOrder, keepOrder } from "../address.js";
import { get, pages, post, remove } from "../api.js";
import { statusBadge } from "../badges.js";
import { byId, element, fill, nowUsable, say } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice, missing } from "../notice.js";
import { joined } from "../objective-list.js";
import { isEnded } from "../run-state.js";
import { inOrder, showSortHeads, sortedTable } from "../tables.js";
import { age, column, plain, several } from "../units.js";

const LIVELY_MS = 3000;

const id = byId("batch").dataset.batch;
const path = `/v1/batches/${encodeURIComponent(id)}`;
/** @type {any} */
let batch;
/** Programs by id, with their names. @type {Map<string, any>} */
const programs = new Map();
/** @type {any[]} */
let catalog = [];
/** @type {import("../tables.js").Order} */
let order = addressedOrder("sort", { key: "number", isAscending: true });
const { table, head, body } = sortedTable("Entries", { file: entryRows });

async function begin() {
  try {
    [batch, { items: catalog }] = await Promise.all([get(path), get("/v1/objectives")]);
  } catch (error) {
    return fill(nowUsable(byId("batch")), missing(error, "batch", id));
  }
  const ids = [...new Set(batch.entries.map((/** @type {any} */ entry) => entry.graph_id))];
  const found = await Promise.all(ids.map((graph) => get(`/v1/graphs/${graph}`).catch(() => null)));
  ids.forEach((graph, k) => programs.set(graph, found[k]));
  for (const program of found) if (program) catalog = joined(catalog, program.objectives);
  show();
  nowUsable(byId("batch"));
  return watch();
}

async function watch() {
  while (!isOver()) {
    await new Promise((resolve) => setTimeout(resolve, LIVELY_MS));
    try {
      batch = await get(path);
      show();
    } catch (error) {
      fill(byId("trouble"), errorNotice(error));
    }
  }
}

const isOver = () => batch.entries.every((/** @type {any} */ entry) => isEnded(entry.status));

function show() {
  const ended = batch.entries.filter((/** @type {any} */ entry) => isEnded(entry.status)).length;
  const share = batch.count ? ended / batch.count : 1;
  const name = batch.name || "Batch without a name";
  document.title = `${name} · Tapestry`;
  say(byId("title"), name);
  say(byId("subject"), `${several(batch.count, "entry", "entries")}, begun ${age(batch.created_at)}`);
  byId("bar").style.width = `${100 * share}%`;
  byId("progress").setAttribute("aria-valuenow", Math.round(100 * share));
  const counts = Object.entries(batch.statuses).map(([status, count]) => statusBadge(status, plain(/** @type {number} */ (count))));
  fill(byId("counts"), ...counts);
  byId("cancel").hidden = isOver();
  byId("delete").hidden = !isOver();
  showEntries();
}

/** @typedef {{key: string, title: string, unit: string, isNumber: boolean, about?: string, value: (entry: any) => any, cell: (entry: any) => any}} Column */

/** @param {any} entry */
const programOf = (entry) => programs.get(entry.graph_id)?.name ?? entry.graph_id;

/** @returns {Column[]} */
function columns() {
  const names = [...new Set(batch.entries.flatMap((/** @type {any} */ entry) => Object.keys(entry.best)))];
  const costs = names.map((name) => {
    const known = catalog.find((one) => one.name === name) ?? { title: name, unit: "" };
    const values = batch.entries.flatMap((/** @type {any} */ entry) => (name in entry.best ? [entry.best[name]] : []));
    const scale = column(values, known.unit);
    return {
      key: name,
      title: `least ${known.title}`,
      about: "least of a batch",
      unit: scale.name,
      isNumber: true,
      value: (/** @type {any} */ entry) => entry.best[name] ?? Infinity,
      cell: (/** @type {any} */ entry) => (name in entry.best ? scale.write(entry.best[name]) : "–"),
    };
  });
  return [
    { key: "number", title: "#", unit: "", isNumber: true, value: (entry) => entry.number, cell: (entry) => plain(entry.number + 1) },
    {
      key: "program",
      title: "program",
      unit: "",
      isNumber: false,
      value: programOf,
      cell: (entry) => (programs.get(entry.graph_id) ? element("a", { href: pages.graph(entry.graph_id) }, programOf(entry)) : programOf(entry)),
    },
    { key: "mesh", title: "mesh", unit: "", isNumber: false, value: (entry) => entry.mesh, cell: (entry) => entry.mesh },
    { key: "seed", title: "seed", unit: "", isNumber: true, value: (entry) => entry.seed, cell: (entry) => String(entry.seed) },
    { key: "status", title: "status", unit: "", isNumber: false, value: (entry) => entry.status, cell: statusCell },
    {
      key: "run",
      title: "run",
      unit: "",
      isNumber: false,
      value: (entry) => entry.run ?? "",
      cell: (entry) => (entry.run ? element("a", { class: "mono", href: pages.run(entry.run) }, entry.run) : "–"),
    },
    ...costs,
  ];
}

/** @param {any} entry */
function statusCell(entry) {
  const why = entry.problem ? element("div", { class: "small muted" }, entry.problem.detail ?? entry.problem.title) : null;
  return [statusBadge(entry.status), why];
}

function showEntries() {
  const all = columns();
  const by = all.find((one) => one.key === order.key) ?? all[0];
  const entries = [...batch.entries].sort((a, b) => inOrder(by.value(a), by.value(b), order) || a.number - b.number);
  /** @type {Map<string, number>} */
  const least = new Map();
  for (const entry of batch.entries)
    for (const [name, value] of Object.entries(entry.best)) {
      const key = `${entry.graph_id} ${name}`;
      least.set(key, Math.min(least.get(key) ?? Infinity, /** @type {number} */ (value)));
    }
  const isBest = (/** @type {any} */ entry, /** @type {Column} */ one) =>
    one.unit !== "" && entry.best[one.key] === least.get(`${entry.graph_id} ${one.key}`);
  const rows = entries.map((entry) =>
    element(
      "tr",
      {},
      all.map((one) =>
        element("td", { class: `${one.isNumber ? "number" : ""} ${isBest(entry, one) ? "best" : ""}`.trim() }, ...[one.cell(entry)].flat()),
      ),
    ),
  );
  fill(body, ...rows);
  showSortHeads(head, all, order, (wanted) => {
    order = wanted;
    keepOrder("sort", order);
    showEntries();
  });
}

/** @returns {unknown[][]} */
function entryRows() {
  const names = [...new Set(batch.entries.flatMap((/** @type {any} */ entry) => Object.keys(entry.best)))];
  const columnNames = ["number", "program", "graph_id", "mesh", "seed", "status", "run", ...names];
  const rows = batch.entries.map((/** @type {any} */ entry) => [
    ...[entry.number, programOf(entry), entry.graph_id, entry.mesh, entry.seed, entry.status, entry.run],
    ...names.map((name) => entry.best[name]),
  ]);
  return [columnNames, ...rows];
}

byId("cancel").addEventListener("click", async () => {
  byId("cancel").disabled = true;
  try {
    batch = await post(`${path}/cancel`, {});
    show();
  } catch (error) {
    fill(byId("trouble"), errorNotice(error));
  }
  byId("cancel").disabled = false;
});
byId("delete").addEventListener("click", () => byId("deletion").showModal());
byId("confirm-deletion").addEventListener("click", async () => {
  try {
    await remove(`${path}?runs=${byId("with-runs").checked}`);
    location.assign("/batches");
  } catch (error) {
    fill(byId("deletion-trouble"), errorNotice(error));
  }
});

fill(byId("entries"), table);
watchHealth();
void begin();
