"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const show = (v) => (v === null || v === undefined ? "-" : Number(v.toPrecision(5)).toString());
  const MOST = 5000; // rows of a key that are held here
  const WINDOW = 10; // seconds over which the rate is told
  let about = null, source = null, key = null, series = null, plot = null, dated = false, chosen = false;
  let seen = [], column = 0, fleet = null, shownFlag = -1;

  // Keys and values come from others: they are put in as text, never as HTML.
  function make(tag, words, name) {
    const made = document.createElement(tag);
    if (words !== undefined) made.textContent = words;
    if (name) made.className = name;
    return made;
  }
  // Times that are numbers may be seconds since 1970: all digits before the point count.
  const moment = (time) => Number(time.toFixed(3)).toString();
  const clock = (time) => {
    if (typeof time === "string") return time.slice(0, 19).replace("T", " ").replace("Z", "");
    return moment(time);
  };
  const stamp = (time) => (dated ? new Date(time * 1e3).toISOString().slice(0, 19).replace("T", " ") : moment(time));

  // Dates in the order of ISO 8601, of Greenwich as in the answers.
  const day = "\n{YYYY}-{MM}-{DD}", none = [null, null, null, null, 1];
  const dates = [
    [86400, "{MM}-{DD}", "\n{YYYY}", null, ...none], [60, "{HH}:{mm}", day, null, day, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", day, null, day, null, null, null, 1], [0.001, ":{ss}.{fff}", day, null, day, null, null, null, 1],
  ];

  function listen() {
    if (source) source.close();
    source = new EventSource("events" + (key === null ? "" : "?key=" + encodeURIComponent(key)));
    source.addEventListener("about", (event) => {
      about = JSON.parse(event.data);
      series = null;
      element("enter").hidden = true;
      element("board").hidden = false;
      element("level").textContent = Math.round(100 * about.level) + " %";
      status("on", "live");
      columns();
    });
    source.addEventListener("fleet", (event) => tell(JSON.parse(event.data)));
    source.addEventListener("rows", (event) => extend(JSON.parse(event.data)));
    source.onerror = () => {
      status("off", "connection lost, trying again");
      if (source.readyState === EventSource.CLOSED) ask();
    };
  }

  // A browser does not try again after a refusal: is it the token, or is the server away?
  async function ask() {
    let code = 0;
    try { code = (await fetch("keys?most=1")).status; } catch { /* away */ }
    if (code !== 401) { setTimeout(listen, 1000); return; }
    element("enter").hidden = false;
    element("board").hidden = true;
    status("off", "token needed");
    element("token").focus();
  }
  element("enter").addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = JSON.stringify({ token: element("token").value });
    const answer = await fetch("session", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    element("refused").textContent = answer.ok ? "" : "This is not the token.";
    if (answer.ok) { element("token").value = ""; listen(); }
  });

  function status(name, words) {
    element("status").className = "status " + name;
    element("status").textContent = words;
  }

  function tell(told) {
    fleet = told;
    seen.push([told.now, told.counts.rows]);
    while (seen.length > 2 && seen[0][0] < told.now - WINDOW) seen.shift();
    const [first, last] = [seen[0], seen[seen.length - 1]];
    const rate = last[0] > first[0] ? (last[1] - first[1]) / (last[0] - first[0]) : 0;
    const large = (n) => n.toLocaleString("en");
    const cards = [
      [large(told.counts.keys), "keys"], [large(told.in_trouble.trouble), "in trouble", told.in_trouble.trouble > 0],
      [large(Math.max(0, Math.round(rate))), "rows a second"], [large(told.counts.rows), "rows in all"],
      [large(told.counts.outliers), "do not fit"], [large(told.counts.late + told.counts.repeated), "late or twice"],
    ];
    if (told.counts.waiting) cards.push([large(told.counts.waiting), "waiting for older"]);
    element("cards").replaceChildren(...cards.map(([figure, words, bad]) => {
      const card = make("div", undefined, bad ? "card bad" : "card");
      card.append(make("b", figure), make("span", words));
      return card;
    }));
    element("problem").hidden = !told.problem;
    element("problem").textContent = told.problem;
    document.title = (told.in_trouble.trouble ? `(${told.in_trouble.trouble}) ` : "") + "WoLF live";
    worst(told.worst);
    latest(told.latest);
    // Until somebody chooses, what is shown is one that has to be looked at.
    if (!chosen && told.worst.length && !told.worst.some((each) => each.key === key)) choose(told.worst[0].key);
    mood();
  }

  function worst(keys) {
    element("well").hidden = keys.length > 0;
    const held = document.activeElement && document.activeElement.dataset.key;
    const items = keys.map((each) => {
      const button = make("button", undefined, each.trouble ? "bad" : "");
      button.type = "button";
      button.dataset.key = each.key;
      button.setAttribute("aria-pressed", String(each.key === key));
      button.append(make("b", each.key), ...each.reasons.map((words) => make("span", words)));
      button.addEventListener("click", () => choose(each.key, true));
      const item = make("li");
      item.append(button);
      return item;
    });
    element("worst").replaceChildren(...items);
    if (held !== undefined) { // the list is made anew: who was on it with the keyboard stays there
      const again = items.map((item) => item.firstChild).find((button) => button.dataset.key === held);
      if (again) again.focus({ preventScroll: true });
    }
  }

  function latest(flags) {
    const newest = flags.length ? flags[0].number : -1;
    if (newest === shownFlag || element("latest").contains(document.activeElement)) return;
    shownFlag = newest;
    element("latest").replaceChildren(...flags.slice(0, 12).map((flag) => {
      const item = make("li"), button = make("button", String(flag[about.key]));
      button.type = "button";
      button.addEventListener("click", () => choose(String(flag[about.key]), true));
      item.append(button, make("span", clock(flag[about.time || "arrived"]), "quiet"), make("div", flag.reason));
      return item;
    }));
  }

  function mood() {
    const mine = fleet && fleet.worst.find((each) => each.key === key);
    element("mood").textContent = key === null ? "" : mine ? (mine.trouble ? "in trouble" : "mostly well") : "";
    element("mood").className = mine && mine.trouble ? "mood bad" : "mood";
    element("reasons").replaceChildren(...(mine ? mine.reasons : []).map((words) => make("li", words)));
  }

  function choose(name, byHand) {
    chosen = chosen || Boolean(byHand);
    if (byHand) location.hash = encodeURIComponent(name);
    if (name === key) return;
    key = name;
    series = null;
    element("name").textContent = name;
    element("flags").replaceChildren();
    if (plot) { plot.destroy(); plot = null; }
    document.querySelectorAll("#worst button").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.key === key)));
    mood();
    listen();
    if (byHand && innerWidth <= 900) element("name").scrollIntoView();
  }

  function columns() {
    element("column").hidden = about.values.length < 2;
    if (element("which").options.length !== about.values.length)
      element("which").replaceChildren(...about.values.map((name, j) => new Option(name, String(j))));
  }

  function extend(rows) {
    if (rows.key !== key) return;
    dated = rows.dated;
    if (!series) series = { times: [], values: about.values.map(() => []), means: about.values.map(() => []), halves: about.values.map(() => []), reasons: [] };
    const before = series.times.length;
    series.times.push(...rows.times);
    for (const name of ["values", "means", "halves"]) rows[name].forEach((each, j) => series[name][j].push(...each));
    for (let i = 0; i < rows.times.length; i++) series.reasons[before + i] = rows.reasons[i] || null;
    const extra = series.times.length - MOST;
    if (extra > 0) {
      series.times.splice(0, extra);
      series.reasons.splice(0, extra);
      for (const name of ["values", "means", "halves"]) series[name].forEach((each) => each.splice(0, extra));
    }
    element("range").parentElement.hidden = !dated;
    draw();
    const flags = [];
    for (let i = series.times.length - 1; i >= 0 && flags.length < 20; i--) {
      if (!series.reasons[i]) continue;
      const row = make("tr");
      const [date, time] = stamp(series.times[i]).split(" "), when = make("td", undefined, "quiet");
      when.append(make("span", time ? date + " " : "", "date"), time || date);
      row.append(when, make("td", series.values.map((each) => show(each[i])).join(", ")), make("td", series.reasons[i]));
      flags.push(row);
    }
    element("flags").replaceChildren(...flags);
    element("some").hidden = !flags.length;
  }

  function lists() {
    const mean = series.means[column], half = series.halves[column], value = series.values[column];
    const high = mean.map((m, i) => (m === null || half[i] === null ? null : m + half[i]));
    const low = mean.map((m, i) => (m === null || half[i] === null ? null : m - half[i]));
    const good = value.map((v, i) => (series.reasons[i] ? null : v)), bad = value.map((v, i) => (series.reasons[i] ? v : null));
    return [series.times, high, low, good, mean, bad];
  }

  function visible(data) {
    const arrays = element("all").checked ? [3, 4, 5] : [3, 4], [first, last] = span(data[0]);
    let low = Infinity, high = -Infinity;
    for (const index of arrays) data[index].forEach((v, i) => {
      if (v !== null && data[0][i] >= first && data[0][i] <= last) { low = Math.min(low, v); high = Math.max(high, v); }
    });
    // The band counts where it is narrow: a new key knows nothing, and would fill the picture.
    const room = high - low;
    for (const index of [1, 2]) data[index].forEach((v, i) => {
      if (v !== null && data[0][i] >= first && v > low - room && v < high + room) { low = Math.min(low, v); high = Math.max(high, v); }
    });
    if (!(high >= low)) return [-1, 1];
    const edge = 0.06 * (high - low) || 1;
    return [low - edge, high + edge];
  }

  function span(times) {
    const last = times[times.length - 1], length = Number(element("range").value);
    if (!times.length) return [0, 1];
    if (dated && length) return [last - length, last];
    return times[0] === last ? [last - 1, last + 1] : [times[0], last];
  }

  const crosses = (u, index) => {
    const size = 4 * devicePixelRatio, { left, top, width, height } = u.bbox, path = new Path2D();
    u.data[index].forEach((v, i) => {
      const x = u.valToPos(u.data[0][i], "x", true);
      if (v === null || x < left || x > left + width) return;
      const y = u.valToPos(Math.min(Math.max(v, u.scales.y.min), u.scales.y.max), "y", true);
      const edge = Math.min(Math.max(y, top + size), top + height - size);
      path.moveTo(x - size, edge - size); path.lineTo(x + size, edge + size);
      path.moveTo(x - size, edge + size); path.lineTo(x + size, edge - size);
    });
    u.ctx.save();
    u.ctx.strokeStyle = color("outlier");
    u.ctx.lineWidth = 1.6 * devicePixelRatio;
    u.ctx.stroke(path);
    u.ctx.restore();
    return false;
  };

  function draw() {
    if (!series) return;
    const data = lists(), place = element("plot");
    const count = data[5].filter((v) => v !== null).length;
    place.setAttribute("aria-label", `${key}: ${data[0].length} readings with estimate and interval, ${count} do not fit`);
    if (plot) { plot.setData(data); return; }
    const axis = { stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "12px system-ui, DejaVu Sans, sans-serif" };
    const invisible = { stroke: "transparent", points: { show: false } }, dots = color("dots");
    plot = new uPlot({
      width: place.clientWidth, height: innerWidth <= 900 ? 280 : 380, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      padding: [null, dated ? null : 48, null, null], // half of a long number below the last tick
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "UTC"),
      scales: { x: { time: dated, range: (u) => span(u.data[0]) }, y: { range: (u) => visible(u.data) } },
      axes: [{ ...axis, space: dated ? 80 : 120, ...(dated ? { values: dates } : {}) }, { ...axis, size: 64 }],
      hooks: { setCursor: [(u) => read(u.cursor.idx)] },
      series: [{}, { ...invisible }, { ...invisible },
        { stroke: dots, paths: () => null, points: { show: true, size: 4, stroke: dots, fill: dots } },
        { stroke: color("estimate"), width: 1.6, points: { show: false } },
        { stroke: color("outlier"), paths: () => null, points: { show: crosses } }],
      bands: [{ series: [1, 2], fill: color("band") }],
    }, data, place);
  }

  function read(i) {
    if (i === null || i === undefined || !series) { element("readout").textContent = "\u00a0"; return; }
    const mean = series.means[column][i], half = series.halves[column][i];
    const parts = [stamp(series.times[i]), `reading ${show(series.values[column][i])}`, `estimate ${show(mean)} (${show(mean - half)} to ${show(mean + half)})`];
    if (series.reasons[i]) parts.push(series.reasons[i]);
    element("readout").textContent = parts.join(", ");
  }

  function redraw() {
    if (plot) { plot.destroy(); plot = null; }
    draw();
  }
  element("which").addEventListener("change", () => { column = Number(element("which").value); redraw(); });
  element("range").addEventListener("change", redraw);
  element("all").addEventListener("change", redraw);
  element("find").addEventListener("submit", (event) => {
    event.preventDefault();
    if (element("key").value) choose(element("key").value, true);
  });
  element("theme").addEventListener("click", () => {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let timer = null;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 150); });
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (wanted) choose(wanted, true); else listen();
})();
