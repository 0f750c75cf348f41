package platform

import (
	"bytes"
	"strconv"
	"strings"
)

// urlState is a state of the parser of the URL standard.
type urlState int

const (
	noState urlState = iota // as an override: a whole URL is parsed
	schemeStartState
	schemeState
	noSchemeState
	specialRelativeOrAuthorityState
	pathOrAuthorityState
	relativeState
	relativeSlashState
	specialAuthoritySlashesState
	specialAuthorityIgnoreSlashesState
	authorityState
	hostState
	hostnameState
	portState
	fileState
	fileSlashState
	fileHostState
	pathStartState
	pathState
	opaquePathState
	queryState
	fragmentState
)

// end is the character after the last one.
const end = -1

// parseURL parses a URL, which may be relative to base. base stays as it is.
func parseURL(input string, base *urlRecord) (*urlRecord, bool) {
	if len(input) > maxURL {
		return nil, false
	}
	input = strings.TrimFunc(input, func(r rune) bool { return r <= ' ' })
	u := &urlRecord{port: -1}
	return u, u.parse(input, base, noState)
}

// urlParser is the state of the parser of the standard. The input is UTF-8: the parser only
// distinguishes ASCII characters, and all others are copied or percent-encoded byte by byte.
type urlParser struct {
	u        *urlRecord
	base     *urlRecord
	input    string
	at       int
	state    urlState
	override urlState // the state that a setter starts with, otherwise noState
	buffer   []byte

	isAtSeen, isPasswordSeen, isInBrackets bool
	isDone                                 bool // a setter stops before the end
}

// parse parses input into u: a whole URL, or a part of it from a state. It reports whether the
// input is valid.
func (u *urlRecord) parse(input string, base *urlRecord, override urlState) bool {
	if strings.ContainsAny(input, "\t\n\r") {
		input = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(strings.ToValidUTF8(input, "\uFFFD"))
	}
	if override == queryState {
		u.hasQuery = true
	}
	if override == fragmentState {
		u.hasFragment = true
	}
	p := &urlParser{u: u, base: base, input: strings.ToValidUTF8(input, "\uFFFD"), state: override, override: override}
	if override == noState {
		p.state = schemeStartState
	}
	for ; ; p.at++ {
		c := end
		if p.at < len(p.input) {
			c = int(p.input[p.at])
		}
		if !p.step(c) {
			return false
		}
		if p.isDone || c == end && p.at >= len(p.input) {
			return true
		}
	}
}

// rest returns the input after the current character.
func (p *urlParser) rest() string {
	if p.at+1 >= len(p.input) {
		return ""
	}
	return p.input[p.at+1:]
}

// from returns the input from the current character.
func (p *urlParser) from() string {
	if p.at >= len(p.input) {
		return ""
	}
	return p.input[p.at:]
}

// again selects the state that reads the current character next.
func (p *urlParser) again(state urlState) bool {
	p.state = state
	p.at--
	return true
}

func (p *urlParser) next(state urlState) bool {
	p.state = state
	return true
}

func (p *urlParser) startQuery() bool {
	p.u.hasQuery, p.u.query = true, nil
	return p.next(queryState)
}

func (p *urlParser) startFragment() bool {
	p.u.hasFragment, p.u.fragment = true, nil
	return p.next(fragmentState)
}

// done ends the parser of a setter.
func (p *urlParser) done() bool {
	p.isDone = true
	return true
}

// endsAuthority reports whether c is the character after a host or port.
func (p *urlParser) endsAuthority(c int) bool {
	return c == end || c == '/' || c == '?' || c == '#' || c == '\\' && p.u.isSpecial()
}

func isSlash(c int) bool { return c == '/' || c == '\\' }

