"use strict";
// Shows the document. Everything is put in as text, never as markup.

const METHODS = ["get", "post", "put", "patch", "delete"];

function make(name, text, ...children) {
  const node = document.createElement(name);
  if (text !== undefined && text !== null) node.textContent = text;
  node.append(...children);
  return node;
}

function resolve(doc, schema) {
  if (!schema || !schema.$ref) return schema || {};
  const found = schema.$ref.replace(/^#\//, "").split("/").reduce((at, key) => at && at[key], doc);
  return { ...found, ...schema, $ref: undefined };
}

function kind(doc, given) {
  const schema = resolve(doc, given);
  if (schema.enum) return schema.enum.join(" | ");
  const any = schema.anyOf || schema.oneOf;
  if (any) return any.map((one) => (one.const ? String(one.const) : kind(doc, one))).join(" | ");
  if (schema.type === "array") return "list of " + kind(doc, schema.items || {});
  return [].concat(schema.type || "any").join(" | ");
}

// The fields of a schema as rows; shapes within shapes up to a depth.
function fields(doc, given, depth) {
  let schema = resolve(doc, given);
  if (schema.type === "array") schema = resolve(doc, schema.items);
  for (const one of schema.anyOf || []) {
    if (!schema.properties && resolve(doc, one).properties) schema = resolve(doc, one);
  }
  const table = make("table");
  const needed = new Set(schema.required || []);
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const told = make("td", resolve(doc, field).description || "");
    const inner = depth > 0 ? fields(doc, field, depth - 1) : null;
    if (inner && inner.rows.length) told.append(inner);
    const mark = needed.has(name) ? "" : "?";
    table.append(make("tr", null, make("td", null, make("code", name + mark)), make("td", kind(doc, field)), told));
  }
  return table;
}

function section(title, node) {
  return node && node.rows && !node.rows.length ? [] : [make("h3", title), node];
}

function call(doc, path, method, operation) {
  const inside = make("div");
  inside.className = "inside";
  if (operation.description) inside.append(make("p", operation.description));
  const table = make("table");
  for (const given of operation.parameters || []) {
    const row = [make("td", null, make("code", given.name)), make("td", given.in + ", " + kind(doc, given.schema)), make("td", given.description || "")];
    table.append(make("tr", null, ...row));
  }
  inside.append(...section("Parameters", table));
  const body = operation.requestBody && operation.requestBody.content["application/json"];
  if (body) inside.append(...section("Body", fields(doc, body.schema, 1)));
  for (const [status, answer] of Object.entries(operation.responses)) {
    if (answer.$ref) continue;
    inside.append(make("h3", status + ": " + answer.description));
    const [media] = Object.values(answer.content || {});
    if (media) inside.append(fields(doc, media.schema, 2));
  }
  const head = make("summary", null, make("span", method.toUpperCase()), make("code", path), make("span", operation.summary));
  head.firstChild.className = "method";
  return make("details", null, head, inside);
}

function show(doc) {
  document.getElementById("version").textContent = doc.info.version;
  document.getElementById("about").textContent = doc.info.description;
  const main = document.getElementById("calls");
  main.replaceChildren();
  const sections = new Map();
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const method of METHODS.filter((m) => item[m])) {
      const [tag] = item[method].tags;
      if (!sections.has(tag)) sections.set(tag, make("section", null, make("h2", tag)));
      sections.get(tag).append(call(doc, path, method, item[method]));
    }
  }
  main.append(...sections.values());
  const find = document.getElementById("find");
  find.addEventListener("input", () => {
    const words = find.value.toLowerCase().split(/\s+/);
    for (const part of sections.values()) {
      let shown = 0;
      for (const one of part.querySelectorAll("details")) {
        const text = one.textContent.toLowerCase();
        one.hidden = !words.every((word) => text.includes(word));
        shown += one.hidden ? 0 : 1;
      }
      part.hidden = shown === 0;
    }
  });
}

fetch("/openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => {
    document.getElementById("calls").replaceChildren(make("p", "The document could not be loaded: " + error));
  });
