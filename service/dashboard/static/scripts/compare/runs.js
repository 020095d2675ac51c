/**
 * Runs beside each other: frontiers, hypervolumes on one scale, best values, and what was asked for differently.
 * @module compare/runs
 */

import { keepAddressed } from "../address.js";
import { LineChart } from "../charts/lines.js";
import { SHARE_SPAN } from "../charts/scale.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill, say } from "../dom.js";
import { explainCosts } from "../explanations.js";
import { duration, plain, quantity } from "../units.js";
import { figureRow } from "./figures.js";
import { ComparedFrontiers } from "./frontiers.js";
import { markColumns, showSubjectTable } from "./subjects.js";

const WIDE = 30; // times the least, from which logarithmic axes are the first choice

/** @param {any} found the comparison @param {import("./subjects.js").Subjects} subjects */
export function showRuns(found, subjects) {
  explainCosts(found.objectives);
  byId("of-runs").hidden = false;
  showFrontiers(found, subjects);
  showHypervolume(found, subjects);
  showBest(found, subjects);
  if (found.differences.length) {
    const rows = found.differences.map((/** @type {any} */ row) => ({ title: row.title, cells: row.values, isNumber: false }));
    showSubjectTable(byId("options"), subjects, rows, { label: "What was asked for differently" });
  } else fill(byId("options"), element("p", { class: "empty" }, "Nothing: program, mesh and all options are equal."));
  subjects.onPoint((k) => ["best", "options"].forEach((id) => markColumns(byId(id), k)));
}

/** @param {any} found @param {import("./subjects.js").Subjects} subjects */
function showFrontiers(found, subjects) {
  const { objectives, runs } = found;
  if (!objectives.length) return fill(byId("frontiers"), element("p", { class: "empty" }, "These runs have no objective in common."));
  const chart = new ComparedFrontiers(byId("frontiers"), subjects);
  const address = new URLSearchParams(location.search);
  const options = () => objectives.map((/** @type {any} */ one) => element("option", { value: one.name }, one.title));
  const known = (/** @type {string} */ name, /** @type {number} */ k) =>
    objectives.find((/** @type {any} */ one) => one.name === address.get(name)) ?? objectives[Math.min(k, objectives.length - 1)];
  for (const [k, name] of ["x", "y"].entries()) {
    fill(byId(name), ...options());
    byId(name).value = known(name, k).name;
  }
  byId("log").checked = address.has("log") ? address.get("log") === "1" : isWide(runs, byId("x").value) || isWide(runs, byId("y").value);
  const show = () => {
    const [x, y] = ["x", "y"].map((name) => objectives.find((/** @type {any} */ one) => one.name === byId(name).value));
    chart.show(runs.map((/** @type {any} */ run) => run.points), x, y, byId("log").checked);
  };
  for (const name of ["x", "y", "log"])
    byId(name).addEventListener("change", () => {
      keepAddressed({ x: byId("x").value, y: byId("y").value, log: byId("log").checked ? "1" : "0" });
      show();
    });
  fill(byId("frontiers-menu"), saveMenu(chart, () => "frontiers", () => chart.rows()));
  return show();
}

/** Whether the values of a cost are of different orders. @param {any[]} runs @param {string} name */
function isWide(runs, name) {
  const values = runs.flatMap((run) => run.points.map((/** @type {any} */ point) => point.cost[name]));
  const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, 0]);
  return low > 0 && high > WIDE * low;
}

/** @param {any} found @param {import("./subjects.js").Subjects} subjects */
function showHypervolume({ runs, reference, objectives }, subjects) {
  const chart = new LineChart(byId("hypervolume"), "");
  const known = runs.flatMap((/** @type {any} */ run, /** @type {number} */ k) => (run.history ? [{ run, k }] : []));
  const lacking = runs.filter((/** @type {any} */ run) => !run.history).map((/** @type {any} */ run) => run.run);
  const show = () =>
    chart.show({
      series: known.map((/** @type {any} */ { run, k }) => ({
        name: subjects.all[k].name,
        color: subjects.shade(k),
        kind: "step",
        x: run.history.map((/** @type {number[]} */ point) => point[0]),
        y: run.history.map((/** @type {number[]} */ point) => point[1]),
        note: (/** @type {number} */ at) => plain(run.history[at][1], 4),
      })),
      x: { title: "searched", unit: "s", isFromZero: true },
      y: { title: "hypervolume", unit: "", isFromZero: false, leastSpan: SHARE_SPAN },
    });
  chart.describe(`The hypervolume over the seconds of searching: ${runs.map((/** @type {any} */ run) => `${run.run} ${plain(run.hypervolume, 4)}`).join(", ")}`);
  subjects.onPoint(show);
  const rows = () => [["run", "seconds", "hypervolume"], ...known.flatMap((/** @type {any} */ { run }) => run.history.map((/** @type {number[]} */ point) => [run.run, ...point]))];
  if (known.length) {
    show();
    fill(byId("hypervolume-menu"), saveMenu(chart, () => "hypervolume", rows));
  } else fill(byId("hypervolume"), element("p", { class: "empty" }, "The course of none of these searches is stored."));
  const corner = objectives.map((/** @type {any} */ one) => `${one.title} ${quantity(reference[one.name], one.unit)}`).join(", ");
  const why = lacking.length ? ` Of ${lacking.join(", ")} the frontiers over time are not stored, or were costed by another version of the cost model.` : "";
  say(byId("reference"), `The share of the box up to ${corner}, which is 1.1 times the worst of all these plans.${why}`);
}

/** @param {any} found @param {import("./subjects.js").Subjects} subjects */
function showBest({ runs, objectives }, subjects) {
  const isRanked = new Set(runs.map((/** @type {any} */ run) => run.graph_id)).size === 1; // of different programs none is better
  const rows = objectives.map((/** @type {any} */ one) => figureRow(`least ${one.title}`, runs.map((/** @type {any} */ run) => run.best[one.name]), one.unit, { isRanked, about: `cost: ${one.name}` }));
  const of = (/** @type {string} */ name) => runs.map((/** @type {any} */ run) => run[name]);
  rows.push(
    figureRow("hypervolume", of("hypervolume"), "", { isMore: true, isRanked, about: "hypervolume: compared" }),
    figureRow("plans", of("plans"), "", { isMore: true, isRanked, about: "plans" }),
    figureRow("plans that no other run covers", of("alone"), "", { isMore: true, isRanked, about: "plans that no other run covers" }),
    { title: "evaluations", about: "evaluations", values: of("evaluations"), cells: of("evaluations").map((/** @type {number} */ value) => plain(value)) },
    { title: "searched", about: "searched", values: of("seconds"), base: "s", cells: of("seconds").map((/** @type {number} */ value) => duration(value)) },
  );
  showSubjectTable(byId("best"), subjects, rows, { label: "Best values" });
}
