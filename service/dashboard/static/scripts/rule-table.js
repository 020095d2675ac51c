/**
 * Which rules were applied how often, and how often that improved the frontier.
 * @module rule-table
 */

import { element, fill } from "./dom.js";
import { meter } from "./meters.js";
import { tableOf } from "./tables.js";
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
    element(
      "tr",
      {},
      element("th", { scope: "row", title: name }, name),
      element("td", { class: "number", title: plain(applied) }, count(applied), meter(applied / most)),
      element("td", { class: "number", title: plain(improved) }, count(improved), meter(improved / best, "second")),
    ),
  );
  fill(place, tableOf(["rule", ofBar("applied"), ofBar("improved", "second")], body));
}
