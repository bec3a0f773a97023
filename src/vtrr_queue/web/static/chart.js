// Draws waiting times over time; knows nothing of queues.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 170, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 20;
const GAP = 30; // seconds without a point: nobody looked, so no line

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** Lines is a list of lists of [time, value], drawn in the colours 0, 1, 2, 3; `say` words a value. */
export function draw(svg, lines, now, say) {
  const width = Math.max(svg.clientWidth, 200);
  const points = lines.flat();
  const start = Math.min(now - 60, ...points.map(([time]) => time));
  const top = ceiling(Math.max(1, ...points.map(([, value]) => value)));
  const x = (time) => LEFT + ((time - start) / (now - start)) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const made = [0, top / 2, top].flatMap((value) => [
    shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    label(say(value).replace(".0 ", " "), LEFT - 6, y(value) + 4, "end"),
  ]);
  made.push(label(`${duration(now - start)} ago`, LEFT, HEIGHT - 4, "start"));
  made.push(label("now", width - RIGHT, HEIGHT - 4, "end"));
  lines.forEach((line, at) => {
    let path = "", last = -Infinity;
    for (const [time, value] of line) {
      path += `${time - last > GAP ? "M" : "L"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      last = time;
    }
    if (path) made.push(shape("path", { "data-line": at, d: path }));
  });
  svg.replaceChildren(...made);
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function label(text, x, y, anchor) {
  const made = shape("text", { x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}
