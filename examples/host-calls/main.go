// Host-calls lets scripts call the tools of an MCP server. It runs a script that asks a
// shop for prices, and prints the recorded calls. The shop is this program too, started as
// a child that speaks MCP over its standard input and output. Any other server is
// configured the same way.
//
//	go run ./examples/host-calls
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
)

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "shop" {
		err = shop().Run(context.Background(), &sdk.StdioTransport{})
	} else {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type item struct {
	Name string `json:"name" jsonschema:"name of the item"`
}

type price struct {
	Name  string `json:"name"`
	Cents int    `json:"cents" jsonschema:"price in cents"`
}

// shop serves an MCP server with one tool on the standard streams.
func shop() *sdk.Server {
	prices := map[string]int{"tea": 390, "biscuits": 240}
	s := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "price", Description: "Returns the price of an item."},
		func(_ context.Context, _ *sdk.CallToolRequest, in item) (*sdk.CallToolResult, price, error) {
			cents, ok := prices[in.Name]
			if !ok {
				return nil, price{}, fmt.Errorf("the shop has no %s", in.Name)
			}
			return nil, price{in.Name, cents}, nil
		})
	return s
}

const script = `
const total = (await Promise.all(["tea", "biscuits"].map(name => mcp.shop.price({ name }))))
	.reduce((sum, { cents }) => sum + cents, 0);
try {
	await mcp.shop.price({ name: "coffee" });
} catch (error) {
	console.log(error.message);
}
total / 100`

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "daybook-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	book, err := embed.Start(ctx, embed.Options{
		DataDir: dir,
		Tools:   embed.ToolOptions{Servers: []embed.ToolServer{{Name: "shop", Command: self, Args: []string{"shop"}}}},
	})
	if err != nil {
		return err
	}
	defer book.Close()

	done, err := book.Run(ctx, embed.Script{Code: script})
	if err != nil {
		return err
	}
	if done.Result == nil {
		return fmt.Errorf("the script %s: %s", done.Status, *done.Error)
	}
	fmt.Fprintln(out, "result:", *done.Result)
	history, err := book.History(ctx, done.ExecutionID)
	if err != nil {
		return err
	}
	for _, e := range history {
		switch d := e.Data.(type) {
		case *events.HostCalled:
			fmt.Fprintf(out, "call %d: %s.%s(%s)\n", d.Number, d.Server, d.Tool, d.Content.Value().Arguments.Text)
		case *events.HostReturned:
			fmt.Fprintf(out, "answer to %d: %s %s\n", d.Number, d.Outcome, d.Content.Value().Result.Text)
		}
	}
	return nil
}
