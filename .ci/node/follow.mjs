// Follows the ledger over NATS with the official client, and prints a line with the
// position and the id of each event, until it has COUNT events.
//
// usage: node follow.mjs live|start URL CREDENTIALS COUNT
import { readFileSync } from 'node:fs';
import { connect, credsAuthenticator } from '@nats-io/transport-node';
import { jetstream } from '@nats-io/jetstream';

const [mode, url, credentials, count] = process.argv.slice(2);
const nc = await connect({ servers: url, authenticator: credsAuthenticator(readFileSync(credentials)) });
let left = Number(count);
const show = (seq, headers) => {
  console.log(`${seq} ${headers.get('ce-id')}`);
  return --left === 0;
};

if (mode === 'live') {
  const sub = nc.subscribe('events.default.>');
  await nc.flush();
  console.log('ready');
  for await (const m of sub) {
    if (show(m.headers.get('Nats-Sequence'), m.headers)) break;
  }
} else {
  const consumer = await jetstream(nc).consumers.get('LEDGER-0001'); // ordered: each event comes exactly once
  console.log('ready');
  for await (const m of await consumer.consume()) {
    if (show(m.seq, m.headers)) break;
  }
}
await nc.close();
