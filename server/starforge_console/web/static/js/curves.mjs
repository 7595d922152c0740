// The curves of a job's page: those of the training, and those of how busy its machine was.
import { draw, isZoomed, loadVisible, readTools, short, unzoom, update, valueAt } from "./charts.mjs";
import { refine } from "./zoom.mjs";

const KEYS_A_REQUEST = 24;
const stream = document.querySelector("[data-live]");
const panels = [...document.querySelectorAll("[data-curves]")].map(prepare);

function prepare(panel) {
  const figures = [...panel.querySelectorAll("[data-curve]")];
  const attempt = panel.querySelector('[data-tool="attempt"]'), whole = panel.querySelector('[data-tool="unzoom"]');
  const drawAll = () => figures.filter((figure) => figure.chart).forEach((figure) => draw(figure, view()));
  const tools = readTools(panel, drawAll);
  const started = Number(panel.dataset.started);
  const view = () => ({
    ...tools(),
    sync: panel.id,
    start: (curve) => started || curve?.times[0] || 0,
    cursor: showValues,
    zoomed: (figure) => {
      if (whole) whole.disabled = !figures.some((one) => one.chart && isZoomed(one));
      zoom.changed(figure);
    },
  });
  const zoom = refine(view, (_, ranges) => fetchCurves(ranges));

  for (const figure of figures) {
    figure.lines = [...figure.querySelectorAll(".key")].map((element) => ({ id: element.dataset.key, label: element.dataset.key, mark: element.querySelector("i"), element }));
  }

  function showValues(figure, x) {
    for (const { id, element } of figure.lines) element.querySelector("b").textContent = short(valueAt(figure, id, view(), x), id);
  }

  /** The curves of [{id}] by key, or with {from, to} these steps of them; null when the console does not give them. */
  async function fetchCurves(asked) {
    const curves = {};
    for (let at = 0; at < asked.length; at += KEYS_A_REQUEST) {
      const query = asked.slice(at, at + KEYS_A_REQUEST).flatMap(({ id, from, to }) => [["key", id], ...(to === undefined ? [] : [["from", from], ["to", to]])]);
      if (attempt?.value) query.push(["attempt", attempt.value]);
      const answer = await fetch(`${panel.dataset.curves}?${new URLSearchParams(query)}`);
      if (!answer.ok) return null;
      Object.assign(curves, await answer.json());
    }
    return curves;
  }

  async function load(wanted) {
    const curves = await fetchCurves(wanted.flatMap((figure) => figure.lines));
    if (!curves) return;
    for (const figure of wanted) {
      figure.curves = Object.fromEntries(figure.lines.map(({ id }) => [id, curves[id] ?? { steps: [], values: [], times: [] }]));
      update(figure, view());
      // A sample may leave out what the server saw, so what was told of once stays told of.
      if (Object.values(figure.curves).some(({ values }) => values.some((v) => typeof v === "string"))) figure.querySelector(".odd").hidden = false;
    }
    await zoom.again(wanted);
  }

  const again = loadVisible(figures, load);
  attempt?.addEventListener("change", () => { figures.forEach((figure) => { figure.parts = null; }); again(); });
  whole?.addEventListener("click", () => figures.forEach(unzoom));
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
