package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Level is the console method that a line was written with.
type Level uint8

// The levels of the console. The prelude uses the same numbers.
const (
	LevelLog Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
	LevelTrace
)

var levelNames = [...]string{"log", "debug", "info", "warn", "error", "trace"}

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// Line is one line of a script's output.
type Line struct {
	Level Level
	// At is the time of the script's clock when the line was written.
	At time.Time
	// Text is valid UTF-8 without the line end. It has at most MaxLineText bytes.
	Text string
	// Continued reports whether the next Line is a part of the same line.
	Continued bool
}

// MaxLineText is the maximum size of Line.Text, in bytes. A longer line is divided into
// several.
const MaxLineText = 256 << 10

// The form of a line in a frame: level (1 byte), flags (1 byte), time in microseconds since
// 1970 (8 bytes), length of the text (4 bytes), text. Numbers are big-endian. A frame holds
// complete lines.
const (
	lineHeader    = 14
	flagContinued = 1
)

func appendLine(b []byte, level Level, at int64, continued bool, text []byte) []byte {
	flags := byte(0)
	if continued {
		flags = flagContinued
	}
	b = append(b, byte(level), flags)
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
func parseLines(b []byte) ([]Line, error) {
	var lines []Line
	for len(b) > 0 {
		if len(b) < lineHeader {
			return nil, errors.New("a line's header is cut short")
		}
		level, flags := Level(b[0]), b[1]
		at := int64(binary.BigEndian.Uint64(b[2:]))
		size := binary.BigEndian.Uint32(b[10:])
		b = b[lineHeader:]
		switch {
		case int(level) >= len(levelNames):
			return nil, fmt.Errorf("a line has level %d", level)
		case flags&^flagContinued != 0:
			return nil, fmt.Errorf("a line has unknown flags %#x", flags)
		case at < earliestLine || at > latestLine:
			return nil, fmt.Errorf("a line has time %d", at)
		case size > MaxLineText || int(size) > len(b):
			return nil, fmt.Errorf("a line has length %d", size)
		}
		text := string(b[:size])
		b = b[size:]
		if !utf8.ValidString(text) || strings.Contains(text, "\n") {
			return nil, errors.New("a line's text is not one line of valid UTF-8")
		}
		lines = append(lines, Line{Level: level, At: time.UnixMicro(at).UTC(), Text: text, Continued: flags&flagContinued != 0})
	}
	if lines == nil {
		return nil, errors.New("a frame of lines holds none")
	}
	return lines, nil
}
