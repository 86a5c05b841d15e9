"use strict";
// Shows the document. Everything is put in as text, never as markup.

function make(name, text, ...children) {
  const node = document.createElement(name);
  if (text !== undefined && text !== null) node.textContent = text;
  node.append(...children);
  return node;
}

function link(to, text) {
  const node = make("a", text);
  node.href = "#" + to;
  return node;
}

function block(name, id, ...children) {
  const node = make(name, null, ...children);
  node.id = id;
  return node;
}

function slug(text) {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}

// --- text: the part of Markdown that the document uses ----------------------------

function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\(#[^)]+\))/).map((part) => {
    const named = part.match(/^\[(.+)\]\(#(.+)\)$/);
    if (named) return link(named[2], named[1]);
    if (/^`.+`$/.test(part)) return make("code", part.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(part)) return make("strong", null, ...inline(part.slice(2, -2)));
    return part;
  });
}

function grid(lines) {
  const cells = (line) => line.replace(/^\|\s*|\s*\|$/g, "").split(/\s*\|\s*/);
  const row = (kind, line) => make("tr", null, ...cells(line).map((cell) => make(kind, null, ...inline(cell))));
  const [head, , ...body] = lines;
  const table = make("table", null, make("thead", null, row("th", head)), make("tbody", null, ...body.map((line) => row("td", line))));
  table.className = "grid";
  return table;
}

