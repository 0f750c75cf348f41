package toolserver

import (
	"errors"
	"fmt"
	"strings"
)

// ParseFlag parses "name=command with arguments" or "name=https://host/path". An argument
// with spaces needs single or double quotes, or backslashes. A URL whose path ends in /sse
// selects the SSE transport.
func ParseFlag(s string) (Config, error) {
	name, rest, ok := strings.Cut(s, "=")
	if !ok {
		return Config{}, errors.New("an MCP server is given as name=command or name=https://host/path")
	}
	c := Config{Name: name}
	switch rest = strings.TrimSpace(rest); {
	case strings.HasPrefix(rest, "http://"), strings.HasPrefix(rest, "https://"):
		c.URL, c.Transport = rest, HTTP
		if path, _, _ := strings.Cut(rest, "?"); strings.HasSuffix(path, "/sse") {
			c.Transport = SSE
		}
	default:
		words, err := splitWords(rest)
		if err != nil {
			return Config{}, fmt.Errorf("MCP server %.80q: %w", name, err)
		}
		if len(words) > 0 {
			c.Command, c.Args = words[0], words[1:]
		}
		c.Transport = Stdio
	}
	return c, c.Check()
}

// splitWords splits a command line like a shell, but supports only quotes and
// backslashes.
func splitWords(s string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	inside, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inside {
				words = append(words, word.String())
				word.Reset()
				inside = false
			}
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("the command ends inside quotes")
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}
