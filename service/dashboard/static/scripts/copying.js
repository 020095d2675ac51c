/**
 * Texts with a button that copies them.
 * @module copying
 */

import { element } from "./dom.js";

const SHOWN_MS = 1600;

/**
 * A text to be copied, such as a command.
 * @param {() => string} text read when the button is pressed
 * @param {string} [what] for the button's name
 */
export function copyButton(text, what = "") {
  const button = element(
    "button",
    { type: "button", class: "button small", "aria-label": `Copy ${what}`.trim() },
    "Copy",
  );
  button.addEventListener("click", async () => {
    const isCopied = await copied(text());
    button.textContent = isCopied ? "Copied ✓" : "Press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
  });
  return button;
}

/** @param {string} text @param {string} [what] */
export function copyable(text, what = "") {
  return element(
    "div",
    { class: "copyable" },
    element("pre", {}, text),
    copyButton(() => text, what),
  );
}

/** @param {string} text */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // pages on plain http may not, beyond this machine
  }
}
