// Receives webhooks and checks them with the official library of Standard Webhooks. Prints
// its address, then "ok TYPE" for each delivery, and exits after COUNT deliveries.
//
// usage: node verify-webhook.mjs COUNT    (the secret comes on standard input)
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Webhook } from 'standardwebhooks';

let left = Number(process.argv[2]);
const secret = new Promise((resolve) => { createInterface({ input: process.stdin }).once('line', resolve); });

const server = createServer(async (req, res) => {
  let body = '';
  for await (const chunk of req) body += chunk;
  try {
    const event = new Webhook(await secret).verify(body, req.headers);
    console.log(`ok ${event.type}`);
    res.writeHead(204).end();
  } catch (e) {
    console.log(`bad ${e.message}`);
    res.writeHead(400).end();
  }
  if (--left === 0) {
    server.close();
    server.closeAllConnections();
    process.stdin.destroy();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
