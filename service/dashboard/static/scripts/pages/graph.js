/** One program: what it is, and its runs. */

import { get, pages } from "../api.js";
import { byId, element, fill, nowUsable, say } from "../dom.js";
import { enableChanges } from "../drawing/changes-section.js";
import { showDrawing } from "../drawing/section.js";
import { graphFigures, operatorTable, sourceTable } from "../graph-summary.js";
import { watchHealth } from "../health.js";
import { showMoves } from "../move-list.js";
import { missing } from "../notice.js";
import { RunsTable } from "../runs-table.js";
import { clock, several } from "../units.js";

const MOST_OUTPUTS = 20; // that are named at once
const MOST_RUNS = 100;

const id = byId("graph").dataset.graph;

async function begin() {
  try {
    const path = `/v1/graphs/${encodeURIComponent(id)}`;
    const runs = get(`/v1/runs?${new URLSearchParams({ graph_id: id, limit: String(MOST_RUNS) })}`);
    const [graph, history, { items }] = await Promise.all([get(path), get(`${path}/history`), runs]);
    show(graph, items);
    void showDrawing(graph.links.drawing);
    showHistory(history.items);
    nowUsable(byId("graph"));
  } catch (error) {
    fill(nowUsable(byId("graph")), missing(error, "program", id));
  }
}

/** @param {any} graph @param {any[]} runs */
function show(graph, runs) {
  document.title = `${graph.name} · Tapestry`;
  say(byId("title"), graph.name);
  say(
    byId("graph-figures"),
    `imported ${clock(graph.created_at)}${graph.lacks_values ? "; its weights were too large to keep" : ""}`,
  );
  fill(byId("figures"), graphFigures(graph));
  byId("document").href = graph.links.document;
  byId("parts").hidden = !graph.summary;
  if (graph.summary) {
    const { operators, sources, sinks } = graph.summary;
    fill(byId("operators"), operatorTable(operators));
    fill(byId("sources"), sourceTable(sources));
    say(byId("source-count"), several(sources.length, "input"));
    fill(byId("sinks"), outputs(sinks));
  }
  byId("no-runs").hidden = runs.length > 0;
  byId("runs-frame").hidden = runs.length === 0;
  new RunsTable(byId("runs")).show(runs);
}

/** The outputs; many of them are folded. @param {string[]} sinks */
function outputs(sinks) {
  const names = sinks.join(", ");
  if (sinks.length <= MOST_OUTPUTS) return `Outputs: ${names}`;
  return element("details", {}, element("summary", {}, several(sinks.length, "output")), element("div", {}, names));
}

/** Of which programs this one was made. @param {any[]} items */
function showHistory(items) {
  byId("history").hidden = items.length === 0;
  fill(byId("made-of"), items.map(made));
  if (!items.length) return;
  const { source, links } = items[items.length - 1];
  enableChanges(links.changes, `${source}, and this program`);
}

/** @param {any} item */
function made({ source, part, moves, created_at }) {
  const parts = { before: "the part computed once, ", program: "the part left for every run, " };
  const prefix = part ? parts[/** @type {"before" | "program"} */ (part)] : "";
  const place = element("div", {});
  if (moves.length) showMoves(place, moves);
  return element(
    "li",
    {},
    `${prefix}${several(moves.length, "move")} from `,
    element("a", { href: pages.graph(source), class: "mono" }, source),
    `, ${clock(created_at)}`,
    place,
  );
}

watchHealth();
void begin();
