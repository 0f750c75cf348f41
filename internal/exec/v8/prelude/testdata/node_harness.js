const get = (name) => process.getBuiltinModule(name);
const modules = { path: get('path'), Buffer: get('buffer').Buffer, util: get('util'), url: get('url'), querystring: get('querystring'), events: get('events'), EventEmitter: get('events'), assert: get('assert'), strict: get('assert/strict'), crypto: get('crypto'), StringDecoder: get('string_decoder').StringDecoder, timers: get('timers'), timersPromises: get('timers/promises') };
const outcomeOf = async (code) => {
  try {
    const value = await new Function(...Object.keys(modules), code.startsWith('{') ? code : `return (${code})`)(...Object.values(modules));
    return modules.util.inspect(value, { depth: 5 });
  } catch (e) { return `thrown ${e.name} ${e.code}: ${e.message}` }
};
