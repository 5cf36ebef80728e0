"use strict";
// Small pictures of several keys, each with its own scale: readings, estimate, interval, outliers.
const smallMultiples = (() => {
  const HEIGHT = 74, EDGE = 4;
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  // The interval of a new key is very wide, so the scale is that of estimates and readings that are no outliers.
  function scale(each) {
    const flagged = new Set(Object.keys(each.reasons).map(Number));
    let low = Infinity, high = -Infinity;
    each.means.forEach((mean, i) => {
      for (const v of [mean, flagged.has(i) ? null : each.values[i]])
        if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
    });
    if (!(high >= low)) [low, high] = [-1, 1];
    const room = 0.15 * (high - low) || Math.abs(high) * 1e-3 || 1;
    return [low - room, high + room, flagged];
  }

  function draw(canvas, each) {
    const width = canvas.clientWidth, ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
    canvas.width = width * ratio;
    canvas.height = HEIGHT * ratio;
    pen.scale(ratio, ratio);
    const [low, high, flagged] = scale(each), times = each.times, count = times.length;
    const begin = times[0], length = times[count - 1] - begin || 1;
    const x = (i) => EDGE + ((times[i] - begin) / length) * (width - 2 * EDGE);
    const y = (v) => Math.min(Math.max(HEIGHT - EDGE - ((v - low) / (high - low)) * (HEIGHT - 2 * EDGE), EDGE), HEIGHT - EDGE);
    const known = [...times.keys()].filter((i) => each.means[i] !== null && each.half_widths[i] !== null);
    pen.fillStyle = color("band");
    pen.beginPath();
    known.forEach((i) => pen.lineTo(x(i), y(each.means[i] + each.half_widths[i])));
    known.reverse().forEach((i) => pen.lineTo(x(i), y(each.means[i] - each.half_widths[i])));
    pen.fill();
    pen.fillStyle = color("dots");
    each.values.forEach((v, i) => { if (v !== null && !flagged.has(i)) pen.fillRect(x(i) - 1, y(v) - 1, 2, 2); });
    pen.strokeStyle = color("estimate");
    pen.lineWidth = 1.4;
    pen.beginPath();
    known.reverse().forEach((i) => pen.lineTo(x(i), y(each.means[i])));
    pen.stroke();
    pen.strokeStyle = color("outlier");
    pen.beginPath();
    for (const i of flagged) {
      if (each.values[i] === null) continue;
      const [a, b] = [x(i), y(each.values[i])];
      pen.moveTo(a - 3, b - 3); pen.lineTo(a + 3, b + 3);
      pen.moveTo(a - 3, b + 3); pen.lineTo(a + 3, b - 3);
    }
    pen.stroke();
  }

  // Keys are untrusted: insert them as text. Buttons stay in place, so that the keyboard focus is kept.
  function show(place, keys, choose) {
    while (place.children.length > keys.length) place.lastChild.remove();
    keys.forEach((each, number) => {
      if (!place.children[number]) {
        const button = document.createElement("button");
        button.type = "button";
        button.append(document.createElement("b"), document.createElement("span"), document.createElement("canvas"));
        button.addEventListener("click", () => choose(button.dataset.key));
        place.append(button);
      }
      const button = place.children[number], [name, reason, canvas] = button.children;
      button.dataset.key = name.textContent = each.key;
      button.className = each.problem ? "bad" : "";
      reason.textContent = each.reasons_of_key[0] || "no problem";
      draw(canvas, each);
    });
  }
  return { show };
})();
