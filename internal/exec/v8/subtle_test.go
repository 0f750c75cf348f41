package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// withKeys leaves keys of several kinds, and what they computed, in the globals of a run.
const withKeys = `
const hex = (b) => Array.from(new Uint8Array(b), (x) => x.toString(16).padStart(2, "0")).join("");
const text = (s) => new TextEncoder().encode(s);
const s = crypto.subtle;
const rsa = await s.generateKey({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]) }, true, ["sign", "verify"]);
const ec = await s.generateKey({ name: "ECDSA", namedCurve: "P-521" }, true, ["sign", "verify"]);
const ed = await s.generateKey("Ed25519", true, ["sign", "verify"]);
const aes = await s.generateKey({ name: "AES-GCM", length: 256 }, true, ["encrypt", "decrypt"]);
const signedRSA = await s.sign({ name: "RSA-PSS", saltLength: 32 }, rsa.privateKey, text("m"));
const signedEC = await s.sign({ name: "ECDSA", hash: "SHA-256" }, ec.privateKey, text("m"));
const signedEd = await s.sign("Ed25519", ed.privateKey, text("m"));
const sealed = await s.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, aes, text("secret"));
`

const showKeys = `[signedRSA, signedEC, signedEd, sealed, await s.exportKey("pkcs8", rsa.privateKey), await s.exportKey("pkcs8", ec.privateKey)].map(hex).join()`

// Keys and signatures depend on the seed of the run only, so a replay computes the same heap.
func TestSubtleIsDeterministic(t *testing.T) {
	first := run(t, v8.Config{Seed: [16]byte{1}}, withKeys+showKeys)
	again := run(t, v8.Config{Seed: [16]byte{1}}, withKeys+showKeys)
	if len(first.text) < 1000 || first.text != again.text {
		t.Errorf("two runs with one seed differ:\n%s\n%s", first.text, again.text)
	}
	if string(first.heap) != string(again.heap) {
		t.Error("two runs with one seed leave different heaps")
	}
	if other := run(t, v8.Config{Seed: [16]byte{2}}, withKeys+showKeys); other.text == first.text {
		t.Error("another seed makes the same keys")
	}
	plain := run(t, v8.Config{Seed: [16]byte{1}, Plain: true}, withKeys+showKeys)
	if plain.text != first.text {
		t.Error("a plain isolate makes other keys")
	}
}

// Keys are part of the heap: later runs use them.
func TestKeysSurvive(t *testing.T) {
	kept := run(t, v8.Config{}, withKeys+"1")
	if kept.text != "1" {
		t.Fatal(kept.text)
	}
	for _, test := range []struct{ source, want string }{
		{`await crypto.subtle.verify({ name: "RSA-PSS", saltLength: 32 }, rsa.publicKey, signedRSA, text("m"))`, "true"},
		{`await s.verify({ name: "ECDSA", hash: "SHA-256" }, ec.publicKey, signedEC, text("m"))`, "true"},
		{`await s.verify("Ed25519", ed.publicKey, signedEd, text("m"))`, "true"},
		{`new TextDecoder().decode(await s.decrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, aes, sealed))`, "secret"},
		{`structuredClone(aes) instanceof CryptoKey && s === crypto.subtle`, "true"},
		{`aes`, "CryptoKey {\n  type: 'secret',\n  extractable: true,\n  algorithm: { name: 'AES-GCM', length: 256 },\n  usages: [ 'encrypt', 'decrypt' ]\n}"},
		{`({ a: { b: { c: aes } } })`, "{ a: { b: { c: CryptoKey {} } } }"},
	} {
		if got := run(t, v8.Config{Heap: kept.heap}, test.source).text; got != test.want {
			t.Errorf("%s: %s", test.source, got)
		}
	}
	if c := inspect(t, kept.heap); c.Changes != 0 {
		t.Errorf("keys count as changes of built-in objects: %+v", c)
	}
}