// step reads a character. It reports whether the input is valid so far.
func (p *urlParser) step(c int) bool {
	u := p.u
	switch p.state {
	case schemeStartState, schemeState:
		return p.stepScheme(c)
	case noSchemeState:
		switch {
		case p.base == nil || p.base.isOpaque && c != '#':
			return false
		case p.base.isOpaque:
			u.scheme, u.isOpaque, u.path = p.base.scheme, true, bytes.Clone(p.base.path)
			u.hasQuery, u.query = p.base.hasQuery, p.base.query
			return p.startFragment()
		case p.base.scheme == "file":
			return p.again(fileState)
		}
		return p.again(relativeState)
	case specialRelativeOrAuthorityState:
		if c == '/' && strings.HasPrefix(p.rest(), "/") {
			p.at++
			return p.next(specialAuthorityIgnoreSlashesState)
		}
		return p.again(relativeState)
	case pathOrAuthorityState:
		if c == '/' {
			return p.next(authorityState)
		}
		return p.again(pathState)
	case relativeState:
		return p.stepRelative(c)
	case relativeSlashState:
		switch {
		case u.isSpecial() && isSlash(c):
			return p.next(specialAuthorityIgnoreSlashesState)
		case c == '/':
			return p.next(authorityState)
		}
		p.copyAuthority()
		return p.again(pathState)
	case specialAuthoritySlashesState:
		if c == '/' && strings.HasPrefix(p.rest(), "/") {
			p.at++
			return p.next(specialAuthorityIgnoreSlashesState)
		}
		return p.again(specialAuthorityIgnoreSlashesState)
	case specialAuthorityIgnoreSlashesState:
		if !isSlash(c) {
			return p.again(authorityState)
		}
		return true
	case authorityState:
		return p.stepAuthority(c)
	case hostState, hostnameState:
		return p.stepHost(c)
	case portState:
		return p.stepPort(c)
	case fileState, fileSlashState, fileHostState:
		return p.stepFile(c)
	case pathStartState:
		switch {
		case u.isSpecial():
			if isSlash(c) {
				return p.next(pathState)
			}
			return p.again(pathState)
		case p.override == noState && c == '?':
			return p.startQuery()
		case p.override == noState && c == '#':
			return p.startFragment()
		case c == '/':
			return p.next(pathState)
		case c != end:
			return p.again(pathState)
		case p.override != noState && !u.hasHost:
			u.path = append(u.path, '/')
		}
		return true
	case pathState:
		return p.stepPath(c)
	case opaquePathState:
		switch {
		case c == '?':
			return p.startQuery()
		case c == '#':
			return p.startFragment()
		case c == ' ' && (strings.HasPrefix(p.rest(), "?") || strings.HasPrefix(p.rest(), "#")):
			u.path = append(u.path, "%20"...)
		case c != end:
			u.path = appendEncodedByte(u.path, byte(c), controlSet)
		}
		return true
	case queryState:
		set := querySet
		if u.isSpecial() {
			set = specialQuerySet
		}
		switch {
		case c == '#' && p.override == noState:
			return p.startFragment()
		case c != end:
			u.query = appendEncodedByte(u.query, byte(c), set)
		}
		return true
	case fragmentState:
		if c != end {
			u.fragment = appendEncodedByte(u.fragment, byte(c), fragmentSet)
		}
		return true
	}
	return false
}

func (p *urlParser) stepScheme(c int) bool {
	u := p.u
	isLetter := c != end && isAlpha(byte(c))
	if p.state == schemeStartState {
		switch {
		case isLetter:
			p.buffer = append(p.buffer, byte(c)|0x20)
			return p.next(schemeState)
		case p.override == noState:
			return p.again(noSchemeState)
		}
		return false
	}
	switch {
	case isLetter:
		p.buffer = append(p.buffer, byte(c)|0x20)
		return true
	case c != end && (isDigit(byte(c)) || c == '+' || c == '-' || c == '.'):
		p.buffer = append(p.buffer, byte(c))
		return true
	case c != ':' && p.override != noState:
		return false
	case c != ':':
		p.buffer = p.buffer[:0]
		p.at = -1
		return p.next(noSchemeState)
	}
	scheme := string(p.buffer)
	if p.override != noState {
		p.isDone = true
		switch {
		case u.isSpecial() != isSpecialScheme(scheme),
			scheme == "file" && (u.hasCredentials() || u.port >= 0),
			u.scheme == "file" && u.host == "":
			return true
		}
		u.scheme = scheme
		if port, ok := defaultPorts[scheme]; ok && port == u.port {
			u.port = -1
		}
		return true
	}
	u.scheme = scheme
	p.buffer = p.buffer[:0]
	switch {
	case scheme == "file":
		return p.next(fileState)
	case u.isSpecial() && p.base != nil && p.base.scheme == scheme:
		return p.next(specialRelativeOrAuthorityState)
	case u.isSpecial():
		return p.next(specialAuthoritySlashesState)
	case strings.HasPrefix(p.rest(), "/"):
		p.at++
		return p.next(pathOrAuthorityState)
	}
	u.isOpaque = true
	return p.next(opaquePathState)
}

