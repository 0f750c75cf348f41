// Does the work of an agent with the official TypeScript clients: it runs scripts, polls,
// reads output, continues from a heap, tags and queries, and runs a script as a task.
//
// usage: node workflow.mjs URL DAYBOOK DATA_DIR
import assert from 'node:assert/strict';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldHTTP } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome, toolDeclarationFromMcpTool } from '@modelcontextprotocol/ext-tasks/client';

const [url, daybook, dataDir] = process.argv.slice(2);
const deadline = 60_000;

async function workflow(client, name) {
  const call = async (tool, args) => {
    const res = await client.callTool({ name: tool, arguments: args });
    assert.ok(!res.isError, `${tool}: ${JSON.stringify(res.content)}`);
    const answer = JSON.parse(res.content[0].text);
    assert.deepEqual(answer, res.structuredContent, `${tool}: the text is not the structured content`);
    return answer;
  };
  const ended = async (id) => {
    for (const start = Date.now(); Date.now() - start < deadline; await new Promise((r) => setTimeout(r, 50))) {
      const e = await call('get_execution', { execution_id: id });
      if (e.status !== 'running') return e;
    }
    throw new Error(`${id} does not end`);
  };

  const { tools } = await client.listTools();
  assert.equal(tools.length >= 11, true, `${tools.length} tools`);
  assert.deepEqual(tools.find((t) => t.name === 'run_js').inputSchema.required, ['code']);

  const first = await ended((await call('run_js', { code: 'globalThis.n = 20; console.log("counting"); console.warn("careful"); ({n, list: [1, "two"]})' })).execution_id);
  assert.equal(first.status, 'completed');
  assert.equal(first.result, '{"n":20,"list":[1,"two"]}');
  assert.match(first.heap, /^[0-9a-f]{64}$/);

  const page = await call('get_execution_output', { execution_id: first.execution_id });
  assert.equal(page.data, 'counting\n[WARN] careful\n');
  assert.equal(page.total_lines, 2);
  assert.equal(page.has_more, false);

  const label = `${name}-${Date.now()}`;
  const second = await ended((await call('run_js', { code: 'n += 22; n', heap: first.heap, tags: { workflow: label } })).execution_id);
  assert.equal(second.result, '42', 'the heap lacks the variable');
  assert.notEqual(second.heap, first.heap);

  assert.deepEqual(await call('query_heaps_by_tags', { tags: { workflow: label } }), { results: [{ heap: second.heap, tags: { workflow: label } }] });
  assert.deepEqual(await call('set_heap_tags', { heap: second.heap, tags: { workflow: label, seen: 'yes' } }), { ok: true });
  assert.deepEqual((await call('get_heap_tags', { heap: second.heap })).tags, { workflow: label, seen: 'yes' });

  const failed = await ended((await call('run_js', { code: 'throw new TypeError("boom")' })).execution_id);
  assert.equal(failed.status, 'failed');
  assert.match(failed.error, /TypeError: boom/);

  const endless = (await call('run_js', { code: 'for (;;);' })).execution_id;
  assert.deepEqual(await call('cancel_execution', { execution_id: endless }), { ok: true });
  assert.equal((await call('get_execution', { execution_id: endless })).status, 'cancelled');

  const res = await client.readResource({ uri: `execution://${first.execution_id}/output` });
  assert.equal(res.contents[0].text, 'counting\n[WARN] careful\n');

  const refused = await client.callTool({ name: 'run_js', arguments: {} });
  assert.equal(refused.isError, true);
  assert.match(refused.content[0].text, /needs the argument code/);
}

const slow = 'await new Promise(r => setTimeout(r, 300)); 6 * 7';

// oldTasks runs a script as a task with the task methods of the client.
async function oldTasks(client) {
  const messages = [];
  for await (const m of client.experimental.tasks.callToolStream({ name: 'run_js', arguments: { code: slow } }, undefined, { task: {} })) messages.push(m);
  assert.equal(messages[0].type, 'taskCreated');
  assert.equal(messages[0].task.status, 'working');
  const last = messages.at(-1);
  assert.equal(last.type, 'result', JSON.stringify(last));
  assert.equal(last.result.structuredContent.execution_id, messages[0].task.taskId);
  assert.equal(last.result.structuredContent.result, '42');

  const { tasks } = await client.experimental.tasks.listTasks();
  assert.ok(tasks.some((t) => t.taskId === messages[0].task.taskId && t.status === 'completed'));
  for await (const m of client.experimental.tasks.callToolStream({ name: 'run_js', arguments: { code: 'for (;;);' } }, undefined, { task: {} })) {
    if (m.type !== 'taskCreated') continue;
    assert.equal((await client.experimental.tasks.cancelTask(m.task.taskId)).status, 'cancelled');
    break;
  }
}

// extTasks runs the same script with the separate package for tasks.
async function extTasks(client) {
  const runJS = (await client.listTools()).tools.find((t) => t.name === 'run_js');
  const session = createTaskSessionFromClient(client, { endpointId: 'daybook' });
  try {
    const done = await (await session.callTool('run_js', { code: slow }, { declaration: toolDeclarationFromMcpTool(runJS), task: { preference: 'require' } })).settle();
    const result = resultFromTaskOutcome(done.outcome);
    assert.equal(result.structuredContent.status, 'completed', 'the result is not that of the ended run: it was no task');
    assert.equal(result.structuredContent.result, '42');
  } finally {
    await session.close();
  }
}

const old = () => new OldClient({ name: 'workflow', version: '1' }, { capabilities: {} });
const cases = {
  'sdk 1, http': async () => [old(), new OldHTTP(new URL(url))],
  'sdk 1, sse': async () => [old(), new SSEClientTransport(new URL('/sse', url))],
  'sdk 1, stdio': async () => [old(), new StdioClientTransport({ command: daybook, args: ['mcp', '--data-dir', dataDir], stderr: 'inherit' })],
  'client 2, sessions': async () => [new Client({ name: 'workflow', version: '2' }, { capabilities: {} }), new StreamableHTTPClientTransport(new URL(url))],
  'client 2, http': async () => [
    new Client({ name: 'workflow', version: '2' }, { capabilities: {}, versionNegotiation: { mode: 'auto' } }),
    new StreamableHTTPClientTransport(new URL(url)),
  ],
};
const revisions = { 'client 2, http': '2026-07-28', 'client 2, sessions': '2025-11-25' };
const tasks = { 'sdk 1, http': oldTasks, 'sdk 1, stdio': oldTasks, 'client 2, sessions': extTasks };
for (const [name, open] of Object.entries(cases)) {
  const [client, transport] = await open();
  await client.connect(transport);
  const negotiated = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
  if (revisions[name]) assert.equal(negotiated, revisions[name], name);
  assert.equal(client.getServerVersion().name, 'daybook');
  await workflow(client, name.replace(/\W+/g, '-'));
  await tasks[name]?.(client);
  await client.close();
  console.log(`ok  ${name} (${negotiated ?? 'sessions'})`);
}
