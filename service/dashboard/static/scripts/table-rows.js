/**
 * What a table shows, as rows of a file: figures as values in base units, everything else as text.
 * @module table-rows
 */

/** Parts of a cell that say nothing of its value. */
const ASIDE = ".about, .csv, .unit";
/** What stands where there is nothing. */
const BLANK = ["–", "·"];

/** @typedef {{name: string, cells: (HTMLElement | null)[], units: string[]}} Column */

/**
 * The rows of a table, heads first, with units in them. Where the rows of a column have different units, a column names them.
 * @param {HTMLTableElement} table @returns {string[][]}
 */
export function rowsOf(table) {
  const heads = spread(/** @type {HTMLTableSectionElement} */ (table.tHead).rows[0]);
  const body = [...table.tBodies[0].rows].filter((row) => !row.hidden).map(spread);
  const columns = heads.flatMap((head, k) => {
    // Buttons have no head; bars show what is beside them.
    if (body.every((row) => row[k]?.classList.contains("meter-cell"))) return [];
    const name = head ? textOf(head) : "";
    const cells = body.map((row) => row[k] ?? null);
    const units = [...new Set(cells.flatMap((cell) => (hasValue(cell) ? [cell?.dataset.unit ?? ""] : [])))];
    return name || !k ? [{ name: name || "name", cells, units }] : [];
  });
  const mixed = columns.find(({ units }) => units.length > 1);
  const file = columns.flatMap((one, k) => {
    const values = [headOf(one, k, columns), ...one.cells.map((cell) => valueOf(cell))];
    return one === mixed ? [["unit", ...body.map((_, row) => unitsOf(columns, row))], values] : [values];
  });
  return [...body.keys(), body.length].map((row) => file.map((values) => values[row]));
}

/** The cells of a row by columns. @param {HTMLTableRowElement} row @returns {(HTMLElement | null)[]} */
function spread(row) {
  return [...row.cells].flatMap((cell) => [cell, ...Array(cell.colSpan - 1).fill(null)]);
}

/** Names that two columns have have that of the column to the left of each before them. @param {Column} one @param {number} k @param {Column[]} all */
function headOf({ name, units }, k, all) {
  const isAlone = all.filter((other) => other.name === name).length === 1;
  const full = isAlone ? name : `${all[k - 1].name}: ${name}`;
  return units.length === 1 && units[0] && units[0] !== name ? `${full} (${units[0]})` : full;
}

/** The units of a row in columns that have several. @param {Column[]} columns @param {number} row */
function unitsOf(columns, row) {
  const found = columns.flatMap(({ cells, units }) => (units.length > 1 && hasValue(cells[row]) ? [cells[row]?.dataset.unit ?? ""] : []));
  return [...new Set(found)].join(" ");
}

/** @param {HTMLElement | null} cell */
function hasValue(cell) {
  return cell?.dataset.value !== undefined;
}

/** @param {HTMLElement | null} cell */
function valueOf(cell) {
  if (!cell) return "";
  if (hasValue(cell)) return cell.dataset.value ?? "";
  const text = textOf(cell);
  return BLANK.includes(text) ? "" : text;
}

/** The words of a cell, lines apart. @param {Node} node @returns {string} */
function textOf(node) {
  const parts = [...node.childNodes].map((child) => {
    if (!(child instanceof Element)) return child.textContent;
    if (child.matches(ASIDE)) return "";
    return child.matches("div, code, li") ? ` ${textOf(child)} ` : textOf(child);
  });
  return parts.join("").replace(/\s+/g, " ").trim();
}