// A list of sections: what stands under each heading, and first what stands above all.
function sections(text) {
  const lines = text.split("\n");
  const found = [{ title: null, nodes: [] }];
  const put = (node) => found[found.length - 1].nodes.push(node);
  const take = (fits) => {
    const taken = [];
    while (lines.length && fits(lines[0])) taken.push(lines.shift());
    return taken;
  };
  while (lines.length) {
    if (lines[0].startsWith("## ")) {
      found.push({ title: lines.shift().slice(3), nodes: [] });
    } else if (lines[0].startsWith("```")) {
      lines.shift();
      const example = take((line) => !line.startsWith("```")).join("\n");
      // The examples call the hub that shows them.
      put(make("pre", null, make("code", example.replace(/^HUB=.*/, "HUB=" + location.origin))));
      lines.shift();
    } else if (lines[0].startsWith("|")) {
      put(grid(take((line) => line.startsWith("|"))));
    } else if (lines[0].trim() === "") {
      lines.shift();
    } else {
      put(make("p", null, ...inline(take((line) => line.trim() !== "" && !/^(## |\||```)/.test(line)).join(" "))));
    }
  }
  return found;
}

// --- shapes -------------------------------------------------------------------------

function typeName(schema) {
  return schema && schema.$ref ? schema.$ref.split("/").pop() : null;
}

// What may stand in a place, with links to types.
function kind(schema) {
  const name = typeName(schema);
  if (name) return [link("type-" + name.toLowerCase(), name)];
  const several = schema.anyOf || schema.oneOf;
  if (several) return several.flatMap((one, at) => (at ? [" or ", ...kind(one)] : kind(one)));
  if (schema.enum) return [schema.enum.join(" or ")];
  const types = [].concat(schema.type || "anything");
  return types.flatMap((type, at) => {
    const told = type === "array" ? ["list of ", ...kind(schema.items || {})] : [type];
    return at ? [" or ", ...told] : told;
  });
}

function row(name, kinds, told) {
  return make("tr", null, make("td", null, make("code", name)), make("td", null, ...kinds), make("td", null, ...inline(told || "")));
}

function fields(schema) {
  const needed = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([name, field]) =>
    row(name + (needed.has(name) ? "" : "?"), kind(field), field.description));
  if (!rows.length) return null;
  const table = make("table", null, ...rows);
  table.className = "fields";
  return table;
}

function type(name, schema) {
  const inside = make("div");
  inside.className = "inside";
  if (schema.description) inside.append(make("p", null, ...inline(schema.description)));
  const table = fields(schema);
  if (table) inside.append(table);
  const forms = schema.anyOf || schema.oneOf || [];
  const words = forms.concat(schema).flatMap((form) => form.enum || (form.const ? [form.const] : []));
  if (words.length) {
    inside.append(make("p", null, "One of ", ...words.flatMap((word, at) => [at ? ", " : "", make("code", word)])));
  } else if (forms.length) {
    const shapes = forms.flatMap((form, at) => {
      const names = Object.keys(form.properties || {});
      const told = names.length ? ["an object with ", make("code", names.join(", "))] : kind(form);
      return at ? [", or ", ...told] : told;
    });
    inside.append(make("p", null, table ? "And the fields of " : "It is ", ...shapes, "."));
  }
  return block("details", "type-" + name.toLowerCase(), make("summary", null, make("code", name)), inside);
}

// --- calls --------------------------------------------------------------------------

function sample(text) {
  return make("pre", null, make("code", text));
}

function shown(example) {
  return sample(typeof example === "string" ? example.trimEnd() : JSON.stringify(example, null, 2));
}

function call(doc, path, method, operation) {
  const inside = make("div");
  inside.className = "inside";
  if (operation.description) inside.append(make("p", operation.description));
  const parameters = (operation.parameters || []).map((given) =>
    row(given.name + (given.required ? "" : "?"), [given.in + ", ", ...kind(given.schema)], given.description));
  if (parameters.length) {
    const table = make("table", null, ...parameters);
    table.className = "fields";
    inside.append(make("h3", "Parameters"), table);
  }
  const body = operation.requestBody && operation.requestBody.content["application/json"];
  if (body) {
    inside.append(make("h3", null, "Body: ", ...kind(body.schema), operation.requestBody.required ? "" : ", which may be left out"));
    const table = fields(doc.components.schemas[typeName(body.schema)] || body.schema);
    if (table) inside.append(table);
  }
  const samples = operation["x-codeSamples"] || [];
  if (samples.length) inside.append(make("h3", "Example"), ...samples.map((one) => sample(one.source)));
  const errors = make("tbody");
  for (const [status, answer] of Object.entries(operation.responses)) {
    if (Number(status) >= 400) {
      errors.append(make("tr", null, make("td", status), make("td", null, ...inline(answer.description))));
      continue;
    }
    const [media] = Object.values(answer.content || {});
    inside.append(make("h3", null, status + " ", ...(media ? kind(media.schema) : [])), make("p", null, ...inline(answer.description)));
    if (media && media.example !== undefined) inside.append(shown(media.example));
  }
  inside.append(make("h3", null, link("errors", "Errors")), make("table", null, errors));
  const head = make("summary", null, make("span", method.toUpperCase()), make("code", path), make("span", operation.summary));
  head.firstChild.className = "method";
  return block("details", operation.operationId, head, inside);
}

// --- the page -----------------------------------------------------------------------

// The URL follows what is open, and what the address names is opened.
function follow(details) {
  details.addEventListener("toggle", () => {
    const here = "#" + details.id;
    const wanted = details.open ? here : location.hash === here ? "" : location.hash;
    if (wanted !== location.hash) history.replaceState(null, "", location.pathname + location.search + wanted);
  });
}

function openNamed(find) {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.hidden || (named.parentElement && named.parentElement.hidden)) {
    find.value = "";
    find.dispatchEvent(new Event("input"));
  }
  if (named.tagName === "DETAILS") named.open = true;
  named.scrollIntoView();
}

function search(find, parts) {
  const nothing = document.getElementById("nothing");
  const narrow = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (node) => words.every((word) => node.textContent.toLowerCase().includes(word));
    let found = 0;
    for (const part of parts) {
      const entries = [...part.querySelectorAll("details")];
      for (const entry of entries) entry.hidden = !fits(entry);
      const shows = entries.length ? entries.some((entry) => !entry.hidden) : fits(part);
      part.hidden = !shows;
      found += shows ? 1 : 0;
    }
    nothing.hidden = found > 0;
    nothing.textContent = found ? "" : "Nothing here has all of these words: " + find.value.trim();
    const url = new URL(location.href);
    if (words.length) url.searchParams.set("find", find.value.trim());
    else url.searchParams.delete("find");
    if (url.href !== location.href) history.replaceState(null, "", url);
  };
  find.addEventListener("input", narrow);
  find.value = new URL(location.href).searchParams.get("find") || "";
  if (find.value) narrow();
}

function show(doc) {
  document.getElementById("version").textContent = doc.info.version;
  document.getElementById("summary").textContent = doc.info.summary;
  const [first, ...texts] = sections(doc.info.description);
  const parts = [block("section", "introduction", ...first.nodes)];
  const contents = [];
  for (const { title, nodes } of texts) {
    parts.push(block("section", slug(title), make("h2", title), ...nodes));
    contents.push([slug(title), title]);
  }
  for (const tag of doc.tags) {
    const part = block("section", "calls-" + slug(tag.name), make("h2", tag.name), make("p", null, ...inline(tag.description)));
    for (const [path, methods] of Object.entries(doc.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation.tags.includes(tag.name)) part.append(call(doc, path, method, operation));
      }
    }
    parts.push(part);
    contents.push([part.id, tag.name]);
  }
  // What is only the form of a query is shown with its call.
  const text = JSON.stringify(doc);
  const types = Object.entries(doc.components.schemas).filter(([name]) => name === "Reset" || text.includes('schemas/' + name + '"'));
  parts.push(block("section", "types", make("h2", "Types"), ...types.map(([name, schema]) => type(name, schema))));
  contents.push(["types", "Types"]);
  document.getElementById("page").replaceChildren(...parts);
  document.getElementById("contents").replaceChildren(...contents.map(([to, title]) => link(to, title)));
  document.querySelectorAll("details").forEach(follow);
  const find = document.getElementById("find");
  search(find, parts);
  addEventListener("hashchange", () => openNamed(find));
  openNamed(find);
}

fetch("/openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => {
    document.getElementById("page").replaceChildren(make("p", "The document could not be loaded: " + error));
  });
