/**
 * The history of one block of a plan: the moves that made it, and the blocks that it stems from.
 * @module block-history
 */

import { element, fill } from "./dom.js";
import { choiceText } from "./notations.js";

const NAMED = 6;

/** What a move may do, before the block that it does it to. @type {Record<string, string>} */
const EFFECTS = {
  made: "makes",
  remade: "makes anew",
  rebound: "gives another input to",
  "took over": "lets stand for others",
  placed: "places",
  removed: "removes",
};

/** @param {Element} place @param {any} explanation @param {string} site */
export function showBlockHistory(place, explanation, site) {
  const block = Object.hasOwn(explanation.blocks, site) ? explanation.blocks[site] : null;
  if (!block) return fill(place, element("p", { class: "empty" }, `No move met a block “${site}”.`));
  const events = block.events.map((/** @type {number} */ k) => explanation.events[k]);
  const stems = block.became
    ? [`${site} is gone; `, listed(block.became) || "nothing", " stems from it."]
    : [`${site} stems from `, listed(block.origins) || "no given block", "."];
  fill(
    place,
    element("p", {}, stems),
    element(
      "ol",
      { class: "moves", "aria-label": `Moves of ${site}` },
      events.map((/** @type {any} */ event) =>
        element(
          "li",
          {},
          element("span", { class: "muted number" }, String(event.move)),
          element("strong", { title: explanation.rules[event.rule] ?? "" }, event.rule),
          element(
            "div",
            {},
            `${EFFECTS[event.effect] ?? event.effect} ${event.site}`,
            event.choice ? element("div", { class: "mono muted", title: event.choice }, choiceText(event.rule, event.choice)) : null,
          ),
        ),
      ),
    ),
  );
}

/** @param {string[]} sites */
function listed(sites) {
  const rest = sites.length - NAMED;
  return sites.slice(0, NAMED).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
