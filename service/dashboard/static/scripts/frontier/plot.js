/**
 * The frontier over two of its costs, colored by a third; a dragged box bounds both.
 * @module frontier/plot
 */

import { frameOf, paintAxes } from "../charts/axes.js";
import { shades } from "../charts/gradient.js";
import { extent, Scale } from "../charts/scale.js";
import { font } from "../charts/figure.js";
import { color } from "../colors.js";
import { outline, symbolOf } from "./data.js";
import { PlanFigure } from "./plan-figure.js";

/** @typedef {{x: string, y: string, color: string, isLogX: boolean, isLogY: boolean, hasErrors: boolean, isNear: boolean}} View */

const RADIUS = 5; // px
const RING = 11;
const COLOR_BAR = 74; // px for the scale of colors
const HEAD = 20; // px for the legend
const NEAREST = 18; // px from which on a point is meant
const KEYS = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] };

/** A scatter plot. Arrow keys go from point to point, Enter opens the plan. */
export class FrontierPlot extends PlanFigure {
  /** @param {HTMLElement} place @param {(id: string | null) => void} onPoint */
  constructor(place, onPoint) {
    super(place, "The plans over two costs; the table below has the same figures", onPoint);
    /** @type {View | null} */
    this.view = null;
    /** @type {number[] | null} */
    this.box = null;
  }

  /** @param {import("./data.js").FrontierData} data @param {View} view */
  show(data, view) {
    this.view = view;
    this.columns = { x: data.values(view.x), y: data.values(view.y) };
    const [x, y] = [view.x, view.y].map((name) => data.objective(name).title);
    this.describe(`${data.plans.length} plans, ${x} across and ${y} up; the table below has the same figures`);
    this.showData(data);
  }

