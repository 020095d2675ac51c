/**
 * How the rates of rules changed from run to run.
 * @module rates-plot
 */

import { legend, seriesColor } from "./charts/legend.js";
import { LineChart } from "./charts/lines.js";
import { saveMenu } from "./charts/saving.js";
import { element, fill } from "./dom.js";

/** @typedef {{snapshot: number, rule: string, applied: number, credit: number, volume: number}} Row */

const MOST_LINES = 8; // as many as there are colors

/**
 * Show a line for each of the rules with most credit: all credit up to a snapshot, by a thousand moves up to there.
 * @param {HTMLElement} place @param {Row[]} rows
 */
export function showRates(place, rows) {
  if (!rows.length) return fill(place, element("p", { class: "empty" }, "Nothing to draw."));
  const series = linesOf(rows);
  const chart = element("div", { class: "rates-chart" });
  const drawn = new LineChart(chart, "The rates of rules over snapshots; the table has the same figures");
  drawn.show({
    series,
    x: { title: "snapshot", unit: "", isWhole: true },
    y: { title: "credit by 1,000 moves", unit: "" },
  });
  const menu = saveMenu(drawn, () => "rates-of-rules", () => drawn.rows());
  fill(place, element("div", { class: "row" }, legend(series), element("span", { class: "spread" }, menu)), chart);
}

/** @param {Row[]} rows */
function linesOf(rows) {
  /** @type {Map<string, Row[]>} */
  const byRule = new Map();
  for (const row of rows) byRule.set(row.rule, [...(byRule.get(row.rule) ?? []), row]);
  const credit = (/** @type {Row[]} */ own) => own.reduce((sum, row) => sum + row.credit, 0);
  const best = [...byRule].sort(([, one], [, other]) => credit(other) - credit(one)).slice(0, MOST_LINES);
  return best.map(([rule, own], k) => {
    let applied = 0;
    let gained = 0;
    const y = own.map((row) => {
      applied += row.applied;
      gained += row.credit;
      return (1000 * gained) / Math.max(applied, 1);
    });
    return { name: rule, color: seriesColor(k), x: own.map((row) => row.snapshot), y };
  });
}
