package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/ledger"
)

// parsedPrompt is the content of a prompt: a command, code or a note.
type parsedPrompt struct {
	// command and argument are set for a command of the session, without its slash.
	command, argument string
	// note is the answer to a prompt that is not run and is not a command.
	note string
	// code is the code of the prompt. It is not run if note is set.
	code string
	// resources are the files and selections attached to the prompt.
	resources []resource
	// title describes the prompt in one line.
	title string
}

// readPrompt parses the blocks of a prompt. Text blocks are code; the code can read
// the other blocks as resources.
func readPrompt(blocks []sdk.ContentBlock) (parsedPrompt, error) {
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
			resources = append(resources, linkResource(b.ResourceLink))
		case b.Resource != nil:
			resources = append(resources, embeddedResource(b.Resource.Resource))
		default:
			return parsedPrompt{}, invalid(fmt.Sprintf("block %d of the prompt is an image or audio, and this agent accepts neither: see promptCapabilities", i+1))
		}
	}
	code := text.String()
	if command, argument, ok := slashCommand(code); ok {
		return parsedPrompt{command: command, argument: argument, title: "/" + command}, nil
	}
	if asksForHelp(code) {
		return parsedPrompt{command: "help", title: "/help"}, nil
	}
	if language, found := unusableFence(code); found {
		return parsedPrompt{note: fenceNote(language), code: code, title: titleOf(code)}, nil
	}
	code = codeInFences(code)
	if strings.TrimSpace(code) == "" {
		return parsedPrompt{}, invalid("the prompt has no code: send JavaScript or TypeScript as text, or /help")
	}
	return parsedPrompt{code: code, resources: resources, title: titleOf(code)}, nil
}

// runsNothing reports whether the prompt is answered without a run.
func (a parsedPrompt) runsNothing() bool { return a.command != "" || a.note != "" }

// resource is a block that is not text, in the form that code reads.
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

func linkResource(l *sdk.ContentBlockResourceLink) resource {
	r := resource{URI: l.Uri, Name: l.Name, Size: l.Size}
	r.Title, r.Description, r.MimeType = text(l.Title), text(l.Description), text(l.MimeType)
	return r
}

func embeddedResource(e sdk.EmbeddedResourceResource) resource {
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

// globals returns the global values of the run. prompt.resources holds the attachments
// of this prompt; it is an empty list if there are none. The attachments are not
// inserted into the code.
func (a parsedPrompt) globals() (map[string]json.RawMessage, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // escapes would make source files longer
	if err := e.Encode(map[string][]resource{"resources": append([]resource{}, a.resources...)}); err != nil {
		panic(err) // strings and numbers always encode
	}
	const name = "prompt"
	b := bytes.TrimSpace(text.Bytes())
	if len(name)+len(b) > ledger.MaxGlobalsBytes {
		return nil, invalid(fmt.Sprintf("the attachments of the prompt have %d bytes as JSON, and %d are allowed: attach less, or attach files as links", len(b), ledger.MaxGlobalsBytes-len(name)))
	}
	return map[string]json.RawMessage{name: b}, nil
}

var commandForm = regexp.MustCompile(`^\s*/([a-z]+)(?:\s+(.*?))?\s*$`)

// slashCommand parses a command: a slash, a word and an optional argument in one line.
// An unknown word is a command too, so that a mistyped command does not run as code. If
// the word is unknown and the argument contains a slash, the prompt may be a regular
// expression, and counts as code.
func slashCommand(code string) (command, argument string, ok bool) {
	m := commandForm.FindStringSubmatch(code)
	if m == nil || strings.Contains(m[2], "/") && !isCommand(m[1]) {
		return "", "", false
	}
	return m[1], m[2], true
}

// asksForHelp reports whether a prompt is a request for help in plain words.
func asksForHelp(s string) bool {
	switch strings.ToLower(strings.Trim(s, " \t\r\n.!")) {
	case "help", "help me", "help?", "?":
		return true
	}
	return false
}

var fenceOpen = regexp.MustCompile("^(`{3,})[ \t]*(?i:js|javascript|ts|typescript|jsx|tsx|mjs|cjs|mts|cts)[ \t]*$")

var anyFenceOpen = regexp.MustCompile("^`{3,}[ \t]*([^\\s`]*)[^`]*$")

// leadIn matches the text before a fence if it is one line with a colon at the end, such
// as "Here:". proseForm does not match a single word.
var leadIn = regexp.MustCompile(`^\pL[\pL\d '’,-]*:$`)

// unusableFence reports whether a prompt has a fence but no code that can run. It then
// returns the language of its first fence, which is empty for a fence without one.
//
// It returns false, and the prompt runs, in these cases:
//
//   - The prompt has no fence, or one of JavaScript or TypeScript.
//   - It begins with a fence without a language.
//   - It begins with neither a fence nor prose: code may contain fences in its strings.
func unusableFence(s string) (language string, found bool) {
	var before []string
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		if fenceOpen.MatchString(line) {
			return "", false
		}
		if found {
			continue
		}
		if m := anyFenceOpen.FindStringSubmatch(line); m != nil {
			language, found = m[1], true
		} else {
			before = append(before, line)
		}
	}
	text := strings.TrimSpace(strings.Join(before, "\n"))
	if !found || text == "" && language == "" || text != "" && !isProse(text) && !leadIn.MatchString(text) {
		return "", false
	}
	return strings.ToValidUTF8(truncate(language, 40), "\uFFFD"), true
}

