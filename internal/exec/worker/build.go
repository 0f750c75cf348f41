package worker

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
)

// buildOf returns a short name of the build of a program: the beginning of the SHA-256 of the
// build ID that the Go toolchain writes into it. Programs that have the same one were made of the
// same sources, modules and version of Go; those made of the same in other directories or with
// other flags may have others. It is empty if the program has none.
//
// The format of the note is that of section 5 of the System V ABI; its name is "Go", its type 4.
func buildOf(program string) string {
	f, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".note.go.buildid")
	if section == nil || section.Size > 4<<10 {
		return ""
	}
	note, err := section.Data()
	const header = 16 // the sizes of name and text, the type, and the name with its padding
	if err != nil || len(note) < header || binary.LittleEndian.Uint32(note[8:]) != 4 {
		return ""
	}
	id := note[header:]
	if size := binary.LittleEndian.Uint32(note[4:]); size > 0 && int64(size) <= int64(len(id)) {
		sum := sha256.Sum256(id[:size])
		return hex.EncodeToString(sum[:8])
	}
	return ""
}
