/**
 * Plans whose costs another version of the cost model computed.
 * @module cost-model
 */

import { element, fill } from "./dom.js";
import { several } from "./units.js";

/** @typedef {import("./marks.js").Plan} Plan */

/**
 * A notice, and none where all costs are of this version; what stands there already is not announced again.
 * @param {HTMLElement} place
 * @param {Plan[]} plans
 */
export function showCostModel(place, plans) {
  const notes = plans.flatMap((plan) => (plan.cost_model_note ? [plan.cost_model_note] : []));
  const lines = [...new Set(notes)].map(
    (note) => `${several(notes.filter((other) => other === note).length, "plan")} ${note}`,
  );
  const text = lines.length ? `${lines.join(", ")}. Do not compare these costs with others.` : "";
  if (place.textContent === text) return;
  fill(place, text ? element("p", { class: "notice warn" }, text) : null);
}
