/**
 * Tables whose rows are cards where the window is narrow: each cell has the name of its column beside it. Roles are stated, since tables that
 * are laid out otherwise have none for readers of the screen.
 * @module cards
 */

const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };

/** @param {HTMLElement} one of a table */
function roleOf(one) {
  if (one.tagName !== "TH") return ROLES[/** @type {keyof ROLES} */ (one.tagName)];
  return one.getAttribute("scope") === "row" ? "rowheader" : "columnheader";
}

/** Let the rows of a table be cards; those that come later are given to `asCard`. @param {HTMLTableElement} table @param {string[]} names of its columns */
export function asCards(table, names) {
  table.classList.add("cards");
  for (const one of [table, table.tHead, table.tBodies[0]]) one.setAttribute("role", roleOf(one));
  for (const row of table.tHead.rows) asCard(row, []);
  for (const row of table.tBodies[0].rows) asCard(row, names);
}

/** @param {HTMLTableRowElement} row @param {string[]} names of its cells; an empty one is not written */
export function asCard(row, names) {
  row.setAttribute("role", roleOf(row));
  [...row.cells].forEach((cell, k) => {
    cell.setAttribute("role", roleOf(cell));
    if (names[k]) cell.dataset.column = names[k];
  });
}
