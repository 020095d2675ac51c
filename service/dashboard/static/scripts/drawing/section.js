/**
 * A card with the diagram of a program: tools, search, what is selected.
 * @module drawing/section
 */

import { addressed, keepAddressed, keepChoice } from "../address.js";
import { get } from "../api.js";
import { swatch } from "../charts/legend.js";
import { saveMenu } from "../charts/saving.js";
import { byId, element, fill, say } from "../dom.js";
import { errorNotice } from "../notice.js";
import { pairs } from "../pairs.js";
import { plain, quantity, several } from "../units.js";
import { amountFill, coloringsOf, UNITS } from "./coloring.js";
import { Diagram } from "./diagram.js";
import { blockButton, enableFinding } from "./finding.js";
import { around } from "./visible.js";
import { blockRows, WholeDiagram } from "./whole.js";

/** @typedef {import("./visible.js").Drawing} Drawing */

const MOST_LISTED = 12;
const USUAL = "kind"; // of the colorings

/** @typedef {{drawing: Drawing, diagram: Diagram, overlay: (drawing: Drawing) => void,
 *   onSelect: (listener: (block: number) => void) => void}} DrawingCard a diagram with what may be added to it later */

/**
 * Fetch the columns at a path and show them in the card `#drawing`.
 * @param {string} path @returns {Promise<DrawingCard | null>} null where they cannot be shown
 */
export async function showDrawing(path) {
  const section = byId("drawing");
  /** @type {Drawing} */
  let drawing;
  try {
    drawing = await get(path);
  } catch (error) {
    section.hidden = false;
    fill(section, element("header", {}, element("h2", {}, "Diagram")), errorNotice(error));
    return null;
  }
  section.hidden = false;
  /** @type {((block: number) => void)[]} */
  const listeners = [];
  const diagram = new Diagram(
    [byId("diagram")],
    (block, group) => {
      select(drawing, diagram, block, group);
      keepAddressed({ site: block < 0 ? null : drawing.blocks.site[block] });
      for (const listener of listeners) listener(block);
    },
    () => showGroups(drawing, diagram),
    "drawing-keys",
  );
  showColorings(drawing);
  byId("coloring").addEventListener("change", () => {
    diagram.colorBy(byId("coloring").value);
    showLegend(diagram);
    keepAddressed({ color: byId("coloring").value === USUAL ? null : byId("coloring").value });
  });
  byId("parameters").addEventListener("change", () => diagram.showParameters(byId("parameters").checked));
  byId("open-all").addEventListener("click", () => diagram.setOpen(drawing.groups.name.keys()));
  byId("close-all").addEventListener("click", () => diagram.setOpen([]));
  byId("whole").addEventListener("click", () => diagram.viewport.whole());
  byId("zoom-in").addEventListener("click", () => diagram.viewport.zoom(1.25));
  byId("zoom-out").addEventListener("click", () => diagram.viewport.zoom(0.8));
  enableFinding(byId("find-block"), byId("found-blocks"), drawing, diagram);
  diagram.show(drawing);
  fill(byId("drawing-menu"), saveMenu(new WholeDiagram(diagram), () => `${drawing.name}.diagram`, () => blockRows(drawing)));
  showGroups(drawing, diagram);
  select(drawing, diagram, -1, -1);
  diagram.colorBy(byId("coloring").value);
  showLegend(diagram);
  keepChoice("parameters", byId("parameters"));
  const chosen = drawing.blocks.site.indexOf(addressed("site") ?? "");
  if (chosen >= 0) diagram.reveal(chosen);
  return {
    drawing,
    diagram,
    overlay: (more) => {
      Object.assign(drawing, more);
      showColorings(drawing);
      diagram.colorBy(byId("coloring").value);
      diagram.refresh();
      showLegend(diagram);
    },
    onSelect: (listener) => listeners.push(listener),
  };
}

/** What the colors may show. @param {Drawing} drawing */
function showColorings(drawing) {
  const colorings = coloringsOf(drawing);
  const wanted = addressed("color");
  const chosen = colorings.some(([name]) => name === wanted) ? wanted : byId("coloring").value || USUAL;
  fill(
    byId("coloring"),
    colorings.map(([name, text]) => element("option", { value: name, selected: name === chosen }, text)),
  );
}

/** @param {Drawing} drawing @param {Diagram} diagram */
function showGroups(drawing, diagram) {
  const { name } = drawing.groups;
  byId("open-all").hidden = byId("close-all").hidden = !name.length;
  byId("open-all").disabled = diagram.open.size === name.length;
  byId("close-all").disabled = !diagram.open.size;
  const shown = diagram.view?.nodes.length ?? 0;
  say(
    byId("shown-nodes"),
    `${several(shown, "node")} for ${several(drawing.blocks.site.length, "block")}${name.length ? "; stacked ones open by a click" : ""}`,
  );
  showLegend(diagram);
}

