/**
 * What a program is, in figures.
 * @module graph-summary
 */

import { element } from "./dom.js";
import { pairs } from "./pairs.js";
import { countOf, meterCell, numberHead, rowOf, tableOf } from "./tables.js";
import { count, percent, plain, quantity } from "./units.js";

/** @param {any} graph */
export function graphFigures(graph) {
  const { summary } = graph;
  if (!summary) return pairs([["Blocks", plain(graph.blocks)]], "figures");
  return pairs(
    [
      ["Blocks", plain(summary.blocks)],
      ["Parameters", count(summary.parameters)],
      ["Their size", quantity(summary.parameter_bytes, "B")],
      ["Work", quantity(summary.flops, "flop")],
      ["Can be sharded", percent(summary.shardable_share)],
    ],
    "figures",
  );
}

/** @param {Record<string, number>} operators */
export function operatorTable(operators) {
  const rows = Object.entries(operators);
  const most = Math.max(1, ...rows.map(([, number]) => number));
  const body = rows.map(([name, number]) =>
    rowOf(name, [countOf(number), meterCell(number / most)]),
  );
  return tableOf(["operator", numberHead("blocks"), { name: "", isMeter: true }], body, "Operators");
}

/** @param {any[]} sources */
export function sourceTable(sources) {
  const body = sources.map(({ site, role, dtype, shape, logical_shape }) => {
    const stated = `[${logical_shape.join(", ")}]`;
    const factored = `[${shape.join(", ")}]`;
    return element(
      "tr",
      {},
      element("th", { scope: "row", class: "mono site" }, site),
      element("td", {}, role),
      element("td", {}, dtype),
      element(
        "td",
        { class: "mono" },
        stated,
        stated === factored ? null : element("span", { class: "muted" }, ` as ${factored}`),
      ),
    );
  });
  return tableOf(["input", "role", "type", "shape"], body, "Inputs");
}
