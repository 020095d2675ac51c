/**
 * Redistributions added up: kinds of exchange by mesh axis, or what a tensor is by what it becomes. A cell filters the list.
 * @module sharding/matrix
 */

import { seriesColor, swatch } from "../charts/legend.js";
import { element, fill } from "../dom.js";
import { kindText } from "../exchange-names.js";
import { countOf, figure, figureOf, tableOf } from "../tables.js";
import { quantity } from "../units.js";

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {{name: string, holds: (moved: number) => boolean}} Choice of redistributions */

const ABOUT = /** @type {Record<string, string>} */ ({ made: "made", "time of all": "exchange: time" });
const LEAST_SHADE = 6; // % of the ink
const MOST_SHADE = 46;

export class Matrix {
  /** @param {HTMLElement} place @param {Columns} columns @param {(choice: Choice | null) => void} onChoose */
  constructor(place, columns, onChoose) {
    this.place = place;
    this.columns = columns;
    this.onChoose = onChoose;
    this.chosen = "";
    this.isByClass = false;
  }

  /** @param {boolean} isByClass whether rows are what tensors are, and columns what they become */
  show(isByClass) {
    this.isByClass = isByClass;
    this.chosen = "";
    this.onChoose(null);
    this.#draw();
  }

  #draw() {
    if (this.isByClass) this.#byClass();
    else this.#byKind();
  }

  #byKind() {
    const { matrix, mesh, moved, axesOfMoved } = this.columns;
    const most = Math.max(1, ...matrix.bytes.flat());
    const rows = matrix.kind.map((/** @type {string} */ kind, /** @type {number} */ k) => {
      const ofKind = (/** @type {number} */ each) => moved.kind[each] === kind;
      const sum = matrix.bytes[k].reduce((/** @type {number} */ all, /** @type {number} */ bytes) => all + bytes, 0);
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, this.#button(kindText(kind), kindText(kind), ofKind, kindText(kind))),
        mesh.axes.map((/** @type {any} */ axis, /** @type {number} */ a) =>
          this.#cell(matrix.bytes[k][a], most, `${kindText(kind)} over ${axis.name}`, (each) => ofKind(each) && axesOfMoved[each].has(axis.name)),
        ),
        figureOf(sum, "B"),
        countOf(matrix.times[k]),
        figureOf(matrix.seconds[k], "s"),
      );
    });
    const heads = [
      "kind",
      ...mesh.axes.map((/** @type {any} */ axis, /** @type {number} */ a) => [swatch(seriesColor(a)), `over ${axis.name}`]),
      ...["all axes", "made", "time of all"],
    ];
    this.#table(heads, rows);
  }

  #byClass() {
    const { moved, shardings } = this.columns;
    const ends = (/** @type {number} */ k) => [this.#class(moved, shardings, k, "from"), this.#class(moved, shardings, k, "to")];
    const all = moved.tensor.map((/** @type {number} */ _, /** @type {number} */ k) => ends(k));
    const froms = [...new Set(all.map((/** @type {string[]} */ [from]) => from))].sort();
    const tos = [...new Set(all.map((/** @type {string[]} */ [, to]) => to))].sort();
    const sum = (/** @type {(each: number) => boolean} */ holds) =>
      moved.bytes.reduce((/** @type {number} */ total, /** @type {number} */ bytes, /** @type {number} */ k) => total + (holds(k) ? bytes : 0), 0);
    const cells = froms.map((from) => tos.map((to) => sum((k) => all[k][0] === from && all[k][1] === to)));
    const most = Math.max(1, ...cells.flat());
    const rows = froms.map((from, f) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, this.#button(from, `from ${from}`, (k) => all[k][0] === from, `from ${from}`)),
        tos.map((to, t) => {
          const holds = (/** @type {number} */ k) => all[k][0] === from && all[k][1] === to;
          const count = all.filter((/** @type {any} */ _, /** @type {number} */ k) => holds(k)).length;
          return this.#cell(cells[f][t], most, `${from} to ${to}`, holds, count);
        }),
      ),
    );
    this.#table(["from, to", ...tos], rows);
  }

  /** @param {any} moved @param {any[]} shardings @param {number} k @param {"from" | "to"} end */
  #class(moved, shardings, k, end) {
    if (moved[`${end}_layout`][k] === "host") return "on the host";
    const other = end === "to" && moved.to_stage[k] !== moved.from_stage[k] ? " on another stage" : "";
    return shardings[moved[end][k]].class + other;
  }

  /** @param {number} bytes @param {number} most @param {string} name @param {(moved: number) => boolean} holds @param {number} [count] of what moves nothing between devices */
  #cell(bytes, most, name, holds, count = 0) {
    if (!bytes && !count) return figure("–", 0, "B", "muted");
    const cell = figure(this.#button(quantity(bytes, "B"), name, holds, `${name}: ${quantity(bytes, "B")}`), bytes, "B");
    const shade = LEAST_SHADE + (MOST_SHADE - LEAST_SHADE) * Math.sqrt(bytes / most);
    cell.style.background = `color-mix(in srgb, var(--communication) ${shade}%, transparent)`;
    return cell;
  }

  /** @param {string} text @param {string} name @param {(moved: number) => boolean} holds @param {string} label */
  #button(text, name, holds, label) {
    return element(
      "button",
      {
        type: "button",
        class: "site",
        "aria-label": `${label}: show these only`,
        "aria-pressed": String(this.chosen === name),
        onclick: () => {
          this.chosen = this.chosen === name ? "" : name;
          this.onChoose(this.chosen ? { name, holds } : null);
          const at = [...this.place.querySelectorAll("button")].indexOf(/** @type {any} */ (document.activeElement));
          this.#draw();
          this.place.querySelectorAll("button")[at]?.focus();
        },
      },
      text,
    );
  }

  /** @param {any[]} heads @param {any[]} rows */
  #table(heads, rows) {
    if (!rows.length) return fill(this.place, element("p", { class: "empty" }, "Nothing is redistributed: each device has what it reads."));
    const [first, ...others] = heads;
    fill(this.place, tableOf([first, ...others.map((name) => ({ name, isNumber: true, about: ABOUT[name] ?? "redistributions" }))], rows, "Redistributions added up", { kind: "matrix" }));
    return undefined;
  }
}
