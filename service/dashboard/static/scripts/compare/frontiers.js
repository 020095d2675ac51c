/**
 * The frontiers of several runs over each other, over two costs.
 * @module compare/frontiers
 */

import { pages } from "../api.js";
import { frameOf, paintAxes } from "../charts/axes.js";
import { Figure } from "../charts/figure.js";
import { extent, Scale } from "../charts/scale.js";
import { color } from "../colors.js";
import { element } from "../dom.js";
import { quantity } from "../units.js";

/** @typedef {{plan: string, cost: Record<string, number>}} Point */
/** @typedef {{name: string, unit: string, title: string}} Objective */

const NEAREST = 18; // px
const MARKS = 4; // forms of points: circle, square, triangle, diamond
const RADIUS = 4.5; // px

/** A scatter plot with a color and a form per run. Arrow keys go from point to point, Enter opens the plan. */
export class ComparedFrontiers extends Figure {
  /** @param {HTMLElement} place @param {import("./subjects.js").Subjects} subjects */
  constructor(place, subjects) {
    super(place, "The frontiers over two costs");
    this.subjects = subjects;
    /** @type {{run: number, point: Point, x: number, y: number}[]} in the order of x */
    this.points = [];
    this.pointed = -1;
    this.isLog = false;
    subjects.onPoint(() => this.redraw());
    this.canvas.addEventListener("click", () => this.#open());
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {Point[][]} frontiers @param {Objective} x @param {Objective} y @param {boolean} isLog */
  show(frontiers, x, y, isLog) {
    this.x = x;
    this.y = y;
    this.isLog = isLog;
    this.points = frontiers
      .flatMap((points, run) => points.map((point) => ({ run, point, x: point.cost[x.name], y: point.cost[y.name] })))
      .sort((a, b) => a.x - b.x || a.y - b.y);
    this.pointed = -1;
    this.describe(
      `${this.points.length} plans of ${frontiers.length} runs, ${x.title} across and ${y.title} up; the table of best values has the extremes`,
    );
    this.redraw();
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} width @param {number} height */
  paint(pen, width, height) {
    if (!this.points.length || !this.x || !this.y) return;
    const options = { margin: 0.05, isLog: this.isLog };
    const [low, high] = extent(this.points.map((one) => one.x), options) ?? [0, 1];
    const [bottom, top] = extent(this.points.map((one) => one.y), options) ?? [0, 1];
    const across = { title: this.x.title, scale: new Scale(low, high, { unit: this.x.unit, isLog: this.isLog }) };
    const up = { title: this.y.title, scale: new Scale(bottom, top, { unit: this.y.unit, isLog: this.isLog }) };
    paintAxes(pen, frameOf(width, height, up), across, up);
    this.spots = this.points.map((one) => [across.scale.at(one.x), up.scale.at(one.y)]);
    const last = this.subjects.pointed;
    const order = this.subjects.all.map((_, k) => k).sort((a, b) => Number(a === last) - Number(b === last));
    for (const run of order) this.#paintRun(pen, run);
    const spot = this.spots[this.pointed];
    if (!spot) return;
    pen.strokeStyle = color("text");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(spot[0], spot[1], RADIUS + 4, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** @param {import("../charts/pen.js").Pen} pen @param {number} run */
  #paintRun(pen, run) {
    const spots = /** @type {number[][]} */ (this.spots);
    const own = this.points.flatMap((one, k) => (one.run === run ? [k] : []));
    const ink = color(this.subjects.shade(run));
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    let least = Infinity;
    let before = /** @type {number[] | null} */ (null);
    for (const k of own) {
      if (this.points[k].y >= least) continue;
      least = this.points[k].y;
      const [x, y] = spots[k];
      if (before) {
        pen.lineTo(x, before[1]);
        pen.lineTo(x, y);
      } else pen.moveTo(x, y);
      before = [x, y];
    }
    pen.stroke();
    for (const k of own) {
      pen.beginPath();
      form(pen, spots[k][0], spots[k][1], run % MARKS);
      pen.fill();
    }
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    const distances = (this.spots ?? []).map(([left, top]) => Math.hypot(left - x, top - y));
    const nearest = distances.reduce((best, distance, k) => (distance < (distances[best] ?? NEAREST) ? k : best), -1);
    nearest < 0 ? this.leave() : this.#point(nearest);
  }

  leave() {
    super.leave();
    this.pointed = -1;
    this.canvas.style.cursor = "";
    this.subjects.point(-1);
    this.redraw();
  }

  /** @param {number} k */
  #point(k) {
    this.pointed = k;
    const { run, point, x, y } = this.points[k];
    const [left, top] = (this.spots ?? [])[k] ?? [0, 0];
    this.canvas.style.cursor = "pointer";
    this.subjects.point(run);
    this.explain(
      left,
      top,
      element("strong", {}, `${this.subjects.all[run].name}, plan ${point.plan.split("-").pop()}`),
      element("div", {}, `${this.x?.title}: ${quantity(x, this.x?.unit ?? "")}`),
      element("div", {}, `${this.y?.title}: ${quantity(y, this.y?.unit ?? "")}`),
    );
    this.redraw();
  }

  #open() {
    const found = this.points[this.pointed];
    if (found) location.assign(pages.plan(found.point.plan));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && this.points.length) this.#point(Math.max(0, Math.min(this.points.length - 1, this.pointed + step)));
    else if (event.key === "Enter") this.#open();
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
  }

  /** The points as rows, with their names first. @returns {unknown[][]} */
  rows() {
    const names = [this.x?.name ?? "", this.y?.name ?? ""];
    return [["run", "plan", ...names], ...this.points.map((one) => [this.subjects.all[one.run].name, one.point.plan, one.x, one.y])];
  }
}

/** The path of a point: runs differ in form, too. @param {import("../charts/pen.js").Pen} pen @param {number} x @param {number} y @param {number} which */
function form(pen, x, y, which) {
  const corners = [
    [],
    [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    [[0, -1.2], [1.15, 0.9], [-1.15, 0.9]],
    [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
  ][which];
  if (!corners.length) return pen.arc(x, y, RADIUS, 0, 2 * Math.PI);
  corners.forEach(([dx, dy], k) => (k ? pen.lineTo(x + dx * 4, y + dy * 4) : pen.moveTo(x + dx * 4, y + dy * 4)));
  return pen.closePath();
}

