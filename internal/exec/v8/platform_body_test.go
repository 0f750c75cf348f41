package v8_test

import (
	"testing"

	"daybook/internal/exec/v8"
)

// Headers, forms, blobs and responses keep their content across a snapshot, and do not need
// built-in methods as a script has left them.
func TestBodiesSurvive(t *testing.T) {
	kept := run(t, v8.Config{}, `
		const headers = new Headers({ a: "1" });
		const iterator = headers.entries();
		const form = new FormData();
		form.append("text", "line\nline");
		form.append("file", new File(["content"], "name.txt", { type: "text/plain", lastModified: 5 }));
		const response = new Response(form, { status: 201 });
		const blob = new Blob(["abc", new Uint8Array([100])]);
		for (const prototype of [Array.prototype, String.prototype, Uint8Array.prototype.__proto__, Map.prototype, Promise.prototype, RegExp.prototype]) {
			for (const key of Reflect.ownKeys(prototype)) {
				if (key !== "constructor" && typeof Object.getOwnPropertyDescriptor(prototype, key).value === "function" && key !== "then") prototype[key] = () => { throw new Error("a changed " + String(key)) };
			}
		}
		Object.prototype.value = Object.prototype.get = Object.prototype.name = "inherited";
		1`)
	for _, test := range []struct{ source, want string }{
		{"headers.append('b', '2'); headers.get('b') + headers.get('a')", "21"},
		{"iterator.next().value[0] + new Headers({ b: 1 }).has('x')", "afalse"},
		{"await blob.text()", "abcd"},
		{"(await blob.slice(-2).bytes())[1]", "100"},
		{"response.status + ' ' + response.headers.get('content-type').length", "201 75"},
		{"const read = await response.formData(); read.get('text') + read.get('file').name + await read.get('file').text()", "line\r\nlinename.txtcontent"},
		{"(await response.clone().text()).length > 200 && response.bodyUsed", "false"},
		{"(await new Response('[1, 2]').json())[1]", "2"},
		{"await new Response('x').text() + await Response.json({ a: 1 }).text()", "x{\"a\":1}"},
		{"typeof Request.prototype", "object"},
	} {
		if r := run(t, v8.Config{Heap: kept.heap}, test.source); firstLine(r.text) != firstLine(test.want) {
			t.Errorf("%s: %s", test.source, firstLine(r.text))
		}
	}
}

// Each run draws its own boundaries, and a replay the same ones.
func TestBoundariesFollowTheSeed(t *testing.T) {
	const source = "new Response(new FormData()).headers.get('content-type')"
	first := run(t, v8.Config{Seed: [16]byte{1}}, source).text
	if again := run(t, v8.Config{Seed: [16]byte{1}}, source).text; again != first {
		t.Errorf("the same seed gives %q and %q", first, again)
	}
	if other := run(t, v8.Config{Seed: [16]byte{2}}, source).text; other == first {
		t.Errorf("two seeds give %q", first)
	}
}

