// Light, dark, or as the system has it. Runs before the page is painted, hence no module.
(() => {
  const KEY = "tapestry-theme";
  const KNOWN = ["auto", "light", "dark"];

  function stored() {
    try {
      const theme = localStorage.getItem(KEY) ?? "";
      return KNOWN.includes(theme) ? theme : "auto";
    } catch {
      return "auto"; // a browser that keeps nothing
    }
  }

  /** @param {string} theme */
  function show(theme) {
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new Event("tapestry:theme"));
  }

  show(stored());
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", () => document.dispatchEvent(new Event("tapestry:theme")));
  document.addEventListener("DOMContentLoaded", () => {
    const select = /** @type {HTMLSelectElement} */ (document.getElementById("theme"));
    select.value = stored();
    select.addEventListener("change", () => {
      try {
        localStorage.setItem(KEY, select.value);
      } catch {
        // it holds for this page then
      }
      show(select.value);
    });
  });
})();
