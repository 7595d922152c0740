// Charts of curves: raw values faint or as a band of their extremes, smoothed ones bold, one cursor over all of a page.
// A figure is an element with a .plot; `figure.lines` are [{id, label, mark}] whose `mark` shows colour and dashes.
const uPlot = window.uPlot;
const SPARSE = 40, BANDED = 200, BUCKETS = 160;
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);
const MINUTE = 60, HOUR = 3600, DAY = 86400;
const colour = (element) => getComputedStyle(element).color;
const faint = (rgb, alpha) => rgb.replace(/rgba?\(([^,]+, [^,]+, [^,)]+).*/, `rgba($1, ${alpha})`);

/** A value in a few digits, in the unit that its name ends with. */
export function short(v, key = "") {
  if (v === undefined || v === null) return "—";
  if (typeof v === "string") return { nan: "NaN", inf: "∞", "-inf": "-∞" }[v];
  if (/_bytes(_per_s)?$/.test(key)) return bytes(v) + (key.endsWith("_per_s") ? "/s" : "");
  const unit = key.endsWith("_percent") ? " %" : key.endsWith("_celsius") ? " °C" : key.endsWith("_w") ? " W" : "";
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return v.toExponential(2) + unit;
  return (size >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(4)))) + unit;
}

function bytes(v) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (Math.abs(v) >= 1023.95 && at < units.length - 1) { v /= 1024; at += 1; }
  return `${at ? v.toFixed(1) : v.toFixed(0)} ${units[at]}`;
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

/** A curve of a figure, finer where it is zoomed into. */
function curveOf(figure, id) {
  const whole = figure.curves[id] ?? { steps: [], values: [], times: [] }, part = figure.parts?.[id];
  if (!part?.steps.length) return whole;
  const [from, to] = [part.steps[0], part.steps.at(-1)], at = whole.steps.findIndex((step) => step >= from);
  const head = at < 0 ? whole.steps.length : at, tail = whole.steps.findIndex((step) => step > to);
  const join = (name) => [...whole[name].slice(0, head), ...part[name], ...(tail < 0 ? [] : whole[name].slice(tail))];
  return { steps: join("steps"), values: join("values"), times: join("times") };
}

/** Where on the axis the point number `i` of a curve stands. */
export const placeOf = (curve, view, i) => view.axis === "step" ? curve.steps[i] : view.axis === "wall" ? curve.times[i] : curve.times[i] - view.start(curve);

/** [x, values] with each x once, the last one counts. What cannot be drawn is null. */
function tableOf(curve, view) {
  const { steps, values } = curve, x = steps.map((_, i) => placeOf(curve, view, i));
  const draws = (v) => (typeof v === "number" && Number.isFinite(v) && (v > 0 || !view.log) ? v : null);
  const byX = new Map(x.map((at, i) => [at, draws(values[i])]));
  const order = [...byX.keys()].sort((a, b) => a - b);
  return [order, order.map((at) => byX.get(at))];
}

/** The extremes of neighbouring points, as [x, lows, highs]. */
function bandOf([x, values]) {
  const width = Math.ceil(x.length / BUCKETS), band = [[], [], []];
  for (let i = 0; i < x.length; i += width) {
    const part = values.slice(i, i + width).filter((v) => v !== null);
    band[0].push(x[i]);
    band[1].push(part.length ? Math.min(...part) : null);
    band[2].push(part.length ? Math.max(...part) : null);
  }
  return band;
}

