/**
 * The API's faults at the fields that they are about.
 * @module faults
 */

import { byId, element, fill } from "./dom.js";
import { problemNotice } from "./notice.js";

const NAMED = 12;

/** @typedef {import("./api.js").Fault} Fault */

/** Take all faults back. @param {HTMLElement} form */
export function clearFaults(form) {
  for (const place of form.querySelectorAll("[data-fault]")) fill(place);
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  fill(byId("form-problem"));
}

/**
 * Say each fault at its field: the element with `data-fault` of the pointer, or of its longest prefix.
 * A fault without a field is shown above the form.
 * @param {HTMLElement} form
 * @param {import("./api.js").Problem} problem
 */
export function showFaults(form, problem) {
  /** @type {HTMLElement[]} */
  const places = [...form.querySelectorAll("[data-fault]")].filter((place) => place instanceof HTMLElement);
  /** @type {Fault[]} */
  const rest = [];
  /** @type {HTMLElement | null} */
  let first = null;
  for (const fault of problem.errors) {
    const place = nearest(places, fault.pointer);
    if (!place) {
      rest.push(fault);
      continue;
    }
    place.append(element("div", {}, text(fault)));
    const field = place
      .closest(".field, .constraint, fieldset")
      ?.querySelector("input:not([type=hidden]), select, textarea");
    field?.setAttribute("aria-invalid", "true");
    first ??= field instanceof HTMLElement && field.offsetParent ? field : place;
    for (
      let folded = place.closest("details");
      folded;
      folded = folded.parentElement?.closest("details") ?? null
    )
      folded.open = true;
  }
  const areShown = problem.errors.length > 0 && rest.length === 0;
  const detail = areShown ? "The faults are shown at the fields below." : problem.message;
  fill(byId("form-problem"), problemNotice({ title: problem.title, detail, errors: areShown ? [] : rest }));
  (first ?? byId("form-problem")).scrollIntoView({ block: "center" });
  first?.focus({ preventScroll: true });
}

/** @param {HTMLElement[]} places @param {string} pointer */
function nearest(places, pointer) {
  const isAbove = (/** @type {string} */ own) => pointer === own || pointer.startsWith(`${own}/`);
  const above = places.filter((place) => isAbove(place.dataset.fault ?? "") && !place.closest("[hidden]"));
  return above.sort((a, b) => (b.dataset.fault ?? "").length - (a.dataset.fault ?? "").length)[0];
}

/** @param {Fault} fault */
function text({ detail, allowed }) {
  if (!allowed?.length) return detail;
  const more = allowed.length > NAMED ? ` and ${allowed.length - NAMED} more` : "";
  return `${detail} (allowed: ${allowed.slice(0, NAMED).join(", ")}${more})`;
}
