/**
 * What the views of a frontier have in common: a plan that is pointed out, by the pointer or by keys, in all of them, and
 * bounds that are set by dragging.
 * @module frontier/plan-figure
 */

import { pages } from "../api.js";
import { Drag } from "../charts/dragging.js";
import { Figure } from "../charts/figure.js";
import { color } from "../colors.js";

/** @typedef {[number, number, number, number]} Box px: where dragging began, and where it is */
/** @typedef {import("../charts/scale.js").Scale} Scale */

/** A figure of plans: a click or Enter opens one. Views say which is nearest, where it is, and what dragging bounds. */
export class PlanFigure extends Figure {
  /** @param {HTMLElement} place @param {string} label @param {(id: string | null) => void} onPoint */
  constructor(place, label, onPoint) {
    super(place, label);
    this.onPoint = onPoint;
    /** @type {import("./data.js").FrontierData | null} */
    this.data = null;
    /** The number of the plan that is pointed out, or -1. */
    this.pointed = -1;
    /** What is being dragged over. @type {Box | null} */
    this.box = null;
    this.drag = new Drag(this.canvas, {
      move: (from, to) => this.#dragging([...from, ...to]),
      end: (from, to) => this.#dragged([...from, ...to]),
      cancel: () => this.#dragging(null),
    });
    this.#listen();
  }

  /** The plans, which are many, are below what the pointer marks. */
  get hasGround() {
    return true;
  }

  /** @param {import("./data.js").FrontierData} data */
  showData(data) {
    const id = this.data?.plans[this.pointed]?.id;
    this.data = data;
    this.pointed = data.plans.findIndex((plan) => plan.id === id);
    this.redraw();
  }

  /** Point out a plan, or none. @param {string | null} id */
  point(id) {
    const found = this.data?.plans.findIndex((plan) => plan.id === id) ?? -1;
    if (found === this.pointed) return;
    this.pointed = found;
    this.redrawTop();
  }

  /** @param {number} _x @param {number} _y px @returns {number} the plan meant, or -1 */
  nearest(_x, _y) {
    return -1;
  }

  /** @param {number} _k @returns {[number, number]} where a plan is drawn, px */
  spot(_k) {
    return [0, 0];
  }

  /** @param {Box} _box @returns {Record<string, import("./selection.js").Range>} the bounds that dragging over it sets */
  boundsOf(_box) {
    return {};
  }

  /** @param {number} _x @param {number} _y px of a double click @returns {string[]} the costs whose bounds it removes */
  costsAt(_x, _y) {
    return [];
  }

  /** @param {string} _key @returns {number | null} the plan that a key leads to; null for other keys */
  step(_key) {
    return null;
  }

  /** Draw what is being dragged over. @param {import("../charts/pen.js").Pen} pen */
  paintBox(pen) {
    if (!this.box) return;
    const [ax, ay, bx, by] = this.box;
    pen.strokeStyle = color("accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(Math.min(ax, bx), Math.min(ay, by), Math.abs(bx - ax), Math.abs(by - ay));
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    if (this.drag.from) return;
    const found = this.nearest(x, y);
    this.canvas.style.cursor = found < 0 ? "crosshair" : "pointer";
    this.#meet(found, x, y);
  }

  leave() {
    if (!this.drag.from) this.#meet(-1, 0, 0);
  }

  /** @param {Box | null} box */
  #dragging(box) {
    this.box = box;
    this.tooltip.hidden = true;
    this.redrawTop();
  }

  /** @param {Box} box */
  #dragged(box) {
    this.#dragging(null);
    const bounds = this.boundsOf(box);
    if (Object.keys(bounds).length) this.data?.selection.set(bounds);
  }

  /** @param {number} k @param {number} x @param {number} y */
  #meet(k, x, y) {
    if (k < 0) this.tooltip.hidden = true;
    else if (this.data) this.explain(x, y, ...this.data.describe(k));
    if (k === this.pointed) return;
    this.pointed = k;
    this.redrawTop();
    this.onPoint(this.data?.plans[k]?.id ?? null);
  }

  #open() {
    const plan = this.data?.plans[this.pointed];
    if (plan) location.assign(pages.plan(plan.id));
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (this.drag.isDrag) return;
      this.#meet(this.nearest(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
      this.#open();
    });
    canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => {
      const names = this.costsAt(event.offsetX, event.offsetY);
      if (names.length) this.data?.selection.set(Object.fromEntries(names.map((name) => [name, null])));
    });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const next = this.step(event.key);
      if (next !== null) this.#meet(next, ...this.spot(next));
      else if (event.key === "Enter") this.#open();
      else if (event.key === "Escape") this.#meet(-1, 0, 0);
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("blur", () => this.leave());
  }

  /**
   * The next plan within the bounds in the order of a cost.
   * @param {ArrayLike<number>} values @param {number} by 1 or -1 @returns {number}
   */
  neighbor(values, by) {
    const order = [...(this.data?.heldNumbers ?? [])].sort((a, b) => values[a] - values[b] || a - b);
    const place = order.indexOf(this.pointed);
    const next = place < 0 ? (by > 0 ? 0 : order.length - 1) : place + by;
    return order[Math.min(order.length - 1, Math.max(0, next))] ?? -1;
  }
}

/** The values between two places of a scale. @param {Scale} scale @param {number} a @param {number} b px @returns {[number, number]} */
export function rangeOf(scale, a, b) {
  const [one, other] = [scale.value(a), scale.value(b)];
  return one < other ? [one, other] : [other, one];
}
