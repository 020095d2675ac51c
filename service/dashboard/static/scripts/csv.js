/**
 * Tables for other programs.
 * @module csv
 */

/** Plans as rows, names first, values in base units. @param {import("./marks.js").Plan[]} plans @returns {unknown[][]} */
export function frontierRows(plans) {
  const costs = [...new Set(plans.flatMap((plan) => Object.keys(plan.cost)))];
  const rows = plans.map((plan) => [
    plan.id,
    ...costs.map((name) => plan.cost[name]),
    plan.cost_model,
    plan.feasible,
    plan.devices,
    plan.micro_batches,
    plan.stages?.count ?? 1,
    plan.stages?.schedule ?? "",
    plan.recompute?.blocks ?? 0,
    plan.offload?.bytes ?? 0,
    plan.move_count,
    plan.origin?.kind ?? "",
    plan.origin?.name ?? "",
  ]);
  const decisions = [
    ...["devices", "micro_batches", "stages", "schedule"],
    ...["recomputed_blocks", "offloaded_bytes", "moves", "origin", "seed"],
  ];
  return [["plan", ...costs, "cost_model", "feasible", ...decisions], ...rows];
}

/** Runs as rows, values in base units. @param {any[]} runs @returns {unknown[][]} */
export function runRows(runs) {
  const costs = [...new Set(runs.flatMap(({ best }) => Object.keys(best)))];
  const budget = ["seconds", "evaluations", "deadline_seconds"];
  const heads = ["run", "program", "graph_id", "mesh", "status", ...costs.map((name) => `least ${name}`), "plans", "hypervolume", "seconds", "evaluations"];
  const rows = runs.map((run) => [
    ...[run.id, run.graph, run.graph_id, run.mesh, run.status],
    ...costs.map((name) => run.best[name]),
    ...[run.front, run.hypervolume, run.seconds, run.evaluations],
    ...budget.map((name) => run.budget[name]),
    ...[run.created_at, run.started_at, run.ended_at, run.tags.join(" "), run.notes],
  ]);
  return [[...heads, ...budget.map((name) => `budget ${name}`), "created_at", "started_at", "ended_at", "tags", "notes"], ...rows];
}

/** Rows as text. @param {unknown[][]} rows @returns {string} RFC 4180 */
export function csvOf(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** @param {unknown} value */
function cell(value) {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
