// Calls to the MCP servers of a run, without what the group calls does: mcp.<server>.<tool>(arguments) is a promise. A fetch is a
// call too, to a server with a name that MCP servers cannot have and mcp does not show.
//
// The callable servers belong to the run and not to the heap: the functions hold only
// names, and look them up when they are called. A heap with such a function can therefore
// be resumed by a run with other servers, or with none. A promise that is pending at the
// end of its run stays pending permanently.

const calling = lazily(evaluateCalls);

const NativePromise = Promise;
const JSONParse = JSON.parse;

let callsInFlight = 0;
let callsMade = 0;
let pendingCalls; // number -> call; made for the first one of a run
let waitingCalls; // the calls after those in flight, first come first served
let waitingAt = 0;
let serversText = "";
let servers; // name -> list of tool names, read when first needed
let mayFetch; // whether the run may fetch, known when servers is
let mcpObject; // what the global shows, made when first looked at

const offerServers = (text) => { serversText = text; };

const forgetCalls = () => {
  callsInFlight = 0;
  callsMade = 0;
  pendingCalls = undefined;
  waitingCalls = undefined;
  waitingAt = 0;
  serversText = "";
  servers = undefined;
  mayFetch = undefined;
  mcpObject = undefined;
};

const fetchServer = "daybook:http";
const fetchTool = "fetch";

const callableServers = () => {
  if (servers === undefined) {
    servers = new NativeMap();
    mayFetch = false;
    if (serversText !== "") {
      const table = JSONParse(serversText);
      const names = ObjectKeys(table);
      for (let i = 0; i < names.length; i++) {
        if (names[i] === fetchServer) mayFetch = true;
        else MapPrototypeSet(servers, names[i], toList(table[names[i]]));
      }
    }
  }
  return servers;
};

const serverNames = () => {
  const names = newList();
  const all = MapPrototypeEntries(callableServers());
  for (let next = MapIteratorPrototypeNext(all); !next.done; next = MapIteratorPrototypeNext(all)) names[names.length] = next.value[0];
  return names;
};

const callTool = (server, tool, given, caller) => calling().callTool(server, tool, given, caller);

// The language itself looks up awkward names on any object: resolving a promise with the
// object reads then, JSON.stringify reads toJSON.
const awkward = (key) => typeof key === "symbol" || key === "then" || key === "toJSON";

const toolFunction = (server, tool) => {
  const call = { call(given) { return callTool(server, tool, given, call); } }.call;
  return ObjectFreeze(setMeta(call, tool, 1));
};

const showNames = (target, missing) => new NativeProxy(ObjectFreeze(target), ObjectFreeze({
  __proto__: null,
  get(shown, key) {
    if (hasOwn(shown, key)) return shown[key];
    return awkward(key) ? undefined : missing(key);
  },
}));

const serverObject = (server, tools) => {
  const target = { __proto__: null };
  for (let i = 0; i < tools.length; i++) {
    if (!awkward(tools[i])) {
      ObjectDefineProperty(target, tools[i], { __proto__: null, value: toolFunction(server, tools[i]), enumerable: true });
    }
  }
  return showNames(target, (tool) => toolFunction(server, tool));
};

const makeMcp = () => {
  const target = { mcp(server, tool, given) { return callTool(`${server}`, `${tool}`, given, target); } }.mcp;
  delete target.name;
  delete target.length;
  ObjectSetPrototypeOf(target, null);
  const names = serverNames();
  for (let i = 0; i < names.length; i++) {
    if (awkward(names[i])) continue;
    const value = serverObject(names[i], MapPrototypeGet(servers, names[i]));
    ObjectDefineProperty(target, names[i], { __proto__: null, value, enumerable: true });
  }
  return showNames(target, (server) => serverObject(server, newList()));
};

(() => {
  const { get, set } = {
    get() {
      if (mcpObject === undefined) mcpObject = makeMcp();
      return mcpObject;
    },
    set() {
      throw hideFrames(new NativeTypeError("mcp holds the MCP servers of the run and cannot be assigned to; declare a variable of that name with let or const"), set);
    },
  };
  ObjectDefineProperty(global, "mcp", { __proto__: null, get: setMeta(get, "get mcp", 0), set: setMeta(set, "set mcp", 1), enumerable: false, configurable: true });
})();
