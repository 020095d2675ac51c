/**
 * All of a diagram as a file: what is shown, groups closed or open, with its legend; and its blocks as rows.
 * @module drawing/whole
 */

import { SvgPen } from "../charts/pen.js";
import { paintedPng } from "../charts/png.js";
import { quantity, several } from "../units.js";
import { amountFill, COLORINGS, UNITS } from "./coloring.js";
import { paint } from "./painter.js";

/** @typedef {import("./visible.js").Drawing} Drawing */
/** @typedef {import("./diagram.js").Diagram} Diagram */

const MARGIN = 20; // px around a diagram
const HEAD = 56; // px of the name, the legend and the names of sides
const SWATCH = 11;
const BETWEEN = 40; // px between two sides
const CHANGES = { removed: "removed", changed: "changed", made: "new" };
const UNMARKED = { selected: -1, near: new Set() };

/** The whole of what a diagram shows, as PNG and SVG. */
export class WholeDiagram {
  /** @param {Diagram} diagram */
  constructor(diagram) {
    this.diagram = diagram;
  }

  get name() {
    return this.diagram.drawing?.name ?? "";
  }

  /** px, wide enough for the legend. */
  get size() {
    const { picture, panes } = this.diagram;
    const { layout } = picture;
    const letters = this.#legend().reduce((sum, { text }) => sum + text.length, 0);
    const legend = letters * 6 + this.#legend().length * (SWATCH + 18);
    return {
      width: Math.ceil(Math.max(this.#stride * panes.length - BETWEEN, Math.min(legend, 900)) + 2 * MARGIN),
      height: Math.ceil(layout.height + HEAD + 2 * MARGIN),
    };
  }

  /** px from one side to the next. */
  get #stride() {
    return this.diagram.picture.layout.width + BETWEEN;
  }

  /** The diagram as an SVG document, in the colors of the theme. */
  svg() {
    const { width, height } = this.size;
    const pen = new SvgPen();
    this.#paint(pen);
    const blocks = several(this.diagram.drawing?.blocks.site.length ?? 0, "block");
    return pen.text(width, height, this.diagram.colors.surface, `${this.name}: ${blocks}`);
  }

  /** The diagram as a PNG. @returns {Promise<Blob>} */
  png() {
    const { width, height } = this.size;
    return paintedPng(width, height, (pen) => this.#paint(pen));
  }

  /** @returns {{fill: string, text: string}[]} */
  #legend() {
    const { by, legend, sides, colors } = this.diagram;
    if (sides) return Object.entries(CHANGES).map(([mark, text]) => ({ fill: colors[`${mark} line`], text }));
    if (!legend?.most) return legend?.entries ?? [];
    const unit = UNITS[/** @type {keyof typeof UNITS} */ (by)] ?? "";
    return [
      { fill: amountFill(0), text: `0 ${unit}` },
      { fill: amountFill(1), text: quantity(legend.most, unit) },
    ];
  }

  /** @param {import("../charts/pen.js").Pen} pen */
  #paint(pen) {
    const { panes, colors, by, names } = this.diagram;
    const { width, height } = this.size;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = colors.text;
    pen.font = `600 14px ${colors.font}`;
    pen.fillText(this.name, MARGIN, MARGIN);
    pen.font = `11px ${colors.font}`;
    const entries = this.#legend();
    pen.fillStyle = colors.muted;
    const title = this.diagram.sides ? "blocks" : COLORINGS[by];
    if (entries.length) pen.fillText(`${title}:`, MARGIN, MARGIN + 20);
    let x = MARGIN + title.length * 6 + 12;
    for (const { fill, text } of entries) {
      pen.fillStyle = fill;
      pen.fillRect(x, MARGIN + 20 - SWATCH / 2, SWATCH, SWATCH);
      pen.fillStyle = colors.muted;
      pen.fillText(text, x + SWATCH + 4, MARGIN + 20);
      x += SWATCH + 18 + text.length * 6;
    }
    const view = { x: -MARGIN, y: -MARGIN - HEAD, width, height, scale: 1 };
    panes.forEach(({ picture, segments }, k) => {
      const own = { ...view, x: view.x - k * this.#stride };
      if (panes.length > 1) {
        pen.font = `600 12px ${colors.font}`;
        pen.fillStyle = colors.text;
        pen.textAlign = "left";
        pen.fillText(names[k], MARGIN + k * this.#stride, MARGIN + 42);
      }
      if (picture) paint(/** @type {CanvasRenderingContext2D} */ (pen), picture, segments, own, colors, UNMARKED);
    });
  }
}

/** The blocks of a drawing: what they compute, cost and read, with units in the names. @param {Drawing} drawing @returns {unknown[][]} */
export function blockRows({ operators, types, blocks, edges, groups }) {
  /** @type {string[][]} */
  const reads = blocks.site.map(() => []);
  edges.from.forEach((from, k) => reads[edges.to[k]].push(blocks.site[from]));
  const { seconds, energy, received, memory, split, stage } = blocks;
  const more = [
    { name: "time (s)", values: seconds },
    { name: "energy (J)", values: energy },
    { name: "received (B)", values: received },
    { name: "results on a device (B)", values: memory },
    { name: "split", values: split },
    { name: "stage", values: stage },
  ].filter(({ values }) => values !== undefined);
  const heads = ["block", "operator", "kind", "result", "group", "work (flop)", "read and written (B)", "reads"];
  return [
    [...heads, ...more.map(({ name }) => name)],
    ...blocks.site.map((site, k) => [
      ...[site, operators[blocks.operator[k]], blocks.kind[k], types[blocks.type[k]]],
      ...[groups.name[blocks.group[k]] ?? "", blocks.flops[k], blocks.bytes[k], reads[k].join(" ")],
      ...more.map(({ values }) => values?.[k] ?? ""),
    ]),
  ];
}
