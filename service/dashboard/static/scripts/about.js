/**
 * A small button beside the name of a figure, which says what it means: by click, touch and keys.
 * @module about
 */

import { element, fill } from "./dom.js";
import { explanationOf } from "./explanations.js";

const GAP = 6; // px between a button and its explanation
const ID = "explanation";

/** @type {HTMLElement | null} */
let opener = null;

/**
 * The button for a figure; null where nothing is known of it.
 * @param {string} name of the figure, or the key of its explanation
 */
export function about(name) {
  const found = explanationOf(name);
  if (!found) return null;
  const question = `What is ${found.title}?`;
  return element("button", { type: "button", class: "about", data: { about: name }, "aria-label": question, title: question, "aria-expanded": "false" });
}

/** The place of the one explanation that is shown. @returns {HTMLElement} */
function place() {
  const known = document.getElementById(ID);
  if (known) return known;
  const made = element("div", { id: ID, class: "explanation", popover: "manual", role: "status" });
  document.body.append(made);
  return made;
}

/** @param {HTMLElement} button */
function open(button) {
  close();
  const found = explanationOf(button.dataset.about ?? "");
  const shown = place();
  shown.showPopover();
  fill(
    shown,
    element("strong", {}, found?.title ?? ""),
    element("p", {}, found?.text ?? ""),
    element("p", { class: "muted small" }, `Unit: ${found?.unit ?? "none"}`),
  );
  opener = button;
  button.setAttribute("aria-expanded", "true");
  button.setAttribute("aria-describedby", ID);
  beside(shown, button.getBoundingClientRect());
}

function close() {
  if (!opener) return;
  opener.setAttribute("aria-expanded", "false");
  opener.removeAttribute("aria-describedby");
  opener = null;
  place().hidePopover();
}

/** Below a button, or above where there is more room, and within the window. @param {HTMLElement} shown @param {DOMRect} button */
function beside(shown, button) {
  const { width, height } = shown.getBoundingClientRect();
  const { clientWidth } = document.documentElement;
  const below = button.bottom + GAP;
  const isBelow = below + height <= innerHeight || button.top < innerHeight - button.bottom;
  shown.style.left = `${Math.max(GAP, Math.min(button.left - GAP, clientWidth - width - GAP))}px`;
  shown.style.top = `${isBelow ? below : Math.max(GAP, button.top - GAP - height)}px`;
}

/** Let the buttons of the page work, those that come later, too. */
export function enableExplanations() {
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const button = target.closest(".about");
    if (button instanceof HTMLElement) {
      event.preventDefault(); // a label around it chooses nothing
      return button === opener ? close() : open(button);
    }
    return target.closest(`#${ID}`) ? undefined : close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !opener) return;
    event.stopPropagation();
    close();
  }, true);
  document.addEventListener("focusin", (event) => event.target !== opener && close());
  addEventListener("scroll", () => close(), { capture: true, passive: true });
  addEventListener("resize", () => close());
  for (const mark of document.querySelectorAll("[data-explain]")) {
    const button = about(/** @type {HTMLElement} */ (mark).dataset.explain ?? "");
    if (button) mark.append(button);
  }
}
