/**
 * The section of a plan's page that shows its sharding: in words, tensors, the mesh, redistributions, blocks.
 * @module sharding/section
 */

import { addressed, keepAddressed, keepChoice } from "../address.js";
import { get } from "../api.js";
import { seriesColor, swatch } from "../charts/legend.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill, nowUsable, say } from "../dom.js";
import { errorNotice } from "../notice.js";
import { pairs } from "../pairs.js";
import { quantity } from "../units.js";
import { showBlock } from "./block-panel.js";
import { Columns } from "./columns.js";
import { Matrix } from "./matrix.js";
import { MeshFigure } from "./mesh-figure.js";
import { axisTable, deviceRows, deviceTable } from "./mesh-tables.js";
import { MovedList } from "./moved-list.js";
import { withSharding } from "./overlay.js";
import { TensorViews } from "./tensor-views.js";

/** @typedef {import("../drawing/section.js").DrawingCard} DrawingCard */

/**
 * Fetch the sharding of a plan and show it; a diagram of its program shows it, too.
 * @param {any} plan the document of the plan @param {Promise<DrawingCard | null>} drawn
 */
export async function showSharding(plan, drawn) {
  const section = byId("sharding");
  section.hidden = false;
  let columns;
  try {
    columns = new Columns(await get(plan.links.sharding));
  } catch (error) {
    fill(nowUsable(byId("sharding-body")), errorNotice(error));
    return;
  }
  const card = await drawn;
  if (card) card.overlay(withSharding(card.drawing, columns));
  new ShardingSection(plan, columns, card);
  nowUsable(byId("sharding-body")); // not before: the focus would be pushed out of the part that is seen
}

class ShardingSection {
  /** @param {any} plan @param {Columns} columns @param {DrawingCard | null} card */
  constructor(plan, columns, card) {
    this.plan = plan;
    this.columns = columns;
    this.card = card;
    this.block = -1;
    this.tensor = -1;
    this.first = firstTensor(columns);
    this.#words();
    this.#legend();
    const point = (/** @type {number[]} */ devices) => this.point(devices);
    this.views = new TensorViews(byId("tensor-views"), columns, { point, choose: (block) => this.choose(block) });
    this.mesh = new MeshFigure(byId("mesh-figure"), columns, point);
    this.list = new MovedList(byId("moved-list"), byId("moved-count"), columns, (moved) => this.chooseMoved(moved));
    this.matrix = new Matrix(byId("matrix"), columns, (choice) => this.list.filter(choice));
    this.#mesh();
    this.matrix.show(false);
    this.#controls();
    card?.onSelect((block) => {
      if (block >= 0 && block !== this.block) this.choose(block, false);
    });
    this.#fromAddress();
  }

