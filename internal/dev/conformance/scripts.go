package main

import (
	"fmt"
	"strconv"

	"daybook/mcp"
)

// scripts returns the tools that the suite calls as tasks. Each call runs a script.
func scripts() []mcp.Script {
	return []mcp.Script{
		{
			Name: "slow_compute", About: "Takes some seconds", Texts: []string{"label"}, Integers: []string{"seconds"},
			Code: func(text func(string) string, integer func(string) int64) string {
				return fmt.Sprintf("await new Promise(done => setTimeout(done, %d)); %s", integer("seconds")*1000, strconv.QuoteToASCII(text("label")))
			},
		},
		{
			Name: "failing_job", About: "Throws, and has to be called as a task", TaskOnly: true,
			Code: func(func(string) string, func(string) int64) string {
				return `throw new Error("this job fails on purpose")`
			},
		},
	}
}
