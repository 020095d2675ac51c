/**
 * The styles' colors for what is drawn: they differ between light and dark, so they are asked for when needed.
 * @module colors
 */

const probe = document.createElement("span");
probe.hidden = true;

/**
 * A color of the design's, as the page shows it now.
 * @param {string} name such as `accent`
 */
export function color(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** @returns {boolean} */
export function isDark() {
  return getComputedStyle(document.documentElement).colorScheme === "dark" || isDarkBySystem();
}

function isDarkBySystem() {
  const given = document.documentElement.dataset.theme;
  return given !== "light" && given !== "dark" && matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {() => void} action called whenever the colors change */
export function onTheme(action) {
  document.addEventListener("tapestry:theme", action);
}
