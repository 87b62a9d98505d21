import type uPlot from "uplot";
import { useEffect, useRef, useState } from "preact/hooks";
import { useStore } from "../store";
import { theme } from "./theme";
import { Table } from "./table";

/** One line of a chart. tone is a custom property of the style sheet, such as --chart-1. */
export interface Series {
  label: string;
  tone: string;
  values: (number | null)[];
}

/** Shows numbers over time as a picture, and the same numbers in a table, which screen readers can read. times are in seconds since 1970. */
export function Chart({ title, times, series, unit = "" }: { title: string; times: number[]; series: Series[]; unit?: string }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [failed, setFailed] = useState(false);
  const mode = useStore(theme);
  const form = series.map((s) => s.label + s.tone).join("|");
  const data = [times, ...series.map((s) => s.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    let gone = false;
    let watch: ResizeObserver | undefined;
    void import("uplot").then(({ default: Plot }) => {
      if (gone || !host.current) return;
      const style = getComputedStyle(host.current);
      const colour = (name: string) => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: `11px ${style.fontFamily}` };
      plot.current = new Plot({
        width: host.current.clientWidth, height: 220, legend: { show: false }, cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [Math.min(0, low), Math.max(1, high * 1.1)] } },
        axes: [axis, { ...axis, size: 56 }],
        series: [{}, ...series.map((s, i) => ({ label: s.label, stroke: colour(s.tone), width: 2, dash: i === 0 ? [] : [6, 2 + 2 * i], points: { show: latest.current[0].length < 40 } }))],
      }, latest.current, host.current);
      watch = new ResizeObserver(() => host.current && plot.current?.setSize({ width: host.current.clientWidth, height: 220 }));
      watch.observe(host.current);
    }, () => setFailed(true));
    return () => {
      gone = true;
      watch?.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
    // The colors are read again when the theme changes. The effect below sets new numbers.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [form, mode]);
  useEffect(() => plot.current?.setData(latest.current), [data]);

  const rows = times.map((time, i) => ({ time, values: series.map((s) => s.values[i] ?? null) }));
  return (
    <figure class="chart">
      <figcaption>{title}
        <ul class="legend">{series.map((s, i) => <li key={s.label}><svg class="swatch" viewBox="0 0 24 4" aria-hidden="true"><line x1="0" y1="2" x2="24" y2="2" stroke={`var(${s.tone})`} stroke-width="3" stroke-dasharray={i === 0 ? "none" : `6 ${2 + 2 * i}`} /></svg>{s.label}</li>)}</ul>
      </figcaption>
      {failed ? <p class="faint">The picture could not be loaded. Its numbers are below.</p> : <div ref={host} class="plot" aria-hidden="true" />}
      <details>
        <summary>The numbers</summary>
        <Table
          caption={title} rows={rows} rowKey={(r) => String(r.time)}
          columns={[
            { title: "Time", cell: (r) => <time dateTime={new Date(r.time * 1000).toISOString()}>{new Date(r.time * 1000).toLocaleString()}</time> },
            ...series.map((s, i) => ({ title: s.label + (unit ? ` (${unit})` : ""), numeric: true, cell: (r: (typeof rows)[number]) => r.values[i] ?? "–" })),
          ]}
        />
      </details>
    </figure>
  );
}
