// Validates the messages of an agent against the published JSON Schema of ACP v1:
// acp-schema.mjs DIR, with the two sides of each conversation in N.in and N.out.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import Ajv from "ajv/dist/2020.js";

const main = fileURLToPath(import.meta.resolve("@agentclientprotocol/sdk")); // dist/v1/stable/acp.js
const load = (name) => JSON.parse(readFileSync(join(dirname(main), "../../../schema/v1", name), "utf8"));
const integer = (bits) => ({ type: "number", validate: (n) => Number.isInteger(n) && Math.abs(n) < 2 ** bits });
const ajv = new Ajv({ strict: false, allErrors: true, discriminator: false });
for (const bits of [16, 32, 64]) {
  ajv.addFormat(`int${bits}`, integer(bits));
  ajv.addFormat(`uint${bits}`, { type: "number", validate: (n) => Number.isInteger(n) && n >= 0 && n < 2 ** bits });
}
ajv.addFormat("double", true);
ajv.addFormat("uri", { validate: (s) => URL.canParse(s) });
ajv.addFormat("date-time", { validate: (s) => !Number.isNaN(Date.parse(s)) });
ajv.addSchema(load("schema.json"), "stable");
ajv.addSchema(load("schema.unstable.json"), "unstable"); // session/fork is not in the stable schema
const of = (name, from = "stable") => ajv.getSchema(`${from}#/$defs/${name}`) ?? assert.fail(`the schema has no ${name}`);
const results = {
  initialize: of("InitializeResponse"), "session/new": of("NewSessionResponse"), "session/load": of("LoadSessionResponse"),
  "session/resume": of("ResumeSessionResponse"), "session/fork": of("ForkSessionResponse", "unstable"), "session/list": of("ListSessionsResponse"),
  "session/close": of("CloseSessionResponse"), "session/delete": of("DeleteSessionResponse"), "session/prompt": of("PromptResponse"),
  "session/set_mode": of("SetSessionModeResponse"), "session/set_config_option": of("SetSessionConfigOptionResponse"),
};
const ours = { "session/update": of("SessionNotification"), "session/request_permission": of("RequestPermissionRequest"), "$/cancel_request": of("CancelRequestNotification") };
const error = of("Error");
const whole = ajv.compile({ $ref: "stable#" });

const dir = process.argv[2];
const lines = (name) => readFileSync(join(dir, name), "utf8").split("\n").filter((l) => l !== "").map((l) => JSON.parse(l));
const seen = {};
for (const name of readdirSync(dir).filter((n) => n.endsWith(".out"))) {
  const asked = new Map(lines(name.replace(/out$/, "in")).filter((m) => m.method && m.id !== undefined).map((m) => [JSON.stringify(m.id), m.method]));
  for (const m of lines(name)) {
    assert.equal(m.jsonrpc, "2.0");
    const method = m.method ?? asked.get(JSON.stringify(m.id));
    const [check, value] = m.method ? [ours[m.method], m.params] : m.error ? [error, m.error] : [results[method], m.result];
    assert.ok(check, `no schema for ${JSON.stringify(m).slice(0, 300)}`);
    assert.ok(check(value), `${method}: ${ajv.errorsText(check.errors).slice(0, 1000)}\n${JSON.stringify(m).slice(0, 1000)}`);
    if (method !== "session/fork") assert.ok(whole(m), `${ajv.errorsText(whole.errors).slice(0, 1000)}\n${JSON.stringify(m).slice(0, 1000)}`);
    const kind = m.params?.update?.sessionUpdate ?? (m.error ? "error" : method);
    seen[kind] = (seen[kind] ?? 0) + 1;
  }
}
for (const kind of [...Object.keys(results), "error", "agent_message_chunk", "user_message_chunk", "tool_call", "tool_call_update", "available_commands_update",
  "session_info_update", "current_mode_update", "config_option_update", "session/request_permission"]) {
  assert.ok(seen[kind], `the transcripts have no ${kind}`);
}
console.log(`every message is valid: ${Object.values(seen).reduce((a, b) => a + b)} of ${Object.keys(seen).length} kinds`);
