/**
 * One block: its signature with what splits each index dimension, its tensors, its costs, the moves that name it.
 * @module sharding/block-panel
 */

import { seriesColor, swatch } from "../charts/legend.js";
import { byId, element, fill } from "../dom.js";
import { kindText } from "../exchange-names.js";
import { orderText } from "../notations.js";
import { pairs } from "../pairs.js";
import { countOf, numberHead, rowOf, scrolling, tableOf } from "../tables.js";
import { plain, quantity, several } from "../units.js";
import { overText, roundsText } from "./moved-list.js";

/** @typedef {import("./columns.js").Columns} Columns */

const MOST_MOVES = 8;

/**
 * @param {HTMLElement} place @param {Columns} columns @param {number} block -1 for none
 * @param {any[]} moves of the plan @param {(tensor: number) => void} onTensor
 */
export function showBlock(place, columns, block, moves, onTensor) {
  if (block < 0) {
    fill(
      place,
      element("p", { class: "small muted" }, "Choose a block in the diagram, in the list or by its name: its signature, strategy, layouts, costs and moves are shown here."),
    );
    return;
  }
  const { blocks, mesh } = columns;
  fill(
    place,
    pairs([
      ["Operator", columns.operators[blocks.operator[block]]],
      ["Strategy", strategyText(columns, block)],
      ["Stage", mesh.stages > 1 ? `${blocks.stage[block]}, part ${blocks.part[block]}` : null],
      ["Runs", blocks.times[block] > 1 ? several(blocks.times[block], "time") : null, "block: runs"],
      ["Work", blocks.flops[block] ? `${quantity(blocks.flops[block], "flop")} on all devices` : null],
      ["Reads and writes", blocks.bytes[block] ? `${quantity(blocks.bytes[block], "B")} on all devices` : null],
      ["Time", blocks.seconds[block] ? `${quantity(blocks.seconds[block], "s")} on the slowest device` : null],
      ["Computed again", blocks.repetition[block] ? `the ${blocks.repetition[block] + 1}. time` : null, ""],
    ]),
    signatureTable(columns, block),
    tensorTable(columns, block, onTensor),
    movesOf(moves, blocks.site[block]),
  );
}

/** @param {Columns} columns @param {number} block */
function strategyText(columns, block) {
  const number = columns.blocks.strategy[block];
  if (number < 0) return "none: a view of what it reads";
  const { text } = columns.strategies[number];
  return element("span", { class: "mono", title: text }, columns.shortened(text));
}

/** The index dimensions, and over what each is split. @param {Columns} columns @param {number} block */
function signatureTable(columns, block) {
  const signature = columns.signatures[columns.blocks.signature[block]];
  if (!signature?.dims.length) return element("p", { class: "small muted" }, "It has no index dimensions: every device computes all of it.");
  const strategy = columns.strategies[columns.blocks.strategy[block]];
  const rows = signature.dims.map(([name, size, kind], k) => {
    const subs = strategy?.axes[k] ?? [];
    const parts = columns.sizeOf(subs);
    return element(
      "tr",
      {},
      element("th", { scope: "row", class: "mono" }, name),
      countOf(size),
      element("td", {}, kind),
      element(
        "td",
        {},
        subs.length
          ? columns.axesOf(subs).flatMap((axis) => [swatch(seriesColor(axis)), `${columns.mesh.axes[axis].name} `])
          : element("span", { class: "muted" }, "–"),
      ),
      countOf(parts, parts > 1 ? "" : "muted"),
    );
  });
  return scrolling(tableOf(["dimension", numberHead("size"), "role", "split over", numberHead("parts")], rows, "Index dimensions"));
}

/** What it reads and makes. @param {Columns} columns @param {number} block @param {(tensor: number) => void} onTensor */
function tensorTable(columns, block, onTensor) {
  const { reads, tensors, moved } = columns;
  const link = (/** @type {number} */ tensor) =>
    element("button", { type: "button", class: "site", onclick: () => onTensor(tensor) }, tensors.name[tensor]);
  const row = (/** @type {string} */ use, /** @type {number} */ tensor, /** @type {number} */ sharding, /** @type {string} */ layout, /** @type {any} */ how) =>
    rowOf(use, [
      element("td", {}, link(tensor), element("div", { class: "mono muted" }, columns.text(sharding), layout ? `, ${orderText(layout)}` : "")),
      element("td", { class: "small" }, how),
    ]);
  const read = columns.readsOfBlock[block].map((k) => {
    const number = reads.redistribution[k];
    const how =
      number < 0
        ? "in place"
        : [kindText(moved.kind[number]), overText(columns, number), moved.bytes[number] ? `, ${quantity(moved.bytes[number], "B")}` : "", ` ${roundsText(columns, number)}`].join("").trim();
    return row(`input ${reads.position[k]}`, reads.tensor[k], reads.sharding[k], reads.layout[k], how);
  });
  const made = columns.madeBy[block].map((tensor) => row("makes", tensor, tensors.sharding[tensor], tensors.layout[tensor], ""));
  if (!read.length && !made.length) return null;
  return scrolling(tableOf(["use", "tensor, sharding", "comes by"], [...read, ...made], "Its tensors"));
}

/** The moves that name a block, and a way to its whole history. @param {any[]} moves @param {string} site */
function movesOf(moves, site) {
  const mine = moves.flatMap((move, k) => ([move.place].flat().includes(site) ? [{ ...move, k }] : []));
  const items = mine.slice(-MOST_MOVES).map(({ rule, choice, k }) =>
    element(
      "li",
      {},
      element("span", { class: "muted number" }, plain(k + 1)),
      element("strong", {}, rule),
      element("span", { class: "mono muted" }, typeof choice === "string" ? choice : choice === null ? "" : JSON.stringify(choice)),
    ),
  );
  return element(
    "div",
    {},
    element("p", { class: "small muted" }, mine.length ? `${several(mine.length, "move")} of the plan ${mine.length === 1 ? "names" : "name"} it.` : "No move of the plan names it."),
    items.length ? element("ol", { class: "moves", "aria-label": `Moves that name ${site}` }, items) : null,
    element(
      "button",
      { type: "button", class: "button small", onclick: () => byId("decisions").dispatchEvent(new CustomEvent("history", { detail: site })) },
      "Its whole history",
    ),
  );
}
