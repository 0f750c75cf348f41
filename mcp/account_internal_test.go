package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"daybook/internal/resources/budget"
)

// The bytes that JSON escapes add count as memory of the answer.
func TestEscapesAreCounted(t *testing.T) {
	const text = "plain \x07\x00\x1f\"\\\n\r\t<a href='&'>é€"
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := addedByEscapes(text), len(raw)-2-len(text); got != want {
		t.Errorf("%d bytes are added, want %d: %s", got, want, raw)
	}
	b := budget.New(budget.Split(64 << 20))
	account := b.Answer("tenant", messageCopies)
	defer account.Release()
	ctx := budget.With(context.Background(), account)
	if err := takeEscapes(ctx, strings.Repeat("a", 4<<20)); err != nil {
		t.Errorf("a text without escape sequences: %v", err)
	}
	if err := takeEscapes(ctx, strings.Repeat("\x07", 4<<20)); !budget.IsExhausted(err) {
		t.Errorf("a text of control characters: %v, want no memory for it", err)
	}
}
