package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain runs the test binary as the shop, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shop" {
		_ = shop().Run(context.Background(), &sdk.StdioTransport{})
		return
	}
	os.Exit(m.Run())
}

func TestExample(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	// The script makes two calls at a time, and their answers come in any order.
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	want := []string{
		`answer to 1: ok {"cents":390,"name":"tea"}`,
		`answer to 2: ok {"cents":240,"name":"biscuits"}`,
		`answer to 3: error the shop has no coffee`,
		`call 1: shop.price({"name":"tea"})`,
		`call 2: shop.price({"name":"biscuits"})`,
		`call 3: shop.price({"name":"coffee"})`,
		`result: 6.3`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed:\n%s", out.String())
	}
}
