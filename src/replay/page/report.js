// Shows replays. Names come from datasets and are untrusted: they reach the page as text nodes only.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7f6fbf", "#8c8c8c", "#3f7f5f", "#a05050", "#5f9fbf"];
const CURVES_AT_FIRST = 7;
const SVG = "http://www.w3.org/2000/svg";
const colour = (place) => COLOURS[place % COLOURS.length];

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const number = (digits) => (value) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = (value) => `${(100 * value).toFixed(0)} %`;
const usd = (value) => `$${value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(2) : value.toPrecision(2)}`;

const COLUMNS = [
  ["policy", (row) => row.policy, String],
  ["kind", (row) => row.kind, String],
  ["mean score, %", (row) => 100 * row.mean_score, number(2)],
  ["cum. regret", (row) => row.cum_regret, number(1)],
  ["sd", (row) => row.cum_regret_sd, (value) => (value > 0 ? number(1)(value) : "")],
  ["cost, USD", (row) => row.total_cost_usd, number(2)],
  ["attempts", (row) => row.attempts_mean, number(2)],
  ["orders", (row) => row.seeds, String],
  ["seconds", (row) => row.seconds, (value) => (value > 0 ? number(1)(value) : "")],
];

function table(rows) {
  const body = make("tbody");
  let [by, up] = [3, true];
  const fill = () => {
    const value = COLUMNS[by][1];
    const order = (a, b) => (typeof value(a) === "string" ? value(a).localeCompare(value(b)) : value(a) - value(b));
    const sorted = [...rows].sort((a, b) => (up ? order(a, b) : order(b, a)));
    body.replaceChildren(...sorted.map((row) =>
      make("tr", { class: row.kind }, ...COLUMNS.map(([, value, write]) => make("td", {}, write(value(row)))))));
  };
  const head = COLUMNS.map(([name], place) => {
    const cell = make("th", { scope: "col", title: "sort" }, name);
    cell.addEventListener("click", () => {
      up = by === place ? !up : true;
      by = place;
      fill();
    });
    return cell;
  });
  fill();
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), body));
}

/** Regret over rounds; the best replayed and published are drawn at first, the others by a click on their name. */
function curves(rows) {
  const figure = make("figure", {}, make("figcaption", {}, "Cumulative regret, mean over the orders. Click a name to show or hide it."));
  const drawn = rows.filter((row) => row.curve.length > 1).sort((a, b) => a.cum_regret - b.cum_regret);
  if (!drawn.length) return figure;
  const rounds = [...new Set(drawn.flatMap((row) => row.curve.map(([round]) => round)))].sort((a, b) => a - b);
  const of = (row) => {
    const known = new Map(row.curve);
    return rounds.map((round) => known.get(round) ?? null);
  };
  let shown = 0;
  const series = drawn.map((row, place) => {
    const show = row.kind !== "reference" && row.policy !== "oracle" && shown < CURVES_AT_FIRST;
    shown += show ? 1 : 0;
    return { label: row.policy, stroke: colour(place), width: 1.5, show, spanGaps: true, value: (_, value) => (value === null || value === undefined ? "" : value.toFixed(1)) };
  });
  const axis = { stroke: getComputedStyle(document.documentElement).getPropertyValue("--muted"), grid: { stroke: getComputedStyle(document.documentElement).getPropertyValue("--grid") } };
  const holder = make("div");
  figure.prepend(holder);
  const options = {
    width: 540, height: 320,
    scales: { x: { time: false } },
    axes: [{ ...axis }, { ...axis, size: 56 }],
    series: [{ label: "round" }, ...series],
  };
  const plot = new uPlot(options, [rounds, ...drawn.map(of)], holder);
  new ResizeObserver(() => plot.setSize({ width: Math.max(280, figure.clientWidth), height: 320 })).observe(figure);
  return figure;
}

