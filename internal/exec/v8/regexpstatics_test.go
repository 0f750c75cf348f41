package v8_test

import (
	"testing"

	"daybook/internal/exec/v8"
)

// The platform leaves RegExp.$1 and its like as the script's last match has set them. It may change
// them where Node does: see docs/guides/web-platform.md.
func TestMatchOfTheScriptStays(t *testing.T) {
	const source = `
		const calls = {
			decoder: () => new TextDecoder("latin1"), utf8: () => new TextDecoder(" UTF8\t"), url: () => new URL("http://a/b?c=d").searchParams.get("c"),
			headers: () => { const h = new Headers({ a: "b" }); h.set("c", "d"); return [...h] }, request: () => new Request("http://a/", { method: "patch", headers: { x: "y" } }),
			response: () => new Response("x", { statusText: "fine", headers: { "content-type": "text/plain; charset=utf-8" } }), blob: () => new Blob(["x"], { type: "text/plain" }),
			type: () => new Response(new Blob(["x"], { type: "text/plain;a=b" })).blob(), log: () => console.log("text", 1), stack: () => new Error("x").stack, clone: () => structuredClone({ a: [1] }),
			timers: () => setTimeout(() => {}, 0), event: () => new EventTarget().dispatchEvent(new Event("x")), form: () => new FormData().append("a", "b"), random: () => crypto.randomUUID(),
		};
		const changed = [];
		for (const [name, call] of Object.entries(calls)) {
			/(k)ey/.exec("my key here");
			call();
			if ([RegExp.$1, RegExp.lastMatch, RegExp.leftContext, RegExp.rightContext, RegExp.input].join("|") !== "k|key|my | here|my key here") changed.push(name);
		}
		changed.join()`
	for _, mode := range modes {
		if got := run(t, mode.cfg, source); got.Status != v8.Completed || got.text != "" {
			t.Errorf("%s: %v: these change the last match: %s", mode.name, got.Status, got.text)
		}
	}
}
