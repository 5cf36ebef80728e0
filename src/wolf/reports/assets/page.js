"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const kinds = { f8: Float64Array, f4: Float32Array, u1: Uint8Array };
  const unpack = (packed) => {
    const text = atob(packed.data), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new kinds[packed.kind](bytes.buffer);
  };
  const gone = (array) => Array.from(array, (x) => (Number.isNaN(x) ? null : x));
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const element = (id) => document.getElementById(id);
  let plots = [], linked = [], picture = null, showAll = false;
  // Each kind of fault has its own mark besides its colour, for readers who cannot distinguish the colours.
  const marks = {
    spike: "M-4-4L4 4M-4 4L4-4", burst: "M-3.5-3.5H3.5V3.5H-3.5Z", drift: "M0-4.5L4.5 3.5H-4.5Z", stuck: "M-4.5-2H4.5M-4.5 2H4.5",
    dropout: "M0 4.5L-4.5-3.5H4.5Z", shift: "M-4 4H0V-4H4", range: "M0-5L4.5 0L0 5L-4.5 0Z", rate: "M-2.5 4.5L2.5-4.5M-5 1L0-4.5",
    labelled: "M0-4.5V4.5M-4.5 0H4.5", maintenance: "M4 0A4 4 0 1 1-4 0A4 4 0 1 1 4 0",
  };
  const markOf = (name) => marks[name] || marks.spike;
  const colorOf = (name) => (marks[name] ? name : "outlier");
  const swatch = (name) => `<svg viewBox="-6 -6 12 12"><path d="${markOf(name)}" style="stroke:var(--${colorOf(name)});stroke-width:1.7"/></svg>`;

  function decode(p) {
    if (p.x) return;
    const mean = unpack(p.mean), half = unpack(p.half), flags = unpack(p.outlier), value = gone(unpack(p.value));
    let x = Array.from(unpack(p.time)), level = Array.from(mean), halves = Array.from(half);
    const blanks = (n) => new Array(n).fill(null);
    let extra = 0;
    if (p.forecast) {
      const more = unpack(p.forecast.time);
      extra = more.length;
      x = x.concat(Array.from(more));
      level = level.concat(Array.from(unpack(p.forecast.mean)));
      halves = halves.concat(Array.from(unpack(p.forecast.half)));
    }
    p.x = x;
    p.level = level;
    p.low = level.map((m, i) => m - halves[i]);
    p.high = level.map((m, i) => m + halves[i]);
    p.good = value.map((v, i) => (flags[i] ? null : v)).concat(blanks(extra));
    p.bad = value.map((v, i) => (flags[i] ? v : null)).concat(blanks(extra));
    const kind = p.kinds ? unpack(p.kind) : null;
    p.faults = kind === null || !p.kinds.length ? [["outlier", p.bad]] : p.kinds.map((name, k) => [
      name, value.map((v, i) => (kind[i] === k + 1 && v !== null ? v : null)).concat(blanks(extra))]);
    if (kind !== null && p.kinds.length) {
      const rest = p.bad.map((v, i) => (i < kind.length && kind[i] === 0 ? v : null));
      if (rest.some((v) => v !== null)) p.faults.push(["outlier", rest]);
    }
    const w = Array.from(unpack(p.weight), (w, i) => (value[i] === null ? null : w / 255));
    p.accepted = w.map((v, i) => (flags[i] ? null : v)).concat(blanks(extra));
    p.rejected = w.map((v, i) => (flags[i] ? v : null)).concat(blanks(extra));
    p.surprise = gone(unpack(p.nis)).concat(blanks(extra));
    const wide = p.prediction_half ? Array.from(unpack(p.prediction_half)) : null;
    p.under = wide && level.map((m, i) => (i < wide.length ? m - wide[i] : null));
    p.over = wide && level.map((m, i) => (i < wide.length ? m + wide[i] : null));
    p.noiseLevel = p.noise ? [Array.from(unpack(p.noise.time)), Array.from(unpack(p.noise.size))] : null;
    p.range = rangeOf([p.low, p.high, p.good]);
  }

  function rangeOf(arrays) {
    let low = Infinity, high = -Infinity;
    for (const array of arrays) for (const v of array) if (v !== null) { if (v < low) low = v; if (v > high) high = v; }
    if (!(high >= low)) return [-1, 1];
    const room = 0.06 * (high - low) || 1;
    return [low - room, high + room];
  }

  const axis = (extra) => Object.assign({
    stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("line"), width: 1 },
    font: "12px system-ui, DejaVu Sans, sans-serif",
  }, extra);

  const drawMarks = (name, scale = "y") => (u, index) => {
    const size = devicePixelRatio, edge = 5 * size, { left, top, width, height } = u.bbox, path = new Path2D();
    const mark = new Path2D(markOf(name));
    const [first, last] = u.series[0].idxs, [low, high] = [u.scales[scale].min, u.scales[scale].max];
    for (let i = first; i <= last; i++) {
      const v = u.data[index][i];
      if (v === null || v === undefined) continue;
      const x = u.valToPos(u.data[0][i], "x", true);
      const y = u.valToPos(Math.min(Math.max(v, low), high), scale, true);
      if (x < left || x > left + width) continue;
      path.addPath(mark, new DOMMatrix([size, 0, 0, size, x, Math.min(Math.max(y, top + edge), top + height - edge)]));
    }
    u.ctx.save();
    u.ctx.strokeStyle = color(colorOf(name));
    u.ctx.lineWidth = 1.6 * devicePixelRatio;
    u.ctx.stroke(path);
    u.ctx.restore();
    return false;
  };

  // Gaps: a grey background, and no solid line; the dashed estimate below it stays visible.
  const gapBackground = (p) => ({ hooks: { drawClear: [(u) => {
    const { left, top, width, height } = u.bbox;
    u.ctx.save();
    u.ctx.fillStyle = color("gap");
    for (const [from, to] of p.gaps) {
      const a = Math.max(left, u.valToPos(from, "x", true)), b = Math.min(left + width, u.valToPos(to, "x", true));
      if (b > a) u.ctx.fillRect(a, top, b - a, height);
    }
    u.ctx.restore();
  }] } });
  const gapsOf = (p) => (u, seriesIndex, i0, i1, nullGaps) => {
    const ranges = p.gaps.map(([from, to]) => [u.valToPos(from, "x", true), u.valToPos(to, "x", true)]);
    return nullGaps.concat(ranges.filter(([a, b]) => b > u.bbox.left && a < u.bbox.left + u.bbox.width))
      .sort((a, b) => a[0] - b[0]);
  };

  const lines = (values) => ({ hooks: { draw: [(u) => {
    const { left, width, top, height } = u.bbox;
    u.ctx.save();
    u.ctx.strokeStyle = color("quiet");
    u.ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const value of values) {
      const y = u.valToPos(value, "y", true);
      if (y < top || y > top + height) continue;
      u.ctx.beginPath(); u.ctx.moveTo(left, y); u.ctx.lineTo(left + width, y); u.ctx.stroke();
    }
    u.ctx.restore();
  }] } });

  function setRange(low, high) {
    const first = picture.x[0], last = picture.x[picture.x.length - 1], least = (last - first) * 1e-6;
    if (high - low < least) return;
    low = Math.max(first, low); high = Math.min(last, high);
    if (high > low) for (const plot of linked) plot.setScale("x", { min: low, max: high });
  }

  const moves = { hooks: { ready: [(u) => {
    u.over.addEventListener("dblclick", () => setTimeout(() => setRange(picture.x[0], picture.x[picture.x.length - 1])));
    u.over.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { min, max } = u.scales.x, factor = event.deltaY < 0 ? 0.8 : 1.25;
      const at = u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x");
      setRange(at - (at - min) * factor, at + (max - at) * factor);
    }, { passive: false });
    u.over.addEventListener("mousedown", (event) => {
      if (!event.shiftKey && event.button !== 1) return;
      event.preventDefault(); event.stopImmediatePropagation();
      const { min, max } = u.scales.x, from = event.clientX, unit = (max - min) / u.over.clientWidth;
      const move = (now) => {
        const shift = (from - now.clientX) * unit, first = picture.x[0], last = picture.x[picture.x.length - 1];
        const held = Math.max(first - min, Math.min(last - max, shift));
        setRange(min + held, max + held);
      };
      const stop = () => { removeEventListener("mousemove", move); removeEventListener("mouseup", stop); };
      addEventListener("mousemove", move); addEventListener("mouseup", stop);
    }, true);
  }], setSelect: [(u) => {
    if (u.select.width < 4) return;
    setRange(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }] } };

  function plot(id, options, data) {
    const place = element(id), narrow = document.body.clientWidth < 600;
    const height = place.classList.contains("tall") ? (narrow ? 300 : 380) : 190;
    const made = new uPlot(Object.assign({ width: place.clientWidth, height }, options), data, place);
    plots.push(made);
    return made;
  }

  // Dates as the file has them: not in the viewer's time zone, and in the order of ISO 8601.
  const day = "\n{YYYY}-{MM}-{DD}", short = "\n{MM}-{DD}";
  const dates = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
    [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", day, null, short, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", day, null, short, null, null, null, 1],
    [0.001, ":{ss}.{fff}", day + " {HH}:{mm}", null, null, null, null, null, 1],
  ];
  const overTime = (p, options) => Object.assign({
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "UTC"),
    scales: Object.assign({ x: { time: report.dates } }, options.scales),
    cursor: { sync: { key: "wolf" }, drag: { x: true, y: false, setScale: false } },
    plugins: [moves, ...(options.plugins || [])],
    axes: [axis(report.dates ? { values: dates, space: 80 } : {}), axis({ size: 64 })],
    legend: { show: false },
    series: [{ label: report.time }, ...options.series],
    bands: options.bands,
  });

  function draw() {
    for (const each of plots) each.destroy();
    plots = []; linked = [];
    const p = picture;
    decode(p);
    const dots = { show: true, size: 4, stroke: color("dots"), fill: color("dots") };
    const invisible = { stroke: "transparent", points: { show: false } };
    const range = () => (showAll ? rangeOf([p.low, p.high, p.good, p.bad]) : visible(p));
    const wider = p.over ? [Object.assign({ label: "upper end of the prediction interval" }, invisible),
      Object.assign({ label: "lower end of the prediction interval" }, invisible)] : [];
    element("wider").hidden = !p.over;
    linked.push(plot("series", overTime(p, {
      scales: { y: { range } }, plugins: [gapBackground(p), { hooks: { setCursor: [(u) => read(p, u.cursor.idx)] } }],
      series: [
        ...wider,
        Object.assign({ label: "upper end" }, invisible), Object.assign({ label: "lower end" }, invisible),
        { label: "measurement", stroke: color("dots"), paths: () => null, points: dots },
        { label: "estimate in gaps", stroke: color("estimate"), width: 1.2, dash: [4, 4], points: { show: false } },
        { label: "estimate", stroke: color("estimate"), width: 1.6, points: { show: false }, gaps: gapsOf(p) },
        ...p.faults.map(([name]) => ({ label: name, stroke: color(colorOf(name)), paths: () => null,
          points: { show: drawMarks(name) } })),
      ],
      bands: [...(p.over ? [{ series: [1, 2], fill: color("pale") }] : []),
        { series: [wider.length + 1, wider.length + 2], fill: color("band") }],
    }), [p.x, ...(p.over ? [p.over, p.under] : []), p.high, p.low, p.good, p.gaps.length ? p.level : p.level.map(() => null), p.level, ...p.faults.map((fault) => fault[1])]));
    legend(p);
    linked.push(plot("weights", overTime(p, {
      scales: { y: { range: [-0.05, 1.08] } },
      series: [{ label: "weight", stroke: color("estimate"), paths: () => null, points: {
        show: true, size: 3, stroke: color("estimate"), fill: color("estimate") } },
        { label: "weight of outliers", stroke: color("outlier"), paths: () => null, points: { show: drawMarks("outlier") } }],
    }), [p.x, p.accepted, p.rejected]));
    const top = 2.5 * p.band[1];
    linked.push(plot("nis", overTime(p, {
      scales: { y: { range: [-0.03 * top, top] } }, plugins: [lines(p.band)],
      series: [{ label: "NIS", stroke: color("estimate"), paths: () => null, points: {
        show: true, size: 3, stroke: color("estimate"), fill: color("estimate") } }],
    }), [p.x, p.surprise.map((v) => (v === null ? null : Math.min(v, 0.985 * top)))]));
    element("noise-level").hidden = !p.noiseLevel;
    if (p.noiseLevel) linked.push(plot("noise", overTime(p, {
      scales: { y: { range: (u, low, high) => [0, 1.1 * Math.max(high, 1.5)] } }, plugins: [lines([1])],
      series: [{ label: "noise level", stroke: color("estimate"), width: 1.6, points: { show: false } }],
    }), p.noiseLevel));
    element("inside").textContent = p.inside === null ? "-" : (100 * p.inside).toFixed(1) + " %";
    bars(p);
    element("judged").textContent = p.findings.map((w) => w[0].toUpperCase() + w.slice(1) + ".").join(" ");
    element("judged").hidden = !p.findings.length;
  }

  function legend(p) {
    const shape = (inner) => `<svg viewBox="0 0 22 12">${inner}</svg>`, line = (name) => `style="stroke:var(--${name})"`;
    const items = [
      [shape('<circle cx="11" cy="6" r="2.5" style="fill:var(--dots)"/>'), "measurement"],
      [shape(`<path d="M0 6h22" ${line("estimate")} stroke-width="2"/>`), report.smooth ? "estimate (smoothed)" : "estimate (filtered)"],
      [shape('<rect width="22" height="12" style="fill:var(--band)"/>'), `${Math.round(100 * report.level)} % interval`],
      ...(p.over ? [[shape('<rect width="22" height="12" style="fill:var(--pale)"/>'), "prediction interval"]] : []),
      ...(p.gaps.length ? [[shape(`<rect width="22" height="12" style="fill:var(--gap)"/><path d="M0 6h22" ${line("estimate")} stroke-dasharray="4 3"/>`), "estimate in a gap"]] : []),
      ...p.faults.map(([name, values]) => [swatch(name), `${name} (${values.filter((v) => v !== null).length} shown)`, values.some((v) => v !== null)])
        .filter((item) => item[2]),
    ];
    element("legend").innerHTML = "";
    for (const [drawn, words] of items) {
      const item = document.createElement("span");
      item.innerHTML = drawn;
      item.append(words);
      element("legend").append(item);
    }
    element("series").setAttribute("aria-label", `${p.label || "the series"}: measurements, estimate with its interval, and ` +
      items.slice(3 + (p.over ? 1 : 0) + (p.gaps.length ? 1 : 0)).map((item) => item[1]).join(", "));
  }

  function read(p, i) {
    const show = (v) => (v === null || v === undefined ? null : Number(v.toPrecision(5)).toString());
    if (i === null || i === undefined) { element("readout").textContent = "\u00a0"; return; }
    const when = report.dates ? new Date(p.x[i] * 1e3).toISOString().slice(0, 19).replace("T", " ") : show(p.x[i]);
    const fault = p.faults.find((each) => each[1][i] !== null && each[1][i] !== undefined);
    const value = fault ? fault[1][i] : p.good[i];
    const parts = [`${report.time} ${when}`, value === null || value === undefined ? "missing" : `measurement ${show(value)}`,
      `estimate ${show(p.level[i])} (${show(p.low[i])} to ${show(p.high[i])})`];
    if (fault) parts.push(fault[0]);
    element("readout").textContent = parts.join(", ");
  }

  function visible(p) {
    if (!linked.length) return p.range;
    const { min, max } = linked[0].scales.x;
    if (min === undefined || min === null) return p.range;
    const [first, last] = [search(p.x, min), search(p.x, max)];
    const part = (array) => array.slice(Math.max(0, first - 1), last + 2);
    return rangeOf([part(p.low), part(p.high), part(p.good)]);
  }

  function search(x, value) {
    let low = 0, high = x.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (x[middle] < value) low = middle + 1; else high = middle; }
    return low;
  }

  function bars(p) {
    const width = p.bins[1] - p.bins[0], solid = uPlot.paths.bars({ size: [0.92, 40] });
    const normal = p.bins.map((b) => p.measured * width * Math.exp(-0.5 * b * b) / Math.sqrt(2 * Math.PI));
    plot("histogram", {
      scales: { x: { time: false } }, cursor: { show: false }, legend: { show: false },
      axes: [axis({}), axis({ size: 58 })],
      series: [{}, { stroke: color("dots"), fill: color("dots"), paths: solid, points: { show: false } },
        { stroke: color("outlier"), fill: color("outlier"), paths: solid, points: { show: false } },
        { stroke: color("estimate"), width: 2, points: { show: false }, paths: uPlot.paths.spline() }],
    }, [p.bins, p.counts, p.flagged_counts, normal]);
    const edge = 1.96 / Math.sqrt(Math.max(p.unflagged, 1)), lags = p.correlations.map((_, i) => i + 1);
    const most = Math.max(3 * edge, ...p.correlations.map(Math.abs)) * 1.1;
    plot("memory", {
      scales: { x: { time: false }, y: { range: [-most, most] } }, cursor: { show: false }, legend: { show: false },
      plugins: [lines([edge, -edge])], axes: [axis({}), axis({ size: 58 })],
      series: [{}, { stroke: color("estimate"), fill: color("estimate"), paths: uPlot.paths.bars({ size: [0.5, 14] }),
        points: { show: false } }],
    }, [lags, p.correlations]);
  }

  function zoom(to) {
    const { min, max } = linked[0].scales.x, size = max - min, ends = [picture.x[0], picture.x[picture.x.length - 1]];
    const shift = { left: -Math.min(size / 2, min - ends[0]), right: Math.min(size / 2, ends[1] - max) };
    if (to === "in") setRange(min + size / 4, max - size / 4);
    else if (to === "out") setRange(min - size / 2, max + size / 2);
    else if (to === "reset") setRange(ends[0], ends[1]);
    else setRange(min + shift[to], max + shift[to]);
  }
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(button.dataset.zoom)));
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "reset", 0: "reset" };
  element("series").addEventListener("keydown", (event) => {
    if (keys[event.key]) { event.preventDefault(); zoom(keys[event.key]); }
  });
  element("all").addEventListener("change", (event) => {
    showAll = event.target.checked;
    linked[0].setData(linked[0].data, false);
    linked[0].redraw(true, true);
    const { min, max } = linked[0].scales.x;
    linked[0].setScale("x", { min, max });
  });
  const which = element("which");
  report.pictures.forEach((p, i) => which.add(new Option(p.label || "series", String(i))));
  which.hidden = report.pictures.length < 2;
  const choices = document.querySelectorAll("[data-show]");
  function choose(index) {
    picture = report.pictures[index];
    which.value = String(index);
    choices.forEach((one) => one.setAttribute("aria-pressed", String(Number(one.dataset.show) === index)));
    draw();
  }
  which.addEventListener("change", () => choose(Number(which.value)));
  choices.forEach((one) => one.addEventListener("click", () => {
    choose(Number(one.dataset.show));
    element("main").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }));
  element("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => { document.querySelectorAll("details").forEach((one) => { one.open = true; }); draw(); });
  addEventListener("afterprint", draw);
  element("theme").addEventListener("click", () => {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.querySelectorAll(".kind").forEach((one) => {
    if (marks[one.dataset.kind]) one.insertAdjacentHTML("afterbegin", swatch(one.dataset.kind));
  });
  // Labels that were set by hand: those of incidents, and of ranges of the chart.
  const ranges = [];
  const labels = () => Array.from(document.querySelectorAll("select.label"))
    .filter((one) => one.value).map((one) => ({ ...one.dataset, label: one.value })).concat(ranges);
  const timeText = (x, step) => {
    if (report.dates) return new Date(step(x * 1e3)).toISOString().replace("T", " ").replace("Z", "") + report.suffix;
    return String(picture.rows ? step(x) + 1 : x);
  };
  function showLabels() {
    const count = labels().length, button = element("export");
    if (!button) return;
    button.disabled = !count;
    button.textContent = count ? `Export ${count} label${count > 1 ? "s" : ""}` : "Export labels";
  }
  document.querySelectorAll("select.label").forEach((one) => one.addEventListener("change", showLabels));
  document.querySelectorAll("[data-range]").forEach((one) => one.addEventListener("click", () => {
    const { min, max } = linked[0].scales.x;
    ranges.push({ start: timeText(min, Math.ceil), end: timeText(max, Math.floor), column: picture.column || "",
      series: picture.series || "", label: one.dataset.range });
    showLabels();
  }));
  if (element("export")) element("export").addEventListener("click", () => {
    const names = ["start", "end", "column", "series", "label"], cell = (text) => `"${String(text).replaceAll('"', '""')}"`;
    const rows = labels().map((one) => names.map((name) => cell(one[name] || "")).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([[names.join(","), ...rows].join("\n") + "\n"], { type: "text/csv" }));
    link.download = "labels.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  });
  let timer = null;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(draw, 150); });
  choose(0);
  window.wolfReport = { range: () => ({ min: linked[0].scales.x.min, max: linked[0].scales.x.max }), ready: true };
})();
