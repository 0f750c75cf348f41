package main

import (
	"bytes"
	"testing"

	"daybook/internal/modules/registrytest"
)

// reader does what the example needs of the package that it imports.
const reader = `
exports.parse = (text, { header, dynamicTyping }) => {
	const [names, ...rows] = text.trim().split("\n").map(line => line.split(","));
	const read = cell => dynamicTyping && /^\d+$/.test(cell) ? Number(cell) : cell;
	return { data: rows.map(row => header ? Object.fromEntries(row.map((cell, i) => [names[i], read(cell)])) : row) };
};`

func TestExample(t *testing.T) {
	registry := registrytest.New()
	defer registry.Close()
	registry.Add("papaparse", "5.9.0", nil, map[string]string{"index.js": reader})
	var out bytes.Buffer
	if err := run(t.Context(), &out, registry.URL); err != nil {
		t.Fatal(err)
	}
	const want = `days: 2
artifact: forecast.svg, image/svg+xml, 188 bytes
fetch denied by policy
days: 3
artifact: forecast.svg, image/svg+xml, 262 bytes
replay: identical
replay: identical
`
	if got := out.String(); got != want {
		t.Errorf("printed:\n%s", got)
	}
}
