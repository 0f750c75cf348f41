// Checks an AsyncAPI document with the official parser. It allows one warning: that a newer
// version of AsyncAPI exists.
//
// usage: node asyncapi.mjs FILE
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Parser } from '@asyncapi/parser';

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], 'utf8'));
const problems = diagnostics.filter((d) => d.code !== 'asyncapi-latest-version').map((d) => `${d.path.join('.')}: ${d.message}`);
assert.deepEqual(problems, []);
assert.ok(document.messages().all().length >= 19, 'messages are missing');
console.log(`ok  asyncapi, ${document.operations().all().length} operations, ${document.messages().all().length} messages`);
