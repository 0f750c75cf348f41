// Runs the MCP Inspector's command line over every transport, and checks its output.
//
// usage: node inspect.mjs URL DAYBOOK DATA_DIR
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const [url, daybook, dataDir] = process.argv.slice(2);
const inspector = fileURLToPath(new URL('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url));
const targets = {
  http: [url, '--transport', 'http'],
  sse: [new URL('/sse', url).href, '--transport', 'sse'],
  stdio: [daybook, 'mcp', '--data-dir', dataDir],
};

async function ask(target, ...args) {
  const { stdout } = await promisify(execFile)(process.execPath, [inspector, '--cli', ...target, ...args], { timeout: 60_000 });
  return JSON.parse(stdout);
}

for (const [name, target] of Object.entries(targets)) {
  const { tools } = await ask(target, '--method', 'tools/list');
  assert.deepEqual(tools.map((t) => t.name), [
    'cancel_execution', 'context_clear', 'delete_heap_tags', 'discover_tools', 'get_context', 'get_execution', 'get_execution_output',
    'get_heap_tags', 'health_check', 'list_executions', 'list_session_snapshots', 'list_sessions', 'open_session', 'query_heaps_by_tags',
    'reset_session', 'run_js', 'set_context', 'set_heap_tags',
  ]);
  for (const t of tools) assert.ok(t.description && t.inputSchema.type === 'object' && t.outputSchema.type === 'object', t.name);

  assert.deepEqual((await ask(target, '--method', 'resources/list')).resources, []);
  const { resourceTemplates } = await ask(target, '--method', 'resources/templates/list');
  assert.deepEqual(resourceTemplates.map((r) => r.uriTemplate).sort(), [
    'execution://{id}', 'execution://{id}/artifacts/{name}', 'execution://{id}/error', 'execution://{id}/output', 'execution://{id}/result', 'heap://{hash}', 'session://{name}', 'session://{name}/context',
  ]);

  const run = await ask(target, '--method', 'tools/call', '--tool-name', 'run_js', '--tool-arg', 'code=console.log("hi"); 1+1');
  assert.match(run.structuredContent.execution_id, /^[0-9a-f-]{36}$/);
  assert.deepEqual(JSON.parse(run.content[0].text), run.structuredContent);
  const id = run.structuredContent.execution_id;
  let e;
  for (let i = 0; i < 20 && e?.status !== 'completed'; i++) {
    e = (await ask(target, '--method', 'tools/call', '--tool-name', 'get_execution', '--tool-arg', `execution_id=${id}`)).structuredContent;
  }
  assert.equal(e.status, 'completed');
  assert.equal(e.result, '2');
  console.log(`ok  inspector, ${name}`);
}
