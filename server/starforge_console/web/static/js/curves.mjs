// The curves of a job's page: those of the training, and those of how busy its machine was.
import { draw, isZoomed, loadVisible, readTools, short, update, valueAt } from "./charts.mjs";

const KEYS_A_REQUEST = 24;
const stream = document.querySelector("[data-live]");
const panels = [...document.querySelectorAll("[data-curves]")].map(prepare);

function prepare(panel) {
  const figures = [...panel.querySelectorAll("[data-curve]")];
  const attempt = panel.querySelector('[data-tool="attempt"]'), unzoom = panel.querySelector('[data-tool="unzoom"]');
  const drawAll = () => figures.filter((figure) => figure.chart).forEach((figure) => draw(figure, view()));
  const tools = readTools(panel, drawAll);
  const started = Number(panel.dataset.started);
  const view = () => ({
    ...tools(),
    sync: panel.id,
    start: (curve) => started || curve?.times[0] || 0,
    cursor: showValues,
    zoomed: () => { if (unzoom) unzoom.disabled = !figures.some((figure) => figure.chart && isZoomed(figure)); },
  });

  for (const figure of figures) {
    figure.lines = [...figure.querySelectorAll(".key")].map((element) => ({ id: element.dataset.key, label: element.dataset.key, mark: element.querySelector("i"), element }));
  }

  function showValues(figure, x) {
    for (const { id, element } of figure.lines) element.querySelector("b").textContent = short(valueAt(figure.curves[id], view(), x), id);
  }

  async function load(wanted) {
    const keys = wanted.flatMap((figure) => figure.lines.map((line) => line.id));
    const curves = {};
    for (let at = 0; at < keys.length; at += KEYS_A_REQUEST) {
      const asked = new URLSearchParams(keys.slice(at, at + KEYS_A_REQUEST).map((key) => ["key", key]));
      if (attempt?.value) asked.set("attempt", attempt.value);
      const answer = await fetch(`${panel.dataset.curves}?${asked}`);
      if (!answer.ok) return;
      Object.assign(curves, await answer.json());
    }
    for (const figure of wanted) {
      figure.curves = Object.fromEntries(figure.lines.map(({ id }) => [id, curves[id] ?? { steps: [], values: [], times: [] }]));
      update(figure, view());
      // A sample may leave out what the server saw, so what was told of once stays told of.
      if (Object.values(figure.curves).some(({ values }) => values.some((v) => typeof v === "string"))) figure.querySelector(".odd").hidden = false;
    }
  }

  const again = loadVisible(figures, load);
  attempt?.addEventListener("change", again);
  unzoom?.addEventListener("click", drawAll);
  document.addEventListener("themechange", drawAll);
  stream?.addEventListener("curves", again);
  return { figures };
}

if (panels.every(({ figures }) => figures.length === 0)) {
  stream?.addEventListener("curves", (event) => {
    const come = document.getElementById("curves-come");
    if (come && Number(event.detail?.data) > 0) come.hidden = false;
  });
}