  /** The block and the tensor that the address names, or else no block and the tensor of which most is moved. */
  #fromAddress() {
    const { columns } = this;
    const block = columns.blockOf.get(addressed("site") ?? "") ?? -1;
    const tensor = columns.tensorOf.get(addressed("tensor") ?? "");
    if (block < 0) showBlock(byId("sharding-block"), columns, -1, this.plan.moves, (found) => this.showTensor(found));
    else this.choose(block, false);
    if (tensor !== undefined || block < 0) this.showTensor(tensor ?? this.first);
  }

  /** Show a block, here and in the diagram. @param {number} block -1 for none @param {boolean} [inDiagram] whether to move the diagram there */
  choose(block, inDiagram = true) {
    this.block = block;
    keepAddressed({ site: block < 0 ? null : this.columns.blocks.site[block] });
    showBlock(byId("sharding-block"), this.columns, block, this.plan.moves, (tensor) => this.showTensor(tensor));
    byId("sharding-site").value = block < 0 ? "" : this.columns.blocks.site[block];
    const [made] = block < 0 ? [] : this.columns.madeBy[block];
    const tensor = made ?? (block < 0 ? undefined : this.columns.reads.tensor[this.columns.readsOfBlock[block][0]]);
    if (tensor !== undefined) this.showTensor(tensor);
    if (inDiagram && block >= 0) this.card?.diagram.reveal(block);
  }

  /** @param {number} moved */
  chooseMoved(moved) {
    this.choose(this.columns.moved.reader[moved]);
    this.showTensor(this.columns.moved.tensor[moved]);
    this.list.mark(moved);
  }

  /** @param {number} tensor */
  showTensor(tensor) {
    this.tensor = tensor;
    keepAddressed({ tensor: tensor === this.first && this.block < 0 ? null : this.columns.tensors.name[tensor] });
    const { name, dtype, shape, role } = this.columns.tensors;
    byId("sharding-tensor").value = name[tensor];
    const rounds = this.columns.shardings[this.columns.tensors.sharding[tensor]].shape.join() !== shape[tensor].join();
    say(byId("tensor-facts"), `${role[tensor] || "made by the program"}, ${dtype[tensor]}[${shape[tensor].join(", ")}]${rounds ? "; drawn is the slice of the first round" : ""}`);
    this.views.show(tensor);
  }

  /** Mark devices, and what they hold, everywhere. @param {number[]} devices */
  point(devices) {
    this.mesh.mark(devices);
    this.views.mark(devices);
  }

  #words() {
    const { headline, sentences } = this.columns.words;
    say(byId("sharding-headline"), `${headline[0].toUpperCase()}${headline.slice(1)}.`);
    fill(byId("sharding-words"), pairs(sentences.map(({ topic, text }) => [topic, text, ""])));
  }

  #legend() {
    const { axes } = this.columns.mesh;
    fill(
      byId("axis-legend"),
      axes.map((/** @type {{name: string, size: number}} */ { name, size }, /** @type {number} */ k) =>
        element("li", {}, swatch(seriesColor(k)), `cut over ${name} (${size})`),
      ),
      element("li", {}, element("span", { class: "sheet-sign", "aria-hidden": "true" }), "sheets behind: equal copies"),
      element("li", {}, element("span", { class: "sheet-sign partial", "aria-hidden": "true" }), "dashed: terms of a sum"),
    );
  }

  #mesh() {
    const { mesh, totals } = this.columns;
    fill(byId("axis-table"), axisTable(this.columns));
    fill(byId("device-table"), deviceTable(this.columns));
    fill(byId("mesh-save"), saveMenu(this.mesh, () => `${this.plan.id}.mesh`, () => deviceRows(this.columns)));
    say(byId("mesh-facts"), `${mesh.name}, ${quantity(totals.traffic_bytes, "B")} received in all`);
  }

  #controls() {
    const { tensors, blocks } = this.columns;
    byId("sharding-tensors").append(...tensors.name.map((/** @type {string} */ name) => element("option", { value: name })));
    byId("sharding-sites").append(...blocks.site.map((/** @type {string} */ site) => element("option", { value: site })));
    byId("sharding-tensor").addEventListener("change", () => {
      const found = this.columns.tensorOf.get(byId("sharding-tensor").value);
      if (found === undefined) byId("sharding-tensor").value = tensors.name[this.tensor];
      else this.showTensor(found);
    });
    byId("sharding-site").addEventListener("change", () => {
      const found = this.columns.blockOf.get(byId("sharding-site").value);
      if (found === undefined) byId("sharding-site").value = this.block < 0 ? "" : blocks.site[this.block];
      else this.choose(found);
    });
    byId("matrix-by").addEventListener("change", () => this.matrix.show(byId("matrix-by").value === "class"));
    keepChoice("redistributions", byId("matrix-by"));
  }
}

/** The tensor of which most is moved, or else the largest. @param {Columns} columns */
function firstTensor({ tensors, moved, shardings }) {
  const bytes = tensors.name.map(() => 0);
  moved.tensor.forEach((/** @type {number} */ tensor, /** @type {number} */ k) => (bytes[tensor] += moved.bytes[k]));
  const elements = tensors.sharding.map((/** @type {number} */ number) => shardings[number].shape.reduce((a, b) => a * b, 1));
  const order = [...tensors.name.keys()].sort((a, b) => bytes[b] - bytes[a] || elements[b] - elements[a] || a - b);
  return order[0];
}