/** Cost against score. On the front are those that none beats in both. */
function scatter(rows) {
  const [width, height, left, bottom] = [560, 380, 46, 34];
  const points = rows.filter((row) => row.total_cost_usd > 0).map((row) => ({ row, cost: row.total_cost_usd, score: 100 * row.mean_score }));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Cost against score" });
  const caption = "Dollars (logarithmic) against mean score; the dashed line joins those that no other beats in both.";
  const figure = make("figure", {}, svg, make("figcaption", {}, caption));
  if (!points.length) return figure;
  const logs = points.map((point) => Math.log10(point.cost));
  const scores = points.map((point) => point.score);
  const [least, most] = [Math.min(...logs) - 0.1, Math.max(...logs) + 0.35];
  const [low, high] = [Math.min(...scores) - 2, Math.max(...scores) + 2];
  const x = (cost) => left + ((Math.log10(cost) - least) / (most - least)) * (width - left - 10);
  const y = (score) => height - bottom - ((score - low) / (high - low)) * (height - bottom - 10);
  const step = [1, 2, 5, 10, 20, 50].find((step) => (high - low) / step <= 8) || 50;
  for (let score = Math.ceil(low / step) * step; score <= high; score += step) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - 10, y1: y(score), y2: y(score) }));
    svg.append(draw("text", { x: left - 6, y: y(score) + 4, "text-anchor": "end" }, `${score} %`));
  }
  for (let power = Math.floor(least); power <= most; power += 1) {
    for (const digit of most - least > 3 ? [1] : [1, 2, 5]) {
      const cost = digit * 10 ** power;
      if (Math.log10(cost) < least || Math.log10(cost) > most) continue;
      svg.append(draw("line", { class: "grid", x1: x(cost), x2: x(cost), y1: 10, y2: height - bottom }));
      svg.append(draw("text", { x: x(cost), y: height - bottom + 16, "text-anchor": "middle" }, usd(cost)));
    }
  }
  const able = points.filter((point) => point.row.policy !== "oracle").sort((a, b) => a.cost - b.cost || b.score - a.score);
  const front = [];
  for (const point of able) if (!front.length || point.score > front[front.length - 1].score) front.push(point);
  svg.append(draw("polyline", { class: "front", points: front.map((point) => `${x(point.cost)},${y(point.score)}`).join(" ") }));
  const taken = [];
  for (const point of [...points].sort((a, b) => b.score - a.score)) {
    const [cx, cy] = [x(point.cost), y(point.score)];
    const shape = { cx, cy, r: point.row.kind === "replayed" ? 5 : 3.5, fill: { replayed: "#0072b2", published: "#e69f00", reference: "#8c8c8c" }[point.row.kind] };
    const circle = draw("circle", shape);
    circle.append(draw("title", {}, `${point.row.policy}: ${point.score.toFixed(2)} %, ${usd(point.cost)}, regret ${point.row.cum_regret.toFixed(1)}`));
    svg.append(circle);
    // A name is left out where it would cover another one.
    if (taken.every(([tx, ty]) => Math.abs(ty - cy) > 11 || Math.abs(tx - cx) > 110)) {
      taken.push([cx, cy]);
      const end = cx > width - 130;
      svg.append(draw("text", { class: "name", x: end ? cx - 8 : cx + 8, y: cy + 4, "text-anchor": end ? "end" : "start" }, point.row.policy));
    }
  }
  return figure;
}

/** Who did the work in each domain, for one policy at a time. */
function shares(rows) {
  const replayed = rows.filter((row) => Object.keys(row.domains).length);
  const bars = make("div", { class: "bars" });
  const key = make("div", { class: "key" });
  if (!replayed.length) return bars;
  const arms = [...new Set(replayed.flatMap((row) => Object.keys(row.share_by_arm)))].sort();
  const picker = make("select", { "aria-label": "Policy" }, ...replayed.map((row, place) => make("option", { value: place }, `${row.policy} (${row.kind})`)));
  const fill = () => {
    const row = replayed[Number(picker.value)];
    bars.replaceChildren(...Object.entries(row.domains).flatMap(([domain, report]) => {
      const parts = arms.filter((arm) => report.share_by_arm[arm] > 0).map((arm) => {
        const share = report.share_by_arm[arm];
        const part = make("span", { title: `${arm}: ${percent(share)}` }, share > 0.08 ? percent(share) : "");
        part.style.width = `${100 * share}%`;
        part.style.background = colour(arms.indexOf(arm));
        return part;
      });
      const label = `${domain} (${report.n}; regret ${report.cum_regret.toFixed(1)})`;
      return [make("span", {}, label), make("div", { class: "bar" }, ...parts)];
    }));
  };
  picker.addEventListener("change", fill);
  fill();
  key.append(...arms.map((arm) => {
    const mark = make("i");
    mark.style.background = colour(arms.indexOf(arm));
    return make("span", {}, mark, arm);
  }));
  return make("div", {}, make("p", { class: "pick" }, picker), bars, key);
}

function show(sections) {
  document.getElementById("title").textContent = document.title;
  for (const [place, section] of sections.entries()) {
    document.getElementById("contents").append(make("a", { href: `#s${place}` }, section.title));
    const holder = make("section", { id: `s${place}` }, make("h2", {}, section.title), make("p", { class: "note" }, section.note), table(section.rows));
    document.getElementById("sections").append(holder);
    const pair = make("div", { class: "charts" });
    holder.append(pair);
    pair.append(make("div", {}, make("h3", {}, "Regret curves"), curves(section.rows)), make("div", {}, make("h3", {}, "Cost against score"), scatter(section.rows)));
    holder.append(make("h3", {}, "Share of arms by domain"), shares(section.rows));
  }
}