// Built-in objects that user code changed do not change what crypto.subtle computes.
func TestSubtleAfterHostileChanges(t *testing.T) {
	const hostile = `
const hex = (b) => { const v = new Uint8Array(b); let out = ""; for (let i = 0; v[i] !== undefined; i++) out += (v[i] < 16 ? "0" : "") + v[i].toString(16); return out; };
const data = new TextEncoder().encode("abc");
const bad = () => { throw new Error("user code ran") };
const S = Symbol.iterator, dp = Object.defineProperty;
for (const [object, keys] of [[Promise.prototype, ["finally"]], [Object, ["keys", "create", "defineProperty"]], [JSON, ["parse", "stringify"]],
  [String.prototype, ["toUpperCase", "slice", "charCodeAt", "split", "concat"]], [RegExp.prototype, ["exec"]], [Reflect, ["apply", "construct"]], [Object.getPrototypeOf(Uint8Array.prototype), ["set", "subarray", "slice", S]],
  [TextEncoder.prototype, ["encode"]], [TextDecoder.prototype, ["decode"]], [Map.prototype, ["get", "set", "has"]], [Math, ["trunc", "floor"]], [crypto, ["getRandomValues"]]])
  for (const key of keys) dp(object, key, { value: bad, configurable: true, writable: true });
dp(Uint8Array.prototype, "constructor", { get: bad });
for (const key of ["length", "byteLength", "byteOffset", "buffer"]) dp(Object.getPrototypeOf(Uint8Array.prototype), key, { get: bad });
dp(Array.prototype, "3", { set: bad, configurable: true });
Object.prototype.toJSON = Object.prototype.length = Object.prototype.hash = bad;
globalThis.Uint8Array2 = Uint8Array; globalThis.Promise = globalThis.CryptoKey = bad;
`
	for _, test := range []struct{ source, want string }{
		{`hex(await crypto.subtle.digest("SHA-1", data))`, "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{`const k = await crypto.subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["wrapKey", "unwrapKey"]);
delete Object.prototype.hash;
const h = await crypto.subtle.importKey("raw", data, { name: "HMAC", hash: "SHA-256", length: 24 }, true, ["sign"]);
const a = { name: "AES-GCM", iv: data };
const w = await crypto.subtle.wrapKey("jwk", h, k, a);
const u = await crypto.subtle.unwrapKey("jwk", w, k, a, { name: "HMAC", hash: "SHA-256", length: 24 }, true, ["sign"]);
hex(await crypto.subtle.exportKey("raw", u))`, "616263"},
		{`const p = await crypto.subtle.generateKey({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 1024, publicExponent: new Uint8Array([3]) }, true, ["sign", "verify"]);
const unsalted = { name: "RSA-PSS", saltLength: 0 };
const first = await crypto.subtle.sign(unsalted, p.privateKey, data);
[hex(first) === hex(await crypto.subtle.sign(unsalted, p.privateKey, data)), await crypto.subtle.verify(unsalted, p.publicKey, first, data),
  await crypto.subtle.verify({ name: "RSA-PSS", saltLength: 1 }, p.publicKey, first, data)].join()`, "true,true,false"},
		{`const e = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
await crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, e.publicKey, await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, e.privateKey, data), data)`, "true"},
	} {
		// Iterators of arrays are needed for the usages only, as the standard says.
		if got := run(t, v8.Config{}, hostile+test.source).text; got != test.want {
			t.Errorf("%s: %s", test.source, got)
		}
	}
}

// The methods convert and check what they get as the standards say.
func TestSubtleDetails(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		// JSON is filled with spaces to the multiple of 8 bytes that AES-KW wraps.
		{`const kw = await crypto.subtle.generateKey({ name: "AES-KW", length: 256 }, true, ["wrapKey", "unwrapKey"]);
const kept = [];
for (const length of [8, 16, 24, 32, 40, 48]) {
  const key = await crypto.subtle.importKey("raw", new Uint8Array(length), { name: "HMAC", hash: "SHA-256" }, true, ["sign"]);
  const wrapped = await crypto.subtle.wrapKey("jwk", key, kw, "AES-KW");
  const back = await crypto.subtle.unwrapKey("jwk", wrapped, kw, "AES-KW", { name: "HMAC", hash: "SHA-256" }, true, ["sign"]);
  kept.push((await crypto.subtle.exportKey("raw", back)).byteLength);
}
kept.join()`, "8,16,24,32,40,48"},
		// U+017F has the capital letter S.
		{`await crypto.subtle.digest("\u017fHA-1", new Uint8Array(1)).catch((e) => e.name)`, "NotSupportedError"},
		{`(await crypto.subtle.digest("sha-1", new Uint8Array(1))).byteLength`, "20"},
		{`let n = 0; const key_ops = { [Symbol.iterator]: () => ({ next() { if (n++ > 100) throw new Error("endless"); return 5; } }) };
await crypto.subtle.importKey("jwk", { kty: "oct", k: "AA", key_ops }, { name: "HMAC", hash: "SHA-1" }, true, ["sign"]).catch((e) => e.name)`, "TypeError"},
		{`/a(b)/.exec("ab"); await crypto.subtle.digest("SHA-1", new Uint8Array(1)); RegExp.$1`, "b"},
		{`await crypto.subtle.digest({ name: Symbol("SHA-1") }, new Uint8Array(1)).catch((e) => e.name)`, "TypeError"},
		{`await crypto.subtle.generateKey({ name: "AES-CBC", length: 128n }, true, ["encrypt"]).catch((e) => e.name)`, "TypeError"},
		{`[crypto.getRandomValues, crypto.randomUUID].map((f) => { try { f.call({}, new Uint8Array(1)) } catch (e) { return e.code } }).join()`, "ERR_INVALID_THIS,ERR_INVALID_THIS"},
		{`(await crypto.subtle.generateKey({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 1032, publicExponent: new Uint8Array([3]) }, true, ["sign"])).publicKey.algorithm.modulusLength`, "1032"},
	} {
		if got := run(t, v8.Config{}, test.source).text; got != test.want {
			t.Errorf("%s: %s", test.source, got)
		}
	}
}

// A computation that would exceed any time limit is refused with the reason.
func TestSubtleIsBounded(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{`const p = await crypto.subtle.importKey("raw", new Uint8Array(1), "PBKDF2", false, ["deriveBits"]);
await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: new Uint8Array(1), iterations: 4294967295 }, p, 256).catch((e) => e.name + ": " + e.message)`,
			"OperationError: PBKDF2 with 4294967295 iterations for 1 blocks takes too long"},
		{`await crypto.subtle.generateKey({ name: "RSA-PSS", hash: "SHA-256", modulusLength: 16384, publicExponent: new Uint8Array([3]) }, true, ["sign"]).catch((e) => e.name + ": " + e.message)`,
			"NotSupportedError: A generated key of RSA has a modulus of 1024 to 4096 bits"},
		{`await crypto.subtle.digest("SHA-3", new Uint8Array(1)).catch((e) => e.stack.split("\n")[1])`, "at <anonymous>:1:21"},
	} {
		if got := run(t, v8.Config{}, test.source).text; !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.source, got)
		}
	}
}
