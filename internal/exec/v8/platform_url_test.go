package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

func TestURLsOfPlatform(t *testing.T) {
	checkScripts(t, []struct{ source, want string }{
		{"const u = new URL('../x?a=1#f', 'http://b\\u00fccher.de/p/q'); u.searchParams.append('b', '2 3'); u.hash = 'g'; u.href", "http://xn--bcher-kva.de/x?a=1&b=2+3#g"},
		{"const p = new URLSearchParams({ b: 1, a: '%' }); p.sort(); p.toString() + p.size", "a=%25&b=12"},
		{"new URLSearchParams('a=%zz%c3%a9').get('a') + URL.canParse('x')", "%zz\u00e9false"},
		{"const p = new URLSearchParams('a=1&b=2').entries(); p.next(); p.next().value.join = undefined; p.next().done", "true"},
		{"new URLPattern('https://:sub.example.com/:a/(\\\\d+)').exec('https://x.example.com/y/12').pathname.groups.a + new URLPattern({ hostname: 'b\\u00fc.de' }).hostname", "yxn--b-eha.de"},
		{"let e; try { new URL('x', 'y') } catch (error) { e = error } e.code + e.input + e.base", "ERR_INVALID_URLxy"},
	})
}

// What user code did to URL and to arrays of bytes changes neither patterns nor parameters.
func TestURLsAfterHostileChanges(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"delete URL.prototype.hash; Object.defineProperty(URL.prototype, 'pathname', { get() { return '/b' } }); new URLPattern({ pathname: '/a' }).test('http://h/a')", "true"},
		{"Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), 'length', { get() { throw new Error('user code ran') } }); new URLSearchParams('a=%zz%c3%a9').get('a')", "%zz\u00e9"},
	} {
		if got := firstLine(run(t, v8.Config{}, test.source).text); got != test.want {
			t.Errorf("%s: %s", test.source, got)
		}
	}
}

func TestURLsSurvive(t *testing.T) {
	first := run(t, v8.Config{}, "const u = new URL('http://h/?a=1&b=2'), p = u.searchParams, i = p.keys(), m = new URLPattern({ port: '8' }); i.next(); 1")
	again := run(t, v8.Config{Heap: first.heap}, "p.append('c', '3'); u.port = 8; u.href + i.next().value + (u instanceof URL) + m.test(u.href)")
	if again.text != "http://h:8/?a=1&b=2&c=3btruetrue" {
		t.Errorf("after a restore: %s", again.text)
	}
}

// The console shows URLs as Node does, and the frames of an error start in the script.
func TestURLsOnTheConsole(t *testing.T) {
	for source, want := range map[string]string{
		"new URL('http://u@h:8/p?q=1#f')": `URL {
  href: 'http://u@h:8/p?q=1#f',
  origin: 'http://h:8',
  protocol: 'http:',
  username: 'u',
  password: '',
  host: 'h:8',
  hostname: 'h',
  port: '8',
  pathname: '/p',
  search: '?q=1',
  searchParams: URLSearchParams { 'q' => '1' },
  hash: '#f'
}`,
		"({ a: { b: { c: new URL('http://h') } } })":                      "{ a: { b: { c: URL {} } } }",
		"new URLSearchParams('a=1&b=2')":                                  "URLSearchParams { 'a' => '1', 'b' => '2' }",
		"new URLSearchParams()":                                           "URLSearchParams {}",
		"new URLSearchParams('a=1').values()":                             "URLSearchParams Iterator { '1' }",
		"(() => { try { new URL('x') } catch (e) { return e.stack } })()": "TypeError [ERR_INVALID_URL]: Invalid URL\n    at <anonymous>:1:28\n    at <anonymous>:1:74",
	} {
		r := run(t, v8.Config{}, "console.log("+source+")")
		if got := strings.TrimPrefix(strings.Join(r.out, "\n"), "0@0 "); got != want {
			t.Errorf("%s:\n%s", source, got)
		}
	}
}
