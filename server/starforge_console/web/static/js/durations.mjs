// Lengths of time as `starforge.wording` divides them, in the words that the page carries.
const SECONDS = [86400, 3600, 60, 1];
const NBSP = "\u00a0";

/** At most so many units that follow one another, those that are not zero; below a second it is 0 of the last. */
export function describeDuration(seconds, units, most = 2) {
  let left = Math.max(0, Math.trunc(seconds));
  const full = SECONDS.findIndex((size) => left >= size);
  const first = full < 0 ? SECONDS.length - 1 : full;
  const parts = [];
  SECONDS.slice(first, first + most).forEach((size, i) => {
    const count = Math.floor(left / size);
    left %= size;
    if (count > 0 || i === 0) parts.push(`${count}${NBSP}${units[first + i]}`);
  });
  return parts.join(NBSP);
}
