package bundle

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is what a specifier names.
type Kind int

// The kinds of specifiers.
const (
	Refused  Kind = iota // nothing that can be imported
	Relative             // a file beside the importing one
	Builtin              // a module of the platform
	Npm                  // a package, also one of JSR under its name at npm.jsr.io
)

// Specifier is a parsed specifier of an import.
type Specifier struct {
	Kind Kind
	// Package is the name of the package, Range the range of versions (empty for any), and
	// Subpath the path behind the package, such as "./sub" or "." for none.
	Package, Range, Subpath string
	// Why says why a specifier is refused.
	Why string
}

// maxSpecifier is the maximum length of a specifier, in bytes.
const maxSpecifier = 512

// Parse takes a specifier apart.
func Parse(text string) Specifier {
	refuse := func(why string) Specifier { return Specifier{Why: why} }
	if text == "" || len(text) > maxSpecifier || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsAny(text, "\\\u2028\u2029") {
		return refuse("a module name is 1 to 512 bytes of text without control characters and backslashes")
	}
	if strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || text == "." || text == ".." {
		return Specifier{Kind: Relative, Subpath: text}
	}
	scheme, rest, hasScheme := strings.Cut(text, ":")
	switch {
	case strings.HasPrefix(text, "/"):
		return refuse("scripts have no files outside the run: pass files with the run, and import them as ./NAME")
	case !hasScheme:
		return parsePackage(text)
	case scheme == "node":
		return Specifier{Kind: Builtin, Package: text}
	case scheme == "npm":
		return parsePackage(rest)
	case scheme == "jsr":
		s := parsePackage(strings.TrimPrefix(rest, "/"))
		if s.Kind != Npm {
			return s
		}
		scope, name, scoped := strings.Cut(strings.TrimPrefix(s.Package, "@"), "/")
		if !scoped {
			return refuse("the name of a JSR package has a scope: jsr:@SCOPE/NAME")
		}
		s.Package = "@jsr/" + scope + "__" + name
		return s
	case scheme == "http", scheme == "https":
		return refuse("modules are never fetched while a script runs: an administrator admits packages with daybook module add")
	}
	return refuse("only npm:, jsr: and node: modules, and ./files of the run, can be imported")
}

// parsePackage parses NAME[@RANGE][/SUBPATH].
func parsePackage(text string) Specifier {
	name, rest := text, ""
	from := 0
	if strings.HasPrefix(text, "@") {
		if from = strings.IndexByte(text, '/'); from < 0 {
			return Specifier{Why: "a package name with @ has the form @SCOPE/NAME"}
		}
		from++
	}
	if at := strings.IndexAny(text[from:], "@/"); at >= 0 {
		name, rest = text[:from+at], text[from+at:]
	}
	s := Specifier{Kind: Npm, Package: name, Subpath: "."}
	if strings.HasPrefix(rest, "@") {
		s.Range, rest, _ = strings.Cut(rest[1:], "/")
		if rest != "" || strings.HasSuffix(text, "/") {
			rest = "/" + rest
		}
	}
	if rest != "" {
		s.Subpath = "." + rest
	}
	switch {
	case !ValidName(name):
		return Specifier{Why: "the name of a package has letters, digits, - . _ and ~, and at most 214 of them"}
	case strings.HasSuffix(s.Subpath, "/"), strings.Contains(s.Subpath, "//"), hasDots(s.Subpath[1:]), strings.Contains(s.Subpath, "%"):
		return Specifier{Why: "the path behind a package name leaves the package or is empty"}
	}
	return s
}

// hasDots reports whether a part of a path is . or ..
func hasDots(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// ValidName reports whether a text is the name of a package, with or without a scope.
func ValidName(name string) bool {
	if len(name) > 214 {
		return false
	}
	scope, rest, scoped := strings.Cut(name, "/")
	if scoped {
		return strings.HasPrefix(scope, "@") && validPart(scope[1:]) && validPart(rest)
	}
	return validPart(name)
}

func validPart(s string) bool {
	if s == "" || s[0] == '.' {
		return false
	}
	for _, b := range []byte(s) {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '.', b == '_', b == '~':
		default:
			return false
		}
	}
	return true
}
