/**
 * A card that shows a program before and after rewriting, side by side: one movement, one search, one selection for both
 * sides; and what changed in words and as a table.
 * @module drawing/changes-section
 */

import { addressed, keepAddressed } from "../address.js";
import { get } from "../api.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill, say } from "../dom.js";
import { errorNotice } from "../notice.js";
import { pairs } from "../pairs.js";
import { countOf, explained, figure, numberHead, rowOf, SHARE, tableOf } from "../tables.js";
import { plain, quantity, several } from "../units.js";
import { ATTRIBUTES, changeRows, foldedChanges, inputsOf } from "./changes.js";
import { Diagram } from "./diagram.js";
import { enableFinding } from "./finding.js";
import { BothSides } from "./sides.js";
import { WholeDiagram } from "./whole.js";

/** @typedef {import("./sides.js").Changes} Changes */
/** @typedef {import("./changes.js").FoldedChange} FoldedChange */

const MOST_ROWS = 200;
const NAMES = { kept: "stays", changed: "changed", removed: "removed", made: "new" };
const OPENED = "changes"; // in the address

/**
 * Let the button of the card fetch and show the changes at a path; the address says that they are open.
 * @param {string} path @param {string} about what is compared with what
 */
export function enableChanges(path, about) {
  byId("changes").hidden = false;
  say(byId("changes-about"), about);
  const open = () => void show(path);
  byId("show-changes").addEventListener("click", () => {
    keepAddressed({ [OPENED]: "open" });
    open();
  });
  if (addressed(OPENED)) open();
}

/** @param {string} path */
async function show(path) {
  const button = byId("show-changes");
  button.disabled = true;
  say(byId("changes-trouble"), "Comparing…");
  try {
    const changes = /** @type {Changes} */ (await get(path));
    fill(byId("changes-trouble"));
    button.hidden = true;
    byId("changes-body").hidden = false;
    draw(changes);
  } catch (error) {
    button.disabled = false;
    fill(byId("changes-trouble"), errorNotice(error));
  }
}

/** @param {Changes} changes */
function draw(changes) {
  const sides = new BothSides(changes);
  const { drawing } = sides;
  const diagram = new Diagram(
    [byId("side-before"), byId("side-after")],
    (row) => showRow(changes, row),
    () => showGroups(diagram),
    "changes-keys",
  );
  byId("changes-open").addEventListener("click", () => diagram.setOpen(drawing.groups.name.keys()));
  byId("changes-close").addEventListener("click", () => diagram.setOpen([]));
  byId("changes-whole").addEventListener("click", () => diagram.viewport.whole());
  byId("changes-in").addEventListener("click", () => diagram.viewport.zoom(1.25));
  byId("changes-out").addEventListener("click", () => diagram.viewport.zoom(0.8));
  enableFinding(byId("find-change"), byId("found-changes"), drawing, diagram);
  diagram.show(drawing, sides, ["Before", "After"]);
  const whole = new WholeDiagram(diagram);
  fill(byId("changes-menu"), saveMenu(whole, () => `${drawing.name}.changes`, () => changeRows(changes)));
  showGroups(diagram);
  showRow(changes, -1);
  showWords(changes);
  showTable(changes, diagram);
}

/** @param {Diagram} diagram */
function showGroups({ drawing, open }) {
  const count = drawing?.groups.name.length ?? 0;
  byId("changes-open").hidden = byId("changes-close").hidden = !count;
  byId("changes-open").disabled = open.size === count;
  byId("changes-close").disabled = !open.size;
}

/** What the rewriting did as a whole. @param {Changes} changes */
function showWords({ before, after, counts, moves, rules }) {
  const { kept, changed, removed, made } = counts;
  const isNothing = !(changed + removed + made);
  const by = moves ? `, by ${several(moves, "move")}${rules.length ? ` of ${several(rules.length, "rule")}` : ""}` : "";
  const figures = `${several(kept, "block")} as before, ${plain(changed)} changed, ${plain(removed)} removed, ${plain(made)} new`;
  say(byId("changes-words"), `${isNothing ? "No block differs" : figures}${by}.`);
  const sum = (/** @type {number[]} */ values) => values.reduce((total, value) => total + value, 0);
  const rows = [
    ["blocks", before.blocks.site.length, after.blocks.site.length, ""],
    ["work", sum(before.blocks.flops), sum(after.blocks.flops), "flop"],
    ["bytes read and written", sum(before.blocks.bytes), sum(after.blocks.bytes), "B"],
  ];
  const text = (/** @type {any} */ value, /** @type {any} */ unit) => (unit ? quantity(value, unit) : plain(value));
  fill(
    byId("changes-sums"),
    tableOf(
      ["in all", ...["before", "after", "difference"].map((name) => numberHead(name, "", `rewriting: ${name}`))],
      rows.map(([name, was, is, unit]) =>
        rowOf(explained(String(name), `rewriting: ${name}`), [...[was, is].map((value) => figure(text(value, unit), Number(value), String(unit))), figure(difference(Number(was), Number(is)), Number(is) / Number(was) - 1, SHARE)]),
      ),
      "Sums before and after",
    ),
  );
}

