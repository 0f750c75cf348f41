package platform_test

import (
	"errors"
	"strings"
	"testing"

	"daybook/internal/exec/platform"
)

// href returns the URL of a result, without the offsets of its parts.
func href(t testing.TB, name string, inputs ...string) (string, bool) {
	t.Helper()
	var bytes [][]byte
	for _, in := range inputs {
		bytes = append(bytes, []byte(in))
	}
	r, err := platform.Compute(name, bytes)
	var named *platform.Error
	if errors.As(err, &named) && named.Name == "TypeError" {
		return "", false
	}
	if err != nil || !r.IsText {
		t.Fatalf("%s(%q): %v", name, inputs, err)
	}
	_, text, _ := strings.Cut(string(r.Bytes), "\n")
	return text, true
}

// A serialized URL is the same after it is parsed again. Setters keep this.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"http://user:pass@example.com:8080/a/b/../c?q=1#f", "file:///C|/a/../..", "web+demo:/.//not-a-host/", "foo:/..//a",
		"data:space  ?x", "http://b\u00fccher.de/", "http://[1::3.4.5.6]", "http://0x7f.1", "//h/p", "../x", "http://xn--/", "foo://\xff/",
	} {
		f.Add(seed, "http://b/c?d#e", "pathname", "//x")
		f.Add(seed, "file:///D:/e", "host", "h:9")
		f.Add(seed, "foo:opaque ?x", "hash", "")
	}
	f.Fuzz(func(t *testing.T, input, base, member, value string) {
		check := func(u string) {
			if again, ok := href(t, "url.parse", u); !ok || again != u {
				t.Errorf("%q: %q is %q when it is parsed again", input, u, again)
			}
			if strings.ContainsFunc(u, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q: %q is not printable ASCII", input, u)
			}
		}
		u, ok := href(t, "url.parse", input)
		if ok {
			check(u)
			if resolved, ok := href(t, "url.resolve", input, base); ok && resolved == "" {
				t.Errorf("%q in %q is empty", input, base)
			}
		} else if u, ok = href(t, "url.resolve", input, base); ok {
			check(u)
		}
		if ok {
			changed, ok := href(t, "url.set", u, member, value)
			if !ok {
				t.Fatalf("%q.%s = %q is refused", u, member, value)
			}
			check(changed)
		}
	})
}

// Work and memory are in proportion to the length of a URL.
func TestLongURLs(t *testing.T) {
	const size = 2 << 20
	for _, start := range []string{"http://", "http://h/", "http://u:", "http://[", "foo:", "http://h/?", "http://xn--"} {
		for _, part := range []string{"@", "/", ".", "..", "../", "%40", ":", "a", "\u00e9", "0.", "a/../", "1:"} {
			input := start + strings.Repeat(part, (size-len(start))/len(part))
			if u, ok := href(t, "url.parse", input); ok && len(u) > 6*size {
				t.Errorf("%s%s...: %d characters", start, part, len(u))
			}
		}
	}
	if _, ok := href(t, "url.parse", "http://h/"+strings.Repeat("a", size)); ok {
		t.Error("a URL beyond the limit is accepted")
	}
}

// The parts of a URL can be changed also if its text is longer than the input was.
func TestChangesOfLongURLs(t *testing.T) {
	u, ok := href(t, "url.parse", "http://h/"+strings.Repeat("\u00e9", 500_000))
	if !ok || len(u) < 2<<20 {
		t.Fatalf("%d characters", len(u))
	}
	if changed, ok := href(t, "url.set", u, "hash", "x"); !ok || changed != u+"#x" {
		t.Error("the hash did not change")
	}
}

// A domain that is converted to or from punycode is short: the time of a conversion grows with the
// square of the length. Other domains may be long.
func TestLongDomains(t *testing.T) {
	const letters = 400
	var label strings.Builder
	for i := range letters {
		label.WriteRune('\u4e00' + rune(i*7%letters))
	}
	if _, ok := href(t, "url.parse", "http://"+label.String()); !ok {
		t.Error("a domain of 1200 bytes is refused")
	}
	for _, input := range []string{"http://" + label.String() + "." + label.String(), "http://" + strings.Repeat("xn--bcher-kva.", letters)} {
		if u, ok := href(t, "url.parse", input); ok {
			t.Errorf("a domain of %d bytes: %.60s...", len(input), u)
		}
	}
	if _, ok := href(t, "url.parse", "http://"+strings.Repeat("a.", 10*letters)); !ok {
		t.Error("a long domain of ASCII is refused")
	}
}
