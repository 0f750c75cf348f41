// Modpath changes the path of the module before it is published: in go.mod, in every
// import, and in the linter's configuration and the guides that name a package. The
// changes are in rewrite.go.
//
//	make module-path PATH=example.org/you/daybook
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make module-path PATH=example.org/you/daybook")
		os.Exit(2)
	}
	changed, err := rewrite(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "module-path:", err)
		os.Exit(1)
	}
	fmt.Printf("the module is %s now; %d files changed\n", os.Args[1], len(changed))
}
