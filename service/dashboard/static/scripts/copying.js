/**
 * Texts with a button that copies them.
 * @module copying
 */

import { element } from "./dom.js";

const SHOWN_MS = 1600;
const LONG = 20; // lines

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

/** A text with its button; a long one scrolls. @param {string} text @param {string} [what] */
export function copyable(text, what = "") {
  const isLong = text.split("\n").length > LONG;
  const name = `${what.charAt(0).toUpperCase()}${what.slice(1)}, a text that scrolls`;
  return element(
    "div",
    { class: "copyable" },
    element("pre", isLong ? { class: "is-long", tabindex: "0", role: "region", "aria-label": name } : {}, text),
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
