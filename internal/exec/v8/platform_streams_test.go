package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// A stream that is half read continues in the next run, with its queue, its readers and the
// functions of its source, also after a script changed built-in methods.
func TestStreamsSurvive(t *testing.T) {
	kept := run(t, v8.Config{}, `
		let pulled = 0;
		const source = new ReadableStream({ pull(c) { c.enqueue("chunk " + ++pulled); if (pulled === 4) c.close(); } }, { highWaterMark: 2 });
		const reader = source.getReader();
		const first = await reader.read();
		const { readable, writable } = new TransformStream({ transform(chunk, c) { c.enqueue(chunk * 2); } });
		const writer = writable.getWriter();
		const written = writer.write(21);
		const bytes = new Blob(["abcdef"]).stream().getReader({ mode: "byob" });
		const two = await bytes.read(new Uint8Array(2));
		const packed = new CompressionStream("gzip");
		const packer = packed.writable.getWriter();
		packer.write(new TextEncoder().encode("first "));
		const [left, right] = ReadableStream.from([1, 2, 3]).tee();
		const iterator = left.values();
		await iterator.next();
		const decoder = new TextDecoderStream();
		const pending = decoder.writable.getWriter();
		pending.write(Uint8Array.of(0xe6, 0xbc));
		const waiting = new ReadableStream({ start(c) { globalThis.later = c; } });
		const outstanding = waiting.getReader().read();
		for (const prototype of [Array.prototype, Map.prototype, Uint8Array.prototype.__proto__, ReadableStream.prototype, WritableStream.prototype]) {
			for (const key of Reflect.ownKeys(prototype)) {
				const property = Object.getOwnPropertyDescriptor(prototype, key);
				if (key !== "constructor" && typeof property.value === "function" && key !== Symbol.iterator && key !== "getReader" && key !== "pipeThrough") {
					prototype[key] = () => { throw new Error("a changed " + String(key)) };
				}
			}
		}
		Object.prototype.get = Object.prototype.reader = "inherited";
		first.value`)
	if kept.text != "chunk 1" {
		t.Fatal(kept.text)
	}
	for _, test := range []struct{ source, want string }{
		{"const a = await reader.read(), b = await reader.read(); a.value + ', ' + b.value", "chunk 2, chunk 3"},
		{"await reader.read(); await reader.read(); await reader.read(); (await reader.read()).done", "true"},
		{"const out = readable.getReader(); (await out.read()).value", "42"},
		{"const more = await bytes.read(new Uint8Array(8)); more.value.byteLength + ' ' + more.value[0]", "4 99"},
		{"packer.write(new TextEncoder().encode('second')); packer.close(); await new Response(packed.readable.pipeThrough(new DecompressionStream('gzip'))).text()", "first second"},
		{"(await iterator.next()).value + ' ' + (await right.getReader().read()).value", "2 1"},
		{"pending.write(Uint8Array.of(0xa2)); (await decoder.readable.getReader().read()).value === '\\u6f22'", "true"},
		{"later.enqueue('late'); (await outstanding).value", "late"},
	} {
		if r := run(t, v8.Config{Heap: kept.heap}, test.source); firstLine(r.text) != test.want {
			t.Errorf("%s: %s", test.source, firstLine(r.text))
		}
	}
}

func TestCompressedContentIsBounded(t *testing.T) {
	each(t, [][2]string{
		{"typeof new CompressionStream('gzip').readable", "object"},
		{"new CompressionStream('zip')", "TypeError ERR_INVALID_ARG_VALUE"},
	})
	r := run(t, v8.Config{}, `
		const packed = new CompressionStream("deflate");
		const writer = packed.writable.getWriter();
		writer.write(new Uint8Array(1000)); writer.close();
		const small = (await packed.readable.getReader().read()).value;
		const damaged = new DecompressionStream("deflate");
		const other = damaged.writable.getWriter();
		other.write(small).catch(() => {}); other.write(new Uint8Array(1)).catch(() => {}); other.close().catch(() => {});
		await damaged.readable.getReader().read().then(() => "no error", (error) => error.name + " " + error.message)`)
	if want := "TypeError 1 bytes follow the end of the compressed content"; r.text != want {
		t.Error(r.text)
	}
}

// Large streams need no deep stack.
func TestLongStreams(t *testing.T) {
	for source, want := range map[string]string{
		"let n = 0; await new ReadableStream({ pull(c) { if (n++ < 20000) c.enqueue(n); else c.close(); } }).pipeTo(new WritableStream()); n":                             "20001",
		"const s = new ReadableStream({ start(c) { for (let i = 0; i < 20000; i++) c.enqueue(new Uint8Array(1)); c.close(); } }); (await new Response(s).bytes()).length": "20000",
	} {
		if r := run(t, v8.Config{}, source); firstLine(r.text) != want {
			t.Errorf("%s: %s", source, firstLine(r.text))
		}
	}
}

// A source could resize a resizable buffer while the stream fills it, so Web IDL refuses them.
func TestStreamsRefuseResizableBuffers(t *testing.T) {
	const want = "TypeError [ERR_INVALID_ARG_TYPE]: The \"NAME\" argument must be a view of an ArrayBuffer that is not resizable. Received an instance of "
	for source, name := range map[string]string{
		"new ReadableStream({ type: 'bytes', start(c) { c.enqueue(new Uint8Array(resizable)); } })":                                                                                 "chunk",
		"await new ReadableStream({ type: 'bytes' }).getReader({ mode: 'byob' }).read(new DataView(resizable))":                                                                     "view",
		"await new ReadableStream({ type: 'bytes', pull(c) { c.byobRequest.respondWithNewView(new Uint8Array(resizable)); } }).getReader({ mode: 'byob' }).read(new Uint8Array(4))": "view",
	} {
		r := run(t, v8.Config{}, "const resizable = new ArrayBuffer(4, { maxByteLength: 8 }); "+source)
		if got := firstLine(r.text); !strings.HasPrefix(got, strings.Replace(want, "NAME", name, 1)) {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// The options of a read may detach the buffer of its view.
func TestViewIsReadAfterTheOptions(t *testing.T) {
	r := run(t, v8.Config{}, `
		const view = new Uint8Array(4);
		const reader = new ReadableStream({ type: "bytes" }).getReader({ mode: "byob" });
		await reader.read(view, { get min() { structuredClone(view.buffer, { transfer: [view.buffer] }); return 1; } }).catch((error) => error.message)`)
	if want := "Invalid state: View or Viewed ArrayBuffer is zero-length or detached"; r.text != want {
		t.Error(r.text)
	}
}

// If there is no memory for a copy of the content, the read fails, and not the run.
func TestStreamOfBlobWithoutMemory(t *testing.T) {
	r := run(t, v8.Config{}, `
		const parts = [new Uint8Array(9e6)];
		const reader = new Blob(parts).stream().getReader();
		const kept = new Uint8Array(12e6);
		await reader.read().catch((error) => error.message)`)
	if r.text != "Array buffer allocation failed" {
		t.Error(firstLine(r.text))
	}
}
