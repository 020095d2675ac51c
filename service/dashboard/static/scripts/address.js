/**
 * Choices of a view in the page's address, so that they survive a reload and can be shared. Usual choices are not in it.
 * @module address
 */

/** What the address has under a name; null for nothing. @param {string} name */
export function addressed(name) {
  return new URLSearchParams(location.search).get(name);
}

/** Write choices to the address, or remove those that are null; it stays one step of the browser's history. @param {Record<string, string | null>} choices */
export function keepAddressed(choices) {
  const address = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(choices)) value === null ? address.delete(name) : address.set(name, value);
  const query = address.toString().replaceAll("%2C", ",");
  history.replaceState(history.state, "", `${query ? `?${query}` : location.pathname}${location.hash}`);
}

/**
 * Keep what a field, a select or a checkbox has. It takes what the address has, and says so to its listeners.
 * @param {string} name @param {HTMLInputElement | HTMLSelectElement} control with its usual choice
 */
export function keepChoice(name, control) {
  const isCheck = control instanceof HTMLInputElement && control.type === "checkbox";
  const now = () => (isCheck ? (control.checked ? "1" : "0") : control.value);
  const usual = now();
  const kind = control instanceof HTMLInputElement && !isCheck ? "input" : "change";
  const wanted = addressed(name);
  if (wanted !== null && wanted !== usual) {
    if (isCheck) control.checked = wanted === "1";
    else control.value = wanted;
    if (now() !== wanted) isCheck || (control.value = usual); // such a choice is not there
    else control.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  control.addEventListener(kind, () => keepAddressed({ [name]: now() === usual ? null : now() }));
}

/**
 * Keep which one of a group of radio buttons is chosen.
 * @param {string} name @param {string} group the name that the buttons have
 */
export function keepOneOf(name, group) {
  const buttons = /** @type {HTMLInputElement[]} */ ([...document.getElementsByName(group)]);
  const usual = buttons.find((button) => button.checked)?.value;
  const wanted = buttons.find((button) => button.value === addressed(name));
  if (wanted && !wanted.checked) {
    wanted.checked = true;
    wanted.dispatchEvent(new Event("change", { bubbles: true }));
  }
  for (const button of buttons)
    button.addEventListener("change", () => button.checked && keepAddressed({ [name]: button.value === usual ? null : button.value }));
}

/** By what the address says that rows are sorted, such as `-time_s`. @param {string} name @param {import("./tables.js").Order} usual @returns {import("./tables.js").Order} */
export function addressedOrder(name, usual) {
  const text = addressed(name);
  return text ? { key: text.replace(/^-/, ""), isAscending: !text.startsWith("-") } : usual;
}

/** @param {string} name @param {import("./tables.js").Order} order */
export function keepOrder(name, { key, isAscending }) {
  keepAddressed({ [name]: `${isAscending ? "" : "-"}${key}` });
}
