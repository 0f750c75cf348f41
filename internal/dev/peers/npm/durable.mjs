// A durable handler of Restate that does nothing, listening on the port given by PORT.
import * as restate from "@restatedev/restate-sdk";

const bench = restate.service({ name: "bench", handlers: { noop: async () => ({ v: 2 }) } });
restate.serve({ services: [bench], port: Number(process.env.PORT) });
