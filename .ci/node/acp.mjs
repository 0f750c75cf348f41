// Drives "daybook acp" with the official client: acp.mjs DIR COMMAND ARGS...
// Two processes on one data directory, one after the other.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk/unstable";

const [cwd, command, ...args] = process.argv.slice(2);
const agent = methods.agent;

// visit runs steps with a new agent process, and ends it by a signal or by the end of its
// input.
async function visit(steps, signal) {
  const child = spawn(command, args, { cwd: "/", stdio: ["pipe", "pipe", "inherit"], detached: true });
  const exited = new Promise((resolve) => child.on("exit", resolve));
  const updates = [];
  const asked = [];
  const app = client({ name: "daybook-acceptance" })
    .onNotification(methods.client.session.update, ({ params }) => void updates.push(params))
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      asked.push(params);
      return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
    });
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (ctx) => {
    const hello = await ctx.request(agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
    assert.equal(hello.protocolVersion, 1);
    assert.equal(hello.agentInfo.name, "daybook");
    const said = (session, from = 0) =>
      updates.slice(from).filter((u) => u.sessionId === session && u.update.sessionUpdate === "agent_message_chunk").map((u) => u.update.content.text);
    const prompt = async (session, text) => {
      const from = updates.length;
      const { stopReason } = await ctx.request(agent.session.prompt, { sessionId: session, prompt: [{ type: "text", text }] });
      return { stopReason, said: said(session, from), updates: updates.slice(from).map((u) => u.update) };
    };
    await steps({ ctx, updates, asked, prompt, said });
    if (signal) process.kill(-child.pid, signal);
  }).catch((err) => {
    if (!signal || err instanceof assert.AssertionError) throw err; // otherwise the process has ended before its answer
  });
  if (!signal) child.stdin.end();
  await exited;
}

const deadline = setTimeout(() => { console.error("it takes too long"); process.exit(1); }, 120_000);
const base = { cwd, mcpServers: [] };
let session, live;

await visit(async ({ ctx, updates, prompt }) => {
  ({ sessionId: session } = await ctx.request(agent.session.new, base));
  const from = updates.length;
  let turn = await prompt(session, "// Set out\nconsole.log('hello'); globalThis.n = 41; n + 1");
  assert.equal(turn.stopReason, "end_turn");
  assert.deepEqual(turn.said, ["hello\n", "42"]);
  turn = await prompt(session, "null.x");
  assert.equal(turn.stopReason, "end_turn");
  assert.ok(turn.updates.some((u) => u.sessionUpdate === "tool_call_update" && u.status === "failed"));
  const endless = prompt(session, "console.log('looping'); for (;;) {}");
  while (!updates.some((u) => u.update.content?.text === "looping\n")) await new Promise((r) => setTimeout(r, 5));
  await ctx.notify(agent.session.cancel, { sessionId: session });
  assert.equal((await endless).stopReason, "cancelled");
  await ctx.request(agent.session.setMode, { sessionId: session, modeId: "auto" });
  const set = await ctx.request(agent.session.setConfigOption, { sessionId: session, configId: "timeout", value: "60" });
  assert.equal(set.configOptions.find((o) => o.id === "mode").currentValue, "auto");
  await prompt(session, "/heap");
  live = updates.slice(from).map((u) => u.update).filter((u) => !/config_option_update|available_commands|current_mode/.test(u.sessionUpdate));
}, "SIGKILL");

await visit(async ({ ctx, updates, prompt, said }) => {
  const { sessions } = await ctx.request(agent.session.list, { cwd });
  assert.deepEqual(sessions.map((s) => [s.sessionId, s.title]), [[session, "Set out"]]);
  const loaded = await ctx.request(agent.session.load, { sessionId: session, ...base });
  assert.equal(loaded.modes.currentModeId, "auto");
  const replayed = updates.map((u) => u.update).filter((u) => !/user_message_chunk|available_commands/.test(u.sessionUpdate));
  assert.deepEqual(replayed, live, "the replay differs from the live updates");
  assert.deepEqual((await prompt(session, "n")).said, ["41"]);
  await ctx.request(agent.session.close, { sessionId: session });
  const before = updates.length;
  await ctx.request(agent.session.resume, { sessionId: session, ...base });
  assert.equal(updates.slice(before).filter((u) => u.update.sessionUpdate !== "available_commands_update").length, 0, "a resume replays updates");
  assert.deepEqual((await prompt(session, "n += 1")).said, ["42"]);
  const { sessionId: fork } = await ctx.request(agent.session.fork, { sessionId: session, ...base });
  await prompt(session, "n = 'elsewhere'");
  assert.deepEqual((await prompt(fork, "n")).said, ["42"]);
  await ctx.request(agent.session.delete, { sessionId: fork });
  await ctx.request(agent.session.delete, { sessionId: fork });
  await assert.rejects(ctx.request(agent.session.load, { sessionId: fork, ...base }));
  await assert.rejects(ctx.request(agent.session.new, { ...base, cwd: "relative" }));
  assert.deepEqual(said(fork).length > 0, true);
});

clearTimeout(deadline);
console.log("the official client drives new, prompt, cancel, load after a kill, resume, fork, close and delete");
process.exit(0);
