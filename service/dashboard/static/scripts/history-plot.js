/**
 * How the hypervolume grew, over the seconds or the evaluations.
 * @module history-plot
 */

import { LineChart } from "./charts/lines.js";
import { SHARE_SPAN } from "./charts/scale.js";
import { count, plain, several } from "./units.js";

/** @typedef {{seconds: number, evaluations: number, front: number, hypervolume: number}} Point */

const AXES = {
  seconds: { title: "searched", unit: "s", isFromZero: true },
  evaluations: { title: "evaluations", unit: "", isWhole: true },
};

/** A line of the hypervolume, a share of the objective space. */
export class HistoryPlot {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.chart = new LineChart(place, "The hypervolume over time");
    /** @type {Point[]} */
    this.points = [];
    /** @type {keyof AXES} */
    this.over = "seconds";
  }

  /** @param {Point[]} points @param {string} [over] what goes across */
  show(points, over = this.over) {
    this.over = over in AXES ? /** @type {keyof AXES} */ (over) : "seconds";
    this.points = points.filter((point) => point.hypervolume > 0);
    const last = this.points[this.points.length - 1];
    this.chart.describe(
      last
        ? `The hypervolume over ${AXES[this.over].title}: ${plain(last.hypervolume, 4)} of 1 after ${plain(last.seconds, 1)} s`
        : "The hypervolume: nothing to measure yet",
    );
    const note = (/** @type {number} */ k) => noteOf(this.points[k]);
    const x = this.points.map((point) => point[this.over]);
    const y = this.points.map((point) => point.hypervolume);
    const series = last ? [{ name: "hypervolume", color: "accent", kind: /** @type {const} */ ("step"), x, y, note }] : [];
    this.chart.show({
      series,
      x: AXES[this.over],
      y: { title: "hypervolume", unit: "", isFromZero: false, leastSpan: SHARE_SPAN },
    });
  }

  /** The figures as rows, with their names first. @returns {unknown[][]} */
  rows() {
    const names = ["seconds", "evaluations", "front", "hypervolume"];
    return [names, ...this.points.map((point) => names.map((name) => point[/** @type {keyof Point} */ (name)]))];
  }
}

/** @param {Point} point */
function noteOf({ hypervolume, front, evaluations }) {
  return `${plain(hypervolume, 4)}; ${several(front, "plan")}, ${count(evaluations)} evaluations`;
}