  /** @param {"x" | "y"} which */
  #axis(which) {
    const { data, view, columns } = /** @type {any} */ (this);
    const name = view[which];
    const isLog = which === "x" ? view.isLogX : view.isLogY;
    const own = columns[which];
    const shown = view.isNear && data.heldCount ? own.filter((/** @type {number} */ _, /** @type {number} */ k) => data.held[k]) : own;
    const [low, high] = extent(shown, { margin: 0.05, isLog }) ?? [0, 1];
    const { title, unit } = data.objective(name);
    const bound = data.bounds[name]?.bound;
    const isNear = bound !== undefined && bound < low && bound > low - 0.3 * (high - low) && !view.isNear && (!isLog || bound > 0);
    const least = isNear ? bound - 0.02 * (high - low) : low;
    const hasZero = isLog && low <= 0;
    return {
      title: hasZero ? `${title}; not log, it has zeros` : title,
      scale: new Scale(isNear && isLog ? bound * 0.98 : least, high, { unit, isLog }),
    };
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} width @param {number} height */
  paint(pen, width, height) {
    if (!this.data?.plans.length || !this.view) return;
    const [x, y] = [this.#axis("x"), this.#axis("y")];
    const inner = frameOf(width - COLOR_BAR, height, y);
    const frame = { ...inner, top: inner.top + HEAD };
    this.frame = frame;
    this.scales = { x: x.scale, y: y.scale };
    paintAxes(pen, frame, x, y);
    this.place2d();
    pen.save();
    pen.beginPath();
    pen.rect(frame.left - RING, frame.top - RING, frame.right - frame.left + 2 * RING, frame.bottom - frame.top + 2 * RING);
    pen.clip();
    this.#paintBounds(pen);
    this.#paintSteps(pen);
    this.#paintErrors(pen);
    this.#paintPoints(pen);
    this.#paintMarks(pen);
    pen.restore();
    this.#paintBox(pen);
    this.#paintLegend(pen, width - COLOR_BAR);
    this.#paintColors(pen, width, frame);
  }

  place2d() {
    const { columns, scales } = /** @type {any} */ (this);
    this.at = {
      x: Float64Array.from(columns.x, (value) => scales.x.at(value)),
      y: Float64Array.from(columns.y, (value) => scales.y.at(value)),
    };
  }

  /** What no plan can be below. @param {import("../charts/pen.js").Pen} pen */
  #paintBounds(pen) {
    const { view, data, scales, frame } = /** @type {any} */ (this);
    pen.fillStyle = color("bad");
    pen.font = font(11);
    const x = data.bounds[view.x]?.bound;
    if (x !== undefined && x >= scales.x.low) {
      pen.fillRect(scales.x.at(x) - 1, frame.top, 1, frame.bottom - frame.top);
      pen.save();
      pen.translate(scales.x.at(x) - 4, frame.top + 4);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "right";
      pen.textBaseline = "bottom";
      pen.fillText("proven bound", 0, 2);
      pen.restore();
    }
    const y = data.bounds[view.y]?.bound;
    if (y === undefined || y < scales.y.low) return;
    pen.fillRect(frame.left, scales.y.at(y), frame.right - frame.left, 1);
    pen.textAlign = "right";
    pen.textBaseline = "top";
    pen.fillText("proven bound", frame.right - 4, scales.y.at(y) + 2);
  }

  /** The plans that are best for these two alone, as a line of steps. @param {import("../charts/pen.js").Pen} pen */
  #paintSteps(pen) {
    const { columns, at, data } = /** @type {any} */ (this);
    const order = data.plans.map((/** @type {any} */ _, /** @type {number} */ k) => k).filter((/** @type {number} */ k) => data.held[k]);
    order.sort((/** @type {number} */ a, /** @type {number} */ b) => columns.x[a] - columns.x[b] || columns.y[a] - columns.y[b]);
    let least = Infinity;
    let last = -1;
    pen.beginPath();
    for (const k of order) {
      if (columns.y[k] >= least) continue;
      least = columns.y[k];
      if (last < 0) pen.moveTo(at.x[k], at.y[k]);
      else {
        pen.lineTo(at.x[k], at.y[last]);
        pen.lineTo(at.x[k], at.y[k]);
      }
      last = k;
    }
    pen.strokeStyle = color("line-strong");
    pen.lineWidth = 1.5;
    pen.setLineDash([2, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }

  /** Intervals of times, of all plans or of the one that is pointed out. @param {import("../charts/pen.js").Pen} pen */
  #paintErrors(pen) {
    const { view, data, at, scales } = /** @type {any} */ (this);
    pen.strokeStyle = color("muted");
    pen.lineWidth = 1;
    pen.beginPath();
    data.plans.forEach((/** @type {any} */ plan, /** @type {number} */ k) => {
      if (!plan.time || !data.held[k] || !(view.hasErrors || k === this.pointed)) return;
      const { low, high } = plan.time;
      if (view.x === "time_s") bar(pen, scales.x.at(low), at.y[k], scales.x.at(high), at.y[k]);
      if (view.y === "time_s") bar(pen, at.x[k], scales.y.at(low), at.x[k], scales.y.at(high));
    });
    pen.stroke();
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paintPoints(pen) {
    const { data, at } = /** @type {any} */ (this);
    for (const { fill, members } of data.byShade()) {
      pen.beginPath();
      for (const k of members) {
        pen.moveTo(at.x[k] + RADIUS, at.y[k]);
        pen.arc(at.x[k], at.y[k], fill ? RADIUS : RADIUS - 2, 0, 2 * Math.PI);
      }
      pen.fillStyle = fill ?? color("grid");
      pen.strokeStyle = color("surface");
      pen.lineWidth = 1;
      pen.fill();
      pen.stroke();
    }
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paintMarks(pen) {
    const { data, at } = /** @type {any} */ (this);
    pen.lineWidth = 2.5;
    data.plans.forEach((/** @type {any} */ plan, /** @type {number} */ k) => {
      for (const mark of data.marks.get(plan.id) ?? []) {
        const { symbol, color: own } = symbolOf(mark);
        pen.strokeStyle = color(own);
        outline(pen, symbol, at.x[k], at.y[k], 9);
      }
    });
    if (this.pointed < 0) return;
    pen.strokeStyle = color("accent");
    pen.lineWidth = 2;
    outline(pen, "circle", at.x[this.pointed], at.y[this.pointed], RING);
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} right */
  #paintLegend(pen, right) {
    const { data } = /** @type {any} */ (this);
    const found = new Set([...data.marks.values()].flat().map((mark) => (mark.startsWith("least ") ? "least of another" : mark)));
    const names = ["fastest", "knee", "smallest", "least of another"].filter((name) => found.has(name));
    pen.font = font(12);
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    let x = right - 12;
    for (const name of names.reverse()) {
      x -= pen.measureText(name).width;
      pen.fillStyle = color("text");
      pen.fillText(name, x, 12);
      x -= 12;
      const { symbol, color: own } = symbolOf(name);
      pen.strokeStyle = color(own);
      pen.lineWidth = 2;
      outline(pen, symbol, x, 12, 6);
      x -= 20;
    }
  }

  /** The scale of colors. @param {import("../charts/pen.js").Pen} pen @param {number} width @param {import("../charts/axes.js").Frame} frame */
  #paintColors(pen, width, { top, bottom }) {
    const { data } = /** @type {any} */ (this);
    const left = width - COLOR_BAR + 8;
    const all = shades();
    const each = (bottom - top) / all.length;
    all.forEach((fill, k) => {
      pen.fillStyle = fill;
      pen.fillRect(left, bottom - (k + 1) * each, 11, each + 0.5);
    });
    const scale = new Scale(...data.colorRange, { unit: data.color.unit }).over(bottom, top);
    pen.fillStyle = color("muted");
    pen.font = font(12);
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (const { value, text } of scale.ticks(6)) pen.fillText(text, left + 15, scale.at(value));
    pen.save();
    pen.translate(width - 6, (top + bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillStyle = color("text");
    pen.fillText(scale.unit ? `${data.color.title} (${scale.unit})` : data.color.title, 0, 0);
    pen.restore();
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paintBox(pen) {
    if (!this.box) return;
    const [ax, ay, bx, by] = this.box;
    pen.strokeStyle = color("accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(Math.min(ax, bx), Math.min(ay, by), Math.abs(bx - ax), Math.abs(by - ay));
  }

  /** @param {number} x @param {number} y */
  nearest(x, y) {
    if (!this.at || !this.data) return -1;
    let [best, found] = [NEAREST ** 2, -1];
    for (let k = 0; k < this.at.x.length; k += 1) {
      if (!this.data.held[k]) continue;
      const distance = (this.at.x[k] - x) ** 2 + (this.at.y[k] - y) ** 2;
      if (distance < best) [best, found] = [distance, k];
    }
    return found;
  }

  /** @param {number} k @returns {[number, number]} */
  spot(k) {
    return this.at ? [this.at.x[k], this.at.y[k]] : [0, 0];
  }

  /** @param {number[]} box px */
  dragging(box) {
    this.box = box;
    this.redraw();
  }

  /** @param {number[]} box px */
  dragged([ax, ay, bx, by]) {
    this.box = null;
    const { scales, view } = /** @type {any} */ (this);
    if (Math.abs(bx - ax) < 6 || Math.abs(by - ay) < 6) return this.redraw();
    const range = (/** @type {Scale} */ scale, /** @type {number} */ a, /** @type {number} */ b) =>
      /** @type {[number, number]} */ ([a, b].map((at) => scale.value(at)).sort((one, other) => one - other));
    this.data?.selection.set({ [view.x]: range(scales.x, ax, bx), [view.y]: range(scales.y, ay, by) });
  }

  cleared() {
    if (this.view) this.data?.selection.set({ [this.view.x]: null, [this.view.y]: null });
  }

  /** @param {string} key */
  step(key) {
    const move = KEYS[/** @type {keyof KEYS} */ (key)];
    if (!move || !this.columns) return null;
    return this.neighbor(this.columns[/** @type {"x" | "y"} */ (move[0])], Number(move[1]));
  }
}

/** A bar of an interval with its ends. @param {import("../charts/pen.js").Pen} pen @param {number} ax @param {number} ay @param {number} bx @param {number} by px */
function bar(pen, ax, ay, bx, by) {
  const [dx, dy] = ax === bx ? [3, 0] : [0, 3];
  for (const [fromX, fromY, toX, toY] of [
    [ax, ay, bx, by],
    [ax - dx, ay - dy, ax + dx, ay + dy],
    [bx - dx, by - dy, bx + dx, by + dy],
  ]) {
    pen.moveTo(fromX, fromY);
    pen.lineTo(toX, toY);
  }
}
