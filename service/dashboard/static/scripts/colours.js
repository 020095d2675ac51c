/**
 * The styles' colours for what is drawn: they differ between light and dark, so they are asked for when needed.
 * @module colours
 */

const probe = document.createElement("span");
probe.hidden = true;

/**
 * A colour of the design's, as the page shows it now.
 * @param {string} name such as `accent`
 */
export function colour(name) {
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

/** @param {() => void} action called whenever the colours change */
export function onTheme(action) {
  document.addEventListener("tapestry:theme", action);
}
