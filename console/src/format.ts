// Numbers, sizes and times as a person reads them. Sizes are binary, as on the command line.

const sizeUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
/** A difference of ratios that are the same, and a sum of parts that are all, may be off by less. */
const ROUNDING = 1e-12;
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** What stands where there is nothing to show. */
export const NOTHING = "–";

/** `1,234` */
export function count(value: number): string {
  return whole.format(value);
}

/** `1.03 GiB`, `4 MiB`: three digits, none that say nothing. */
export function bytes(value: number): string {
  let scaled = value;
  let unit = 0;
  while (scaled >= 1023.5 && unit < sizeUnits.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(scaled) ? count(scaled) : digits(scaled)} ${sizeUnits[unit]}`;
}

/** `1000 GiB`, `1537 B`: exactly, in the largest unit of which it is a whole number. `parseBytes` reads the same number. */
export function exactBytes(value: number): string {
  let scaled = value;
  let unit = 0;
  while (scaled > 0 && scaled % 1024 === 0 && unit < sizeUnits.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled} ${sizeUnits[unit]}`;
}

/** `12.3 MiB/s` */
export function bytesPerSecond(value: number): string {
  return `${bytes(value)}/s`;
}

/** `3.5/s`, `1,234/s` */
export function perSecond(value: number): string {
  return `${value > 0 && value < 10 ? value.toFixed(1) : count(value)}/s`;
}

/** `98.7 %`, of a ratio from 0 to 1. All and nothing are said only of all and nothing. */
export function percent(ratio: number): string {
  if (ratio > ROUNDING && ratio < 0.0005) return "< 0.1 %";
  if (ratio < 1 - ROUNDING && ratio >= 0.9995) return "> 99.9 %";
  return `${(ratio * 100).toFixed(1)} %`;
}

/** `12 %`, of whole percents. */
export function percentOf(value: number): string {
  return `${count(value)} %`;
}

/** `850 µs`, `4.21 ms`, `1.20 s` */
export function latency(nanoseconds: number): string {
  if (nanoseconds < 999_500) return `${digits(nanoseconds / 1000)} µs`;
  if (nanoseconds < 999_500_000) return `${digits(nanoseconds / 1e6)} ms`;
  return `${digits(nanoseconds / 1e9)} s`;
}

/** `45 s`, `12 min`, `3 h 20 min`, `5 days 2 h` */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60)
    return minutes < 10 && seconds % 60 >= 1 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  const days = Math.floor(hours / 24);
  const dayWord = days === 1 ? "day" : "days";
  return hours % 24 === 0 ? `${days} ${dayWord}` : `${days} ${dayWord} ${hours % 24} h`;
}

/** `2026-11-20 16:04:05`, in the time of the person who looks. */
export function moment(date: Date): string {
  return `${day(date)} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** `2026-11-20` */
export function day(date: Date): string {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** How far away a date is: `in 3 years`, `in 5 months`, `in 12 days`, `now`. */
export function fromNow(date: Date, now = new Date()): string {
  const days = Math.floor((date.getTime() - now.getTime()) / 86_400_000);
  if (days < 1) return "now";
  if (days < 60) return `in ${plural(days, "day")}`;
  if (days < 730) return `in ${plural(Math.floor(days / 30.44), "month")}`;
  return `in ${plural(Math.floor(days / 365.25), "year")}`;
}

/** How long something lasts, of years: `about 7 years`, `about 17 months`, `about 12 days`. Further than a century is only far. */
export function lifetime(years: number): string {
  if (years >= 100) return "more than 100 years";
  if (years >= 2) return `about ${plural(Math.round(years), "year")}`;
  if (years >= 1 / 6) return `about ${plural(Math.round(years * 12), "month")}`;
  const days = Math.round(years * 365.25);
  return days < 1 ? "less than a day" : `about ${plural(days, "day")}`;
}

/** `1 volume`, `3 volumes` */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Reads `64K`, `1.5 MiB`, `4096`; null if it is no size. */
export function parseBytes(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?\s*$/i.exec(text);
  if (match === null) return null;
  const power = " kmgtp".indexOf((match[2] || " ").toLowerCase());
  const value = Number(match[1]) * 1024 ** power;
  return Number.isSafeInteger(value) ? value : null;
}

/** Three digits that matter. */
function digits(value: number): string {
  if (value >= 99.95) return count(value);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
