package fetcher

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL is the maximum length of a URL in bytes.
const maxURL = 8 << 10

// parseTarget parses a URL, which may be relative to base if base is not nil. It returns
// the URL in the one form that the policy sees and that is requested: scheme and host in
// lower case, the address of a numeric host in its usual form, no default port, no dot
// segments in the path, and no fragment. Other spellings could pass a policy that looks at
// the text.
func parseTarget(text string, base *url.URL) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, messagef(codeTooLarge, "the URL is longer than %d bytes", maxURL)
	}
	text, err := escapeURL(text)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL is malformed")
	}
	if base != nil {
		if u.Opaque != "" {
			return nil, errors.New("the URL is malformed")
		}
		u = base.ResolveReference(u)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must begin with http:// or https://")
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("the URL names no host")
	case u.User != nil:
		return nil, errors.New("the URL must not contain a user name or password; set an Authorization header")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := canonicalPort(u.Scheme, u.Host)
	if err != nil {
		return nil, err
	}
	path := withoutDotSegments(u.EscapedPath())
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, errors.New("the URL is malformed")
	}
	u = &url.URL{Scheme: u.Scheme, Host: host + port, Path: plain, RawPath: path, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
	if len(u.String()) > maxURL {
		return nil, messagef(codeTooLarge, "the URL is longer than %d bytes", maxURL)
	}
	return u, nil
}

// escapeURL escapes the characters that a URL has in a browser, but not in a request.
func escapeURL(text string) (string, error) {
	var b strings.Builder
	b.Grow(len(text))
	isPath := true
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == 0x7f:
			return "", errors.New("the URL contains a space or a control character")
		case c == '\\' && isPath:
			b.WriteByte('/') // as browsers read it
		case c >= 0x80 || strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			isPath = isPath && c != '?' && c != '#'
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// canonicalHost returns a host in its usual form: lower case, without a final dot, and the
// address of a host that is a number. IPv6 addresses are in brackets.
func canonicalHost(host string) (string, error) {
	if strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", errors.New("the host of the URL is malformed")
		}
		return "[" + addr.String() + "]", nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.ContainsFunc(l, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}) {
			return "", errors.New("the host of the URL is malformed; write international names in their xn-- form")
		}
	}
	if len(host) > 253 {
		return "", errors.New("the host of the URL is malformed")
	}
	if last := labels[len(labels)-1]; !isNumber(last) {
		return host, nil
	}
	addr, ok := numericHost(labels)
	if !ok {
		return "", errors.New("the host of the URL is no address, but ends in a number")
	}
	return addr.String(), nil
}

// isNumber reports whether a label has the form of a number in a numeric host.
func isNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// numericHost returns the IPv4 address of a host of one to four numbers, as browsers and
// the C library read it: decimal, octal after 0, hexadecimal after 0x. The last number
// fills the remaining bytes.
func numericHost(labels []string) (netip.Addr, bool) {
	if len(labels) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, l := range labels {
		n, ok := numberOf(l)
		isLast := i == len(labels)-1
		free := 8 * (4 - i) // bits that are not set by earlier numbers
		switch {
		case !ok || !isLast && n > 0xff || isLast && n >= 1<<free:
			return netip.Addr{}, false
		case isLast:
			value |= n
		default:
			value |= n << (free - 8)
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func numberOf(label string) (uint64, bool) {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		if hex == "" {
			return 0, true
		}
		n, err := strconv.ParseUint(hex, 16, 40)
		return n, err == nil
	}
	base := 10
	if len(label) > 1 && label[0] == '0' {
		base = 8
	}
	n, err := strconv.ParseUint(label, base, 40)
	return n, err == nil
}

// canonicalPort returns the port of a host with its colon, or nothing for the default port.
func canonicalPort(scheme, host string) (string, error) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") || i == len(host)-1 {
		return "", nil
	}
	n, err := strconv.ParseUint(host[i+1:], 10, 16)
	switch {
	case err != nil || n == 0:
		return "", errors.New("the port of the URL must be from 1 to 65535")
	case scheme == "http" && n == 80, scheme == "https" && n == 443:
		return "", nil
	}
	return ":" + strconv.FormatUint(n, 10), nil
}

// withoutDotSegments resolves the segments . and .. of an escaped path, in each spelling.
func withoutDotSegments(path string) string {
	var out []string
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range segments {
		isLast := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case ".":
			if isLast {
				out = append(out, "")
			}
		case "..":
			out = out[:max(len(out)-1, 0)]
			if isLast {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// portOf returns the port that a URL is requested at.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// isSameOrigin reports whether two URLs have the same scheme, host and port.
func isSameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
