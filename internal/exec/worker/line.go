package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
)

// levels are the levels of the console. A frame holds the index of a level, and the prelude
// uses the same numbers.
var levels = [...]events.Level{
	events.LevelLog, events.LevelDebug, events.LevelInfo, events.LevelWarn, events.LevelError, events.LevelTrace,
}

// maxLineText is the maximum size of the text of a line, in bytes. A longer line is
// divided into several.
const maxLineText = 256 << 10

// The form of a line in a frame: level (1 byte), flags (1 byte), time in microseconds since
// 1970 (8 bytes), length of the text (4 bytes), text. Numbers are big-endian. A frame holds
// complete lines.
const (
	lineHeader    = 14
	flagContinued = 1
)

func appendLine(b []byte, level uint8, at int64, continued bool, text []byte) []byte {
	flags := byte(0)
	if continued {
		flags = flagContinued
	}
	b = append(b, level, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(b, text...)
}

// Times outside these bounds cannot be formatted as RFC 3339.
var (
	earliestLine = time.Date(0, 1, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	latestLine   = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// parseLines decodes a frame of lines and checks every field.
func parseLines(b []byte) ([]events.Line, error) {
	var lines []events.Line
	for len(b) > 0 {
		if len(b) < lineHeader {
			return nil, errors.New("a line's header is cut short")
		}
		level, flags := b[0], b[1]
		at := int64(binary.BigEndian.Uint64(b[2:]))
		size := binary.BigEndian.Uint32(b[10:])
		b = b[lineHeader:]
		switch {
		case int(level) >= len(levels):
			return nil, fmt.Errorf("a line has level %d", level)
		case flags&^flagContinued != 0:
			return nil, fmt.Errorf("a line has unknown flags %#x", flags)
		case at < earliestLine || at > latestLine:
			return nil, fmt.Errorf("a line has time %d", at)
		case size > maxLineText || int(size) > len(b):
			return nil, fmt.Errorf("a line has length %d", size)
		}
		text := string(b[:size])
		b = b[size:]
		if !utf8.ValidString(text) || strings.Contains(text, "\n") {
			return nil, errors.New("a line's text is not one line of valid UTF-8")
		}
		lines = append(lines, events.Line{Text: text, Level: levels[level], TimeMillis: time.UnixMicro(at).UnixMilli(), Continued: flags&flagContinued != 0})
	}
	if lines == nil {
		return nil, errors.New("a frame of lines has no line")
	}
	return lines, nil
}
