/**
 * One tensor as it is made, and as each of its readers has it: drawings side by side, with what moves in between.
 * @module sharding/tensor-views
 */

import { saveMenu } from "../charts/saving.js";
import { element, fill } from "../dom.js";
import { kindText } from "../exchange-names.js";
import { plain, quantity, several } from "../units.js";
import { shownDims } from "./box-layout.js";
import { TensorFigure } from "./tensor-figure.js";

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {{sharding: number, redistribution: number, blocks: number[]}} Way how some readers have the tensor */

const MOST_DRAWN = 6;
const MOST_NAMED = 3;
const ITEM_BITS = { bool: 8 };

/** How the readers of a tensor have it: those of one sharding and one redistribution together.
 * @param {Columns} columns @param {number} tensor @returns {Way[]} */
function waysOf(columns, tensor) {
  /** @type {Map<string, Way>} */
  const found = new Map();
  for (const read of columns.readsOfTensor[tensor]) {
    const moved = columns.reads.redistribution[read];
    // What a redistribution makes may serve a reader that needs less of it: the drawing is of what is made.
    const sharding = moved < 0 ? columns.reads.sharding[read] : columns.moved.to[moved];
    const key = `${sharding} ${moved}`;
    const way = found.get(key) ?? { sharding, redistribution: moved, blocks: [] };
    way.blocks.push(columns.reads.block[read]);
    found.set(key, way);
  }
  return [...found.values()];
}

/** In words what a sharding does with a tensor. @param {Columns} columns @param {number} number */
function shardingWords(columns, number) {
  const { axes, partial, replicated, monoid } = columns.shardings[number];
  const parts = [];
  const split = [...new Set(axes.flatMap((subs) => columns.axisNames(subs)))];
  if (split.length) parts.push(`cut over ${split.join(" and ")}`);
  if (partial.length)
    parts.push(`partial: ${plain(columns.sizeOf(partial))} terms of a ${monoid} over ${columns.axisNames(partial).join(" and ")}`);
  if (replicated.length && columns.sizeOf(replicated) > 1)
    parts.push(`${plain(columns.sizeOf(replicated))} equal copies over ${columns.axisNames(replicated).join(" and ")}`);
  return parts.join("; ") || "whole";
}

/** Which dimensions of a tensor are not drawn. @param {Columns} columns @param {number} number */
function leftOut(columns, number) {
  const { shape, axes } = columns.shardings[number];
  const shown = shownDims(shape, axes);
  const left = shape.flatMap((size, k) => (shown.includes(k) ? [] : [`${k} (${plain(size)}${axes[k].length ? ", cut, too" : ""})`]));
  return left.length ? `; not drawn: dimension ${left.join(", ")}` : "";
}

/** The bytes of an element. @param {string} dtype */
function itemBytes(dtype) {
  const bits = ITEM_BITS[/** @type {keyof ITEM_BITS} */ (dtype)] ?? Number(/\d+/.exec(dtype)?.[0] ?? 8);
  return bits / 8;
}

export class TensorViews {
  /**
   * @param {HTMLElement} place @param {Columns} columns
   * @param {{point: (devices: number[]) => void, choose: (block: number) => void}} actions
   */
  constructor(place, columns, actions) {
    this.place = place;
    this.columns = columns;
    this.actions = actions;
    /** @type {TensorFigure[]} */
    this.figures = [];
  }

  /** @param {number} tensor */
  show(tensor) {
    const { columns } = this;
    const { tensors } = columns;
    this.figures = [];
    const ways = waysOf(columns, tensor);
    ways.sort((a, b) => this.#bytes(b) - this.#bytes(a) || a.sharding - b.sharding);
    const made = this.#view(tensor, tensors.sharding[tensor], tensors.stage[tensor], [
      element("strong", {}, "As made"),
      " by ",
      this.#blockButton(tensors.block[tensor]),
      tensors.layout[tensor] ? `, layout ${tensors.layout[tensor]}` : "",
    ]);
    fill(
      this.place,
      made,
      ways.slice(0, MOST_DRAWN).map((way) => this.#way(tensor, way)),
      ways.length > MOST_DRAWN
        ? element("p", { class: "muted small" }, `and ${several(ways.length - MOST_DRAWN, "other sharding")} for other readers: choose a reader to see its own`)
        : null,
    );
  }

