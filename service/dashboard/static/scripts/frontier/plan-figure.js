/**
 * What the views of a frontier have in common: a plan that is pointed out, by the pointer or by keys, in all of them.
 * @module frontier/plan-figure
 */

import { pages } from "../api.js";
import { Figure } from "../charts/figure.js";

const CLICK = 5; // px: what moves less was no drag

/** A figure of plans: a click or Enter opens one. Views say which is nearest, where it is, and what dragging means. */
export class PlanFigure extends Figure {
  /** @param {HTMLElement} place @param {string} label @param {(id: string | null) => void} onPoint */
  constructor(place, label, onPoint) {
    super(place, label);
    this.onPoint = onPoint;
    /** @type {import("./data.js").FrontierData | null} */
    this.data = null;
    /** The number of the plan that is pointed out, or -1. */
    this.pointed = -1;
    /** @type {[number, number] | null} */
    this.from = null;
    this.#listen();
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
    this.redraw();
  }

  /** @param {number} _x @param {number} _y px @returns {number} the plan meant, or -1 */
  nearest(_x, _y) {
    return -1;
  }

  /** @param {number} _k @returns {[number, number]} where a plan is drawn, px */
  spot(_k) {
    return [0, 0];
  }

  /** @param {number[]} _box px */
  dragging(_box) {
    // few views show it
  }

  /** @param {number[]} _box px */
  dragged(_box) {
    // nothing is bounded by default
  }

  /** @param {number} _x @param {number} _y px of a double click */
  cleared(_x, _y) {
    // nothing was bounded
  }

  /** @param {string} _key @returns {number | null} the plan that a key leads to; null for other keys */
  step(_key) {
    return null;
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    if (this.from) {
      if (isDrag(this.from, x, y)) this.dragging([...this.from, x, y]);
      return;
    }
    const found = this.nearest(x, y);
    this.canvas.style.cursor = found < 0 ? "crosshair" : "pointer";
    this.#meet(found, x, y);
  }

  leave() {
    if (!this.from) this.#meet(-1, 0, 0);
  }

  /** @param {number} k @param {number} x @param {number} y */
  #meet(k, x, y) {
    if (k < 0) this.tooltip.hidden = true;
    else if (this.data) this.explain(x, y, ...this.data.describe(k));
    if (k === this.pointed) return;
    this.pointed = k;
    this.redraw();
    this.onPoint(this.data?.plans[k]?.id ?? null);
  }

  #open() {
    const plan = this.data?.plans[this.pointed];
    if (plan) location.assign(pages.plan(plan.id));
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      if (event.button || event.pointerType === "touch") return;
      this.from = [event.offsetX, event.offsetY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
      const { from } = this;
      this.from = null;
      if (from && isDrag(from, event.offsetX, event.offsetY)) {
        this.tooltip.hidden = true;
        this.dragged([...from, event.offsetX, event.offsetY]);
      }
    });
    canvas.addEventListener("pointercancel", () => (this.from = null));
    let pressed = [0, 0];
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => (pressed = [event.offsetX, event.offsetY]));
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (isDrag(pressed, event.offsetX, event.offsetY)) return;
      this.#meet(this.nearest(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
      this.#open();
    });
    canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => this.cleared(event.offsetX, event.offsetY));
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
    const held = this.data?.held ?? [];
    const order = Array.from(held, (_, k) => k).filter((k) => held[k]);
    order.sort((a, b) => values[a] - values[b] || a - b);
    const place = order.indexOf(this.pointed);
    const next = place < 0 ? (by > 0 ? 0 : order.length - 1) : place + by;
    return order[Math.min(order.length - 1, Math.max(0, next))] ?? -1;
  }
}

/** @param {number[]} from @param {number} x @param {number} y */
function isDrag([fromX, fromY], x, y) {
  return Math.abs(x - fromX) + Math.abs(y - fromY) >= CLICK;
}
