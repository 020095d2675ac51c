/**
 * Elements out of values. Texts become text nodes and never markup: names of graphs and sites come from strangers.
 * @module dom
 */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * A new element. Properties: `class`, `on…` listeners, `data` (an object); everything else is an attribute,
 * where `true` is an empty one and `false`, `null` and `undefined` are none.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...nodes(children));
  return made;
}

/**
 * Children as nodes and texts, without what is not there.
 * @param {(Child | Child[])[]} children
 * @returns {(Node | string)[]}
 */
function nodes(children) {
  return children
    .flat()
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** A name that may be broken after its joints, rather than within a word. @param {string} name @returns {Child[]} */
export function breakable(name) {
  return name.split(/(?<=[_./:&-])/).flatMap((part, k) => (k ? [element("wbr"), part] : [part]));
}

/**
 * Put these children in the place of all that an element had.
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
}

/**
 * Set a text if it is another one: what did not change is not announced again.
 * @param {Node} node
 * @param {string} text
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * The element of that id, which the page's template has.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * Let people use a part that its template made inert: before its listeners are there, a form would leave the page.
 * @param {HTMLElement} part
 */
export function nowUsable(part) {
  part.inert = false;
  part.removeAttribute("aria-busy");
  return part;
}

/**
 * Call at most once per `pause` milliseconds, and a last time after the last call.
 * @param {() => void} action
 * @param {number} pause
 */
export function throttled(action, pause) {
  let timer = 0;
  let last = -Infinity;
  return () => {
    if (timer) return;
    const wait = Math.max(0, last + pause - performance.now());
    timer = window.setTimeout(() => {
      timer = 0;
      last = performance.now();
      action();
    }, wait);
  };
}