function build(figure, view) {
  const tables = [], plan = [], series = [{}], bands = [];
  const add = (table, column, look, bold = false) => {
    if (!tables.includes(table)) tables.push(table);
    plan.push([tables.indexOf(table), column, bold]);
    return series.push(look) - 1;
  };
  for (const line of figure.lines) {
    const table = tableOf(curveOf(figure, line.id), view), stroke = colour(line.mark), count = table[0].length;
    const dash = (line.mark.dataset.dash || "").split(" ").filter(Boolean).map(Number);
    const look = { stroke, dash, width: 2, spanGaps: true, points: { show: false }, label: line.label, line };
    if (count < SPARSE) {
      add(table, 0, { ...look, width: 1.5, points: { show: true, size: 5, fill: stroke } });
      continue;
    }
    if (view.band && count >= BANDED) {
      const edges = bandOf(table), edge = { ...look, dash: [], width: 0 };
      const low = add(edges, 0, edge), high = add(edges, 1, { ...edge });
      bands.push({ series: [high, low], fill: faint(stroke, .22) });
    } else if (view.weight) add(table, 0, { ...look, dash: [], stroke: faint(stroke, .28), width: 1 });
    add(table, 0, view.weight ? look : { ...look, width: 1.25 }, view.weight > 0);
  }
  const joined = tables.length > 1 ? uPlot.join(tables) : tables[0] ?? [[]];
  const starts = [1];
  for (const table of tables) starts.push(starts.at(-1) + table.length - 1);
  const columns = plan.map(([table, column, bold]) => {
    const values = joined[starts[table] + column];
    return bold ? smooth(values, view.weight) : values;
  });
  return { columns: [joined[0], ...columns], series, bands };
}

const clock = (t, options) => new Date(t * 1000).toLocaleString([], options);

