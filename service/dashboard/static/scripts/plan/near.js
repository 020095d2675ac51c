/**
 * Sections of a page that are filled once they come near the part that is seen, one after the other: what they ask for is
 * computed, and whoever asks for much at once is refused.
 * @module plan/near
 */

const MARGIN = "600px";

/** @type {Promise<unknown>} */
let turn = Promise.resolve();

/** Call once an element is nearly seen, and those called before are done. @param {Element} place @param {() => unknown} action */
export function whenNear(place, action) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      turn = turn.finally(action);
    },
    { rootMargin: MARGIN },
  );
  observer.observe(place);
}
