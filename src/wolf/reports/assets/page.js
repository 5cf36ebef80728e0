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
  // Kinds of faults by colour and, for those who cannot tell colours, by their names in the legend and the table.
  const palette = ["outlier", "kind2", "kind3", "kind4", "kind5", "kind6"];

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

  const crosses = (name) => (u, index) => {
    const size = 4 * devicePixelRatio, { left, top, width, height } = u.bbox, path = new Path2D();
    const [first, last] = u.series[0].idxs, [low, high] = [u.scales.y.min, u.scales.y.max];
    for (let i = first; i <= last; i++) {
      const v = u.data[index][i];
      if (v === null || v === undefined) continue;
      const x = u.valToPos(u.data[0][i], "x", true);
      const y = u.valToPos(Math.min(Math.max(v, low), high), "y", true);
      if (x < left || x > left + width) continue;
      const edge = Math.min(Math.max(y, top + size), top + height - size);
      path.moveTo(x - size, edge - size); path.lineTo(x + size, edge + size);
      path.moveTo(x - size, edge + size); path.lineTo(x + size, edge - size);
    }
    u.ctx.save();
    u.ctx.strokeStyle = color(name);
    u.ctx.lineWidth = 1.6 * devicePixelRatio;
    u.ctx.stroke(path);
    u.ctx.restore();
    return false;
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
      scales: { y: { range } }, plugins: [{ hooks: { setCursor: [(u) => read(p, u.cursor.idx)] } }],
      series: [
        ...wider,
        Object.assign({ label: "upper end" }, invisible), Object.assign({ label: "lower end" }, invisible),
        { label: "measurement", stroke: color("dots"), paths: () => null, points: dots },
        { label: "estimate", stroke: color("estimate"), width: 1.6, points: { show: false } },
        ...p.faults.map(([name], k) => ({ label: name, stroke: color(palette[k % 6]), paths: () => null,
          points: { show: crosses(palette[k % 6]) } })),
      ],
      bands: [...(p.over ? [{ series: [1, 2], fill: color("pale") }] : []),
        { series: [wider.length + 1, wider.length + 2], fill: color("band") }],
    }), [p.x, ...(p.over ? [p.over, p.under] : []), p.high, p.low, p.good, p.level, ...p.faults.map((fault) => fault[1])]));
    legend(p);
    linked.push(plot("weights", overTime(p, {
      scales: { y: { range: [-0.05, 1.08] } },
      series: [{ label: "weight", stroke: color("estimate"), paths: () => null, points: {
        show: true, size: 3, stroke: color("estimate"), fill: color("estimate") } },
        { label: "weight of outliers", stroke: color("outlier"), paths: () => null, points: { show: crosses("outlier") } }],
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
    element("judged").textContent = p.findings.length ? p.findings.map((w) => w[0].toUpperCase() + w.slice(1) + ".").join(" ")
      : "The residuals are consistent with the model.";
    element("judged").classList.toggle("good", !p.findings.length);
  }

  function legend(p) {
    const shape = (inner) => `<svg viewBox="0 0 22 12">${inner}</svg>`, line = (name) => `style="stroke:var(--${name})"`;
    const items = [
      [shape('<circle cx="11" cy="6" r="2.5" style="fill:var(--dots)"/>'), "measurement"],
      [shape(`<path d="M0 6h22" ${line("estimate")} stroke-width="2"/>`), report.smooth ? "estimate (smoothed)" : "estimate (filtered)"],
      [shape('<rect width="22" height="12" style="fill:var(--band)"/>'), `${Math.round(100 * report.level)} % interval`],
      ...(p.over ? [[shape('<rect width="22" height="12" style="fill:var(--pale)"/>'), "prediction interval"]] : []),
      ...p.faults.map(([name, values], k) => [
        shape(`<path d="M7 2l8 8m0 -8l-8 8" ${line(palette[k % 6])} stroke-width="1.6"/>`),
        `${name} (${values.filter((v) => v !== null).length} shown)`, values.some((v) => v !== null)])
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
      items.slice(p.over ? 4 : 3).map((item) => item[1]).join(", "));
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
  let timer = null;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(draw, 150); });
  choose(0);
  window.wolfReport = { range: () => ({ min: linked[0].scales.x.min, max: linked[0].scales.x.max }), ready: true };
})();
