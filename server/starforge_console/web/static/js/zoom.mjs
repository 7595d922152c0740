// Finer points of what is zoomed into: they take the place of the curve's own in the range that is shown.
import { isZoomed, placeOf, update } from "./charts.mjs";

const AFTER_MS = 150;

/** The steps of a curve that the chart shows, with the points next to them on both sides; null where it has no more points. */
function rangeOf(curve, { min, max }, view) {
  const { steps, total } = curve ?? { steps: [] };
  if (!steps.length || total <= steps.length) return null;
  if (view.axis === "step") {
    const range = { from: Math.floor(min), to: Math.ceil(max) };
    return range.to >= steps[0] && range.from <= steps.at(-1) ? range : null;
  }
  let first = 0, last = steps.length - 1;
  while (first < last && placeOf(curve, view, first + 1) <= min) first += 1;
  while (last > first && placeOf(curve, view, last - 1) >= max) last -= 1;
  return { from: steps[first], to: steps[last] };
}

/** Keeps the figures' parts: `fetchParts(figure, ranges)` gives the curves by id for [{id, from, to}], or null. */
export function refine(view, fetchParts) {
  const timers = new Map();

  async function ask(figure) {
    const { chart, lines, curves } = figure;
    if (!chart || !curves) return;
    const { min, max } = chart.scales.x;
    figure.shown = isZoomed(figure) ? `${view().axis} ${min} ${max}` : "";
    const ranges = figure.shown ? lines.map(({ id }) => ({ id, ...rangeOf(curves[id], { min, max }, view()) })).filter(({ to }) => to !== undefined) : [];
    const asked = figure.shown;
    const parts = ranges.length ? await fetchParts(figure, ranges).catch(() => null) : {};
    if (!parts || figure.shown !== asked || (!ranges.length && !figure.parts)) return;
    figure.parts = ranges.length ? parts : null;
    update(figure, view());
  }

  return {
    /** The chart's range may be another one. */
    changed(figure) {
      clearTimeout(timers.get(figure));
      timers.set(figure, setTimeout(() => {
        const { chart } = figure;
        const now = chart && isZoomed(figure) ? `${view().axis} ${chart.scales.x.min} ${chart.scales.x.max}` : "";
        if (now !== (figure.shown ?? "")) ask(figure);
      }, AFTER_MS));
    },
    /** The curves have new points. */
    again: (figures) => Promise.all(figures.filter((figure) => figure.shown).map(ask)),
  };
}
