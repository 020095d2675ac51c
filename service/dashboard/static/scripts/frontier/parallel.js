/**
 * The frontier in all objectives: an axis for each, a line for each plan; dragging along an axis bounds it.
 * @module frontier/parallel
 */

import { font } from "../charts/figure.js";
import { extent, Scale } from "../charts/scale.js";
import { color } from "../colors.js";
import { symbolOf } from "./data.js";
import { PlanFigure, rangeOf } from "./plan-figure.js";

const TOP = 44; // px for the titles
const BOTTOM = 16;
const SIDE = 72;
const NEAREST = 14;
const GRIP = 16; // px beside an axis that belong to it

/** Parallel coordinates. Left and right choose an axis, up and down go from plan to plan along it. */
export class ParallelPlot extends PlanFigure {
  /** @param {HTMLElement} place @param {(id: string | null) => void} onPoint */
  constructor(place, onPoint) {
    super(place, "The plans over all objectives; the table below has the same figures", onPoint);
    this.apart = 0; // px from axis to axis
    /** The axis that keys follow. */
    this.current = 0;
    /** @type {{name: string, title: string, scale: Scale, values: Float64Array, x: number}[]} */
    this.axes = [];
  }

  /** @param {import("./data.js").FrontierData} data @param {import("./data.js").Objective[]} objectives */
  show(data, objectives) {
    this.axes = objectives.map(({ name, title, unit }) => {
      const values = data.values(name);
      const [low, high] = extent(values, { margin: 0.02 }) ?? [0, 1];
      const bound = data.bounds[name]?.bound ?? low;
      return { name, title, values, scale: new Scale(Math.min(low, bound), high, { unit }), x: 0 };
    });
    this.current = Math.min(this.current, this.axes.length - 1);
    this.describe(`${data.plans.length} plans over ${objectives.map(({ title }) => title).join(", ")}; the table below has the same figures`);
    this.showData(data);
  }

