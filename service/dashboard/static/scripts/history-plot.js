/**
 * How the hypervolume grew.
 * @module history-plot
 */

import { color, onTheme } from "./colors.js";
import { element, fill } from "./dom.js";
import { axis, draw, layout } from "./plotting.js";
import { count, plain, several } from "./units.js";

/** @typedef {{seconds: number, evaluations: number, front: number, hypervolume: number}} Point */

/** A line over the seconds of searching. */
export class HistoryPlot {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {Point[]} */
    this.points = [];
    this.isDrawn = false;
    onTheme(() => this.redraw());
  }

  /** @param {Point[]} points */
  show(points) {
    this.points = points;
    this.redraw();
  }

  redraw() {
    const known = this.points.filter((point) => point.hypervolume > 0);
    if (!known.length) return fill(this.place, element("p", { class: "empty" }, "Nothing to measure."));
    if (!this.isDrawn) fill(this.place);
    this.isDrawn = true;
    const line = {
      type: "scatter",
      mode: known.length < 40 ? "lines+markers" : "lines",
      x: known.map((point) => point.seconds),
      y: known.map((point) => point.hypervolume),
      text: known.map(
        (point) =>
          `${plain(point.seconds, 1)} s: ${plain(point.hypervolume, 4)}<br>` +
          `${several(point.front, "plan")}, ${count(point.evaluations)} evaluations`,
      ),
      hovertemplate: "%{text}<extra></extra>",
      line: { color: color("accent"), width: 2 },
      marker: { size: 4 },
    };
    const shape = layout({
      margin: { l: 52, r: 8, t: 4, b: 36 },
      hovermode: "x",
      xaxis: axis({ title: { text: "seconds of searching", standoff: 6 }, rangemode: "tozero", nticks: 7 }),
      yaxis: axis({ nticks: 5, tickformat: ".3~f" }),
    });
    return draw(this.place, [line], shape, { displayModeBar: false });
  }
}
