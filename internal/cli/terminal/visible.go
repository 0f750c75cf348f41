package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible replaces each character that a terminal interprets or does not show by an
// escape such as \x1b or \u202e: control characters except those in keep, bidi marks,
// line separators, characters without a width, and bytes that are not UTF-8.
func Visible(text, keep string) string {
	return escapeHidden(text, keep, func(b *strings.Builder, r rune, size int, raw string) {
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(b, `\x%02x`, raw[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20:
			fmt.Fprintf(b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(b, `\u{%x}`, r)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	})
}

// visibleJSON is Visible for JSON. The escapes do not change the value.
func visibleJSON(text string) string {
	return escapeHidden(text, "\n\t", func(b *strings.Builder, r rune, _ int, _ string) {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	})
}

// escapeHidden calls write for each hidden character and copies the others. raw is the
// character as in the text.
func escapeHidden(text, keep string, write func(b *strings.Builder, r rune, size int, raw string)) string {
	var b strings.Builder
	prev := rune(-1)
	copied := 0 // size of the part of text that is in b
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if isHidden(prev, r, text[i+size:]) && !strings.ContainsRune(keep, r) {
			b.WriteString(text[copied:i])
			write(&b, r, size, text[i:i+size])
			copied = i + size
			prev = -1
		} else {
			prev = r
		}
		i += size
	}
	if copied == 0 {
		return text
	}
	b.WriteString(text[copied:])
	return b.String()
}

const (
	zeroWidthNonJoiner = 0x200c
	zeroWidthJoiner    = 0x200d
	textVariation      = 0xfe0e
	emojiVariation     = 0xfe0f
	keycap             = 0x20e3
)

// isHidden reports whether a terminal would interpret r or show nothing for it. prev is
// the character before it, or -1; next is the text after it.
func isHidden(prev, r rune, next string) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0, r == utf8.RuneError:
		return true
	case r < 0xad:
		return false
	case r == zeroWidthNonJoiner, r == zeroWidthJoiner:
		return !joins(prev, next)
	case r == textVariation, r == emojiVariation:
		return !varies(prev, next)
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // Arabic number signs, which are visible
		return false
	default:
		return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
	}
}

// joinedScripts use joiners to choose the form of a letter.
var joinedScripts = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati,
	unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar,
}

// joins reports whether a joiner between two characters changes how they look: between
// two emoji, or in a script that uses joiners.
func joins(prev rune, next string) bool {
	after, _ := utf8.DecodeRuneInString(next)
	isEmoji := func(r rune) bool { return unicode.Is(unicode.So, r) }
	isModified := isEmoji(prev) || prev == emojiVariation || prev >= 0x1f3fb && prev <= 0x1f3ff
	return isModified && isEmoji(after) || unicode.In(prev, joinedScripts...) && unicode.In(after, joinedScripts...)
}

// varies reports whether a variation selector changes the look of the character before
// it, which holds for symbols and keycaps.
func varies(prev rune, next string) bool {
	after, _ := utf8.DecodeRuneInString(next)
	return unicode.Is(unicode.S, prev) || after == keycap && strings.ContainsRune("0123456789#*", prev)
}
