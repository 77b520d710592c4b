// The JSON API over HTTP: requests, errors, events of jobs, and the source of the graph and the tree.

import { hasMessage, sentences, t } from "./i18n.js";
import { quotedName, writerName } from "./reasons.js";

/** An error that the server reported, or the lack of an answer. */
export class ApiError extends Error {
  constructor(type, message, status) {
    super(message);
    this.type = type;
    this.status = status;
  }
}

/** Dispatches `unauthorized`, `offline` and `online`. */
export const connection = new EventTarget();

const RETRY = 1_500;
const STATUSES = new Set([400, 401, 403, 404, 409, 413, 429, 503]); // those whose kind the messages name

let watching = false;

async function request(method, path, body, signal) {
  return answerOf(await send(method, path, body, signal, "application/json"));
}

async function send(method, path, body, signal, accept) {
  const options = { method, signal, credentials: "same-origin", headers: { Accept: accept } };
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    watchServer();
    throw new ApiError("ConnectionError", t("error.away"), 0);
  }
  if (response.status === 401 && path !== "session") connection.dispatchEvent(new Event("unauthorized"));
  return response;
}

async function answerOf(response) {
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) throw new ApiError("AnswerError", t("error.no_json"), response.status);
  }
  if (response.ok) return value;
  const wait = response.headers.get("Retry-After");
  const hint = wait && /^\d+$/.test(wait) ? t("error.wait", { seconds: Number(wait) }) : "";
  const message = value?.error ? problemText(value.error, response.status) : t("error.status", { status: response.status });
  throw new ApiError(value?.error?.type ?? "ServerError", sentences([message, hint]), response.status);
}

/**
 * Return an error of the server in the language of the page, by its code. One that the page does not know is in
 * English, after the kind of problem.
 */
export function problemText({ code, values, message }, status) {
  const key = `problem.${code}`;
  if (!hasMessage(key)) return t(STATUSES.has(status) ? `problem.${status}` : "problem.other", { message });
  const shown = Object.entries(values ?? {}).map(([name, value]) => [name, shownValueOf(name, value)]);
  return t(key, Object.fromEntries(shown));
}

/** Return a reason that is part of a larger message or a list, without the kind of problem. */
export function reasonText(reason) {
  if (typeof reason === "string") return reason;
  const { code, values, message, text = message } = reason;
  return hasMessage(`problem.${code}`) ? problemText({ code, values, message: text }) : text;
}

function shownValueOf(name, value) {
  if (Array.isArray(value)) return value.some((one) => one?.code) ? sentences(value.map(reasonText)) : value.map(quotedName).join(t("error.names_or"));
  if (value?.code) return reasonText(value);
  if (name === "writer") return writerName(value);
  return name === "name" && hasMessage(`field.${value}`) ? t(`field.${value}`) : value;
}

/** Ask for the health of the server until it answers, so that the page recovers by itself. */
async function watchServer() {
  if (watching) return;
  watching = true;
  connection.dispatchEvent(new Event("offline"));
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, RETRY));
    try {
      if ((await fetch("health", { cache: "no-store" })).ok) break;
    } catch {
      // Still away.
    }
  }
  watching = false;
  connection.dispatchEvent(new Event("online"));
}

/** Requests; `path` is relative to the page. */
export const api = {
  get: (path, signal) => request("GET", path, undefined, signal),
  post: (path, body, signal) => request("POST", path, body, signal),
  remove: (path, signal) => request("DELETE", path, undefined, signal),
};

/** Return `path?name=value` with the parameters that have a value. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Send a request whose answer is server-sent events; `receive(name, data)` gets each of them. */
export async function postEvents(path, body, signal, receive) {
  const response = await send("POST", path, body, signal, "text/event-stream");
  if (!response.ok) await answerOf(response); // throws
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(part); // else a comment
      if (found) receive(found[1], JSON.parse(found[2]));
    }
  }
}

const FINAL = new Set(["done", "failed", "stopped"]);

/** Follow a job by its events; resolve to its final state, or reject with its error. */
export function followJob(id, onProgress) {
  const path = `jobs/${encodeURIComponent(id)}`;
  return new Promise((resolve, reject) => {
    const events = new EventSource(`${path}/events`);
    const receive = (event) => {
      const job = JSON.parse(event.data);
      if (!FINAL.has(job.state)) {
        onProgress(job);
        return;
      }
      events.close();
      if (job.state === "failed") reject(new ApiError(job.error?.type ?? "ServerError", job.error ? problemText(job.error) : t("error.job"), 200));
      else resolve(job);
    };
    for (const name of ["progress", "done", "failed", "stopped"]) events.addEventListener(name, receive);
    events.addEventListener("error", async () => {
      if (events.readyState !== EventSource.CLOSED) return; // the browser connects again
      events.close();
      try {
        const job = await api.get(path);
        if (FINAL.has(job.state)) receive({ data: JSON.stringify(job) });
        else setTimeout(() => followJob(id, onProgress).then(resolve, reject), RETRY);
      } catch (error) {
        reject(error);
      }
    });
  });
}

/**
 * The data of the graph and the tree, over HTTP. A report has the same methods over its own data, apart from
 * `reasons`: why something may be missing.
 */
export function makeSource(state) {
  const name = encodeURIComponent;
  return {
    reasons: () => state.reasons(),
    entities: ({ prefix, limit, offset, nouns, type } = {}) => api.get(withQuery("entities", { prefix, limit, offset, names_only: !nouns, type })),
    neighborhood: (entity, limit, nouns) => api.get(withQuery(`entities/${name(entity)}/neighborhood`, { limit, names_only: !nouns })),
    entity: (entity) => api.get(`entities/${name(entity)}`),
    edits: () => api.get("edits"),
    edit: (change) => api.post("edits", change),
    path: (source, target) => api.get(withQuery("path", { source, target })),
    edge: (source, target) => api.get(withQuery("edge", { source, target })),
    tree: (document, { offset } = {}) => api.get(withQuery(`documents/${name(document)}/tree`, { offset })),
    children: (node, { offset } = {}) => api.get(withQuery(`nodes/${name(node)}/children`, { offset })),
    text: (document, start, end) => api.get(withQuery(`documents/${name(document)}`, { start, end })),
    documents: ({ offset, limit, search, status } = {}) => api.get(withQuery("documents", { offset, limit, search, status })),
  };
}

/** Return the name under which the browser keeps what one client of an index saves: several may share the browser. */
export function storageName(info) {
  return [info.name, info.client].filter(Boolean).join(":");
}
