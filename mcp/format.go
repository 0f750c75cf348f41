package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// formatted returns an answer in the client's preferred text format, "markdown" or
// "plain". Any other format returns the JSON.
func formatted(body []byte, format string) string {
	if format != "markdown" && format != "plain" {
		return string(body)
	}
	var b strings.Builder
	if err := writeItem(&b, body, format == "markdown", 0); err != nil {
		return string(body)
	}
	return strings.TrimRight(b.String(), "\n")
}

// writeItem writes a JSON value as text. Members keep their order.
func writeItem(b *strings.Builder, raw []byte, markdown bool, depth int) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := t.(json.Delim)
	if !nested {
		b.WriteString(scalar(t))
		b.WriteByte('\n')
		return nil
	}
	if !d.More() {
		b.WriteString("none\n")
		return nil
	}
	if depth > 0 {
		b.WriteByte('\n')
	}
	for d.More() {
		label := ""
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			label = fmt.Sprint(name)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return err
		}
		b.WriteString(strings.Repeat("  ", depth))
		switch {
		case markdown && label != "":
			fmt.Fprintf(b, "- **%s**: ", label)
		case label != "":
			fmt.Fprintf(b, "%s: ", label)
		default:
			b.WriteString("- ")
		}
		if err := writeItem(b, v, markdown, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func scalar(t json.Token) string {
	switch v := t.(type) {
	case nil:
		return "none"
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// collapse joins the words of a text in one line.
func collapse(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