func (p *urlParser) copyAuthority() {
	u, base := p.u, p.base
	u.username, u.password, u.port = bytes.Clone(base.username), bytes.Clone(base.password), base.port
	u.hasHost, u.host = base.hasHost, base.host
}

func (p *urlParser) copyPath() {
	u, base := p.u, p.base
	u.path, u.hasQuery, u.query = bytes.Clone(base.path), base.hasQuery, bytes.Clone(base.query)
}

func (p *urlParser) stepRelative(c int) bool {
	u := p.u
	u.scheme = p.base.scheme
	if c == '/' || c == '\\' && u.isSpecial() {
		return p.next(relativeSlashState)
	}
	p.copyAuthority()
	p.copyPath()
	switch c {
	case '?':
		return p.startQuery()
	case '#':
		return p.startFragment()
	case end:
		return true
	}
	u.hasQuery, u.query = false, nil
	u.shortenPath()
	return p.again(pathState)
}

func (p *urlParser) stepAuthority(c int) bool {
	u := p.u
	switch {
	case c == '@':
		target := &u.username
		if p.isPasswordSeen {
			target = &u.password
		}
		if p.isAtSeen {
			*target = append(*target, "%40"...)
		}
		p.isAtSeen = true
		for _, b := range p.buffer {
			if b == ':' && !p.isPasswordSeen {
				p.isPasswordSeen = true
				target = &u.password
				continue
			}
			*target = appendEncodedByte(*target, b, userinfoSet)
		}
		p.buffer = p.buffer[:0]
	case p.endsAuthority(c):
		if p.isAtSeen && len(p.buffer) == 0 {
			return false
		}
		p.at -= len(p.buffer) + 1
		p.buffer = p.buffer[:0]
		return p.next(hostState)
	default:
		p.buffer = append(p.buffer, byte(c))
	}
	return true
}

// takeHost parses the buffer as a host.
func (p *urlParser) takeHost() bool {
	host, ok := parseHost(string(p.buffer), !p.u.isSpecial())
	if ok {
		p.u.hasHost, p.u.host = true, host
		p.buffer = p.buffer[:0]
	}
	return ok
}

func (p *urlParser) stepHost(c int) bool {
	u := p.u
	switch {
	case p.override != noState && u.scheme == "file":
		return p.again(fileHostState)
	case c == ':' && !p.isInBrackets:
		if len(p.buffer) == 0 || p.override == hostnameState || !p.takeHost() {
			return false
		}
		return p.next(portState)
	case p.endsAuthority(c):
		switch {
		case u.isSpecial() && len(p.buffer) == 0:
			return false
		case p.override != noState && len(p.buffer) == 0 && (u.hasCredentials() || u.port >= 0):
			return false
		case !p.takeHost():
			return false
		case p.override != noState:
			return p.done()
		}
		return p.again(pathStartState)
	case c == '[':
		p.isInBrackets = true
	case c == ']':
		p.isInBrackets = false
	}
	p.buffer = append(p.buffer, byte(c))
	return true
}

