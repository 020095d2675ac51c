/**
 * Decisions as a table: searched, folded.
 * @module decision-table
 */

import { keepChoice } from "./address.js";
import { grouped, matching, usual } from "./decisions.js";
import { byId, element, fill, say, throttled } from "./dom.js";
import { showTable } from "./tables.js";
import { plain, several } from "./units.js";

/** @typedef {import("./decisions.js").Decision} Decision */

const AT_ONCE = 300; // rows; more come with a button

/** @param {Decision[]} decisions */
export function showDecisions(decisions) {
  let limit = AT_ONCE;
  const common = usual(decisions);
  const count = decisions.filter(({ more }) => more === common).length;
  say(byId("usual"), common && `Of ${several(decisions.length, "block")} ${plain(count)} have this beyond their strategy, and no note of it below: ${common}.`);
  byId("usual").hidden = !common;
  const [shown, more] = [element("div"), element("div")];
  fill(byId("decisions"), shown, more);
  const search = byId("search");
  const fold = byId("fold");
  const redraw = () => {
    const found = matching(decisions, search.value);
    const groups = fold.checked
      ? grouped(found)
      : found.map((decision) => ({ name: decision.site, decisions: [decision] }));
    const rows = groups.slice(0, limit).map((group) => rowsOf(group, common));
    say(
      byId("decision-count"),
      found.length === decisions.length
        ? several(found.length, "block")
        : `${plain(found.length)} of ${several(decisions.length, "block")}`,
    );
    if (found.length) showTable(shown, ["", "block", "", "strategy"], rows.flat(), "Decisions", { kind: "decisions", file });
    else fill(shown, element("p", { class: "empty" }, "No block is called so."));
    fill(more, groups.length > limit ? element("p", { class: "empty" }, moreButton(groups.length)) : null);
  };
  const moreButton = (/** @type {number} */ total) =>
    element(
      "button",
      { type: "button", class: "button small", onclick: () => ((limit = total), redraw()) },
      `Show all ${plain(total)}`,
    );
  const file = () => [
    ["block", "role and type", "strategy", "copies and layouts"],
    ...matching(decisions, search.value).map(({ site, kind, strategy, more }) => [site, kind, strategy, more]),
  ];
  search.addEventListener("input", throttled(redraw, 120));
  fold.addEventListener("change", redraw);
  keepChoice("decisions", search);
  keepChoice("fold", fold);
  redraw();
}

/** @param {import("./decisions.js").Group} group @param {string} common what is not noted @returns {HTMLElement[]} */
function rowsOf({ name, decisions }, common) {
  const [first] = decisions;
  const isGroup = decisions.length > 1;
  const members = element("tr", { class: "members", hidden: true });
  const button = isGroup
    ? element(
        "button",
        { type: "button", class: "fold", "aria-expanded": "false", "aria-label": `Sites of ${name}` },
        "▸",
      )
    : null;
  button?.addEventListener("click", () => {
    members.hidden = !members.hidden;
    button.setAttribute("aria-expanded", String(!members.hidden));
    button.textContent = members.hidden ? "▸" : "▾";
    if (!members.childElementCount)
      fill(
        members,
        element("td"),
        element(
          "td",
          { colspan: 3, class: "mono" },
          decisions.flatMap((decision, k) => [k ? ", " : "", siteButton(decision.site)]),
        ),
      );
  });
  const note = (/** @type {string} */ text) => (text ? element("div", { class: "small muted note" }, text) : null);
  const differs = common && !first.more && !first.kind ? "nothing beyond it" : "";
  const row = element(
    "tr",
    {},
    element("td", { class: "fold-cell" }, button),
    element("th", { scope: "row" }, isGroup ? name : siteButton(first.site), note(first.kind)),
    element("td", { class: "number muted" }, isGroup ? `× ${plain(decisions.length)}` : ""),
    element("td", {}, element("span", { class: "mono" }, first.strategy), note(first.more === common ? "" : first.more || differs)),
  );
  return isGroup ? [row, members] : [row];
}

/** A site that shows its history when it is clicked. @param {string} site */
function siteButton(site) {
  const button = element("button", { type: "button", class: "site", title: "History" }, site);
  button.addEventListener("click", () =>
    button.dispatchEvent(new CustomEvent("history", { bubbles: true, detail: site })),
  );
  return button;
}
