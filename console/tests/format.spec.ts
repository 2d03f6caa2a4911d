// Numbers, sizes and times: what a person reads must be what the daemon said.
import { expect, test } from "@playwright/test";
import {
  bytes,
  duration,
  exactBytes,
  fromNow,
  latency,
  lifetime,
  parseBytes,
  percent,
  perSecond,
  plural,
} from "../src/format";
import { readTerabytes } from "../src/pages/sizes";

test("sizes are binary with three digits, and are read back", () => {
  expect([0, 512, 1023, 1024, 1536, 64 << 20, 1.03 * 2 ** 30, 2 ** 40, 1023.9 * 1024].map(bytes)).toEqual([
    "0 B",
    "512 B",
    "1,023 B",
    "1 KiB",
    "1.50 KiB",
    "64 MiB",
    "1.03 GiB",
    "1 TiB",
    "1.00 MiB",
  ]);
  expect(["4 MiB", "64K", "1.5 GiB", "512", "off", "4 XiB", "-1"].map(parseBytes)).toEqual([
    4 << 20,
    64 << 10,
    1.5 * 2 ** 30,
    512,
    null,
    null,
    null,
  ]);
});

test("a size in a field is the same size when it is read again", () => {
  const sizes = [1, 1000, 4096, 1000 * 2 ** 30, 1500 * 2 ** 30, 10.25 * 2 ** 30, 120.5 * 2 ** 30, 600e9];
  expect(sizes.map((size) => parseBytes(exactBytes(size)))).toEqual(sizes);
  expect([1000 * 2 ** 30, 1536].map(exactBytes)).toEqual(["1000 GiB", "1536 B"]);
});

test("what SSDs may be written is read in the decimal terabytes of data sheets", () => {
  const texts = ["600", " 1.92 TB", "600tbw", "100000", "0", "", "-1", "600G", "600 TiB", "much"];
  expect(texts.map(readTerabytes)).toEqual([600e12, 1.92e12, 600e12, 1e17, ...Array(6).fill(null)]);
  // As it stands in an address.
  expect(String(readTerabytes("999999"))).toBe("999999000000000000");
});

test("how long something lasts is about so much, and far is far", () => {
  expect([6.9, 2, 1.4, 0.2, 0.1, 0.0001, 99, 100, 4000].map(lifetime)).toEqual([
    "about 7 years",
    "about 2 years",
    "about 17 months",
    "about 2 months",
    "about 37 days",
    "less than a day",
    "about 99 years",
    "more than 100 years",
    "more than 100 years",
  ]);
});

test("few of something a second have a digit more", () => {
  expect([0, 3.54, 12.3, 1234.5].map(perSecond)).toEqual(["0/s", "3.5/s", "12/s", "1,235/s"]);
});

test("a ratio is all or nothing only if it is", () => {
  expect([0, 0.0001, 0.5, 0.987, 0.99999, 1].map(percent)).toEqual([
    "0.0 %",
    "< 0.1 %",
    "50.0 %",
    "98.7 %",
    "> 99.9 %",
    "100.0 %",
  ]);
  // Whatever is rounded on the way to it.
  expect([0.8 - 0.7 - 0.1, 0.6 + 0.3 + 0.1].map(percent)).toEqual(["0.0 %", "100.0 %"]);
});

test("times have the unit that fits", () => {
  expect([850, 4210, 250_000, 4_210_000, 1_200_000_000].map(latency)).toEqual([
    "0.85 µs",
    "4.21 µs",
    "250 µs",
    "4.21 ms",
    "1.20 s",
  ]);
  expect([5, 65, 600, 12_000, 3 * 86_400 + 7200].map(duration)).toEqual([
    "5 s",
    "1 min 5 s",
    "10 min",
    "3 h 20 min",
    "3 days 2 h",
  ]);
  const now = new Date("2026-11-20T12:00:00Z");
  const after = (days: number) => fromNow(new Date(now.getTime() + days * 86_400_000), now);
  expect([-1, 0, 1, 45, 300, 3 * 366].map(after)).toEqual([
    "now",
    "now",
    "in 1 day",
    "in 45 days",
    "in 9 months",
    "in 3 years",
  ]);
  expect([plural(1, "volume"), plural(3, "volume"), plural(0, "volume")]).toEqual([
    "1 volume",
    "3 volumes",
    "0 volumes",
  ]);
});