func (p *urlParser) stepPort(c int) bool {
	switch {
	case c != end && isDigit(byte(c)):
		p.buffer = append(p.buffer, byte(c))
		return true
	case !p.endsAuthority(c) && p.override == noState:
		return false
	}
	if len(p.buffer) > 0 {
		port, err := strconv.ParseUint(string(p.buffer), 10, 16)
		if err != nil {
			return false
		}
		p.u.port = int(port)
		if standard, ok := defaultPorts[p.u.scheme]; ok && standard == p.u.port {
			p.u.port = -1
		}
		p.buffer = p.buffer[:0]
	}
	if p.override != noState {
		return p.done()
	}
	return p.again(pathStartState)
}

func (p *urlParser) stepFile(c int) bool {
	u := p.u
	hasFileBase := p.base != nil && p.base.scheme == "file"
	switch p.state {
	case fileState:
		u.scheme, u.hasHost, u.host = "file", true, ""
		switch {
		case isSlash(c):
			return p.next(fileSlashState)
		case !hasFileBase:
			return p.again(pathState)
		}
		u.host = p.base.host
		p.copyPath()
		switch c {
		case '?':
			return p.startQuery()
		case '#':
			return p.startFragment()
		case end:
			return true
		}
		u.hasQuery, u.query = false, nil
		if startsWithDrive(p.from()) {
			u.path = nil
		} else {
			u.shortenPath()
		}
		return p.again(pathState)
	case fileSlashState:
		if isSlash(c) {
			return p.next(fileHostState)
		}
		if hasFileBase {
			u.host = p.base.host
			first, _, _ := strings.Cut(strings.TrimPrefix(string(p.base.path), "/"), "/")
			if !startsWithDrive(p.from()) && isNormalizedDrive([]byte(first)) {
				u.path = append(append(u.path, '/'), first...)
			}
		}
		return p.again(pathState)
	}
	if c != end && !isSlash(c) && c != '?' && c != '#' {
		p.buffer = append(p.buffer, byte(c))
		return true
	}
	switch {
	case p.override == noState && isDrive(p.buffer):
		return p.again(pathState) // the buffer is the first segment
	case len(p.buffer) == 0:
		u.hasHost, u.host = true, ""
	case !p.takeHost():
		return false
	case u.host == "localhost":
		u.host = ""
	}
	if p.override != noState {
		return p.done()
	}
	return p.again(pathStartState)
}

func (p *urlParser) stepPath(c int) bool {
	u := p.u
	isSeparator := c == '/' || c == '\\' && u.isSpecial()
	if c != end && !isSeparator && (p.override != noState || c != '?' && c != '#') {
		p.buffer = appendEncodedByte(p.buffer, byte(c), pathSet)
		return true
	}
	switch countDots(p.buffer) {
	case 2:
		u.shortenPath()
		if !isSeparator {
			u.path = append(u.path, '/')
		}
	case 1:
		if !isSeparator {
			u.path = append(u.path, '/')
		}
	default:
		if u.scheme == "file" && len(u.path) == 0 && isDrive(p.buffer) {
			p.buffer[1] = ':'
		}
		u.path = append(append(u.path, '/'), p.buffer...)
	}
	p.buffer = p.buffer[:0]
	switch c {
	case '?':
		return p.startQuery()
	case '#':
		return p.startFragment()
	}
	return true
}

// countDots returns 1 or 2 if the segment is that many dots, which may be encoded, otherwise 0.
func countDots(segment []byte) int {
	n := 0
	for len(segment) > 0 {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) >= 3 && segment[0] == '%' && segment[1] == '2' && segment[2]|0x20 == 'e':
			segment = segment[3:]
		default:
			return 0
		}
		if n++; n > 2 {
			return 0
		}
	}
	return n
}

// isDrive reports whether a segment is a drive letter of Windows, such as C: or C|.
func isDrive(segment []byte) bool {
	return len(segment) == 2 && isAlpha(segment[0]) && (segment[1] == ':' || segment[1] == '|')
}

func isNormalizedDrive(segment []byte) bool { return isDrive(segment) && segment[1] == ':' }

func startsWithDrive(text string) bool {
	return len(text) >= 2 && isDrive([]byte(text[:2])) && (len(text) == 2 || strings.ContainsRune("/\\?#", rune(text[2])))
}
