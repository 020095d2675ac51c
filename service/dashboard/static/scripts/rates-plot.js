/**
 * How the rates of rules changed from run to run.
 * @module rates-plot
 */

import { onTheme } from "./colors.js";
import { element, fill } from "./dom.js";
import { axis, draw, layout } from "./plotting.js";
import { plain } from "./units.js";

/** @typedef {{snapshot: number, rule: string, applied: number, credit: number, volume: number}} Row */

const MOST_LINES = 8;

/** A line for each of the rules with most credit: all credit up to a snapshot, by a thousand moves up to there. */
export class RatesPlot {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {Row[]} */
    this.rows = [];
    this.isDrawn = false;
    onTheme(() => this.redraw());
  }

  /** @param {Row[]} rows */
  show(rows) {
    this.rows = rows;
    this.redraw();
  }

  redraw() {
    if (!this.rows.length) return fill(this.place, element("p", { class: "empty" }, "Nothing to draw."));
    if (!this.isDrawn) fill(this.place);
    this.isDrawn = true;
    const shape = layout({
      showlegend: true,
      margin: { l: 52, r: 8, t: 4, b: 36 },
      xaxis: axis({ title: { text: "snapshot", standoff: 6 }, nticks: 8, tickformat: "d" }),
      yaxis: axis({ title: { text: "rate" }, rangemode: "tozero", nticks: 5 }),
    });
    return draw(this.place, linesOf(this.rows), shape, { displayModeBar: false });
  }
}

/** @param {Row[]} rows */
function linesOf(rows) {
  /** @type {Map<string, Row[]>} */
  const byRule = new Map();
  for (const row of rows) byRule.set(row.rule, [...(byRule.get(row.rule) ?? []), row]);
  const credit = (/** @type {Row[]} */ own) => own.reduce((sum, row) => sum + row.credit, 0);
  const best = [...byRule].sort(([, one], [, other]) => credit(other) - credit(one)).slice(0, MOST_LINES);
  return best.map(([rule, own]) => {
    let applied = 0;
    let gained = 0;
    const rates = own.map((row) => {
      applied += row.applied;
      gained += row.credit;
      return (1000 * gained) / Math.max(applied, 1);
    });
    return {
      type: "scatter",
      mode: "lines+markers",
      name: rule,
      x: own.map((row) => row.snapshot),
      y: rates,
      text: own.map((row, k) => `${rule}, up to run ${row.snapshot}: ${plain(rates[k], 2)}`),
      hovertemplate: "%{text}<extra></extra>",
      marker: { size: 4 },
    };
  });
}
