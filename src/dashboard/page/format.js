// Numbers and times as text, with units and sensible digits. What is not a finite number is an en dash.
//
//   int(x)        1,234; from a billion on 1.23B
//   score(x)      0.83          F1 … F6   Intl.NumberFormat with that many digits
//   score3(x)     0.831
//   pct(x)        83% of a part of 1; "<1%" and ">99%" where rounding would lie
//   prob(x)       0.831, "<0.001"
//   amount(x)     regret, reward: fewer digits the larger it is
//   usd(x)        $12.34, $0.0012
//   ms(x)         12 ms, 1.23 s      us(x) the same from microseconds
//   span(s)       seconds as 42 s, 3 min, 5.1 h, 2.0 days
//   ago(at, now)  "3 min ago", "in 2 h" where a clock is ahead
//   clock(at)     14:03:07        dateTime(at)  30 Nov 2026, 14:03:07     dayTime(at)  30 Nov, 14:03
//   bytes(x)      12.3 KiB
//   short(x)      ticks of an axis: 1.5k, 2M
//   plural(n, one, many)   "1 row", "2 rows"

const isNum = (x) => typeof x === "number" && Number.isFinite(x);
const digits = (max, min = max) => new Intl.NumberFormat("en", { minimumFractionDigits: min, maximumFractionDigits: max, signDisplay: "negative" });
export const F0 = digits(0), F1 = digits(1), F2 = digits(2), F3 = digits(3), F4 = digits(4), F6 = digits(6);
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const TICK = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const HUGE = 1e9;
const compact = (x) => (Math.abs(x) < 1e15 ? COMPACT.format(x) : x.toExponential(2));

export const int = (x) => (!isNum(x) ? "–" : Math.abs(x) >= HUGE ? compact(x) : F0.format(x));
export const score = (x) => (!isNum(x) ? "–" : Math.abs(x) >= HUGE ? compact(x) : F2.format(x));
export const score3 = (x) => (!isNum(x) ? "–" : Math.abs(x) >= HUGE ? compact(x) : F3.format(x));
export function pct(x) {
  if (!isNum(x)) return "–";
  if (x > 0 && x < 0.01) return "<1%";
  if (x < 1 && x > 0.99) return ">99%";
  return `${int(x * 100)}%`;
}
export const prob = (x) => (!isNum(x) ? "–" : x > 0 && x < 0.001 ? "<0.001" : score3(x));
export function amount(x) {
  if (!isNum(x)) return "–";
  const a = Math.abs(x);
  if (a >= HUGE) return compact(x);
  return (a >= 1000 ? F0 : a >= 10 ? F1 : a >= 1 || a === 0 ? F2 : F3).format(x);
}
export function usd(x) {
  if (!isNum(x)) return "–";
  if (x < 0) return `-${usd(-x)}`;
  if (x === 0) return "$0";
  if (x < 1e-6) return "<$0.000001";
  if (x >= HUGE) return `$${compact(x)}`;
  if (x >= 1000) return `$${F0.format(x)}`;
  if (x >= 1) return `$${F2.format(x)}`;
  if (x >= 0.01) return `$${F4.format(x)}`;
  return `$${F6.format(x)}`;
}
export function ms(x) {
  if (!isNum(x)) return "–";
  if (x > 0 && x < 0.01) return "<0.01 ms";
  if (x >= 120000) return span(x / 1000);
  if (x >= 10000) return `${F1.format(x / 1000)} s`;
  if (x >= 1000) return `${F2.format(x / 1000)} s`;
  return `${(x >= 10 || x === 0 ? F0 : x >= 1 ? F1 : F2).format(x)} ms`;
}
export const us = (x) => (isNum(x) ? ms(x / 1000) : "–");
export function span(s) {
  if (!isNum(s)) return "–";
  if (s < 90 && s !== 60) return `${(s >= 10 || Number.isInteger(s) ? F0 : F1).format(s)} s`;
  if (s < 5400) return `${F0.format(s / 60)} min`;
  if (s < 172800) return `${(s % 3600 ? F1 : F0).format(s / 3600)} h`;
  return s < HUGE ? `${(s % 86400 ? F1 : F0).format(s / 86400)} days` : `${compact(s / 86400)} days`;
}
export function ago(at, now = Date.now()) {
  if (!isNum(at)) return "–";
  const s = Math.round((now - at) / 1000);
  if (Math.abs(s) < 2) return "now";
  return s > 0 ? `${span(s)} ago` : `in ${span(-s)}`;
}

const time = (options) => {
  const format = new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options });
  return (at) => { try { return isNum(at) ? format.format(at) : "–"; } catch { return "–"; } };
};
export const clock = time({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const hourMinute = time({ hour: "2-digit", minute: "2-digit" });
export const day = time({ day: "numeric", month: "short" });
export const dayTime = time({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
export const dateTime = time({ day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

export function bytes(x) {
  if (!isNum(x)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = x, i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return `${(i === 0 || n >= 100 ? F0 : F1).format(n)} ${units[i]}`;
}
export const short = (x) => (!isNum(x) ? "" : Math.abs(x) >= 1e4 ? compact(x) : TICK.format(x));
export const plural = (n, one, many) => `${int(n)} ${n === 1 ? one : many}`;
