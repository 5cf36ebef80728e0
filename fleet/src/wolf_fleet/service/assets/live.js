"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const show = (v) => (v === null || v === undefined ? "-" : Number(v.toPrecision(5)).toString());
  const MAX_ROWS = 5000; // of a key in memory
  const RATE_SECONDS = 10; // over which the rate is averaged
  const MULTIPLES_SECONDS = 2; // between two updates of the small pictures
  let about = null, source = null, key = null, series = null, plot = null, dated = false, chosen = false;
  let seen = [], column = 0, fleet = null, shownFlag = -1;

  // Keys and values are untrusted: insert them as text, never as HTML.
  function make(tag, words, name) {
    const made = document.createElement(tag);
    if (words !== undefined) made.textContent = words;
    if (name) made.className = name;
    return made;
  }
  // Numeric times may be seconds since 1970, so keep all digits before the point.
  const moment = (time) => Number(time.toFixed(3)).toString();
  const clock = (time) => {
    if (typeof time === "string") return time.slice(0, 19).replace("T", " ").replace("Z", "");
    return fleet && fleet.dated ? iso(time) : moment(time);
  };
  const iso = (time) => new Date(time * 1e3).toISOString().slice(0, 19).replace("T", " ");
  const stamp = (time) => (dated ? iso(time) : moment(time));

  // Dates in the order of ISO 8601 and in UTC, as in the responses.
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
      setStatus("on", "live");
      columns();
    });
    source.addEventListener("fleet", (event) => showFleet(JSON.parse(event.data)));
    source.addEventListener("rows", (event) => extend(JSON.parse(event.data)));
    source.onerror = () => {
      setStatus("off", "connection lost, reconnecting");
      if (source.readyState === EventSource.CLOSED) ask();
    };
  }

  // A browser does not reconnect after an error response: find out whether a token is missing or the server is down.
  async function ask() {
    let code = 0;
    try { code = (await fetch("keys?limit=1")).status; } catch { /* the server is down */ }
    if (code !== 401) { setTimeout(listen, 1000); return; }
    element("enter").hidden = false;
    element("board").hidden = true;
    setStatus("off", "token required");
    element("token").focus();
  }
  element("enter").addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = JSON.stringify({ token: element("token").value });
    const answer = await fetch("session", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    element("refused").textContent = answer.ok ? "" : "The token is wrong.";
    if (answer.ok) { element("token").value = ""; listen(); }
  });

  function setStatus(name, words) {
    element("status").className = "status " + name;
    element("status").textContent = words;
  }

  function showFleet(status) {
    fleet = status;
    seen.push([status.now, status.counts.rows]);
    while (seen.length > 2 && seen[0][0] < status.now - RATE_SECONDS) seen.shift();
    const [first, last] = [seen[0], seen[seen.length - 1]];
    const rate = last[0] > first[0] ? (last[1] - first[1]) / (last[0] - first[0]) : 0;
    const large = (n) => n.toLocaleString("en");
    const cards = [
      [large(status.counts.keys), "keys"], [large(status.problem_keys.any), "with problems", status.problem_keys.any > 0],
      [large(Math.max(0, Math.round(rate))), "rows per second"], [large(status.counts.rows), "rows in total"],
      [large(status.counts.outliers), "outliers"], [large(status.counts.late + status.counts.repeated), "late or repeated"],
    ];
    if (status.counts.waiting) cards.push([large(status.counts.waiting), "rows waiting"]);
    element("cards").replaceChildren(...cards.map(([figure, words, bad]) => {
      const card = make("div", undefined, bad ? "card bad" : "card");
      card.append(make("b", figure), make("span", words));
      return card;
    }));
    element("problem").hidden = !status.message;
    element("problem").textContent = status.message;
    document.title = (status.problem_keys.any ? `(${status.problem_keys.any}) ` : "") + "WoLF live";
    if (!isSearching()) list(status.worst); else search();
    multiples();
    incidents(status.incidents);
    latest(status.latest);
    // Show a key with problems until the user selects one.
    if (!chosen && status.worst.length && !status.worst.some((each) => each.key === key)) choose(status.worst[0].key);
    mood();
  }

  // The list has the keys with problems, or what is searched for, in the chosen order.
  const isSearching = () => element("key").value !== "" || element("sort").value !== "score";
  async function search() {
    const [text, sort] = [element("key").value, element("sort").value];
    const query = new URLSearchParams({ search: text, sort, limit: "60" });
    const answer = await fetch("keys?" + query).catch(() => null);
    if (!answer || !answer.ok || !isSearching() || text !== element("key").value) return;
    list(await answer.json());
  }
  async function multiples() {
    if (document.hidden || multiples.waits) return;
    multiples.waits = true;
    const answer = await fetch("overview?column=" + column).catch(() => null);
    if (answer && answer.ok) smallMultiples.show(element("multiples"), await answer.json(), (name) => choose(name, true));
    setTimeout(() => { multiples.waits = false; }, MULTIPLES_SECONDS * 1e3);
  }

  function list(keys) {
    element("listed").textContent = isSearching() ? "Keys" : "Keys with problems";
    element("healthy").textContent = isSearching() ? "No such key." : "No problems found.";
    element("healthy").hidden = keys.length > 0;
    const held = document.activeElement && document.activeElement.dataset.key;
    const items = keys.map((each) => {
      const button = make("button", undefined, each.problem ? "bad" : "");
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
    if (held !== undefined) { // the list is rebuilt: restore the keyboard focus
      const again = items.map((item) => item.firstChild).find((button) => button.dataset.key === held);
      if (again) again.focus({ preventScroll: true });
    }
  }

  function incidents(open) {
    const list = element("incidents");
    if (list.contains(document.activeElement)) return; // do not take a button away under the finger
    const waiting = open.filter((each) => !each.acknowledged);
    element("calm").hidden = waiting.length > 0;
    list.replaceChildren(...waiting.slice(0, 12).map((each) => {
      const item = make("li"), button = make("button", each.key);
      button.type = "button";
      button.addEventListener("click", () => choose(each.key, true));
      const seen = make("button", "Acknowledge"), mute = make("button", "Mute for a day");
      seen.type = mute.type = "button";
      seen.addEventListener("click", () => change("acknowledge", { incident: each.incident }, item));
      mute.addEventListener("click", () => change("mute", { key: each.key, seconds: 86400 }, item));
      const row = make("div", undefined, "acts");
      row.append(seen, mute);
      item.append(button, make("span", `${each.kind} since ${clock(each.start)}`, "quiet"), make("div", each.reason), row);
      return item;
    }));
    if (waiting.length > 12) list.append(make("li", `and ${waiting.length - 12} more: GET /incidents?open=1`));
  }
  async function change(verb, facts, item) {
    const options = { method: "POST", body: JSON.stringify(facts), headers: { "Content-Type": "application/json" } };
    const answer = await fetch("incidents/" + verb, options).catch(() => null);
    if (answer && answer.ok) item.remove();
    else item.append(make("div", "not stored: " + (answer ? (await answer.json()).error : "no connection")));
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
    element("mood").textContent = key === null ? "" : mine ? (mine.problem ? "problem" : "minor") : "";
    element("mood").className = mine && mine.problem ? "mood bad" : "mood";
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
    if (!series) series = { times: [], values: about.values.map(() => []), means: about.values.map(() => []), half_widths: about.values.map(() => []), reasons: [] };
    const before = series.times.length;
    series.times.push(...rows.times);
    for (const name of ["values", "means", "half_widths"]) rows[name].forEach((each, j) => series[name][j].push(...each));
    for (let i = 0; i < rows.times.length; i++) series.reasons[before + i] = rows.reasons[i] || null;
    const extra = series.times.length - MAX_ROWS;
    if (extra > 0) {
      series.times.splice(0, extra);
      series.reasons.splice(0, extra);
      for (const name of ["values", "means", "half_widths"]) series[name].forEach((each) => each.splice(0, extra));
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
    const mean = series.means[column], half = series.half_widths[column], value = series.values[column];
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
    // Include the interval only where it is narrow: that of a new key is very wide.
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
    place.setAttribute("aria-label", `${key}: ${data[0].length} readings with estimate and interval, ${count} outliers`);
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
    const mean = series.means[column][i], half = series.half_widths[column][i];
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
  element("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isSearching()) await search();
    const first = element("worst").querySelector("button");
    if (first) choose(first.dataset.key, true);
  });
  const refresh = () => { if (isSearching()) search(); else if (fleet) list(fleet.worst); };
  element("key").addEventListener("input", () => { clearTimeout(search.timer); search.timer = setTimeout(refresh, 200); });
  element("sort").addEventListener("change", refresh);
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
