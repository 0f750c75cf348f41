// The methods of Buffer that read and write numbers.

const { codedError, invalidArgument, RangeError } = platform;
const { isInteger, outOfRange, setAll, withCommas } = platform.load("node_tools");

// badOffset returns the error for an offset at which size bytes do not fit.
const badOffset = (offset, length, size, fn) => {
  if (typeof offset !== "number") return invalidArgument("offset", "of type number", offset, fn);
  if (!isInteger(offset)) return outOfRange("offset", "an integer", offset, fn);
  if (length - size < 0) return codedError(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds", fn);
  return outOfRange("offset", `>= 0 and <= ${length - size}`, offset, fn);
};

const powers = [1, 2 ** 8, 2 ** 16, 2 ** 24, 2 ** 32, 2 ** 40, 2 ** 48];

const install = (tools) => {
  const { prototype, DataView, ofView, BigInt, bufferOf, offsetOf, lengthOf } = tools;
  const check = (buffer, offset, size, fn) => {
    const length = lengthOf(buffer);
    if (!isInteger(offset) || offset < 0 || offset + size > length) throw badOffset(offset, length, size, fn);
  };
  const define = (names, fn) => {
    for (let i = 0; i < names.length; i++) setAll(prototype, { [names[i]]: fn });
  };
  const name = (fn, text, length) => platform.setMeta(fn, text, length);

  const readInteger = (buffer, offset, size, little, signed) => {
    let value = 0;
    for (let i = 0; i < size; i++) value += buffer[offset + (little ? i : size - 1 - i)] * powers[i];
    return signed && value >= powers[size] / 2 ? value - powers[size] : value;
  };
  const shown = (value) => (isInteger(value) && (value > 4294967296 || value < -4294967296) ? withCommas(value) : value);
  const writeInteger = (buffer, value, offset, size, little, signed, fn) => {
    value = +value;
    if (size === 1 && typeof offset !== "number") throw badOffset(offset, lengthOf(buffer), size, fn);
    const min = signed ? -powers[size] / 2 : 0;
    const max = signed ? powers[size] / 2 - 1 : powers[size] - 1;
    if (value > max || value < min) {
      const range = size > 4 ? (signed ? `>= -(2 ** ${8 * size - 1}) and < 2 ** ${8 * size - 1}` : `>= 0 and < 2 ** ${8 * size}`) : `>= ${min} and <= ${max}`;
      throw outOfRange("value", range, shown(value), fn);
    }
    check(buffer, offset, size, fn);
    let rest = value === value ? value - (value % 1) : 0;
    if (rest < 0) rest += powers[size];
    for (let i = 0; i < size; i++) {
      buffer[offset + (little ? i : size - 1 - i)] = rest % 256;
      rest = (rest - (rest % 256)) / 256;
    }
    return offset + size;
  };

  for (let s = 0; s < 2; s++) {
    const signed = s === 1;
    for (let l = 0; l < 2; l++) {
      const little = l === 0;
      const end = little ? "LE" : "BE";
      for (let size = 1; size <= 4; size += size === 1 ? 1 : 2) {
        if (size === 1 && !little) continue;
        const suffix = size === 1 ? "8" : `${8 * size}${end}`;
        const names = signed ? [`Int${suffix}`] : [`UInt${suffix}`, `Uint${suffix}`];
        const read = name({ read(offset = 0) {
          check(this, offset, size, read);
          return readInteger(this, offset, size, little, signed);
        } }.read, `read${names[0]}`, 0);
        const write = name({ write(value, offset = 0) { return writeInteger(this, value, offset, size, little, signed, write); } }.write, `write${names[0]}`, 1);
        for (let i = 0; i < names.length; i++) {
          define([`read${names[i]}`], read);
          define([`write${names[i]}`], write);
        }
      }
      const names = signed ? [`Int${end}`] : [`UInt${end}`, `Uint${end}`];
      const needSize = (size, fn) => {
        if (typeof size !== "number") throw invalidArgument("byteLength", "of type number", size, fn);
        if (!isInteger(size)) throw outOfRange("byteLength", "an integer", size, fn);
        if (size < 1 || size > 6) throw outOfRange("byteLength", ">= 1 and <= 6", size, fn);
      };
      const read = name({ read(offset, size) {
        if (offset === undefined) throw invalidArgument("offset", "of type number", offset, read);
        needSize(size, read);
        check(this, offset, size, read);
        return readInteger(this, offset, size, little, signed);
      } }.read, `read${names[0]}`, 2);
      const write = name({ write(value, offset, size) {
        needSize(size, write);
        return writeInteger(this, value, offset, size, little, signed, write);
      } }.write, `write${names[0]}`, 3);
      for (let i = 0; i < names.length; i++) {
        define([`read${names[i]}`], read);
        define([`write${names[i]}`], write);
      }
    }
  }

  const view = (buffer, offset, size) => new DataView(bufferOf(buffer), offsetOf(buffer) + offset, size);
  const defineView = (names, kind, size, little, convert) => {
    const get = ofView(`get${kind}`);
    const set = ofView(`set${kind}`);
    const read = name({ read(offset = 0) {
      check(this, offset, size, read);
      return get(view(this, offset, size), 0, little);
    } }.read, `read${names[0]}`, 0);
    const write = name({ write(value, offset = 0) {
      const converted = convert(value, write);
      check(this, offset, size, write);
      set(view(this, offset, size), 0, converted, little);
      return offset + size;
    } }.write, `write${names[0]}`, 1);
    for (let i = 0; i < names.length; i++) {
      define([`read${names[i]}`], read);
      define([`write${names[i]}`], write);
    }
  };
  const toBig = (signed) => {
    const half = BigInt(2 ** 63);
    const zero = BigInt(0);
    return (value, fn) => {
      if (typeof value !== "bigint") throw new platform.TypeError(`Cannot mix BigInt and other types, use explicit conversions`);
      const min = signed ? -half : zero;
      const max = signed ? half : half + half;
      if (value < min || value >= max) {
        const range = signed ? ">= -(2n ** 63n) and < 2n ** 63n" : ">= 0n and < 2n ** 64n";
        throw outOfRange("value", range, `${withCommas(value)}n`, fn);
      }
      return value;
    };
  };
  for (let l = 0; l < 2; l++) {
    const little = l === 0;
    const end = little ? "LE" : "BE";
    defineView([`Float${end}`], "Float32", 4, little, (value) => +value);
    defineView([`Double${end}`], "Float64", 8, little, (value) => +value);
    defineView([`BigInt64${end}`], "BigInt64", 8, little, toBig(true));
    defineView([`BigUInt64${end}`, `BigUint64${end}`], "BigUint64", 8, little, toBig(false));
  }
};

return { install };