  /** @param {Iterable<number>} devices */
  mark(devices) {
    for (const figure of this.figures) figure.mark(devices);
  }

  /** @param {Way} way */
  #bytes({ redistribution }) {
    return redistribution < 0 ? 0 : this.columns.moved.bytes[redistribution];
  }

  /** @param {number} tensor @param {Way} way */
  #way(tensor, { sharding, redistribution, blocks }) {
    const { columns } = this;
    const readers = blocks.slice(0, MOST_NAMED).flatMap((block, k) => [k ? ", " : "", this.#blockButton(block)]);
    if (blocks.length > MOST_NAMED) readers.push(` and ${several(blocks.length - MOST_NAMED, "more reader")}`);
    if (redistribution < 0) {
      const { stage } = columns.tensors;
      return this.#view(tensor, sharding, stage[tensor], [element("strong", {}, "Read in place"), " by ", ...readers]);
    }
    const { kind, bytes, seconds, times, to_stage: stages } = columns.moved;
    const moved = [
      element("strong", {}, kindText(kind[redistribution])),
      bytes[redistribution] ? ` of ${quantity(bytes[redistribution], "B")}` : "",
      ` in ${quantity(seconds[redistribution], "s")}`,
      times[redistribution] > 1 ? `, all ${plain(times[redistribution])} times together` : "",
    ];
    return this.#view(tensor, sharding, stages[redistribution], [element("strong", {}, "In flight"), " to ", ...readers], moved);
  }

  /** @param {number} tensor @param {number} sharding @param {number} stage @param {any[]} caption @param {any[]} [moved] */
  #view(tensor, sharding, stage, caption, moved) {
    const { columns } = this;
    const words = shardingWords(columns, sharding);
    const place = element("div", { class: "tensor-figure" });
    const name = columns.tensors.name[tensor];
    const view = element(
      "figure",
      { class: moved ? "tensor-view moved" : "tensor-view" },
      element("figcaption", { class: "small" }, element("div", {}, caption), moved ? element("div", {}, moved) : null),
      place,
      element("p", { class: "small muted" }, words, columns.mesh.stages > 1 ? `; on stage ${stage}` : "", leftOut(columns, sharding)),
      element("p", { class: "small mono sharding-text", title: columns.shardings[sharding].text }, columns.text(sharding)),
    );
    const figure = new TensorFigure(
      place,
      columns,
      sharding,
      { label: `Index box of ${name}: ${words}`, names: columns.dimNames(tensor), itemBytes: itemBytes(columns.tensors.dtype[tensor]), stage },
      this.actions.point,
    );
    this.figures.push(figure);
    view.append(saveMenu(figure, () => `${name}.${this.figures.indexOf(figure)}`, () => partRows(columns, sharding, figure)));
    return view;
  }

  /** @param {number} block */
  #blockButton(block) {
    return element("button", { type: "button", class: "site", onclick: () => this.actions.choose(block) }, this.columns.blocks.site[block]);
  }
}

/** Which device holds which part, as rows of a table. @param {Columns} columns @param {number} sharding @param {TensorFigure} figure */
function partRows(columns, sharding, figure) {
  const head = ["device", ...columns.shardings[sharding].shape.flatMap((_, k) => [`start ${k}`, `end ${k}`])];
  const rows = columns
    .pieces(sharding)
    .flatMap(({ box, devices }) => devices.map((device) => [columns.mesh.devices[figure.first + device], ...box.flat()]));
  return [head, ...rows.sort((a, b) => a[0] - b[0])];
}
