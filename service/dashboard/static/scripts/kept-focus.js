/**
 * What has the focus stays where one sees it while sections above it are loaded: browsers keep the place of a part that
 * they choose, which may be above the section that grows.
 * @module kept-focus
 */

/** @param {Element} page whose size changes when its sections are loaded */
export function keepFocusSeen(page) {
  let wasSeen = false;
  const inView = new IntersectionObserver((entries) => {
    wasSeen = entries[entries.length - 1].isIntersecting;
  });
  page.addEventListener("focusin", (event) => {
    inView.disconnect();
    wasSeen = true; // browsers scroll to what gets the focus
    inView.observe(/** @type {Element} */ (event.target));
  });
  page.addEventListener("focusout", () => {
    inView.disconnect();
    wasSeen = false;
  });
  // It is called before the next picture, and before it is observed anew what is seen.
  new ResizeObserver(() => {
    if (wasSeen) document.activeElement?.scrollIntoView({ block: "nearest" });
  }).observe(page);
}