/** @param {number} was @param {number} is */
function difference(was, is) {
  if (was === is) return "none";
  const percent = (100 * Math.abs(is - was)) / was;
  const text = percent < 0.0005 ? "less than 0.001" : plain(percent, percent < 0.1 ? 3 : 1);
  return was ? `${is > was ? "+" : "−"}${text} %` : "";
}

/** @param {Changes} changes @param {number} row -1: none */
function showRow(changes, row) {
  if (row < 0) {
    fill(byId("selected-change"), element("p", { class: "muted" }, "Click a block, on either side, to see what became of it."));
    return;
  }
  const { before, after, blocks, rules } = changes;
  const [old, now] = [blocks.before[row], blocks.after[row]];
  const both = (/** @type {(side: any, block: number) => string | number} */ read) => {
    const [was, is] = [old < 0 ? null : read(before, old), now < 0 ? null : read(after, now)];
    if (was === null || is === null || was === is) return String(was ?? is);
    return [element("del", {}, String(was)), " → ", element("ins", {}, String(is))];
  };
  const { gone, come } = inputsOf(changes, row);
  fill(
    byId("selected-change"),
    element("h3", { class: "mono" }, both((side, k) => side.blocks.site[k])),
    element("p", {}, chip(blocks.change[row])),
    pairs([
      ["Operator", both((side, k) => side.operators[side.blocks.operator[k]])],
      ["Result", element("span", { class: "mono" }, both((side, k) => side.types[side.blocks.type[k]])), "block: result"],
      ["Work", both((side, k) => quantity(side.blocks.flops[k], "flop"))],
      ["Reads and writes", both((side, k) => quantity(side.blocks.bytes[k], "B"))],
      ["What changed", blocks.what[row].join(", ")],
      ["Attributes", blocks.attributes[row].length ? blocks.attributes[row].map(([name, was, is]) => element("div", { class: "mono" }, `${ATTRIBUTES[name] ?? name}: `, both((side) => (side === before ? was : is)))) : ""],
      ["No longer reads", gone.join(", ")],
      ["Now reads", come.join(", ")],
      ["By rules", blocks.rules[row].map((rule) => rules[rule]).join(", ")],
    ]),
  );
}

/** @param {keyof typeof NAMES} change */
function chip(change) {
  return element("span", { class: `change ${change}` }, NAMES[change]);
}

/** Every change, what is alike together. @param {Changes} changes @param {Diagram} diagram */
function showTable(changes, diagram) {
  const folded = foldedChanges(changes);
  const rows = folded.slice(0, MOST_ROWS).map((each) => tableRow(diagram, each));
  const heads = [numberHead("blocks"), "change", "operator", "result", "what changed", "by rules"];
  const table = tableOf(["block", ...heads], rows, "What changed", { file: () => changeRows(changes) });
  fill(byId("changes-table"), folded.length ? table : element("p", { class: "empty" }, "Nothing changed."));
  const more = folded.length - MOST_ROWS;
  say(byId("changes-more"), more > 0 ? `${plain(more)} more kinds of changes are in the CSV file.` : "");
}

/** @param {Diagram} diagram @param {FoldedChange} folded */
function tableRow(diagram, { row, count, name, change, operator, result, what, rules }) {
  return rowOf(element("button", { type: "button", class: "link mono", onclick: () => diagram.reveal(row) }, name), [
    countOf(count),
    element("td", {}, chip(change)),
    element("td", {}, arrow(operator)),
    element("td", { class: "mono" }, arrow(result)),
    element("td", {}, what.filter((each) => each !== "name" || what.length === 1).join(", ")),
    element("td", {}, rules.join(", ")),
  ]);
}

/** @param {[string, string]} both */
function arrow([was, is]) {
  return was === is || !is ? was : was ? `${was} → ${is}` : is;
}