  /** Draw the lines, which are many. @param {import("../charts/pen.js").Pen} pen @param {number} width @param {number} height */
  paintGround(pen, width, height) {
    if (!this.data?.plans.length) return;
    const side = Math.min(SIDE, width / 6);
    this.apart = this.axes.length > 1 ? (width - 2 * side) / (this.axes.length - 1) : 0;
    this.axes.forEach((axis, k) => {
      axis.x = side + k * this.apart;
      axis.scale.over(height - BOTTOM, TOP);
    });
    this.#paintLines(pen);
    this.#paintMarked(pen);
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} width */
  paint(pen, width) {
    if (!this.data?.plans.length) return;
    this.#paintPointed(pen);
    this.axes.forEach((axis, k) => this.#paintAxis(pen, axis, k, this.apart, width));
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} k */
  #line(pen, k) {
    this.axes.forEach((axis, n) => {
      const y = axis.scale.at(axis.values[k]);
      if (n) pen.lineTo(axis.x, y);
      else pen.moveTo(axis.x, y);
    });
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paintLines(pen) {
    const data = /** @type {import("./data.js").FrontierData} */ (this.data);
    for (const { fill, members } of data.byShade()) {
      pen.beginPath();
      for (const k of members) this.#line(pen, k);
      pen.strokeStyle = fill ?? color("grid");
      pen.lineWidth = fill ? 1.4 : 1;
      pen.globalAlpha = fill && data.heldNumbers.length > 300 ? 0.55 : 1;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paintMarked(pen) {
    const data = /** @type {import("./data.js").FrontierData} */ (this.data);
    pen.lineWidth = 2.2;
    data.plans.forEach((plan, k) => {
      const [mark] = data.marks.get(plan.id) ?? [];
      if (!mark || !data.held[k]) return;
      pen.strokeStyle = color(symbolOf(mark).color);
      pen.beginPath();
      this.#line(pen, k);
      pen.stroke();
    });
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paintPointed(pen) {
    if (this.pointed < 0) return;
    pen.strokeStyle = color("accent");
    pen.lineWidth = 3.5;
    pen.beginPath();
    this.#line(pen, this.pointed);
    pen.stroke();
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {any} axis @param {number} k @param {number} step @param {number} width */
  #paintAxis(pen, { name, title, scale, x }, k, step, width) {
    const data = /** @type {import("./data.js").FrontierData} */ (this.data);
    const isCurrent = k === this.current && document.activeElement === this.canvas;
    pen.fillStyle = color(isCurrent ? "accent" : "line-strong");
    pen.fillRect(x - (isCurrent ? 1 : 0), scale.to, isCurrent ? 3 : 1, scale.from - scale.to);
    const bound = data.bounds[name]?.bound;
    if (bound !== undefined) {
      pen.fillStyle = color("bad");
      pen.fillRect(x - 8, scale.at(bound) - 1, 17, 2);
    }
    pen.font = font(11);
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const { value, text } of scale.ticks(6)) {
      const y = scale.at(value);
      const wide = pen.measureText(text).width;
      pen.fillStyle = color("surface");
      pen.globalAlpha = 0.8;
      pen.fillRect(x - 8 - wide, y - 7, wide + 4, 14);
      pen.globalAlpha = 1;
      pen.fillStyle = color("muted");
      pen.fillRect(x - 4, Math.round(y), 4, 1);
      pen.fillText(text, x - 6, y);
    }
    this.#paintRange(pen, k);
    pen.fillStyle = color("text");
    pen.font = font(12, 600);
    const room = Math.max(60, step - 8);
    const at = Math.min(width - 2, Math.max(2, x));
    const shown = shortened(pen, title, room);
    const half = pen.measureText(shown).width / 2;
    // The first and the last stay within the figure, and touch their axes.
    pen.textAlign = at < half + 2 ? "left" : at > width - half - 2 ? "right" : "center";
    pen.fillText(shown, at, 11);
    pen.font = font(11);
    pen.fillStyle = color("muted");
    pen.fillText(scale.unit, at, 27);
  }

  /** What an axis is bounded to, or is being. @param {import("../charts/pen.js").Pen} pen @param {number} k */
  #paintRange(pen, k) {
    const { name, scale, x } = this.axes[k];
    const set = this.data?.selection.ranges.get(name);
    const at = this.box && this.#axisAt(this.box[0]) === k ? [this.box[1], this.box[3]] : null;
    if (!set && !at) return;
    const [a, b] = at ?? /** @type {number[]} */ (set).map((value) => scale.at(Math.min(scale.high, Math.max(scale.low, value))));
    pen.fillStyle = color("accent");
    pen.globalAlpha = 0.25;
    pen.fillRect(x - 7, Math.min(a, b), 15, Math.max(2, Math.abs(b - a)));
    pen.globalAlpha = 1;
    pen.strokeStyle = color("accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(x - 7, Math.min(a, b), 15, Math.max(2, Math.abs(b - a)));
  }

  /** The axis at a place, or -1. @param {number} x px */
  #axisAt(x) {
    return this.axes.findIndex((axis) => Math.abs(axis.x - x) <= GRIP);
  }

  /** @param {number} x @param {number} y */
  nearest(x, y) {
    if (!this.data || y < TOP) return -1;
    let right = this.axes.findIndex((axis) => axis.x >= x);
    if (right < 0) right = this.axes.length - 1;
    right = Math.max(1, right);
    const [a, b] = [this.axes[right - 1], this.axes[right]];
    if (!a || !b) return -1;
    const share = Math.min(1, Math.max(0, (x - a.x) / (b.x - a.x)));
    let [best, found] = [NEAREST, -1];
    for (let k = 0; k < this.data.plans.length; k += 1) {
      if (!this.data.held[k]) continue;
      const from = a.scale.at(a.values[k]);
      const distance = Math.abs(from + share * (b.scale.at(b.values[k]) - from) - y);
      if (distance < best) [best, found] = [distance, k];
    }
    return found;
  }

  /** @param {number} k @returns {[number, number]} */
  spot(k) {
    const axis = this.axes[this.current];
    return axis ? [axis.x, axis.scale.at(axis.values[k])] : [0, 0];
  }

  /** @param {import("./plan-figure.js").Box} box @returns {Record<string, import("./selection.js").Range>} */
  boundsOf([ax, ay, , by]) {
    const axis = this.axes[this.#axisAt(ax)];
    if (!axis) return {};
    const [low, high] = rangeOf(axis.scale, ay, by);
    return { [axis.name]: [low <= axis.scale.low ? -Infinity : low, high >= axis.scale.high ? Infinity : high] };
  }

  /** @param {number} x */
  costsAt(x) {
    const axis = this.axes[this.#axisAt(x)];
    return axis ? [axis.name] : [];
  }

  /** @param {string} key */
  step(key) {
    if (key === "ArrowLeft" || key === "ArrowRight") {
      this.current = Math.min(this.axes.length - 1, Math.max(0, this.current + (key === "ArrowLeft" ? -1 : 1)));
      this.redrawTop();
      return this.pointed;
    }
    if (key !== "ArrowUp" && key !== "ArrowDown") return null;
    return this.neighbor(this.axes[this.current]?.values ?? [], key === "ArrowUp" ? 1 : -1);
  }
}

/** @param {import("../charts/pen.js").Pen} pen @param {string} text @param {number} room px */
function shortened(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return `${text.slice(0, length)}…`;
}
