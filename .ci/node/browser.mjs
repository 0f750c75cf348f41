// A page of another origin, in Chromium, tries to submit, read and cancel everything in a
// local Daybook. Every attempt must fail.
//
//   node browser.mjs http://127.0.0.1:PORT nats://127.0.0.1:PORT /path/to/chromium
//
// With SHOW_ATTEMPTS in the environment it prints the attempts and their results.
import { createServer } from "node:http";
import { once } from "node:events";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [base, nats, executablePath] = process.argv.slice(2);
const port = new URL(base).port;
const natsPort = new URL(nats).port;
const marker = "seen-only-by-those-who-may";

// A client without an origin starts two runs. The second one does not end before the test.
const api = async (method, path, body) => {
  const res = await fetch(base + path, { method, headers: body && { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  return { status: res.status, body: await res.json() };
};
const done = (await api("POST", "/api/exec", { code: `console.log(${JSON.stringify(marker)}); ${JSON.stringify(marker)}`, session: marker, tags: { marker } })).body.execution_id;
const ended = (await api("GET", `/api/executions/${done}?wait=30`)).body;
assert.equal(ended.result, marker);
const endless = (await api("POST", "/api/exec", { code: "await new Promise(r => setTimeout(r, 120000))", execution_timeout_secs: 300 })).body.execution_id;
const state = async () => {
  const list = (await api("GET", "/api/executions")).body.executions.map((e) => `${e.execution_id} ${e.status}`);
  const tags = (await api("GET", `/api/heaps/${ended.heap}/tags`)).body.tags;
  const webhooks = (await api("GET", "/api/webhooks")).body;
  return { list, tags, webhooks };
};
const before = await state();
assert.deepEqual(before.list, [`${endless} running`, `${done} completed`]);

// The attempts of a page. The function runs in the browser, and returns the part of each
// answer that the page can see.
const attack = async ({ base, natsPort, endless, done, heap, marker }) => {
  const seen = [];
  const note = (name, what) => seen.push({ name, what: String(what).slice(0, 300) });
  const tried = async (name, fn) => {
    try {
      const late = new Promise((resolve) => setTimeout(() => resolve("nothing within 3 s"), 3000));
      note(name, await Promise.race([fn(), late]));
    } catch (err) {
      note(name, err);
    }
  };
  const source = JSON.stringify({ code: `"${marker} by the page"` });
  const rpc = (method, params) => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const hello = rpc("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "page", version: "1" } });
  const run = rpc("tools/call", { name: "run_js", arguments: { code: "1" } });
  const requests = [
    ["GET", "/api/executions"], ["GET", `/api/executions/${done}`], ["GET", `/api/executions/${done}/output`], ["GET", `/api/executions/${done}/events`],
    ["GET", "/api/events"], ["GET", "/api/heaps"], ["GET", "/api/sessions"], ["GET", "/api/ledger/checkpoint"], ["GET", "/metrics"], ["GET", "/"], ["GET", "/openapi.json"],
    ["POST", "/api/exec", source], ["POST", "/api/exec?session=page", "1"], ["POST", `/api/executions/${endless}/cancel`, ""],
    ["PUT", `/api/heaps/${heap}/tags`, JSON.stringify({ tags: { by: "page" } })], ["DELETE", `/api/heaps/${heap}/tags`],
    ["POST", "/api/webhooks", JSON.stringify({ url: "http://127.0.0.1:1/" })],
    ["POST", "/mcp", hello], ["POST", "/mcp", run], ["DELETE", "/mcp"], ["POST", "/sse?sessionid=x", run],
  ];
  const types = [undefined, "text/plain", "application/json", "application/javascript", "application/x-www-form-urlencoded"];
  for (const [method, path, body] of requests) {
    for (const type of body === undefined ? [undefined] : types) {
      for (const mode of ["cors", "no-cors"]) {
        await tried(`${mode} ${method} ${path} as ${type}`, async () => {
          const headers = { Accept: "application/json, text/event-stream", ...(type && { "Content-Type": type }) };
          const res = await fetch(base + path, { method, mode, body, headers, credentials: "include" });
          return `${res.type} ${res.status} ${await res.text()}`;
        });
      }
    }
  }
  for (const path of ["/api/events", `/api/executions/${done}/output`, "/sse"]) {
    await tried(`EventSource ${path}`, () => new Promise((resolve) => {
      const source = new EventSource(base + path);
      source.onmessage = (e) => resolve(`heard ${e.data}`);
      source.onopen = () => resolve("opened");
      source.onerror = () => { source.close(); resolve("refused"); };
    }));
  }
  await tried("WebSocket", () => new Promise((resolve) => {
    const socket = new WebSocket(base.replace("http", "ws") + "/mcp");
    socket.onopen = () => resolve("opened");
    socket.onerror = () => resolve("refused");
  }));
  await tried("sendBeacon", async () => navigator.sendBeacon(base + "/api/exec", source) && "sent");
  // The body of an HTTP request to the NATS port holds NATS commands.
  await tried("no-cors POST to NATS", async () => {
    const res = await fetch(`http://127.0.0.1:${natsPort}/`, { method: "POST", mode: "no-cors", body: `CONNECT {}\r\nPUB ledger.x 1\r\nx\r\nSUB events.> 1\r\nPING\r\n` });
    return `${res.type} ${res.status} ${await res.text()}`;
  });
  const element = (tag, properties) => new Promise((resolve) => {
    const e = Object.assign(document.createElement(tag), properties);
    e.onload = () => resolve([e, "loaded"]);
    e.onerror = () => resolve([e, "refused"]);
    document.body.append(e);
  });
  await tried("script", async () => (await element("script", { src: base + "/api/executions" }))[1] + " " + Object.keys(window).includes(marker));
  await tried("stylesheet", async () => (await element("link", { rel: "stylesheet", href: base + "/api/executions" }))[1]);
  await tried("image", async () => (await element("img", { src: base + `/api/executions/${done}/output` }))[1]);
  for (const path of ["/", "/docs", `/api/executions/${done}/output`]) {
    await tried(`iframe of ${path}`, async () => {
      const [frame] = await element("iframe", { src: base + path });
      return frame.contentDocument?.body?.innerText ?? "out of reach";
    });
  }
  for (const enctype of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    for (const path of ["/api/exec", `/api/executions/${endless}/cancel`, "/mcp"]) {
      await tried(`form ${enctype} to ${path}`, async () => {
        const frame = Object.assign(document.createElement("iframe"), { name: "target" });
        const form = Object.assign(document.createElement("form"), { action: base + path, method: "post", enctype, target: "target" });
        // In text/plain a name and its value form a line of JSON.
        form.append(Object.assign(document.createElement("input"), { name: `{"code":"1","file_name":"`, value: `"}` }));
        document.body.append(frame, form);
        const loaded = new Promise((resolve) => (frame.onload = resolve));
        form.submit();
        await loaded;
        frame.remove();
        return "submitted";
      });
    }
  }
  return seen;
};

const page = `<!doctype html><title>another origin</title><body></body>`;
const evil = createServer((_, res) => res.setHeader("Content-Type", "text/html").end(page)).listen(0, "127.0.0.1");
await once(evil, "listening");
// Some browsers block requests of pages to addresses of this machine. That is switched off
// here, because not all browsers do it and the server must refuse them.
const browser = await chromium.launch({ executablePath, args: [
  "--no-sandbox", "--host-resolver-rules=MAP rebound.example 127.0.0.1",
  "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights",
] });
const refused = {};
try {
  const origins = {
    "another port": `http://127.0.0.1:${evil.address().port}/`,
    "another name of this machine": `http://localhost:${evil.address().port}/`,
    // The name had the attacker's address when the page was loaded, and has this one now.
    "a name that was rebound": `http://rebound.example:${port}/page.html`,
  };
  for (const [name, url] of Object.entries(origins)) {
    const tab = await browser.newPage();
    refused[name] = 0;
    // Counts also the answers that the browser hides from the page.
    const network = await tab.context().newCDPSession(tab);
    await network.send("Network.enable");
    network.on("Network.responseReceivedExtraInfo", (res) => { if (res.statusCode === 403) refused[name]++; });
    await tab.route("**/page.html", (route) => route.fulfill({ contentType: "text/html", body: page }));
    await tab.goto(url);
    const target = name === "a name that was rebound" ? `http://rebound.example:${port}` : base;
    const seen = await tab.evaluate(attack, { base: target, natsPort, endless, done, heap: ended.heap, marker });
    if (process.env.SHOW_ATTEMPTS) console.log(seen.map((s) => `${s.name} => ${s.what.replaceAll("\n", " ").slice(0, 120)}`).join("\n"));
    for (const { name: how, what } of seen) {
      const harmless = /^(TypeError: |opaque 0 $|refused|loaded false$|out of reach|nothing within 3 s|sent|submitted|undefined)/.test(what)
        || /^(basic|cors) 403 /.test(what); // a rebound page reads the refusal of its own origin
      // The page can read a frame of a rebound origin, which may hold the refusal.
      const refusal = /Host|origin/i.test(what) && !what.includes(marker) && how.startsWith("iframe");
      assert.ok((harmless || refusal) && !what.includes(marker), `${name}: ${how}: the page got ${what}`);
    }
    assert.ok(seen.length > 100, `${name}: only ${seen.length} attempts`);
    console.log(`${name}: ${seen.length} attempts, ${refused[name]} answered with 403`);
    await tab.close();
  }
} finally {
  await browser.close();
  evil.close();
}
for (const [name, n] of Object.entries(refused)) assert.ok(n > 20, `${name}: the server refused only ${n} requests: did the page reach it?`);
assert.deepEqual(await state(), before, "the pages changed something");
// A request that was refused to the pages succeeds for a client without an origin.
assert.equal((await api("POST", `/api/executions/${endless}/cancel`)).status, 200);
console.log("a page of another origin reads, submits and cancels nothing");
