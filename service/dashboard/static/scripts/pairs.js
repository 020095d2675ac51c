/**
 * Names and values as a list, each name with its explanation.
 * @module pairs
 */

import { about } from "./about.js";
import { element } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * A list of names and values.
 * @param {([string, Child | Child[]] | [string, Child | Child[], string])[]} pairs those without a value are left out; the third is the
 *   key of an explanation, unless the name is
 * @param {string} [kind] the class: `facts` or `figures`
 */
export function pairs(pairs, kind = "facts") {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element(
    "dl",
    { class: kind },
    known.flatMap(([name, value, key = name]) => {
      const both = [element("dt", {}, name, about(key)), element("dd", {}, ...[value].flat())];
      return kind === "figures" ? [element("div", {}, ...both)] : both;
    }),
  );
}
