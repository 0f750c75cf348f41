package platform

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// parseHost returns the serialized host of a URL. An opaque host is that of a URL whose scheme
// is not special.
func parseHost(input string, isOpaque bool) (string, bool) {
	if strings.HasPrefix(input, "[") {
		if !strings.HasSuffix(input, "]") {
			return "", false
		}
		address, ok := parseIPv6(input[1 : len(input)-1])
		return "[" + formatIPv6(address) + "]", ok
	}
	if isOpaque {
		if strings.ContainsAny(input, forbiddenInHosts) {
			return "", false
		}
		return string(appendEncoded(nil, input, controlSet)), true
	}
	domain, ok := domainToASCII(decodeUTF8(percentDecode(input)))
	if !ok || strings.ContainsFunc(domain, isForbiddenInDomains) {
		return "", false
	}
	if !endsInNumber(domain) {
		return domain, true
	}
	address, ok := parseIPv4(domain)
	return formatIPv4(address), ok
}

const forbiddenInHosts = "\x00\t\n\r #/:<>?@[\\]^|"

func isForbiddenInDomains(r rune) bool {
	return r <= 0x1f || r == '%' || r == 0x7f || strings.ContainsRune(forbiddenInHosts, r)
}

// The options of Unicode ToASCII that the URL standard selects.
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false),
	idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule(), idna.VerifyDNSLength(false))

// maxConverted is the maximum length of a domain that is converted to or from punycode, in bytes
// of UTF-8. The time of a conversion grows with the square of the length. Names of the DNS have
// at most 253 characters.
const maxConverted = 2048

// domainToASCII returns a domain in lower case, with punycode in place of other characters. The
// punycode of a domain must be that of valid characters, so it stays as it is. idna is more
// lenient.
func domainToASCII(domain string) (string, bool) {
	lower := strings.ToLower(domain)
	if isASCII(domain) && !hasPunycode(domain, false) {
		return lower, domain != ""
	}
	if len(domain) > maxConverted || hasPunycode(domain, true) {
		return "", false
	}
	ascii, err := domains.ToASCII(domain)
	if err != nil || ascii == "" || isASCII(domain) && ascii != lower {
		return "", false
	}
	again, err := domains.ToASCII(ascii)
	return ascii, err == nil && again == ascii
}

// hasPunycode reports whether a label starts with xn--: any, or one with characters that are not
// ASCII.
func hasPunycode(domain string, isMixed bool) bool {
	for label := range strings.SplitSeq(domain, ".") {
		if len(label) >= 4 && strings.EqualFold(label[:4], "xn--") && (!isMixed || !isASCII(label)) {
			return true
		}
	}
	return false
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// decodeUTF8 decodes bytes as the Encoding standard does. What it replaces is forbidden in
// hosts, so the number of replacements has no effect.
func decodeUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// endsInNumber reports whether the last label is a number, so the host must be an IPv4 address.
func endsInNumber(domain string) bool {
	domain = strings.TrimSuffix(domain, ".")
	last := domain[strings.LastIndexByte(domain, '.')+1:]
	if last == "" {
		return false
	}
	if strings.TrimLeft(last, "0123456789") == "" {
		return true
	}
	_, ok := parseIPv4Number(last)
	return ok
}

// parseIPv4Number parses a decimal, octal (0...) or hexadecimal (0x...) number. Numbers above
// 1<<32 are returned as 1<<32.
func parseIPv4Number(text string) (uint64, bool) {
	base := 10
	switch {
	case text == "":
		return 0, false
	case len(text) >= 2 && text[0] == '0' && text[1]|0x20 == 'x':
		text, base = text[2:], 16
	case len(text) >= 2 && text[0] == '0':
		text, base = text[1:], 8
	}
	number := uint64(0)
	for i := range len(text) {
		if !isHex(text[i]) || int(hexValue(text[i])) >= base {
			return 0, false
		}
		number = min(number*uint64(base)+uint64(hexValue(text[i])), 1<<32)
	}
	return number, true
}

func parseIPv4(domain string) (uint32, bool) {
	parts := strings.SplitN(strings.TrimSuffix(domain, "."), ".", 5)
	if len(parts) > 4 {
		return 0, false
	}
	address := uint64(0)
	for i, part := range parts {
		number, ok := parseIPv4Number(part)
		if !ok {
			return 0, false
		}
		if i < len(parts)-1 {
			if number > 255 {
				return 0, false
			}
			address |= number << (8 * (3 - i))
			continue
		}
		if number >= 1<<(8*(5-len(parts))) {
			return 0, false
		}
		address |= number
	}
	return uint32(address), true
}

func formatIPv4(address uint32) string {
	var b []byte
	for shift := 24; shift >= 0; shift -= 8 {
		b = strconv.AppendUint(b, uint64(address>>shift&255), 10)
		if shift > 0 {
			b = append(b, '.')
		}
	}
	return string(b)
}

// parseIPv6 parses an address without its brackets. It has no zone.
func parseIPv6(text string) (address [8]uint16, ok bool) {
	piece, compress, at := 0, -1, 0
	if strings.HasPrefix(text, ":") {
		if !strings.HasPrefix(text, "::") {
			return address, false
		}
		at, piece, compress = 2, 1, 1
	}
	for at < len(text) {
		if piece == 8 {
			return address, false
		}
		if text[at] == ':' {
			if compress >= 0 {
				return address, false
			}
			at++
			piece++
			compress = piece
			continue
		}
		start, value := at, 0
		for at < len(text) && at-start < 4 && isHex(text[at]) {
			value = value<<4 | int(hexValue(text[at]))
			at++
		}
		if at < len(text) && text[at] == '.' {
			if at == start || piece > 6 || !parseIPv4Part(text[start:], address[piece:piece+2]) {
				return address, false
			}
			piece += 2
			break
		}
		if at < len(text) {
			if text[at] != ':' || at+1 == len(text) {
				return address, false
			}
			at++
		}
		address[piece] = uint16(value)
		piece++
	}
	if compress >= 0 {
		// The pieces after the compression move to the end.
		for swaps, to := piece-compress, 7; to != 0 && swaps > 0; swaps, to = swaps-1, to-1 {
			from := compress + swaps - 1
			address[to], address[from] = address[from], address[to]
		}
		return address, true
	}
	return address, piece == 8
}

// parseIPv4Part parses the four decimal numbers at the end of an IPv6 address.
func parseIPv4Part(text string, pieces []uint16) bool {
	numbers := strings.SplitN(text, ".", 5)
	if len(numbers) != 4 {
		return false
	}
	for i, number := range numbers {
		if len(number) == 0 || len(number) > 3 || len(number) > 1 && number[0] == '0' {
			return false
		}
		value, err := strconv.ParseUint(number, 10, 8)
		if err != nil {
			return false
		}
		pieces[i/2] = pieces[i/2]<<8 | uint16(value)
	}
	return true
}

// formatIPv6 writes the longest run of zeros as two colons.
func formatIPv6(address [8]uint16) string {
	from, length := -1, 1
	for i := 0; i < 8; i++ {
		n := 0
		for i+n < 8 && address[i+n] == 0 {
			n++
		}
		if n > length {
			from, length = i, n
		}
		i += n
	}
	var b []byte
	for i := 0; i < 8; i++ {
		if i == from {
			b = append(b, "::"...)
			i += length - 1
			continue
		}
		if len(b) > 0 && b[len(b)-1] != ':' {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(address[i]), 16)
	}
	return string(b)
}