function axisOf(view, axis) {
  if (view.axis === "wall") return { ...axis, values: (u, splits) => splits.map((t) => clock(t, u.scales.x.max - u.scales.x.min > 2 * DAY ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" })) };
  if (view.axis === "relative") return { ...axis, incrs: [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY], values: (u, splits) => splits.map(elapsed) };
  return axis;
}

function elapsed(s) {
  if (s < 0) return `-${elapsed(-s)}`;
  const [d, h, m] = [Math.floor(s / DAY), Math.floor(s / HOUR) % 24, Math.floor(s / MINUTE) % 60];
  if (s >= DAY) return h ? `${d}d ${h}h` : `${d}d`;
  if (s >= HOUR) return m ? `${h}h ${m}m` : `${h}h`;
  return s >= MINUTE ? (s % MINUTE ? `${m}m ${Math.round(s % MINUTE)}s` : `${m}m`) : `${Math.round(s)}s`;
}

/** Draw the figure anew, on the same axis in the same zoom. `view`: {axis, weight, log, band, start, sync, cursor(figure, x), focus(figure, line), zoomed(figure)}. */
export function draw(figure, view) {
  const kept = figure.chart && figure.axis === view.axis && isZoomed(figure) ? { min: figure.chart.scales.x.min, max: figure.chart.scales.x.max } : null;
  if (!kept) figure.parts = null;
  const plot = figure.querySelector(".plot");
  const probe = (name) => { const e = document.createElement("i"); e.className = name; plot.append(e); const c = colour(e); e.remove(); return c; };
  const ink = probe("axis-ink"), grid = probe("grid-ink"), key = figure.dataset.unit ?? "";
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  figure.chart?.destroy();
  plot.querySelector("svg")?.remove();
  const { columns, series, bands } = build(figure, view);
  figure.shape = series.length;
  figure.axis = view.axis;
  figure.chart = new uPlot({
    width: plot.clientWidth, height: plot.clientHeight, padding: [8, 16, 0, 0], legend: { show: false },
    cursor: { sync: { key: view.sync + view.axis }, y: false, points: { size: 6 }, drag: { x: true, y: false }, focus: { prox: view.focus ? 24 : -1 } },
    focus: { alpha: .18 },
    scales: { x: { time: false }, y: view.log ? { distr: 3 } : {} },
    series, bands,
    axes: [{ ...axisOf(view, axis), size: 26, gap: 6 }, { ...axis, size: 58, gap: 6, ...(/_bytes(_per_s)?$/.test(key) ? { incrs: BINARY } : {}), values: (u, splits) => splits.map((v) => v === null ? "" : short(v, key)) }],
    hooks: {
      setCursor: [(u) => figure.chart && view.cursor?.(figure, u.cursor.idx === null || u.cursor.idx === undefined ? null : u.data[0][u.cursor.idx])],
      setSeries: [(u, at) => figure.chart && view.focus?.(figure, at === null || at === undefined ? null : u.series[at]?.line, u.cursor.idx)],
      setScale: [(u, name) => { if (name === "x") view.zoomed?.(figure); }],
    },
  }, columns, plot);
  if (kept) figure.chart.setScale("x", kept);
  view.cursor?.(figure, null);
}

export const isZoomed = ({ chart: u }) => { const x = u?.data[0] ?? []; return x.length > 0 && (u.scales.x.min > x[0] || u.scales.x.max < x.at(-1)); };

/** Show the whole again. */
export function unzoom({ chart: u }) {
  const x = u?.data[0] ?? [];
  if (x.length) u.setScale("x", { min: x[0], max: x.at(-1) });
}

/** New points into the chart that is there: zoom and cursor stay. */
export function update(figure, view) {
  const { chart } = figure;
  if (!chart) { draw(figure, view); return; }
  const { columns, series } = build(figure, view);
  if (series.length !== figure.shape || figure.axis !== view.axis) { draw(figure, view); return; }
  const zoomed = isZoomed(figure), { min, max } = chart.scales.x;
  chart.batch(() => {
    chart.setData(columns, !zoomed);
    if (zoomed) chart.setScale("x", { min, max });
  });
  if (chart.cursor.idx === null || chart.cursor.idx === undefined) view.cursor?.(figure, null);
}

/** The last value of a line at or before `x`; null asks for its newest. */
export function valueAt(figure, id, view, x) {
  const curve = curveOf(figure, id);
  let at = curve.values.length - 1;
  while (x !== null && at > 0 && placeOf(curve, view, at) > x) at -= 1;
  return curve.values[at];
}

/** The highlight of one line: the others fade until `null`. */
export function highlight(figure, line) {
  const at = line === null ? null : figure.chart?.series.findLastIndex((one) => one.line === line);
  figure.chart?.setSeries(at, { focus: true });
}

/** The tools of a panel, as they stand: {axis, weight, log, band}. `changed` is called after each change. */
export function readTools(panel, changed) {
  const tool = (name) => panel.querySelector(`[data-tool="${name}"]`);
  const pressed = (name) => tool(name)?.getAttribute("aria-pressed") === "true";
  const smoothing = tool("smooth"), axis = tool("axis");
  smoothing?.addEventListener("input", () => { smoothing.nextElementSibling.value = Number(smoothing.value).toFixed(2); changed(); });
  axis?.addEventListener("change", changed);
  for (const name of ["log", "band"])
    tool(name)?.addEventListener("click", ({ currentTarget }) => { currentTarget.setAttribute("aria-pressed", String(!pressed(name))); changed(); });
  return () => ({ axis: axis?.value ?? "relative", weight: Number(smoothing?.value ?? 0), log: pressed("log"), band: pressed("band") });
}

/** Call `load(figures)` with those that can be seen, when they come into sight, after each `again()` at most once a second. */
export function loadVisible(figures, load, every = 1000) {
  const seen = new Set();
  let running = false, wanted = false;
  const again = async () => {
    wanted = true;
    if (running) return;
    running = true;
    while (wanted) {
      wanted = false;
      const now = [...seen];
      if (now.length) await load(now).catch(() => {});   // the stream's own notice says that the console does not answer
      await new Promise((done) => setTimeout(done, every));
    }
    running = false;
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) seen.add(target); else seen.delete(target);
    const fresh = entries.filter((entry) => entry.isIntersecting && !entry.target.curves).map((entry) => entry.target);
    if (fresh.length) load(fresh).catch(() => {});
  }, { rootMargin: "200px" });
  const resize = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.clientWidth) target.parentElement.chart?.setSize({ width: target.clientWidth, height: target.clientHeight });
  });
  for (const figure of figures) { observer.observe(figure); resize.observe(figure.querySelector(".plot")); }
  return again;
}
