/**
 * Which rules were applied how often, and how often that improved the frontier.
 * @module rule-table
 */

import { element, fill } from "./dom.js";
import { meter } from "./meters.js";
import { figure, rowOf, showTable } from "./tables.js";
import { count, plain } from "./units.js";

/**
 * @param {Element} place
 * @param {Record<string, {applied: number, improved: number}>} rules
 */
export function showRules(place, rules) {
  const rows = Object.entries(rules).sort(
    ([a, one], [b, other]) =>
      other.improved - one.improved || other.applied - one.applied || (a < b ? -1 : 1),
  );
  if (!rows.length) return fill(place, element("p", { class: "empty" }, "No rule was applied yet."));
  const most = Math.max(1, ...rows.map(([, rule]) => rule.applied));
  const best = Math.max(1, ...rows.map(([, rule]) => rule.improved));
  const ofBar = (/** @type {string} */ name, kind = "") => ({ name: element("span", { class: `legend ${kind}` }, name), isNumber: true, about: name });
  const body = rows.map(([name, { applied, improved }]) =>
    rowOf(element("span", { title: name }, name), [
      barred(applied, applied / most),
      barred(improved, improved / best, "second"),
    ]),
  );
  return showTable(place, ["rule", ofBar("applied"), ofBar("improved", "second")], body, "Rules");
}

/** A count above its bar. @param {number} number @param {number} share @param {string} [kind] of the bar */
function barred(number, share, kind) {
  return figure([element("span", { title: plain(number) }, count(number)), meter(share, kind)], number);
}
