/**
 * A plan's history with costs, asked for when somebody wants it: replaying it takes a while the first time.
 * @module explaining
 */

import { get, problemOf } from "./api.js";
import { byId, fill, say } from "./dom.js";
import { showEffects } from "./effect-table.js";
import { problemNotice } from "./notice.js";
import { showBlockHistory } from "./block-history.js";

export class Explaining {
  /** @param {string} path of the explanation @param {import("./cost-table.js").Objective[]} catalog */
  constructor(path, catalog) {
    this.path = path;
    this.catalog = catalog;
    /** @type {Promise<any> | null} */
    this.asked = null;
    this.button = byId("explain");
    this.button.disabled = false;
    this.button.addEventListener("click", () => this.effects());
    byId("block-history-form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.blockHistory(byId("block-history-site").value.trim());
    });
    byId("decisions").addEventListener("history", (/** @type {CustomEvent} */ event) => {
      byId("block-history-site").value = event.detail;
      void this.blockHistory(event.detail);
      byId("block-history-site").scrollIntoView({ block: "center" });
    });
  }

  /** The explanation, asked for once. */
  told() {
    this.asked ??= get(this.path);
    return this.asked;
  }

  async effects() {
    await this.show("moves", (/** @type {any} */ told, /** @type {Element} */ place) => {
      showEffects(place, told, this.catalog);
      this.button.hidden = true;
    });
  }

  /** @param {string} site */
  async blockHistory(site) {
    if (!site) return fill(byId("block-history"));
    await this.show("block-history", (/** @type {any} */ told, /** @type {Element} */ place) =>
      showBlockHistory(place, told, site),
    );
  }

  /** @param {string} id of the place @param {(told: any, place: Element) => void} draw */
  async show(id, draw) {
    this.button.disabled = true;
    say(this.button, "Replaying…");
    try {
      draw(await this.told(), byId(id));
      fill(byId("explaining-trouble"));
    } catch (error) {
      this.asked = null;
      fill(byId("explaining-trouble"), problemNotice(problemOf(error)));
    }
    say(this.button, "What each move changed");
    this.button.disabled = false;
  }
}