// fenceNote returns the answer to a prompt with an unusable fence.
func fenceNote(language string) string {
	if language == "" {
		return "Nothing was run: the fence after the text has no language. Mark the fence `js` to run it, or send the code alone. See /help."
	}
	return fmt.Sprintf("Nothing was run: the fence is marked `%s`, and prompts are JavaScript or TypeScript. Mark it `js` or `ts`, or send the code alone. See /help.", language)
}

// codeWords are the words that may stand directly before another word in code.
var codeWords = map[string]bool{
	"abstract": true, "async": true, "await": true, "class": true, "const": true, "declare": true, "default": true, "delete": true, "do": true,
	"else": true, "enum": true, "export": true, "extends": true, "function": true, "import": true, "interface": true, "let": true,
	"module": true, "namespace": true, "new": true, "return": true, "static": true, "throw": true, "type": true, "typeof": true,
	"using": true, "var": true, "void": true, "yield": true,
}

var proseForm = regexp.MustCompile(`^\pL[\pL'’-]*,?(?: +[\pL\d'’"“”()-]+[,.:;!?]*)+`)

// isProse guesses whether a text begins with a sentence. It may be wrong about valid
// code, so the callers use it only for code that cannot be parsed and for the text before
// a fence.
func isProse(s string) bool {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	first, rest, _ := strings.Cut(line, " ")
	if codeWords[first] {
		return false
	}
	// Code may have these words second too, as in "key in map". A sentence is longer.
	if second, _, _ := strings.Cut(strings.TrimSpace(rest), " "); second == "in" || second == "of" || second == "instanceof" || second == "as" || second == "satisfies" {
		return strings.Count(line, " ") > 2
	}
	return proseForm.MatchString(line)
}

const noLanguageModel = "Daybook runs JavaScript and TypeScript and has no language model: send code, or /help."

var oneWord = regexp.MustCompile(`^\s*(\pL+)[.!?]*\s*$`)

// explain returns the answer to a prompt that failed and may be prose, and false for
// any other failure. An error of code that ran keeps its text.
func (a parsedPrompt) explain(reason, failure string) (string, bool) {
	word := oneWord.FindStringSubmatch(a.code)
	switch {
	case reason == reasonSyntax && (isProse(a.code) || word != nil):
		return "This is not code, so nothing was run. " + noLanguageModel, true
	case word != nil && strings.HasPrefix(failure, "ReferenceError: "+word[1]+" is not defined"):
		return failure + "\n\n" + noLanguageModel, true
	}
	return "", false
}

// reasonSyntax is the recorded reason of a run whose code cannot be parsed.
const reasonSyntax = "syntax_error"

// codeInFences returns the content of the code fences of a text, joined. A fence
// without a language counts if the text begins with it. A text without a code fence, or
// whose last code fence is not closed, is returned unchanged.
func codeInFences(s string) string {
	var code []string
	var fence string
	started := false
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case fence == "":
			if m := fenceOpen.FindStringSubmatch(line); m != nil {
				fence = m[1]
			} else if plain := strings.TrimSpace(line); !started && len(plain) >= 3 && strings.Trim(plain, "`") == "" {
				fence = plain
			}
			started = started || strings.TrimSpace(line) != ""
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

// titleOf describes code in one line: its first line that is not empty, without the
// mark of a comment.
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

// promptOf parses the recorded blocks of a prompt. If they cannot be parsed, the result
// has only a title.
func promptOf(blocks string) parsedPrompt {
	var list []sdk.ContentBlock
	if json.Unmarshal([]byte(blocks), &list) != nil {
		return parsedPrompt{title: "prompt"}
	}
	a, err := readPrompt(list)
	if err != nil {
		return parsedPrompt{title: "prompt"}
	}
	return a
}