// Where Node deviates from the specifications, these tests are not among those of testdata/wpt.
func TestBodiesFollowTheSpecifications(t *testing.T) {
	const detach = "structuredClone(buffer, { transfer: [buffer] }); "
	for _, test := range []struct{ source, want string }{
		{"const buffer = new ArrayBuffer(3); " + detach + "new Blob([buffer, 'a']).size", "1"},
		{"const { buffer } = new Uint8Array(3); const view = new Uint8Array(buffer); " + detach + "new Blob([view, 'a']).size", "1"},
		{"const buffer = new ArrayBuffer(3); const view = new DataView(buffer); " + detach + "await new Response(view).text() === ''", "true"},
		{"const buffer = new ArrayBuffer(3); " + detach + "new TextDecoder().decode(buffer) === ''", "true"},
		// [Clamp] rounds to the nearest integer, and halves to the even one.
		{"const b = new Blob(['abcdef']); const of = async (...a) => (await b.slice(...a).text()) || '-'; (await Promise.all([of(0, Infinity), of(-Infinity, 2), of(0.5), of(1.5), of(0, 2.5), of(-1.5), of(NaN, 2 ** 64), of(0, -(2 ** 64))])).join()",
			"abcdef,ab,abcdef,cdef,ab,ef,abcdef,-"},
		// Arguments are converted in their order, before the content is extracted.
		{"const s = new ReadableStream(); new Response(s, { get status() { s.getReader(); return 200; } })", "TypeError: Response body object should not be disturbed or locked"},
		{"const log = []; new Request('http://a/', { method: 'POST', body: { toString() { log.push('body'); return ''; } }, get cache() { log.push('cache'); } }); log.join()", "body,cache"},
		{"const log = []; Response.json({ toJSON() { log.push('data'); return 1; } }, { get status() { log.push('status'); } }); log.join()", "status,data"},
		{"const form = await new Response('\\ufeffa=\\ufeffb', { headers: { 'content-type': 'application/x-www-form-urlencoded' } }).formData(); form.get('\\ufeffa').length", "2"},
		{"const form = await new Response('--b\\r\\nContent-Disposition: form-data; name=\"a\"\\r\\n\\r\\n\\ufeffb\\r\\n--b--\\r\\n', { headers: { 'content-type': 'multipart/form-data; boundary=b' } }).formData(); form.get('a').length", "2"},
		{"const form = await new Response(new Uint8Array([97, 61, 0xc3, 37, 97, 57])  , { headers: { 'content-type': 'application/x-www-form-urlencoded' } }).formData(); form.get('a')", "é"},
		{"new Request('http://a/', { method: 'POST', body: new ReadableStream(), duplex: 'half', keepalive: true })", "TypeError: Request constructor: a request with keepalive cannot have a stream as its body."},
		{"new Request('http://a/', { window: Symbol() })", "TypeError: 'window' option must be null"},
		{"const r = new Request('http://a/', { method: 'POST', body: 'x' }); await r.text(); r.clone()", "TypeError: Request.clone: Body has already been consumed."},
	} {
		if r := run(t, v8.Config{}, test.source); firstLine(r.text) != test.want {
			t.Errorf("%s: %s", test.source, firstLine(r.text))
		}
	}
}

// A script cannot get the bytes that blobs and bodies share through what it defines for all
// Uint8Arrays, and its accessors decide nothing.
func TestBytesOfBodiesAreHidden(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{`const blob = new Blob(["abc"]);
		let stolen;
		Object.defineProperty(Object.prototype, "then", { configurable: true, get() { if (this instanceof Uint8Array) stolen = this; } });
		await new Response(blob).text();
		await new Response(blob.stream()).blob();
		delete Object.prototype.then;
		if (stolen !== undefined) stolen[0] = 120;
		await blob.text()`, "abc"},
		{`Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), "length", { get() { return 0; } });
		await new Response(new Blob(["abc"]).stream()).text()`, "abc"},
	} {
		if r := run(t, v8.Config{}, test.source); firstLine(r.text) != test.want {
			t.Errorf("%s: %s", test.source, firstLine(r.text))
		}
	}
}

// A body for which there is no memory is an error of the method that reads it.
func TestBodyWithoutMemoryIsRejected(t *testing.T) {
	for _, source := range []string{
		"start(c) { c.enqueue(new Uint8Array(9e6)); c.enqueue(new Uint8Array(9e6)); c.close(); }",
		"start(c) { c.enqueue(new Uint8Array(17e6)); c.close(); }",
		"async pull(c) { await 1; c.enqueue(new Uint8Array(9e6)); }",
	} {
		source = "try { await new Response(new ReadableStream({ " + source + " })).text(); } catch (error) { error.message }"
		if r := run(t, v8.Config{}, source); r.text != "Array buffer allocation failed" {
			t.Errorf("%s: %s", source, firstLine(r.text))
		}
	}
}

// A structured clone of an object with content that it cannot copy is an error, not an empty
// object.
func TestObjectsWithoutClones(t *testing.T) {
	for _, source := range []string{
		"new Headers({ a: '1' })", "new Request('http://a/')", "new Response('x')", "new FormData()", "new ReadableStream()", "new WritableStream()",
		"new TransformStream()", "new Event('x')", "AbortSignal.abort()", "new AbortController()", "new URL('http://a/')", "new URLSearchParams('a=1')",
		"new MessageChannel().port1", "[new (class extends Headers {})()]",
	} {
		want := "DataCloneError"
		if r := run(t, v8.Config{}, "const value = "+source+"; try { structuredClone({ value }); 'no error' } catch (error) { error.name }"); r.text != want {
			t.Errorf("%s: %s", source, firstLine(r.text))
		}
	}
	r := run(t, v8.Config{}, `
		const file = new File(["ab"], "name", { type: "a/b", lastModified: 5 });
		const copy = structuredClone([file])[0];
		[copy !== file, copy instanceof File, copy.name, copy.type, copy.lastModified, await copy.text()].join()`)
	if r.text != "true,true,name,a/b,5,ab" {
		t.Error(r.text)
	}
}
