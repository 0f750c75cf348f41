// Follows the ledger over NATS with the official client, and prints the
// position and id of each event on a line of its own, until it has so many.
//
// usage: node follow.mjs live|start NATS_READER_JSON COUNT
import { readFileSync } from 'node:fs';
import { connect } from '@nats-io/transport-node';
import { jetstream } from '@nats-io/jetstream';

const [mode, credentials, count] = process.argv.slice(2);
const { url, user, password, inbox_prefix } = JSON.parse(readFileSync(credentials, 'utf8'));
const nc = await connect({ servers: url, user, pass: password, inboxPrefix: inbox_prefix });
let left = Number(count);
const show = (seq, headers) => {
  console.log(`${seq} ${headers.get('ce-id')}`);
  return --left === 0;
};

if (mode === 'live') {
  const sub = nc.subscribe('events.>');
  await nc.flush();
  console.log('ready');
  for await (const m of sub) {
    if (show(m.headers.get('Nats-Sequence'), m.headers)) break;
  }
} else {
  const consumer = await jetstream(nc).consumers.get('LEDGER-0001'); // ordered: nothing is left out, nothing comes twice
  console.log('ready');
  for await (const m of await consumer.consume()) {
    if (show(m.seq, m.headers)) break;
  }
}
await nc.close();
