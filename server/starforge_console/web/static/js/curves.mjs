// Curves: raw values faint, smoothed values bold, one cursor over all figures. Colours are read from the legend.
const uPlot = window.uPlot;
const panel = document.getElementById("curves");
const figures = [...panel.querySelectorAll("[data-curve]")];
const smoothing = document.getElementById("smooth");
const logScale = document.getElementById("logscale");
const unzoom = document.getElementById("unzoom");
const stream = document.querySelector("[data-live]");
const SPARSE = 40, EVERY = 1000;
const colour = (element) => getComputedStyle(element).color;
const faint = (rgb, alpha) => rgb.replace(/rgba?\(([^,]+, [^,]+, [^,)]+).*/, `rgba($1, ${alpha})`);
const isLog = () => logScale.getAttribute("aria-pressed") === "true";
const number = (v) => typeof v === "number" && Number.isFinite(v) && (v > 0 || !isLog()) ? v : null;

function short(v) {
  if (v === undefined || v === null) return "—";
  if (typeof v === "string") return { nan: "NaN", inf: "∞", "-inf": "-∞" }[v];
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return v.toExponential(2);
  return size >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(4)));
}

/** Debiased exponential mean; a missing value stays missing. */
function smooth(values, weight) {
  let mean = 0, mass = 0;
  return values.map((v) => {
    if (v === undefined || v === null) return v;
    mean = mean * weight + v * (1 - weight);
    mass = mass * weight + (1 - weight);
    return mean / mass;
  });
}

function columnsOf(figure) {
  const curves = figure.dataset.curve.split("\n").map((key) => figure.curves[key] ?? { steps: [], values: [] });
  const tables = curves.map(({ steps, values }) => {
    const byStep = new Map(steps.map((step, i) => [step, values[i]]));   // uPlot.join wants each step once
    const order = [...byStep.keys()].sort((a, b) => a - b);
    return [order, order.map((step) => number(byStep.get(step)))];
  });
  const joined = tables.length > 1 ? uPlot.join(tables) : tables[0];
  const weight = Number(smoothing.value), columns = [joined[0]];
  tables.forEach(([, values], i) => {
    columns.push(joined[i + 1]);
    if (values.length >= SPARSE) columns.push(smooth(joined[i + 1], weight));
  });
  return columns;
}

function seriesOf(figure) {
  const keys = [...figure.querySelectorAll(".key")], weight = Number(smoothing.value), series = [{}];
  figure.dataset.curve.split("\n").forEach((key, i) => {
    const stroke = colour(keys[i].querySelector("i"));
    if ((figure.curves[key]?.steps.length ?? 0) < SPARSE) {
      series.push({ stroke, width: 1.5, spanGaps: true, points: { show: true, size: 5, fill: stroke } });
      return;
    }
    series.push({ stroke: faint(stroke, weight ? .28 : 1), width: 1, spanGaps: true, points: { show: false } });
    series.push({ stroke, width: 2, spanGaps: true, points: { show: false } });
  });
  return series;
}

function showValues(figure, index) {
  const keys = [...figure.querySelectorAll(".key")];
  figure.dataset.curve.split("\n").forEach((key, i) => {
    const { steps, values } = figure.curves[key] ?? { steps: [], values: [] };
    const limit = index === null ? Infinity : figure.chart.data[0][index];
    let at = steps.length - 1;
    while (at > 0 && steps[at] > limit) at -= 1;
    keys[i].querySelector("b").textContent = short(values[at]);
  });
}

/** A sample may leave out what the server saw, so what was told of once stays told of. */
function showOdd(figure) {
  if (Object.values(figure.curves).some(({ values }) => values.some((v) => typeof v === "string")))
    figure.querySelector(".odd").hidden = false;
}

function draw(figure) {
  const plot = figure.querySelector(".plot");
  const probe = (name) => { const e = document.createElement("i"); e.className = name; plot.append(e); const c = colour(e); e.remove(); return c; };
  const ink = probe("axis-ink"), grid = probe("grid-ink");
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  figure.chart?.destroy();
  plot.querySelector("svg")?.remove();
  const chart = new uPlot({
    width: plot.clientWidth, height: plot.clientHeight, padding: [8, 16, 0, 0], legend: { show: false },
    cursor: { sync: { key: "job" }, y: false, points: { size: 6 }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: isLog() ? { distr: 3 } : {} },
    series: seriesOf(figure),
    axes: [{ ...axis, size: 26, gap: 6 }, { ...axis, size: 52, gap: 6, values: (u, splits) => splits.map((v) => v === null ? "" : short(v)) }],
    hooks: {
      setCursor: [(u) => figure.chart && showValues(figure, u.cursor.idx ?? null)],
      setScale: [(u, key) => { if (key === "x") unzoom.disabled = !isZoomed(u); }],
    },
  }, columnsOf(figure), plot);
  figure.chart = chart;
  figure.shape = chart.series.length;
  showValues(figure, null);
  showOdd(figure);
}

const isZoomed = (u) => { const x = u.data[0]; return x.length > 0 && (u.scales.x.min > x[0] || u.scales.x.max < x.at(-1)); };

/** New points into the chart that is there: zoom and cursor stay. */
function update(figure) {
  const columns = columnsOf(figure);
  if (columns.length !== figure.shape) { draw(figure); return; }
  const { chart } = figure, zoomed = isZoomed(chart), { min, max } = chart.scales.x;
  chart.batch(() => {
    chart.setData(columns, !zoomed);
    if (zoomed) chart.setScale("x", { min, max });
  });
  if (chart.cursor.idx === null || chart.cursor.idx === undefined) showValues(figure, null);
  showOdd(figure);
}

async function load() {
  const keys = figures.flatMap((figure) => figure.dataset.curve.split("\n"));
  const asked = new URLSearchParams(keys.map((key) => ["key", key]));
  const answer = await fetch(`${panel.dataset.curves}?${asked}`);
  if (!answer.ok) return;
  const curves = await answer.json();
  for (const figure of figures) {
    figure.curves = Object.fromEntries(figure.dataset.curve.split("\n").map((key) => [key, curves[key] ?? { steps: [], values: [] }]));
    if (figure.chart) update(figure); else draw(figure);
  }
}

let loading = false, wanted = false;
async function loadSoon() {
  wanted = true;
  if (loading) return;
  loading = true;
  while (wanted) {
    wanted = false;
    await load().catch(() => {});   // the stream's own notice says that the console does not answer
    await new Promise((done) => setTimeout(done, EVERY));
  }
  loading = false;
}

const drawAll = () => figures.filter((figure) => figure.chart).forEach(draw);

if (figures.length > 0) {
  await document.fonts.ready;
  loadSoon();
  const resize = new ResizeObserver((entries) => {
    for (const { target } of entries) target.parentElement.chart?.setSize({ width: target.clientWidth, height: target.clientHeight });
  });
  figures.forEach((figure) => resize.observe(figure.querySelector(".plot")));
  document.addEventListener("themechange", drawAll);
  smoothing.addEventListener("input", () => { smoothing.nextElementSibling.value = Number(smoothing.value).toFixed(2); drawAll(); });
  logScale.addEventListener("click", () => { logScale.setAttribute("aria-pressed", String(!isLog())); drawAll(); });
  unzoom.addEventListener("click", drawAll);
  stream?.addEventListener("curves", loadSoon);
} else {
  stream?.addEventListener("curves", (event) => {
    const come = document.getElementById("curves-come");
    if (come && Number(event.detail?.data) > 0) come.hidden = false;
  });
}