/** @param {Diagram} diagram */
function showLegend(diagram) {
  const { entries, most } = diagram.legend ?? { entries: [], most: 0 };
  const unit = UNITS[/** @type {keyof typeof UNITS} */ (diagram.by)] ?? "";
  fill(
    byId("legend"),
    most
      ? [swatch(amountFill(0)), ` 0 ${unit} `, swatch(amountFill(1)), ` ${quantity(most, unit)} `]
      : entries.map(({ fill, text }) => element("span", {}, swatch(fill), ` ${text} `)),
    edgeLegend(diagram),
  );
}

/** What wide edges mean, if there are any. @param {Diagram} diagram */
function edgeLegend({ drawing, view }) {
  if (!drawing?.edges.traffic || !view) return null;
  const within = view.nodes.reduce((sum, node) => sum + node.within, 0);
  const text = [
    view.most ? `redistributed, up to ${quantity(view.most, "B")} on an edge` : "redistributed",
    within ? `${quantity(within, "B")} of ${quantity(within + view.traffic.reduce((sum, bytes) => sum + bytes, 0), "B")} within nodes` : "",
  ]
    .filter(Boolean)
    .join("; ");
  return element("span", {}, element("span", { class: "edge-sign", "aria-hidden": "true" }), ` ${text}`);
}

/** Show what is selected. @param {Drawing} drawing @param {Diagram} diagram @param {number} block @param {number} group */
function select(drawing, diagram, block, group) {
  const { blocks, edges, groups } = drawing;
  if (block < 0) {
    fill(
      byId("selected-block"),
      element(
        "p",
        { class: "muted" },
        group < 0 ? "Click a block to see what it computes, reads and costs." : `${groups.name[group]} is open.`,
      ),
      group < 0 ? null : closer(drawing, diagram, group),
    );
    return;
  }
  const reads = [];
  const readers = [];
  for (let k = 0; k < edges.from.length; k += 1) {
    if (edges.to[k] === block) reads.push(edges.from[k]);
    if (edges.from[k] === block) readers.push(edges.to[k]);
  }
  fill(
    byId("selected-block"),
    element("h3", { class: "mono" }, blocks.site[block]),
    pairs([
      ["Operator", drawing.operators[blocks.operator[block]]],
      ["Result", element("span", { class: "mono" }, drawing.types[blocks.type[block]]), "block: result"],
      ["Work", blocks.flops[block] ? quantity(blocks.flops[block], "flop") : null],
      ["Reads and writes", blocks.bytes[block] ? quantity(blocks.bytes[block], "B") : null],
      ["Split", blocks.split?.[block]],
      ["Receives", blocks.received?.[block] ? quantity(blocks.received[block], "B") : null],
      ["Energy", blocks.energy?.[block] ? quantity(blocks.energy[block], "J") : null],
      ["Results on a device", blocks.memory?.[block] ? quantity(blocks.memory[block], "B") : null],
      ["In", around(drawing, blocks.group[block]).length ? groupLinks(drawing, diagram, block) : null],
      ["Inputs", linked(drawing, diagram, reads), ""],
      ["Read by", linked(drawing, diagram, readers)],
    ]),
  );
}

/** @param {Drawing} drawing @param {Diagram} diagram @param {number} group */
function closer(drawing, diagram, group) {
  return element(
    "button",
    {
      type: "button",
      class: "button small",
      onclick: () => {
        diagram.setOpen([...diagram.open].filter((other) => !around(drawing, other).includes(group)));
        select(drawing, diagram, -1, -1);
      },
    },
    `Close ${drawing.groups.name[group]}`,
  );
}

/** @param {Drawing} drawing @param {Diagram} diagram @param {number} block */
function groupLinks(drawing, diagram, block) {
  return around(drawing, drawing.blocks.group[block]).map((group) => closer(drawing, diagram, group));
}

/** @param {Drawing} drawing @param {Diagram} diagram @param {number[]} found */
function linked(drawing, diagram, found) {
  if (!found.length) return null;
  const items = found.slice(0, MOST_LISTED).map((block) => element("li", {}, blockButton(drawing, diagram, block)));
  if (found.length > MOST_LISTED) items.push(element("li", {}, `and ${plain(found.length - MOST_LISTED)} more`));
  return element("ul", { class: "plain" }, items);
}
