/**
 * The styles' colors for what is drawn: they differ between light and dark, so they are read when they are needed.
 * @module colors
 */

const probe = document.createElement("span");
probe.hidden = true;

/** Colors that were read since they last changed: thousands of marks are drawn in a few. @type {Map<string, string>} */
const known = new Map();

/** Who draws, and how. @type {Set<{owner: WeakRef<any>, method: () => void}>} */
const painters = new Set();
const gone = new FinalizationRegistry((/** @type {{owner: WeakRef<any>, method: () => void}} */ one) => painters.delete(one));

document.addEventListener("tapestry:theme", () => {
  known.clear();
  for (const { owner, method } of painters) {
    const found = owner.deref();
    if (found) method.call(found);
  }
});

/**
 * A color of the design's, as the page shows it now.
 * @param {string} name such as `accent`
 */
export function color(name) {
  const found = known.get(name);
  if (found !== undefined) return found;
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const read = getComputedStyle(probe).color;
  known.set(name, read);
  return read;
}

/** @returns {boolean} */
export function isDark() {
  return getComputedStyle(document.documentElement).colorScheme === "dark" || isDarkBySystem();
}

function isDarkBySystem() {
  const given = document.documentElement.dataset.theme;
  return given !== "light" && given !== "dark" && matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Call a method whenever the colors change, for as long as something else refers to its owner: drawings come and go on a
 * page, and a listener of the document would keep them all.
 * @template {object} T
 * @param {T} owner @param {(this: T) => void} method of its class: a function made for this owner would keep it, too
 */
export function onTheme(owner, method) {
  const one = { owner: new WeakRef(owner), method };
  painters.add(one);
  gone.register(owner, one);
}
