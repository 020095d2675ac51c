/**
 * Rules that a search does not use any more: which, why, and what to do.
 * @module refused-rules
 */

import { element, fill } from "./dom.js";
import { several } from "./units.js";

/** @typedef {{rule: string, reason: string, hint: string}} Refusal */

/**
 * A notice, and none where every rule is used; what stands there already is not announced again.
 * @param {HTMLElement} place
 * @param {Refusal[]} refused
 */
export function showRefused(place, refused) {
  if (place.childElementCount && place.querySelectorAll("li").length === refused.length) return;
  fill(place, refused.length ? notice(refused) : null);
}

/** @param {Refusal[]} refused */
function notice(refused) {
  return element(
    "div",
    { class: "notice warn" },
    element("strong", {}, `${several(refused.length, "rule")} left out of this search`),
    element("p", {}, "The search goes on with the others."),
    element("ul", {}, refused.map(line)),
  );
}

/** @param {Refusal} refusal */
function line({ rule, reason, hint }) {
  return element(
    "li",
    {},
    element("code", {}, rule),
    `: ${reason}`,
    element("p", { class: "muted small" }, `What to do: ${hint}.`),
  );
}
