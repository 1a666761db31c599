// What a page shows is in its address: domain, range, arm, status, reason, q, entry.
//
//   query(name)                 the value, "" where there is none
//   setQuery(name, value, push) sets or (empty) removes it; push makes an entry that "back" returns from
//   onQuery(fn)                 calls fn when "back" or "forward" changed the address
//   RANGES                      [[name, words, ms], …]; "all" has no ms
//   range()                     the range in the address, "all" where there is none or an unknown one
//   rangeFrom(now)              its start in ms since 1970, null for "all"
//   pageLink(page, part, query) address of a page: pageLink("domains", "math", {range: "24h"})
//   pathPart()                  the last part of the path, decoded: a domain, a decision's id, a report's name

export const RANGES = [
  ["15m", "15 minutes", 900e3], ["1h", "hour", 3600e3], ["24h", "24 hours", 86400e3],
  ["7d", "7 days", 7 * 86400e3], ["30d", "30 days", 30 * 86400e3], ["all", "all time", null],
];

export const query = (name) => new URL(location.href).searchParams.get(name) || "";

export function setQuery(name, value, push = false) {
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value); else url.searchParams.delete(name);
  if (url.href === location.href) return;
  if (push) history.pushState(null, "", url); else history.replaceState(null, "", url);
}

export const onQuery = (fn) => addEventListener("popstate", fn);

export function range() {
  const name = query("range");
  return RANGES.some(([n]) => n === name) ? name : "all";
}
export function rangeFrom(now = Date.now()) {
  const length = RANGES.find(([n]) => n === range())[2];
  return length === null ? null : now - length;
}

export function pageLink(page, part, params = {}) {
  const path = ["/dashboard", ...(page === "overview" ? [] : [page]), ...(part ? [encodeURIComponent(part)] : [])].join("/");
  const search = new URLSearchParams(Object.entries(params).filter(([, v]) => v)).toString();
  return search ? `${path}?${search}` : path;
}

export function pathPart() {
  const part = location.pathname.replace(/\/+$/, "").split("/").pop();
  try { return decodeURIComponent(part); } catch { return part; }
}
