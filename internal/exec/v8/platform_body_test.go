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
