/**
 * Sections of a page that are filled once they come near the part that is seen.
 * @module plan/near
 */

const MARGIN = "600px";

/** Call once an element is nearly seen. @param {Element} place @param {() => void} action */
export function whenNear(place, action) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      action();
    },
    { rootMargin: MARGIN },
  );
  observer.observe(place);
}
