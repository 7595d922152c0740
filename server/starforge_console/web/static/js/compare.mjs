// The curves of several runs over one another: the table of runs is their legend.
import { draw, highlight, isZoomed, loadVisible, readTools, short, unzoom, update } from "./charts.mjs";
import { refine } from "./zoom.mjs";

const RUNNING_EVERY = 5000;
const panel = document.getElementById("compared");
const figures = [...panel.querySelectorAll("[data-curve]")];
const whole = panel.querySelector('[data-tool="unzoom"]');
const rows = [...document.querySelectorAll("#runs [data-run]")];
const drawAll = () => figures.filter((figure) => figure.chart).forEach((figure) => draw(figure, view()));
const tools = readTools(panel, drawAll);
const view = () => ({
  ...tools(),
  sync: panel.id,
  start: (curve) => curve?.times[0] ?? 0,
  focus: showNearest,
  zoomed: (figure) => {
    whole.disabled = !figures.some((one) => one.chart && isZoomed(one));
    zoom.changed(figure);
  },
});
const zoom = refine(view, async (figure, ranges) => {
  const runs = ranges.flatMap(({ id, from, to }) => [["job", id], ["from", from], ["to", to]]);
  const curves = await fetchCurves([...runs, ["key", figure.dataset.curve]]);
  return curves && (curves[figure.dataset.curve] ?? {});
});

function showNearest(figure, line, index) {
  const output = figure.querySelector("output");
  rows.forEach((row) => row.classList.toggle("near", Boolean(line) && row.dataset.run === line.id));
  if (!line || index === null || index === undefined) { output.textContent = ""; return; }
  const at = figure.chart.series.findLastIndex((one) => one.line === line);
  output.textContent = `${line.label} ${short(figure.chart.data[at][index], figure.dataset.curve)}`;
}

async function fetchCurves(query) {
  const answer = await fetch(`${panel.dataset.curves}?${new URLSearchParams(query)}`);
  return answer.ok ? answer.json() : null;
}

async function load(wanted) {
  const curves = await fetchCurves([...rows.map((row) => ["job", row.dataset.run]), ...wanted.map((figure) => ["key", figure.dataset.curve])]);
  if (!curves) return;
  for (const figure of wanted) {
    figure.curves = curves[figure.dataset.curve] ?? {};
    update(figure, view());
  }
  await zoom.again(wanted);
}

for (const figure of figures) figure.lines = rows.map((row) => ({ id: row.dataset.run, label: row.dataset.name, mark: row.querySelector("i") }));
const again = loadVisible(figures, load);
whole?.addEventListener("click", () => figures.forEach(unzoom));
document.addEventListener("themechange", drawAll);
for (const row of rows) {
  row.addEventListener("pointerenter", () => figures.forEach((figure) => figure.chart && highlight(figure, figure.lines.find((line) => line.id === row.dataset.run))));
  row.addEventListener("pointerleave", () => figures.forEach((figure) => figure.chart && highlight(figure, null)));
}
if (panel.dataset.running) setInterval(() => { if (!document.hidden) again(); }, RUNNING_EVERY);
