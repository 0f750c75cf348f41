package acp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"
)

// asked is what a prompt asks for.
type asked struct {
	// command and argument are set for a command to the session, without its slash.
	command, argument string
	// code is what is to be run otherwise.
	code string
	// title describes it in a line.
	title string
}

// readPrompt makes sense of the blocks of a prompt. Text is code; what else there
// is can be read by the code.
func readPrompt(blocks []sdk.ContentBlock) (asked, error) {
	var text strings.Builder
	var resources []resource
	for i, b := range blocks {
		switch {
		case b.Text != nil:
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			text.WriteString(b.Text.Text)
		case b.ResourceLink != nil:
			resources = append(resources, linked(b.ResourceLink))
		case b.Resource != nil:
			resources = append(resources, embedded(b.Resource.Resource))
		default:
			return asked{}, invalid(fmt.Sprintf("block %d of the prompt is an image or audio, which promptCapabilities does not name", i+1))
		}
	}
	code := text.String()
	if command, argument, ok := slashCommand(code); ok {
		return asked{command: command, argument: argument, title: "/" + command}, nil
	}
	code = unfenced(code)
	if strings.TrimSpace(code) == "" {
		return asked{}, invalid("the prompt has no code: send JavaScript or TypeScript as text, or /help")
	}
	a := asked{code: code, title: titleOf(code)}
	if len(resources) > 0 {
		a.code = given(resources) + code
	}
	return a, nil
}

// resource is what code sees of a block that is not text.
type resource struct {
	URI         string  `json:"uri"`
	Name        string  `json:"name,omitempty"`
	Title       string  `json:"title,omitempty"`
	Description string  `json:"description,omitempty"`
	MimeType    string  `json:"mimeType,omitempty"`
	Size        *int    `json:"size,omitempty"`
	Text        *string `json:"text,omitempty"`
	Blob        *string `json:"blob,omitempty"`
}

func linked(l *sdk.ContentBlockResourceLink) resource {
	r := resource{URI: l.Uri, Name: l.Name, Size: l.Size}
	r.Title, r.Description, r.MimeType = text(l.Title), text(l.Description), text(l.MimeType)
	return r
}

func embedded(e sdk.EmbeddedResourceResource) resource {
	switch {
	case e.TextResourceContents != nil:
		t := e.TextResourceContents
		return resource{URI: t.Uri, MimeType: text(t.MimeType), Text: &t.Text}
	case e.BlobResourceContents != nil:
		b := e.BlobResourceContents
		return resource{URI: b.Uri, MimeType: text(b.MimeType), Blob: &b.Blob}
	default:
		return resource{}
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// given is code that lets the code after it see resources. It takes no line of
// its own, so that the line numbers of errors are those of the prompt.
func given(list []resource) string {
	b, err := json.Marshal(map[string][]resource{"resources": list})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return "globalThis.prompt = " + string(b) + "; "
}

var commandForm = regexp.MustCompile(`^\s*/([a-z]+)(?:\s+(.*?))?\s*$`)

// slashCommand recognises a command: a line that is a slash and a word, and what
// it is given. Any such line is one, so that a mistyped one is not run; a regular
// expression has a second slash.
func slashCommand(code string) (command, argument string, ok bool) {
	m := commandForm.FindStringSubmatch(code)
	if m == nil || strings.Contains(m[2], "/") && !isCommand(m[1]) {
		return "", "", false
	}
	return m[1], m[2], true
}

var fenceOpen = regexp.MustCompile("^(`{3,})[ \t]*(?i:js|javascript|ts|typescript|jsx|tsx|mjs|cjs|mts|cts)[ \t]*$")

// unfenced is what stands in the code fences of a text, one after the other; a
// text without a fence for one of our languages is code as a whole.
func unfenced(s string) string {
	var code []string
	var fence string
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case fence == "":
			if m := fenceOpen.FindStringSubmatch(line); m != nil {
				fence = m[1]
			}
		case strings.HasPrefix(line, fence) && strings.Trim(line, "` \t") == "":
			fence = ""
		default:
			code = append(code, line)
		}
	}
	if code == nil || fence != "" {
		return s
	}
	return strings.Join(code, "\n")
}

// maxTitle bounds a title, in characters.
const maxTitle = 60

// titleOf describes code in a line: its first comment, or how it begins.
func titleOf(code string) string {
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		if comment, ok := strings.CutPrefix(line, "//"); ok {
			line = strings.TrimSpace(comment)
		}
		line = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, strings.ToValidUTF8(line, "\uFFFD"))
		if line == "" {
			continue
		}
		if utf8.RuneCountInString(line) > maxTitle {
			line = string([]rune(line)[:maxTitle-1]) + "…"
		}
		return line
	}
	return "script"
}

// promptOf makes sense of a prompt on record.
func promptOf(blocks string) asked {
	var list []sdk.ContentBlock
	if json.Unmarshal([]byte(blocks), &list) != nil {
		return asked{title: "prompt"}
	}
	a, err := readPrompt(list)
	if err != nil {
		return asked{title: "prompt"}
	}
	return a
}
